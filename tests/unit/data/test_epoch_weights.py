"""How often an epoch reads corpora and the word pairs learned from them."""

from __future__ import annotations

import pytest

from nmt_cli.assembly.word_pair_corpus import epoch_weights
from nmt_cli.config.loader import validate
from nmt_cli.data.sampler import check_weights


def config(*languages, temperature=1.0, weights=()):
    train = [
        {"source": f"/d/{target}.en", "target": f"/d/{target}", "source_lang": "en", "target_lang": target}
        for target in languages
    ]
    train = [
        text | ({"weight": weight} if weights else {}) for text, weight in zip(train, weights or languages, strict=True)
    ]
    dev = [{key: text[key] for key in ("source", "target", "source_lang", "target_lang")} for text in train]
    data = {"train": train, "dev": dev, "corpus_temperature": temperature, "word_pairs": True}
    return validate({"name": "n", "model_dir": "/d/run", "data": data}, "test")


def test_without_weights_everything_is_read_once():
    assert epoch_weights(config("fr", "vi"), [100, 10, 5, 1]) == [1.0] * 4


def test_word_pairs_are_read_as_often_as_the_sentences_of_their_direction():
    evened = epoch_weights(config("fr", "vi", temperature=5.0), [1_000, 100, 50, 60])
    assert evened[2:] == pytest.approx(evened[:2])
    weighed = epoch_weights(config("fr", "vi", weights=(0.5, 16.0)), [1_000, 100, 50, 60])
    assert weighed == pytest.approx([0.5, 16.0, 0.5, 16.0])


def test_a_single_word_pair_of_a_large_direction_is_no_reason_to_refuse_a_training():
    """The factor of the large direction is 0.38, by which an epoch would have none of one pair."""
    sizes = [1_000, 20, 20, 20, 20, 1, 1, 1, 1, 1]
    weights = epoch_weights(config("de", "fr", "it", "es", "pt", temperature=5.0), sizes)
    check_weights(sizes, weights)
    assert weights[5] == 1.0
