"""Beam search on a table of probabilities, against argmax and against all outputs that there are."""

import math
import random

import pytest
import torch
from searching import in_order
from table_model import BOS, EOS, PAD, VOCABULARY, TableModel

from nmt_cli.config.decoding import DecodingOptions
from nmt_cli.search.beam import beam_search
from nmt_cli.search.extensions import FOLDS, best_extensions
from nmt_cli.search.hypothesis import Vocabulary, length_penalty, repeated_ngram_ends


def search(
    model, max_lengths, *, sentences=None, vocabulary=VOCABULARY, observe=None, at_once=1000, weighed=None, **options
):
    sentences = range(len(max_lengths)) if sentences is None else sentences
    steps = beam_search(
        model,
        in_order(
            lambda numbers: model.start([sentences[number] for number in numbers]),
            max_lengths,
            with_weights=options.get("with_alignment", False) if weighed is None else weighed,
        ),
        vocabulary,
        DecodingOptions(**options),
        at_once=at_once,
        observe=observe,
    )
    found = dict(filter(None, steps))
    return [found[number] for number in range(len(max_lengths))]


def comparable(hypothesis):
    """Totals rounded: the order of the additions is the search's own."""
    return (hypothesis.ids, hypothesis.has_ended, round(hypothesis.log_prob, 4), round(hypothesis.score, 4))


def greedy(model, sentence, max_length, *, excluded=lambda prefix: ()):
    """The likeliest piece each time."""
    prefix = (BOS,)
    while len(prefix) <= max_length:
        log_probs = model.next(sentence, prefix).clone()
        log_probs[[*VOCABULARY.banned, *excluded(prefix[1:])]] = -math.inf
        prefix = (*prefix, int(log_probs.argmax()))
        if prefix[-1] == EOS:
            return prefix[1:-1], True
    return prefix[1:], False


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_beam_of_one_takes_the_likeliest_piece_each_time(alpha):
    model = TableModel(20, 6)
    found = search(model, [7] * 20, beam_size=1, length_penalty=alpha)
    expected = [greedy(model, sentence, 7) for sentence in range(20)]
    assert [(best.ids, best.has_ended) for (best,) in found] == expected
    assert {has_ended for _, has_ended in expected} == {True, False}


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("n_best", [1, 4])
def test_a_wide_beam_finds_the_best_of_all_outputs(alpha, n_best):
    """Fails if a sentence is done too early, and where a divisor counts without </s>."""
    model = TableModel(8, 5, temperature=0.7)
    found = search(model, [4] * 8, beam_size=81, length_penalty=alpha, n_best=n_best)
    for sentence, hypotheses in enumerate(found):
        truth = model.enumerate(sentence, 4, alpha=alpha)[:n_best]
        assert [hypothesis.ids for hypothesis in hypotheses] == [ids for _, ids, _, _ in truth]
        for hypothesis, (score, _, log_prob, has_ended) in zip(hypotheses, truth, strict=True):
            assert hypothesis.log_prob == pytest.approx(log_prob, abs=1e-4)
            assert hypothesis.score == pytest.approx(score, abs=1e-4)
            assert hypothesis.has_ended == has_ended


def test_an_n_best_list_as_long_as_there_are_outputs_holds_them_all():
    model = TableModel(1, 5)
    truth = model.enumerate(0, 3, alpha=1.0)
    (found,) = search(model, [3], beam_size=40, length_penalty=1.0, n_best=40)
    assert [hypothesis.ids for hypothesis in found] == [ids for _, ids, _, _ in truth]
    assert len(found) == 1 + 2 + 4 + 8


@pytest.mark.parametrize("beam_size", [2, 3, 5])
def test_an_n_best_list_is_sorted_and_nothing_is_in_it_twice(beam_size):
    model = TableModel(30, 7)
    for sentence, hypotheses in enumerate(search(model, [6] * 30, beam_size=beam_size, n_best=beam_size)):
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert len(hypotheses) == beam_size
        assert scores == sorted(scores, reverse=True)
        assert len({(hypothesis.ids, hypothesis.has_ended) for hypothesis in hypotheses}) == beam_size
        for hypothesis in hypotheses:
            ids = (*hypothesis.ids, EOS) if hypothesis.has_ended else hypothesis.ids
            assert hypothesis.log_prob == pytest.approx(model.log_prob(sentence, ids), abs=1e-4)
            assert hypothesis.score == pytest.approx(hypothesis.log_prob / length_penalty(len(ids), 1.0))


