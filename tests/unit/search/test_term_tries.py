"""The tensors of the terms, against the same computed position by position."""

import pytest
import torch

from nmt_cli.search.constraint_masks import best_log_probs
from nmt_cli.search.constraints import Constraints, Term
from nmt_cli.search.term_tries import TermTries

WIDTH = 8


@pytest.fixture
def sentences():
    """Three sentences: with terms of several positions, two of which overlap; with one term; with none."""
    first = (Term((0, 1, 2), ((5,),)), Term((2, 4), ((6, 7),)), Term((6,), ((8,), (9,))))
    return [
        Constraints(terms=first, piece_words=(0, 0, 0, 1, 1, 2, 3)),
        Constraints(terms=(Term((3,), ((5,),)),)),
        Constraints(),
    ]


def test_places(sentences):
    terms = TermTries(sentences)
    places, rows = terms.positions(WIDTH), [0, 1, 1, 2, 0, 0]
    generator = torch.Generator().manual_seed(1)
    weights_NS = torch.rand(len(rows), WIDTH, generator=generator)
    chosen_NJ = torch.rand(len(rows), 3, generator=generator) < 0.5
    sentences_N = torch.tensor(rows)
    attention_NJ, words_N = (
        places.attention(sentences_N, weights_NS),
        places.most_attended_words(sentences_N, weights_NS),
    )
    terms_of_words_NJ = places.terms_of_words(sentences_N, words_N)
    for row, sentence in enumerate(rows):
        own = [set(term.places) for term in sentences[sentence].terms]
        chosen = [of_term for number, of_term in enumerate(own) if chosen_NJ[row, number]]
        others = [of_term for number, of_term in enumerate(own) if not chosen_NJ[row, number]]
        of, only = set().union(*chosen), set().union(*chosen) - set().union(*others)
        assert set(places.mask_of_terms(sentences_N, chosen_NJ)[row].nonzero().flatten().tolist()) == of
        assert set(places.mask_of_terms_only(sentences_N, chosen_NJ)[row].nonzero().flatten().tolist()) == only
        known = sentences[sentence].piece_words
        words = [*known, *range(len(known), WIDTH)]
        sums = [sum(float(weights_NS[row, s]) for s in range(WIDTH) if words[s] == word) for word in range(WIDTH)]
        assert sums[int(words_N[row])] == pytest.approx(max(sums))
        for number in range(3):
            positions = own[number] if number < len(own) else set()
            assert float(attention_NJ[row, number]) == pytest.approx(sum(float(weights_NS[row, s]) for s in positions))
            assert bool(terms_of_words_NJ[row, number]) == any(words[s] == int(words_N[row]) for s in positions)


def test_the_first_pieces_of_terms(sentences):
    terms = TermTries(sentences)
    firsts = [{5}, {6}, {8, 9}]
    assert [set(pieces) for pieces in terms.first_XJD[0].tolist()] == firsts
    assert set(terms.first_XJD[1, 0].tolist()) == {5}


@pytest.mark.parametrize("sharpness", [0.1, 1.0, 5.0])
def test_whether_a_piece_is_the_best(sharpness):
    generator = torch.Generator().manual_seed(2)
    log_probs_NV = (sharpness * torch.randn(500, 6, generator=generator)).log_softmax(dim=1)
    known_N, best_N = log_probs_NV[:, 2], log_probs_NV.amax(dim=1)
    every_N, must_N = torch.ones(500, dtype=torch.bool), torch.rand(500, generator=generator) < 0.3
    found_N = best_log_probs(log_probs_NV, every_N, known_N, must_N)
    assert torch.equal(known_N >= found_N, known_N >= best_N)
    assert torch.equal(found_N[must_N], best_N[must_N])
    is_best_N = known_N >= best_N
    assert torch.equal(found_N[is_best_N], best_N[is_best_N])
