"""What a search returns, what it asks of a model, and the length penalty.

Shapes: N rows (partial hypotheses), V vocabulary or what of it a model says, S source, T target with </s>.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One translation in pieces, without </s>."""

    ids: tuple[int, ...]
    log_prob: float
    """Sum over the pieces and </s>, in nats, before any length penalty."""
    score: float
    """`log_prob` divided by the length penalty."""
    ended: bool
    """False: cut at the length limit."""
    weights_TS: Tensor | None = None
    """Attention weights of each piece, and of </s> where it ended; None where they were not asked for."""


class SearchState(Protocol):
    """What a model remembers of each row."""

    def select(self, rows: Tensor) -> SearchState:
        """The given rows, in that order; a row stays with a hypothesis of its own sentence."""
        ...

    def keep(self, rows: Tensor) -> SearchState:
        """The given rows, in that order, when sentences have left."""
        ...


class Prediction(NamedTuple):
    """A model's view of the next piece."""

    log_probs_NV: Tensor
    weights_NS: Tensor | None
    state: SearchState
    pieces_NV: Tensor | None = None
    """Where a model says fewer pieces than there are: which piece each column is, none of them banned."""


class StepModel(Protocol):
    """Predicts the next piece of every row from the last one and the state."""

    def step(self, ids_N: Tensor, state: SearchState) -> Prediction:
        """One step of all rows."""
        ...

    def join(self, first: SearchState, second: SearchState) -> SearchState:
        """The rows of both, one after the other; their sources are of one width."""
        ...


class Vocabulary(NamedTuple):
    """The ids that a search must know."""

    bos: int
    eos: int
    banned: tuple[int, ...] = ()
    """Never produced: padding, line feeds and the like."""


def length_penalty(num_pieces: int, alpha: float) -> float:
    """Divisor of a log-probability: ((5 + n) / 6) ** alpha (Wu et al., 2016, eq. 14); alpha 0 gives 1.

    n counts the pieces with </s>.
    """
    return float(((5 + num_pieces) / 6) ** alpha)


def repeated_ngram_ends(prefix: list[int], order: int) -> list[int]:
    """The pieces that would make the last `order` pieces of `prefix` plus one a sequence seen before."""
    if order == 0 or len(prefix) < order:
        return []
    context = prefix[len(prefix) - order + 1 :]
    return [
        prefix[start + order - 1]
        for start in range(len(prefix) - order + 1)
        if prefix[start : start + order - 1] == context
    ]
