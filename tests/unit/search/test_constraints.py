"""Constrained search on a table of probabilities, against all outputs that there are."""

import pytest
import torch
from attentive_model import AttentiveModel, outputs
from marks import others_slow
from searching import in_order
from table_model import BOS, EOS, VOCABULARY, TableModel

from nmt_cli.config.decoding import DecodingOptions
from nmt_cli.search.beam import beam_search
from nmt_cli.search.constraint_masks import ConstraintMasks
from nmt_cli.search.constraints import ACCEPTING, Constraints, Term


def search(model, max_lengths, constraints, *, at_once=1000, vocabulary=VOCABULARY, weighed=None, **options):
    decoding = DecodingOptions(**options)
    masks = (
        ConstraintMasks(constraints, vocabulary, max_lengths, decoding.glossary_weight)
        if constraints and any(constraints)
        else None
    )
    with_weights = decoding.with_alignment if weighed is None else weighed
    begin = in_order(model.start, max_lengths, with_weights=with_weights)
    found = dict(filter(None, beam_search(model, begin, vocabulary, decoding, at_once=at_once, masks=masks)))
    return [found[number] for number in range(len(max_lengths))]


def shown(hypotheses):
    return [(found.ids, found.has_ended, round(found.log_prob, 4), round(found.score, 4)) for found in hypotheses]


@pytest.mark.parametrize("beginning", [(), (3,), (4, 3), (3, 3, 4)])
def test_a_wide_beam_finds_the_best_outputs_with_a_beginning(beginning):
    model = TableModel(6, 5, temperature=0.7)
    found = search(model, [5] * 6, [Constraints(beginning=beginning)] * 6, beam_size=200, n_best=5)
    for sentence, hypotheses in enumerate(found):
        outputs = model.enumerate(sentence, 5, alpha=1.0)
        truth = [one for one in outputs if one[1][: len(beginning)] == beginning][:5]
        assert [one.ids for one in hypotheses] == [ids for _, ids, _, _ in truth]
        assert [one.log_prob for one in hypotheses] == pytest.approx([one[2] for one in truth], abs=1e-4)
        assert [one.score for one in hypotheses] == pytest.approx([one[0] for one in truth], abs=1e-4)


def test_an_opening_allows_the_pieces_of_its_states_alone():
    """Two ways through it: 3 4 or 4; what comes after is free."""
    automaton = ({3: 1, 4: ACCEPTING}, {4: ACCEPTING})
    model = TableModel(6, 5, temperature=0.7)
    found = search(model, [5] * 6, [Constraints(beginning=(3,), automaton=automaton)] * 6, beam_size=200, n_best=3)
    for sentence, hypotheses in enumerate(found):
        outputs = model.enumerate(sentence, 5, alpha=1.0)
        truth = [ids for _, ids, _, _ in outputs if ids[:3] == (3, 3, 4) or ids[:2] == (3, 4)][:3]
        assert [one.ids for one in hypotheses] == truth


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_beginnings_of_many_lengths_and_none_change_nothing_in_one_another(at_once):
    model = TableModel(12, 6)
    generator = torch.Generator().manual_seed(4)
    constraints = []
    for number in range(12):
        length = number % 4
        ids = torch.randint(3, 6, (length,), generator=generator).tolist()
        constraints.append(Constraints(beginning=tuple(ids)) if length else None)
    options = {"beam_size": 3, "n_best": 3, "with_alignment": True}
    found = search(model, [9] * 12, constraints, at_once=at_once, **options)
    for number, (own, constraint) in enumerate(zip(found, constraints, strict=True)):
        others = [None] * 12
        others[number] = constraint
        alone = search(model, [9] * 12, others, **options)[number]
        assert shown(own) == shown(alone)
        for ours, theirs in zip(own, alone, strict=True):
            # The weights of the table tell how many pieces came before, and which was the last.
            expected = [[float(t), float((BOS, *ours.ids)[t])] for t in range(len(ours.ids) + ours.has_ended)]
            assert ours.weights_TS[:, :2].tolist() == expected
            assert theirs.weights_TS.equal(ours.weights_TS)
    weighed = {1, 3, 4, 10}
    few = search(model, [9] * 12, constraints, at_once=at_once, weighed=weighed, **options)
    for number, (own, expected) in enumerate(zip(few, found, strict=True)):
        assert shown(own) == shown(expected)
        for ours, theirs in zip(own, expected, strict=True):
            assert theirs.weights_TS.equal(ours.weights_TS) if number in weighed else ours.weights_TS is None


def test_a_sentence_without_constraints_is_searched_as_ever():
    model = TableModel(8, 6)
    plain = [shown(found) for found in search(model, [7] * 8, None, beam_size=4, n_best=4)]
    mixed = search(model, [7] * 8, [None, Constraints(beginning=(4,))] * 4, beam_size=4, n_best=4)
    assert [shown(found) for found in mixed[::2]] == plain[::2]
    assert [shown(found) for found in mixed[1::2]] != plain[1::2]