@pytest.mark.parametrize("beam_size", [1, 3, 50])
def test_banned_pieces_are_never_said(beam_size):
    model = TableModel(20, 6)
    vocabulary = Vocabulary(bos=BOS, eos=EOS, banned=(BOS, PAD, 4))
    for hypotheses in search(model, [5] * 20, beam_size=beam_size, n_best=beam_size, vocabulary=vocabulary):
        for hypothesis in hypotheses:
            assert set(hypothesis.ids) <= {3, 5}


def test_a_beam_wider_than_the_vocabulary_says_nothing_that_is_impossible():
    """One word and </s>: all outputs there are, and none with a probability of zero."""
    model = TableModel(1, 4)
    (found,) = search(model, [3], beam_size=12, n_best=12, length_penalty=0.0)
    assert sorted(hypothesis.ids for hypothesis in found) == [(), (3,), (3, 3), (3, 3, 3)]
    assert all(math.isfinite(hypothesis.score) for hypothesis in found)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_no_sequence_of_the_given_order_is_repeated(order):
    model = TableModel(20, 5, temperature=0.3)
    for beam_size in (1, 4):
        for hypotheses in search(model, [12] * 20, beam_size=beam_size, n_best=beam_size, no_repeat_ngram=order):
            for hypothesis in hypotheses:
                seen = [hypothesis.ids[start : start + order] for start in range(len(hypothesis.ids) - order + 1)]
                assert len(set(seen)) == len(seen)
    found = search(model, [12] * 20, beam_size=1, no_repeat_ngram=order)
    expected = [
        greedy(model, sentence, 12, excluded=lambda prefix: repeated_ends_slowly(prefix, order))
        for sentence in range(20)
    ]
    assert [(best.ids, best.has_ended) for (best,) in found] == expected


def repeated_ends_slowly(prefix, order):
    """Every piece with which the last n-gram would be one of those before."""
    grams = [tuple(prefix[start : start + order]) for start in range(len(prefix) - order + 1)]
    return [piece for piece in range(2, 9) if tuple([*prefix, piece][-order:]) in grams]


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_the_pieces_that_would_repeat_are_found(order):
    rng = random.Random(order)
    for length in range(10):
        prefix = [rng.choice([3, 4, 5]) for _ in range(length)]
        assert set(repeated_ngram_ends(prefix, order)) == set(repeated_ends_slowly(prefix, order))


def test_the_length_penalty_is_that_of_wu():
    assert length_penalty(7, 0.0) == 1.0
    assert length_penalty(1, 0.8) == 1.0
    assert length_penalty(7, 2.0) == pytest.approx((12 / 6) ** 2)


def test_every_sentence_has_its_own_limit():
    """The limit counts </s>; what is cut has exactly that many pieces."""
    limits = [1, 9, 3, 5, 2, 7]
    model = TableModel(len(limits), 6)
    for limit, hypotheses in zip(limits, search(model, limits, beam_size=4, n_best=4), strict=True):
        for hypothesis in hypotheses:
            length = len(hypothesis.ids) + hypothesis.has_ended
            assert length <= limit
            assert hypothesis.has_ended or length == limit
    cut = search(model, limits, beam_size=1)
    assert any(not best.has_ended for (best,) in cut)


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("no_repeat", [0, 2])
def test_a_sentence_is_searched_alone_as_it_is_among_others(beam_size, no_repeat):
    """Sentences leave the batch at different steps. Fails if rows are kept by place and not by sentence."""
    model = TableModel(12, 6)
    limits = [2 + sentence % 6 for sentence in range(12)]
    options = {"beam_size": beam_size, "n_best": beam_size, "no_repeat_ngram": no_repeat, "with_alignment": True}
    together = search(model, limits, **options)
    for sentence, hypotheses in enumerate(together):
        (alone,) = search(model, limits[sentence : sentence + 1], sentences=[sentence], **options)
        assert list(map(comparable, hypotheses)) == list(map(comparable, alone))
        assert all(torch.equal(a.weights_TS, b.weights_TS) for a, b in zip(hypotheses, alone, strict=True))


def test_weights_follow_their_hypothesis_through_every_reordering():
    """The table's weights name step, last piece and sentence, so each row of them is known."""
    model = TableModel(10, 6)
    for sentence, hypotheses in enumerate(search(model, [6] * 10, beam_size=4, n_best=4, with_alignment=True)):
        for hypothesis in hypotheses:
            said = [*hypothesis.ids, EOS] if hypothesis.has_ended else list(hypothesis.ids)
            read = [BOS, *said][:-1]
            expected = [[float(step), float(piece), float(sentence)] for step, piece in enumerate(read)]
            assert hypothesis.weights_TS.tolist() == expected


def test_weights_are_absent_where_they_were_not_asked_for():
    assert all(best.weights_TS is None for (best,) in search(TableModel(3, 5), [4] * 3, beam_size=2))


