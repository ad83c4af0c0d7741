"""Ancestral sampling from a table of probabilities."""

import itertools
import math
from collections import Counter

import pytest
import torch
from table_model import BOS, EOS, PAD, VOCABULARY, TableModel

from nmt_cli.config.decoding import DecodingOptions
from nmt_cli.search.hypothesis import Vocabulary, repeated_ngram_ends
from nmt_cli.search.sampling import sample


def uniforms(rows, steps, seed=1):
    return torch.rand(rows, steps, generator=torch.Generator().manual_seed(seed))


def draw(model, sentences, limits, numbers_NT, **options):
    vocabulary = options.pop("vocabulary", VOCABULARY)
    decoding = DecodingOptions(**options)
    return sample(model, model.start(sentences), limits, vocabulary, decoding, numbers_NT)


@pytest.mark.parametrize("temperature", [1.0, 0.5, 3.0])
def test_outputs_come_as_often_as_their_probability_says(temperature):
    """Chi-square over all outputs of at most two pieces, far below what a wrong distribution gives."""
    model, num_draws = TableModel(1, 5), 4000
    found = draw(model, [0] * num_draws, [2] * num_draws, uniforms(num_draws, 2), sampling_temperature=temperature)
    counts = Counter((hypothesis.ids, hypothesis.has_ended) for hypothesis in found)

    def distribution(prefix):
        scaled = model.next(0, prefix) / temperature
        scaled[list(VOCABULARY.banned)] = -math.inf
        return scaled.softmax(dim=0)

    first = distribution((BOS,))
    expected = {((), True): float(first[EOS])}
    for piece in (3, 4):
        second = distribution((BOS, piece))
        expected[((piece,), True)] = float(first[piece] * second[EOS])
        expected.update({((piece, last), False): float(first[piece] * second[last]) for last in (3, 4)})
    assert set(counts) <= set(expected)
    assert sum(expected.values()) == pytest.approx(1.0)
    chi_square = sum((counts[one] - num_draws * p) ** 2 / (num_draws * p) for one, p in expected.items())
    assert chi_square < 22.5  # 6 degrees of freedom: 0.1 % of right samplers are above


def test_a_sample_does_not_depend_on_its_neighbours():
    """Fails if the numbers are taken by place in the shrunk batch."""
    model, limits = TableModel(10, 6), [2 + sentence % 5 for sentence in range(10)]
    numbers_NT = uniforms(10, 6)
    together = draw(model, range(10), limits, numbers_NT)
    for sentence, hypothesis in enumerate(together):
        (alone,) = draw(model, [sentence], [limits[sentence]], numbers_NT[sentence : sentence + 1])
        assert alone == hypothesis


def test_the_log_probability_is_the_model_s_whatever_the_temperature():
    model = TableModel(8, 6)
    for temperature in (0.5, 1.0, 2.0):
        for sentence, one in enumerate(
            draw(model, range(8), [5] * 8, uniforms(8, 5), sampling_temperature=temperature)
        ):
            ids = (*one.ids, EOS) if one.has_ended else one.ids
            assert one.log_prob == pytest.approx(model.log_prob(sentence, ids), abs=1e-5)
            assert one.score == one.log_prob


@pytest.mark.parametrize("number", [0.0, 1.0 - 2**-24])
def test_banned_pieces_are_never_drawn_at_the_ends_of_the_interval_too(number):
    """Breaks with `right=False`: 0 would draw the first piece of the vocabulary, <s>."""
    model = TableModel(20, 6)
    vocabulary = Vocabulary(bos=BOS, eos=EOS, banned=(BOS, PAD, 5))
    for one in draw(model, range(20), [5] * 20, torch.full((20, 5), number), vocabulary=vocabulary):
        assert set(one.ids) <= {3, 4}


def test_the_number_is_measured_on_the_cumulative_distribution():
    """By a loop: the first piece whose cumulative probability is above the number."""
    model, numbers_NT = TableModel(30, 6), uniforms(30, 1)
    for sentence, one in enumerate(draw(model, range(30), [1] * 30, numbers_NT)):
        probabilities = model.next(sentence, (BOS,)).exp().tolist()
        allowed = {piece: p for piece, p in enumerate(probabilities) if piece not in VOCABULARY.banned}
        left = float(numbers_NT[sentence, 0]) * sum(allowed.values())
        for piece, probability in allowed.items():  # noqa: B007
            left -= probability
            if left < 0:
                break
        assert one.ids == (() if piece == EOS else (piece,))


def test_limits_hold_and_say_what_was_cut():
    limits = [1, 4, 2, 6]
    for limit, one in zip(limits, draw(TableModel(4, 6), range(4), limits, uniforms(4, 6)), strict=True):
        assert len(one.ids) <= limit
        assert one.has_ended or len(one.ids) == limit


def test_weights_have_a_row_for_every_piece_and_for_the_end():
    model = TableModel(6, 6)
    for sentence, one in enumerate(draw(model, range(6), [5] * 6, uniforms(6, 5), with_alignment=True)):
        said = [*one.ids, EOS] if one.has_ended else list(one.ids)
        expected = [[float(step), float(piece), float(sentence)] for step, piece in enumerate([BOS, *said][:-1])]
        assert one.weights_TS.tolist() == expected


def test_no_rows_give_no_samples():
    assert draw(TableModel(1, 5), [], [], uniforms(0, 0)) == []


def test_no_sequence_is_drawn_twice_and_the_rest_as_often_as_before():
    """Against drawing from the table with the repeated pieces struck out. Fails if the order is ignored."""
    model = TableModel(200, 5)
    numbers_NT = uniforms(200, 12)

    def repeats(hypothesis):
        return max(Counter(itertools.pairwise(hypothesis.ids)).values(), default=0) > 1

    found = draw(model, range(200), [12] * 200, numbers_NT, no_repeat_ngram=2)
    for sentence, hypothesis in enumerate(found):
        ids = hypothesis.ids
        assert not repeats(hypothesis)
        for step, piece in enumerate((*ids, EOS) if hypothesis.has_ended else ids):
            scores = model.next(sentence, (BOS, *ids[:step])).double()
            scores[[*VOCABULARY.banned, *repeated_ngram_ends(list(ids[:step]), 2)]] = -math.inf
            cumulative = scores.softmax(dim=0).cumsum(dim=0)
            assert piece == int(torch.searchsorted(cumulative, float(numbers_NT[sentence, step]), right=True))
    assert any(map(repeats, draw(model, range(200), [12] * 200, numbers_NT)))