def test_a_beginning_may_be_followed_by_the_end():
    model = TableModel(4, 5)
    for own in search(model, [4] * 4, [Constraints(beginning=(3,), automaton=({EOS: ACCEPTING},))] * 4, beam_size=3):
        assert [(one.ids, one.has_ended) for one in own] == [((3,), True)]


def term(*forms, places=(0, 1, 2), is_known=False):
    return Term(tuple(places), tuple(forms), is_known)


def occurrences(ids, forms):
    """Count the places in the pieces at which any of the forms stands."""
    return sum(ids[place : place + len(form)] == form for form in forms for place in range(len(ids)))


@pytest.mark.parametrize("forms", [((3,),), ((4, 3),), ((3, 4), (5,))])
def test_a_term_is_said_once_by_one_of_its_forms(forms):
    model = TableModel(30, 6)
    for own in search(model, [9] * 30, [Constraints(terms=(term(*forms),))] * 30, beam_size=4):
        best = own[0]
        assert occurrences(best.ids, forms) == 1
        ((_, begin, end),) = best.generated_terms
        assert best.ids[begin:end] in forms


def test_each_of_several_terms_is_said_once():
    model = TableModel(20, 8)
    terms = (term((3,)), term((4, 5)), term((6,), (7, 7)))
    for own in search(model, [12] * 20, [Constraints(terms=terms)] * 20, beam_size=6):
        assert sorted(term.term for term in own[0].generated_terms) == [0, 1, 2]
        assert all(occurrences(own[0].ids, one.forms) == 1 for one in terms)


def test_log_probs_of_constrained_hypotheses_are_those_of_the_model():
    model = TableModel(10, 6)
    for weight in (None, 3.0):
        options = {"beam_size": 4, "glossary_weight": weight}
        for number, own in enumerate(search(model, [9] * 10, [Constraints(terms=(term((3,)),))] * 10, **options)):
            ids = own[0].ids + ((EOS,) if own[0].has_ended else ())
            assert own[0].log_prob == pytest.approx(model.log_prob(number, ids), abs=1e-4)


def test_a_weight_of_zero_changes_nothing_and_a_larger_one_says_more_terms():
    model = TableModel(30, 6)
    constraints = [Constraints(terms=(term((3, 4)),))] * 30
    plain = search(model, [9] * 30, None, beam_size=4)
    number = []
    for weight in (0.0, 8.0):
        found = search(model, [9] * 30, constraints, beam_size=4, glossary_weight=weight)
        number.append(sum(bool(own[0].generated_terms) for own in found))
        if weight == 0.0:
            assert [own[0].ids for own in found] == [own[0].ids for own in plain]
    assert number[0] < number[1]


def test_a_weight_does_not_end_a_search_too_early():
    """Who asks for all hypotheses of the beam gets the same best one: their search ends only when the beam is full."""
    model = TableModel(200, 6)
    constraints = [Constraints(terms=(term((3, 4)), term((5,))))] * 200
    options = {"beam_size": 4, "glossary_weight": 4.0}
    one = search(model, [9] * 200, constraints, **options)
    assert shown(own[0] for own in one) == shown(
        own[0] for own in search(model, [9] * 200, constraints, n_best=4, **options)
    )


@pytest.mark.parametrize("at_once", [1, 4])
def test_terms_of_a_sentence_change_nothing_in_the_others(at_once):
    model = TableModel(12, 6)
    constraints = [Constraints(terms=(term((3,)),)) if number % 3 else None for number in range(12)]
    found = search(model, [8] * 12, constraints, at_once=at_once, beam_size=4, n_best=2)
    whole = search(model, [8] * 12, constraints, beam_size=4, n_best=2)
    plain = search(model, [8] * 12, None, beam_size=4, n_best=2)
    assert [shown(own) for own in found] == [shown(own) for own in whole]
    assert [shown(own) for own in found[::3]] == [shown(own) for own in plain[::3]]


TERMS = {
    "one": (term((3,), places=(0,)),),
    "two words": (term((3, 4), places=(0, 1)),),
    "one form begins another": (term((3,), (3, 4), (5,), places=(1, 2)),),
    "two terms": (term((3,), places=(0,)), term((4, 5), places=(2,))),
    "two occurrences": (term((3,), places=(0,)), term((3,), places=(2,))),
    "one that is read in any case": (term((3, 4), places=(0, 1), is_known=True), term((5,), places=(2,))),
    "a shared place": (term((3,), places=(0, 1)), term((4,), places=(1, 2))),
}


