"""Tags of languages in pieces, and corpora that are evened out."""

from __future__ import annotations

import random

import pytest

from nmt_cli.data.pairs import Corpus, LengthLimits
from nmt_cli.data.sampler import temperature_weights
from nmt_cli.data.store import open_store
from nmt_cli.data.tokenizer import EOS, Tokenizer, train_tokenizer
from nmt_cli.translation.long_lines import parts_of, segment_batches

TAGS = ("<2fr>", "<2vi>")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    draw = random.Random(1)
    lines = [" ".join(draw.choice(["one", "two", "three", "four", "five"]) for _ in range(6)) for _ in range(200)]
    return train_tokenizer(
        lines, model_type="unigram", vocab_size=276, normalization="identity", character_coverage=1.0,
        symbols=["<BT>"], tags=TAGS,
    )  # fmt: skip


def test_a_tag_in_text_is_text(tokenizer: Tokenizer):
    tags = tokenizer.ids_of(TAGS)
    assert tags == [EOS + 1, EOS + 2]
    found = tokenizer.encode("<2fr> one two <2vi>")
    assert not set(tags) & set(found)
    assert tokenizer.decode(found) == "<2fr> one two <2vi>"
    assert set(tags) <= set(tokenizer.banned_ids())
    assert tokenizer.symbols() == {"<BT>"}


def test_a_source_begins_with_the_tags_that_its_tokenizer_knows(tokenizer: Tokenizer):
    tagged = tokenizer.with_tags(["<from:en>", "<2vi>"])
    ids = tagged.encode("one two")
    assert tagged.prepend_tags(ids) == [*tokenizer.ids_of(["<2vi>"]), *ids]
    assert tagged.prepend_tags([]) == []
    words = tagged.prepend_tags_to_words(tagged.encode_words("one two"))
    assert words.words[0] == words.num_words == 2
    assert tokenizer.with_tags(["<from:en>", "<BT>", "one"]) is tokenizer  # neither unknown nor ordinary pieces
    assert tagged.has_same_model(tokenizer)


def test_every_part_of_a_long_line_begins_with_the_tags(tokenizer: Tokenizer):
    tagged = tokenizer.with_tags(["<2vi>"])
    text = "one two three four " * 20
    (segments,) = segment_batches([text])

    def parts(of: Tokenizer, limit: int):
        return parts_of(segments, of, max_pieces=limit, with_spans=[True], numbers=[0], num_parts=[0])

    own, plain = parts(tagged, 11), parts(tokenizer, 10)
    assert len(own) > 3
    assert [part.ids[1:] for part in own] == [part.ids for part in plain]
    assert {part.ids[0] for part in own} == {tagged.tags[0]}
    assert [part.spans for part in own] == [part.spans for part in plain]


def test_the_store_keeps_each_corpus_with_its_tag(tokenizer: Tokenizer, tmp_path):
    (tmp_path / "s").write_text("one two\n\nthree\n")
    (tmp_path / "t").write_text("two one\nx\nfour\n")

    def stored(*tags: tuple[str, ...]):
        corpora = [Corpus(str(tmp_path / "s"), str(tmp_path / "t"), tags=own) for own in tags]
        return open_store(tmp_path / "cache", corpora, (tokenizer, tokenizer), LengthLimits())

    store, plain = stored(("<2fr>",), ("<2vi>",)), stored((), ())
    fr, vi = tokenizer.ids_of(TAGS)
    assert len(store) == len(plain) == 4
    for number in range(4):
        (source, target), (plain_source, plain_target) = store.ids(number), plain.ids(number)
        assert source == [fr if number < 2 else vi, *plain_source]
        assert target == plain_target


def test_a_temperature_evens_corpora_out_and_keeps_the_length_of_an_epoch():
    sizes = [200_000, 8_000, 0, 30_000]
    assert temperature_weights(sizes, 1.0) == [1.0] * 4
    counts = [factor * size for factor, size in zip(temperature_weights(sizes, 5.0), sizes, strict=True)]
    assert sum(counts) == pytest.approx(sum(sizes))
    assert counts[0] / counts[1] == pytest.approx(25 ** (1 / 5))
