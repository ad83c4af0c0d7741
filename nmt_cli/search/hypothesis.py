"""The result of a search, the interface of the model that it asks, and the length penalty.

Shapes: N rows (partial hypotheses), V pieces that the model predicts (the vocabulary or a part of it), S source, T
target with </s>.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from torch import Tensor


class GeneratedTerm(NamedTuple):
    """A required term that a hypothesis contains, and its place."""

    term: int
    """Index of the term among the required terms of its sentence, from 0."""
    begin: int
    """Index of the term's first piece in the hypothesis, from 0."""
    end: int
    """Index in the hypothesis of the piece after the term's last."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One translation in pieces, without </s>."""

    ids: tuple[int, ...]
    log_prob: float
    """Log-probability of the pieces and </s> under the model, in nats, without a length penalty."""
    score: float
    """Value by which the search ranks: `log_prob` plus bonuses for some required terms, divided by the length penalty.
    A sample has `log_prob` itself."""
    has_ended: bool
    """True if it ended with </s>; False if it was cut, as at the length limit."""
    weights_TS: Tensor | None = None
    """Attention weights of each piece, and of </s> where it ended; None where they were not asked for."""
    generated_terms: tuple[GeneratedTerm, ...] = ()
    """The required terms that it contains."""

    def without(self, begin: int, end: int) -> Hypothesis:
        """Return the hypothesis without pieces `begin` to `end` - 1; its log-probability and score stay the same.

        None of these pieces may belong to a term.
        """
        kept = [*range(begin), *range(end, len(self.ids))]
        shift = end - begin
        return replace(
            self,
            ids=tuple(self.ids[place] for place in kept),
            has_ended=self.has_ended and end < len(self.ids),
            weights_TS=None if self.weights_TS is None else self.weights_TS[kept],
            generated_terms=tuple(
                one._replace(begin=one.begin - shift, end=one.end - shift) if one.begin >= end else one
                for one in self.generated_terms
            ),
        )


class SearchState(Protocol):
    """The state of a model for the rows of a search: their encoded sources, and the decoder after their last pieces."""

    def select(self, rows: Tensor) -> SearchState:
        """Return the state with row i taken from row `rows[i]`, which must have the same sentence (beam reordering)."""
        ...

    def keep(self, rows: Tensor) -> SearchState:
        """Return the state of the given rows, in that order; used when finished sentences leave the search."""
        ...

    def extract(self, rows: Tensor) -> SearchState:
        """Return the state of the given rows as a separate batch, for a second step of these rows only."""
        ...

    def replace(self, rows: Tensor, other: SearchState) -> SearchState:
        """Return the state of all rows, with row `rows[i]` replaced by row i of `other`."""
        ...


class Prediction(NamedTuple):
    """The predicted distribution of the next piece of every row."""

    log_probs_NV: Tensor
    """Log-probabilities of the next piece, in nats."""
    weights_NS: Tensor | None
    """Attention weights of the step; None for a model without attention."""
    state: SearchState
    pieces_NV: Tensor | None = None
    """The piece of each column, if the model predicts only a part of the vocabulary, which has no banned pieces; None
    if column v is piece v."""


class ForcedPrefix(NamedTuple):
    """Result of a model that has read given first pieces of every row."""

    totals_N: Tensor
    """Log-probability of each row's pieces, in nats."""
    weights_NTS: Tensor | None
    """Attention weights of each piece, aligned at the right: the last piece has the last column, and the columns before
    the first piece are 0."""
    state: SearchState


class StepModel(Protocol):
    """Predicts the next piece of every row from the last one and the state."""

    def step(self, ids_N: Tensor, state: SearchState, masked_NS: Tensor | None = None) -> Prediction:
        """Return log-probabilities (N, V), in nats, attention weights (N, S) and state after the last pieces (N).

        A row does not attend to positions where `masked_NS` is True; positions beyond its width are not masked."""
        ...

    def force_prefix(self, beginnings: Sequence[Sequence[int]], state: SearchState) -> ForcedPrefix:
        """Return log-probabilities, attention and state after the first pieces of every row, which begin with <s>.

        The last piece of each is not read: it is the input of the next step."""
        ...

    def join(self, first: SearchState, second: SearchState) -> SearchState:
        """Return the states of both batches as one, the first before the second; source padding may change."""
        ...


class Vocabulary(NamedTuple):
    """The ids of pieces that a search treats in a special way."""

    bos: int
    eos: int
    banned: tuple[int, ...] = ()
    """Pieces that are never generated: padding, line feeds and the like."""
    continuation_pieces: tuple[int, ...] = ()
    """Pieces that continue the word before them. They may not follow a term."""
    sentence_terminals: tuple[int, ...] = ()
    """Pieces that end a sentence, such as a full stop."""
    digits: tuple[int, ...] = ()
    """Pieces that contain a digit."""


def length_penalty(num_pieces: int, alpha: float) -> float:
    """Return the divisor of a log-probability: ((5 + n) / 6) ** alpha (Wu et al., 2016, eq. 14); alpha 0 gives 1.

    n counts the pieces with </s>.
    """
    return float(((5 + num_pieces) / 6) ** alpha)


def repeated_ngram_ends(prefix: list[int], order: int) -> list[int]:
    """Return the pieces that would complete an n-gram of `order` pieces that `prefix` already has; none for order 0."""
    if order == 0 or len(prefix) < order:
        return []
    context = prefix[len(prefix) - order + 1 :]
    return [
        prefix[start + order - 1]
        for start in range(len(prefix) - order + 1)
        if prefix[start : start + order - 1] == context
    ]