@pytest.mark.parametrize("beam_size", [400, 4])
@pytest.mark.parametrize("piece_words", others_slow((0, 0, 1), ()))
@pytest.mark.parametrize("terms", TERMS.values(), ids=TERMS)
def test_a_beam_finds_what_the_rules_of_terms_allow(terms, piece_words, beam_size):
    """Hypotheses of up to five pieces, their log-probabilities, and the places of their terms; a wide beam finds all of
    them, and a narrow one those with the best totals."""
    model, limit = AttentiveModel(8, 6, 4, sharpness=3.0), 5
    own = Constraints(terms=terms, piece_words=piece_words)
    vocabulary = VOCABULARY._replace(continuation_pieces=(4,), sentence_terminals=(5,))
    options = {"beam_size": beam_size, "n_best": 4, "length_penalty": 0.0}
    for number, found in enumerate(search(model, [limit] * 8, [own] * 8, vocabulary=vocabulary, **options)):
        truth = outputs(model, number, own, limit, vocabulary, beam_size)[:4]
        assert [one.ids for one in found] == [ids for _, _, ids, _ in truth]
        assert [tuple(sorted(one.generated_terms)) for one in found] == [said for _, _, _, said in truth]
        assert [one.score for one in found] == pytest.approx([one[0] for one in truth], abs=1e-4)
        assert [one.log_prob for one in found] == pytest.approx([one[1] for one in truth], abs=1e-4)


@pytest.mark.parametrize("beam_size", [400, 4])
def test_a_sentence_that_keeps_its_numbers_has_no_other_digits(beam_size):
    """The pieces 3 to 5 are digits: the model may say 3 4 as the term alone, and 5 not at all."""
    model, limit = AttentiveModel(8, 7, 4, sharpness=3.0), 5
    own = Constraints(terms=(term((3, 4), places=(0, 1)),), keeps_numbers=True)
    vocabulary = VOCABULARY._replace(digits=(3, 4, 5))
    options = {"beam_size": beam_size, "n_best": 4, "length_penalty": 0.0}
    free = search(model, [limit] * 8, [Constraints(terms=own.terms)] * 8, vocabulary=vocabulary, **options)
    assert any(5 in one.ids for found in free for one in found)
    for number, found in enumerate(search(model, [limit] * 8, [own] * 8, vocabulary=vocabulary, **options)):
        truth = outputs(model, number, own, limit, vocabulary, beam_size)[:4]
        assert [one.ids for one in found] == [ids for _, _, ids, _ in truth]
        assert [one.score for one in found] == pytest.approx([one[0] for one in truth], abs=1e-4)
        assert all([piece for piece in one.ids if piece in (3, 4, 5)] == [3, 4] for one in found)


def test_the_beginning_and_a_weight_of_terms_leave_digits_free():
    model = TableModel(30, 6)
    vocabulary = VOCABULARY._replace(digits=(4,))
    own = Constraints(beginning=(4,), automaton=({4: ACCEPTING},), terms=(term((3,)),), keeps_numbers=True)
    for found in search(model, [9] * 30, [own] * 30, vocabulary=vocabulary, beam_size=4):
        assert found[0].ids[:2] == (4, 4)
        assert 4 not in found[0].ids[2:]
    weighted = search(model, [9] * 30, [own] * 30, vocabulary=vocabulary, beam_size=4, glossary_weight=1.0)
    assert any(4 in found[0].ids[2:] for found in weighted)


def test_a_term_that_the_model_would_never_say_is_read_only_if_it_is_known():
    model = AttentiveModel(8, 6, 4, sharpness=3.0)
    model.logits[..., 3:5] -= 12
    ids = []
    for is_known in (False, True):
        own = Constraints(terms=(term((3, 4), places=(0,), is_known=is_known),))
        for number, found in enumerate(search(model, [5] * 8, [own] * 8, beam_size=400, length_penalty=0.0)):
            truth = outputs(model, number, own, 5)[0]
            assert (found[0].ids, round(found[0].score, 3)) == (truth[2], round(truth[0], 3))
            ids.append(found[0].ids)
    assert ids[:8] != ids[8:]


def test_an_unknown_form_in_its_place_outranks_one_that_takes_the_place_of_the_full_stop():
    """The model translates the words 0 and 1 by 3 and 4, says the full stop 5, and would never say the form 6 of 0."""
    model = AttentiveModel(1, 7, 3, sharpness=0.0)
    model.logits.zero_()
    model.energies[0, BOS, BOS] = torch.tensor([2.0, 0.0, 0.0])
    model.energies[0, :, 3] = torch.tensor([0.0, 9.0, 0.0])
    model.energies[0, :, 4] = torch.tensor([0.0, 0.0, 9.0])
    model.words[0] = 12 * torch.nn.functional.one_hot(torch.tensor([3, 4, 5]), 7)
    model.words[0, :, 6] = -9
    model.logits[0, :, 4, 5] = model.logits[0, :, 5, EOS] = 30
    vocabulary = VOCABULARY._replace(sentence_terminals=(5,))
    assert search(model, [8], [None], vocabulary=vocabulary)[0][0].ids == (3, 4, 5)
    own = Constraints(terms=(term((6,), places=(0,)),), piece_words=(0, 1, 2))
    assert search(model, [8], [own], vocabulary=vocabulary)[0][0].ids == (6, 4, 5)
