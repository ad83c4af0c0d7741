"""The state of the constraints of each row of a search, and their masks for one step.

Shapes: N rows, M rows among them, J terms of a sentence, V vocabulary, D pieces that may follow in a form.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from nmt_cli.search.hypothesis import GeneratedTerm


class ConstraintState(NamedTuple):
    """Progress of each row through the constraints of its sentence: which terms it has generated, and where."""

    sentences_N: Tensor
    lengths_N: Tensor
    """Number of pieces of each row."""
    automaton_states_N: Tensor
    """State of each row in its automaton (see `Constraints.automaton`); `ACCEPTING` if nothing is left to spell."""
    nodes_N: Tensor
    """The node of the last piece in the trie of the term that is being generated or just has been; else 0."""
    terms_N: Tensor
    """Index of the term that the row began last, among the terms of its sentence; 0 before the first."""
    begins_NJ: Tensor
    ends_NJ: Tensor
    """Index of the piece after the last of each term; `begins_NJ` has the index of its first piece. -1 until the term
    is generated, 0 if there is no term."""
    substitutes_N: Tensor
    """The piece that the model reads in place of the form that is being generated or just has been; -1 if it reads the
    form itself."""
    bonus_N: Tensor
    """Part of the row's total that comes from masks and bonuses and not from the model, in nats."""
    unranked_bonus_N: Tensor
    """The part of `bonus_N` that does not count when the finished hypotheses are ranked."""
    pending_bonus_N: Tensor
    """The part of `bonus_N` that the unfinished form has given, which is taken back if the row leaves the form."""

    def select(self, rows_M: Tensor) -> ConstraintState:
        """Return the constraint state of the given rows, in that order."""
        return ConstraintState(*(tensor[rows_M] for tensor in self))

    def join(self, other: ConstraintState) -> ConstraintState:
        """Return the rows of both states as one, with the rows of `other` last."""
        return ConstraintState(*(torch.cat(pair) for pair in zip(self, other, strict=True)))

    def generated_terms(self, row: int) -> tuple[GeneratedTerm, ...]:
        """Return the terms that a row has generated, with the positions of their pieces."""
        places = zip(self.begins_NJ[row].tolist(), self.ends_NJ[row].tolist(), strict=True)
        return tuple(GeneratedTerm(number, begin, end) for number, (begin, end) in enumerate(places) if end > 0)


class StepMasks(NamedTuple):
    """Pieces that begin or continue a term at one step, for each row, and the changes of log-probabilities."""

    nodes_N: Tensor
    """The trie node of each row whose next pieces begin or continue a term; 0 if the row has none."""
    next_terms_N: Tensor
    """Index of the term that each row may begin at this step; -1 for none."""
    is_forced_N: Tensor
    """True if the row must generate a piece that begins or continues its term."""
    log_probs_ND: Tensor
    """Log-probabilities under the model, in nats, of the pieces that begin or continue a term."""
    gains_N: Tensor
    """Value, in nats, to add to the log-probabilities of the pieces that begin or continue a term."""
    other_gains_N: Tensor
    """Value, in nats, to add to the log-probabilities of all pieces that do not begin or continue a term."""
    substitutes_N: Tensor
    """The piece that the model reads in place of a term that begins now; -1 if it reads the term itself."""
    is_second_pass_N: Tensor
    """True if the term begins after a second pass."""


class TermAttention(NamedTuple):
    """The attention of each row on the terms that it may begin."""

    weights_NJ: Tensor
    """The attention on each term, summed over its source positions; -1 for a term that the row may not begin."""
    next_terms_N: Tensor
    """Index of the term that the row may begin now; -1 for none."""
    second_pass_NJ: Tensor
    """True at the terms to which the row attends in a second pass; False everywhere if it needs none."""
    must_begin_N: Tensor
    """True if the row has to begin a term now."""
    rows_M: Tensor
    """Indices of the rows whose second pass has replaced the first."""
    log_probs_MV: Tensor
    """Log-probabilities, in nats, of the next piece of `rows_M` in their second pass."""