def test_sentences_with_and_without_weights_are_searched_together():
    """Fails if what is recorded is kept by row, or only where the first sentences ask for it."""
    limits, options = [2 + sentence % 6 for sentence in range(12)], {"beam_size": 3, "n_best": 3, "at_once": 4}
    weighed = {3, 4, 8, 11}
    mixed = search(TableModel(12, 6), limits, weighed=weighed, **options)
    for sentence, (found, expected) in enumerate(
        zip(mixed, search(TableModel(12, 6), limits, with_alignment=True, **options), strict=True)
    ):
        assert list(map(comparable, found)) == list(map(comparable, expected))
        for one, other in zip(found, expected, strict=True):
            assert torch.equal(one.weights_TS, other.weights_TS) if sentence in weighed else one.weights_TS is None


def test_a_search_ends_as_soon_as_nothing_can_become_better():
    """</s> nearly certain at once: one step, however long the limit."""
    model = TableModel(1, 5)
    model.table[0, BOS, BOS] = torch.tensor([0.0, 100.0, 0.0, 0.0, 0.0]).log_softmax(dim=0)
    (found,) = search(model, [100], beam_size=3)
    assert found[0].ids == ()
    assert model.calls == 1


def test_a_search_goes_on_while_a_longer_output_can_still_become_better():
    """</s> at once is likelier than anything else, but the length penalty favours what follows 3. Fails if the
    bound is divided for the length so far and not for the longest."""
    model = TableModel(1, 6)
    model.table[:] = torch.tensor([1e-9, 1e-9, 1e-9, 1.0, 1.0, 1.0]).log().log_softmax(dim=0)
    for before, last, probabilities in (
        (BOS, BOS, [1e-9, 0.36, 1e-9, 0.34, 0.2, 0.1]),
        (BOS, 3, [1e-9, 1e-3, 1e-9, 1e-3, 0.99, 1e-3]),
        (3, 4, [1e-9, 1e-3, 1e-9, 1e-3, 1e-3, 0.99]),
        (4, 5, [1e-9, 0.99, 1e-9, 1e-3, 1e-3, 1e-3]),
    ):
        model.table[0, before, last] = torch.tensor(probabilities).log().log_softmax(dim=0)
    assert model.enumerate(0, 5, alpha=1.0)[0][1] == (3, 4, 5)
    ((found,),) = search(model, [5], beam_size=3, length_penalty=1.0)
    assert found.ids == (3, 4, 5)
    ((found,),) = search(model, [5], beam_size=3, length_penalty=0.0)
    assert found.ids == ()


def test_no_sentences_give_no_hypotheses():
    assert search(TableModel(1, 5), [], beam_size=3) == []


def test_who_watches_sees_the_candidates_best_first():
    model, seen = TableModel(3, 6), []
    search(model, [4, 2, 5], beam_size=3, observe=lambda sentence, candidates: seen.append((sentence, candidates)))
    steps = {}
    for sentence, candidates in seen:
        steps[sentence] = steps.get(sentence, 0) + 1
        totals = [candidate.total for candidate in candidates]
        assert totals == sorted(totals, reverse=True)
        for candidate in candidates:
            assert len(candidate.prefix) == steps[sentence] - 1
            log_prob = float(model.next(sentence, (BOS, *candidate.prefix))[candidate.piece])
            assert candidate.log_prob == pytest.approx(log_prob, abs=1e-5)
            expected = model.log_prob(sentence, (*candidate.prefix, candidate.piece))
            assert candidate.total == pytest.approx(expected, abs=1e-5)
    assert steps[1] <= 2
    assert set(steps) == {0, 1, 2}


class Watched(TableModel):
    """Remembers the rows that each step was asked for."""

    def step(self, ids_N, state):
        prediction = super().step(ids_N, state)
        rows = prediction.state
        self.asked = {(s, prefix[1:]) for s, prefix in zip(rows.sentences, rows.prefixes, strict=True)} | self.asked
        return prediction

    def start(self, sentences, copies=1):
        self.asked = set()
        return super().start(sentences, copies)


