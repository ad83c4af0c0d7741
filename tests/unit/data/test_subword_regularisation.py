"""Random segmentations against all there are, and against SentencePiece's own, which have the same distribution."""

import math
import subprocess
import sys
from collections import Counter
from itertools import combinations
from random import Random

import pytest
import sentencepiece
from pieces import decode_words

from nmt_cli.data.subword_regularisation import SubwordSampler
from nmt_cli.data.tokenizer import train_tokenizer
from nmt_cli.demo import phrasebook

BOOK = phrasebook.generate(seed=3, num_train=400, num_dev=1, num_test=1).train
TEXT = [text for pair in BOOK for text in (pair.source, pair.target)]
HARD = ["", "zzz 東京 <BT> naïve", "<BT>", "the<BT>the", "\U0001f600", " ".join(TEXT[:20])]
SOME = ["Where are the teachers?", "Combien coûte le vélo ?"]


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def tokenizer(request):
    return train_tokenizer(
        TEXT, model_type=request.param, vocab_size=420, normalization="identity", character_coverage=1.0,
        symbols=["<BT>"],
    )  # fmt: skip


def segmentations(word):
    for number in range(len(word)):
        for cuts in combinations(range(1, len(word)), number):
            yield [word[start:end] for start, end in zip([0, *cuts], [*cuts, len(word)], strict=True)]


def test_every_segmentation_of_a_word_has_its_probability(tokenizer):
    """Kudo (2018), eq. 8, by enumeration."""
    if tokenizer.is_bpe:
        return
    alpha, count = 0.3, 0
    sampler = SubwordSampler(tokenizer, alpha)
    scores = dict(zip(tokenizer.pieces(range(tokenizer.vocab_size)), tokenizer.scores(), strict=True))
    for word in sorted({f"▁{word}" for text in TEXT for word in text.split() if len(word) < 12})[::10]:
        weights = {
            tuple(cut): math.exp(alpha * sum(scores[piece] for piece in cut))
            for cut in segmentations(word)
            if all(piece in scores for piece in cut)
        }
        count += len(weights)
        lattice = sampler.lattice(word)
        for cut, weight in weights.items():
            probability, end = 1.0, len(word)
            for piece in reversed(cut):
                cumulative, pieces = lattice[end]
                place = pieces.index((end - len(piece), tokenizer.ids_of([piece])[0]))
                probability *= cumulative[place] - (cumulative[place - 1] if place else 0.0)
                end -= len(piece)
            assert probability == pytest.approx(weight / sum(weights.values()), rel=1e-9)
    assert count > 100


@pytest.mark.parametrize("text", SOME)
def test_segmentations_are_as_frequent_as_those_of_sentencepiece(tokenizer, text):
    """Two samples of 20,000; the distance between two such samples of one distribution is far below the bound."""
    alpha, times = (0.3, 20_000)
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    theirs = Counter(
        tuple(ids)
        for ids in processor.encode([text] * times, enable_sampling=True, alpha=alpha, nbest_size=-1, num_threads=1)
    )
    sampler, random = SubwordSampler(tokenizer, alpha), Random(1)
    best = tokenizer.encode(text)
    ours = Counter(tuple(sampler.sample(best, random)) for _ in range(times))
    frequent = [cut for cut, count in theirs.items() if count > times / 200]
    assert len(frequent) > 3
    for cut in frequent:
        assert ours[cut] == pytest.approx(theirs[cut], abs=6 * math.sqrt(2 * theirs[cut]))


def test_without_chance_it_is_the_best_segmentation(tokenizer):
    alpha = 0.0 if tokenizer.is_bpe else 1e4
    sampler = SubwordSampler(tokenizer, alpha)
    for text in [*TEXT, *HARD]:
        assert sampler.sample(tokenizer.encode(text), Random(1)) == tokenizer.encode(text), text


def test_what_is_sampled_spells_the_same_text_and_keeps_symbols_and_bytes(tokenizer):
    sampler, random = SubwordSampler(tokenizer, 0.2), Random(1)
    changed = 0
    for text in [*TEXT, *HARD]:
        best = tokenizer.encode(text)
        sampled = sampler.sample(best, random)
        changed += sampled != best
        assert tokenizer.decode(sampled) == tokenizer.decode(best)
        fixed = tokenizer.fixed_ids()
        assert [id_ for id_ in sampled if id_ in fixed] == [id_ for id_ in best if id_ in fixed]
    assert changed > len(TEXT) / 2
    assert tokenizer.ids_of(["<BT>"])[0] in tokenizer.fixed_ids()


def test_what_is_sampled_stays_with_the_words_it_spells(tokenizer):
    sampler, random = SubwordSampler(tokenizer, 0.2), Random(1)
    for text in TEXT:
        best = tokenizer.encode_words(text)
        sampled = sampler.sample_words(best, random)
        assert sampled == decode_words(tokenizer, sampled.ids)[1]
        assert sampled.num_words == len(text.split())
    assert any(sampler.sample_words(tokenizer.encode_words(text), random).ids != best.ids for _ in range(5))


def test_it_depends_on_its_random_numbers_alone_in_every_process():
    """SentencePiece's own sampling differs from process to process: its generator is salted."""
    program = (
        "from random import Random; from nmt_cli.data.subword_regularisation import SubwordSampler;"
        "from nmt_cli.data.tokenizer import Tokenizer; from pathlib import Path;"
        "t = Tokenizer.load(Path('tests/models/format-1/run/tokenizer/joint.model'));"
        "print(SubwordSampler(t, 0.2).sample(t.encode('Where are the old teachers of the house?'), Random(5)))"
    )
    found = {subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout for _ in range(3)}
    assert len(found) == 1


def test_words_that_are_not_kept_are_sampled_alike(tokenizer, monkeypatch):
    ids = tokenizer.encode(HARD[-1])
    kept = SubwordSampler(tokenizer, 0.3).sample(ids, Random(1))
    monkeypatch.setattr("nmt_cli.data.subword_regularisation.MAX_CACHED", 2)
    assert SubwordSampler(tokenizer, 0.3).sample(ids, Random(1)) == kept
