"""The state of the constraints of each row of a search, and their masks for one step.

Shapes: N rows, M rows among them, J terms of a sentence, V vocabulary, D pieces that may follow in a form.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from nmt_cli.search.hypothesis import GeneratedTerm


class ConstraintState(NamedTuple):
    """The state of each row among the constraints of its sentence: which terms it has generated, and where."""

    sentences_N: Tensor
    lengths_N: Tensor
    """Pieces of each row."""
    openings_N: Tensor
    """State of the opening."""
    nodes_N: Tensor
    """The node of the last piece in the trie of the term that is being generated or just has been; else 0."""
    terms_N: Tensor
    """This term."""
    begins_NJ: Tensor
    ends_NJ: Tensor
    """The first piece of each term, and the piece after its last: -1 until it is generated, 0 if there is no term."""
    read_instead_N: Tensor
    """The piece that the model reads in the place of this term, or -1."""
    bonus_N: Tensor
    """Share of the row's total that the model did not give."""
    unranked_N: Tensor
    """The part of `bonus_N` that does not count when the finished hypotheses are ranked."""
    pending_N: Tensor
    """The part of `bonus_N` that the unfinished form has given, which is taken back if the row leaves the form."""

    def select(self, rows_M: Tensor) -> ConstraintState:
        """Return the given rows, in that order."""
        return ConstraintState(*(tensor[rows_M] for tensor in self))

    def join(self, other: ConstraintState) -> ConstraintState:
        """Return the rows of both, one after the other."""
        return ConstraintState(*(torch.cat(pair) for pair in zip(self, other, strict=True)))

    def generated_terms(self, row: int) -> tuple[GeneratedTerm, ...]:
        """Return the terms that a row has generated, with their pieces."""
        places = zip(self.begins_NJ[row].tolist(), self.ends_NJ[row].tolist(), strict=True)
        return tuple(GeneratedTerm(number, begin, end) for number, (begin, end) in enumerate(places) if end > 0)


class StepMasks(NamedTuple):
    """The pieces that terms allow each row at one step, and the bonuses of their log-probabilities."""

    nodes_N: Tensor
    """The node whose pieces begin a term or go on with it; 0 where there is none."""
    begun_N: Tensor
    """The term that these pieces begin, or -1."""
    is_bound_N: Tensor
    """True if the row must generate one of these pieces."""
    log_probs_ND: Tensor
    """Their log-probabilities under the model."""
    gains_N: Tensor
    """Addition to their log-probabilities."""
    others_N: Tensor
    """Addition to the log-probabilities of all other pieces."""
    read_instead_N: Tensor
    """The piece that the model reads if a term begins, or -1 where that is the term."""
    is_late_N: Tensor
    """True if the term begins after a second pass."""


class TermAttention(NamedTuple):
    """The attention of each row on the terms that it may begin."""

    weights_NJ: Tensor
    """The attention on each term; -1 on one that the row may not begin."""
    begun_N: Tensor
    """The term that the row may begin, or -1."""
    again_NJ: Tensor
    """True at the terms to which the row attends in a second pass."""
    is_owed_N: Tensor
    """True if the row has to begin a term now."""
    rows_M: Tensor
    """The rows that have made a second pass."""
    log_probs_MV: Tensor
    """Log-probabilities that the model predicted for these rows in it."""