def test_candidates_are_marked_as_the_search_deals_with_them():
    """Kept are those that the model is asked to go on with, ended those that can come out; an </s> among the first
    lets another candidate in. Fails if the first three are called kept."""
    model, seen, limits = Watched(30, 6), [], [2 + number % 5 for number in range(30)]
    found = search(
        model, limits, beam_size=3, n_best=3, observe=lambda sentence, candidates: seen.append((sentence, candidates))
    )
    kept = {(n, (*c.prefix, c.piece)) for n, candidates in seen for c in candidates if c.kept}
    has_ended = {(n, (*c.prefix, *([c.piece] * (c.piece != EOS)))) for n, some in seen for c in some if c.has_ended}
    assert kept == {(sentence, prefix) for sentence, prefix in model.asked if prefix}
    assert {(n, hypothesis.ids) for n, hypotheses in enumerate(found) for hypothesis in hypotheses} <= has_ended
    assert any(c.kept for _, candidates in seen for c in candidates[3:])
    assert not any(c.has_ended for _, candidates in seen for c in candidates[3:])


def test_what_is_watched_at_the_first_step_is_the_whole_order_of_the_vocabulary():
    model, seen = TableModel(1, 6), []
    search(model, [1], beam_size=4, observe=lambda _, candidates: seen.append(candidates))
    log_probs = model.next(0, (BOS,))
    allowed = [piece for piece in range(6) if piece not in VOCABULARY.banned]
    expected = sorted(allowed, key=lambda piece: -float(log_probs[piece]))
    assert [candidate.piece for candidate in seen[0]] == expected


@pytest.mark.parametrize("vocab_size", [7, FOLDS, 5 * FOLDS, 5 * FOLDS + 1, 8 * FOLDS - 1, 1000])
@pytest.mark.parametrize("width", [1, 4])
def test_the_best_extensions_are_those_of_a_sort_of_all(vocab_size, width):
    """With impossible pieces and impossible rows among them. Fails if a rest of the vocabulary is not looked at."""
    generator = torch.Generator().manual_seed(vocab_size)
    log_probs_NV = torch.randn(3 * width, vocab_size, generator=generator).log_softmax(dim=1)
    log_probs_NV[:, torch.randperm(vocab_size, generator=generator)[: vocab_size // 5]] = -math.inf
    totals_LK = -torch.rand(3, width, generator=generator)
    totals_LK[1, 1:] = -math.inf
    for count in (1, 2 * width, 10):
        totals_LC, parents_LC, pieces_LC = best_extensions(log_probs_NV, totals_LK, count)
        everything = totals_LK.unsqueeze(-1) + log_probs_NV.view(3, width, vocab_size)
        expected = everything.flatten(1).sort(dim=1, descending=True).values[:, :count]
        assert torch.equal(totals_LC, expected)
        sentences = torch.arange(3).unsqueeze(1)
        assert torch.equal(everything[sentences, parents_LC, pieces_LC], expected)


@pytest.mark.parametrize("at_once", [1, 3, 7])
@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 3, "n_best": 2}, {"beam_size": 4}])
@pytest.mark.parametrize("no_repeat_ngram", [0, 2])
def test_a_sentence_that_takes_the_place_of_another_is_searched_as_if_it_had_begun_with_all(
    at_once, options, no_repeat_ngram
):
    """Fails if a prefix begins with columns that are another's, and where a limit counts them."""
    model, limits = TableModel(40, 9), [3 + number * 7 % 11 for number in range(40)]
    options = options | {"no_repeat_ngram": no_repeat_ngram, "with_alignment": True}
    together, few = (search(model, limits, at_once=most, **options) for most in (40, at_once))
    for expected, found in zip(together, few, strict=True):
        assert [comparable(one) for one in found] == [comparable(one) for one in expected]
        for one, other in zip(found, expected, strict=True):
            assert torch.equal(one.weights_TS, other.weights_TS)
            assert len(one.weights_TS) == len(one.ids) + one.has_ended


@pytest.mark.parametrize("beam_size", [3, 6])
def test_rows_of_sentences_that_have_not_yet_a_whole_beam_wait_until_they_have(beam_size):
    """Two of five pieces can be said, so a beam of six is not full before the third step."""
    model, limits = TableModel(12, 5), [2 + number % 4 for number in range(12)]
    together, few = (search(model, limits, at_once=most, beam_size=beam_size, n_best=2) for most in (12, 2))
    assert [list(map(comparable, found)) for found in few] == [list(map(comparable, found)) for found in together]


def test_never_more_sentences_are_searched_than_asked_for_and_free_places_are_taken():
    model, rows = TableModel(30, 8), []
    step = model.step
    model.step = lambda ids_N, state: rows.append(len(ids_N)) or step(ids_N, state)
    limits = [4 + number % 9 for number in range(30)]
    search(model, limits, at_once=8, beam_size=1)
    assert max(rows) == 8
    # What could be saved by any order of sentences: no more calls than a third above it.
    assert len(rows) <= 4 / 3 * sum(rows) / 8 + max(limits)
    assert sum(rows) == sum(len(one.ids) + one.has_ended for (one,) in search(model, limits, beam_size=1))
