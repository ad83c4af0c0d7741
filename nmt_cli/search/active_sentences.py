"""The partial hypotheses of sentences that are searched together.

Shapes: L active sentences, K beam, N = L x K rows, R rows whose attention is recorded, T target so far, S source.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from nmt_cli.search.constraint_state import ConstraintState
from nmt_cli.search.hypothesis import SearchState


class AttentionHistory(NamedTuple):
    """Attention weights of a partial hypothesis, as a linked list: its last piece, and the history before that piece.

    Hypotheses with a common beginning share its history, so a step copies nothing.
    """

    previous: AttentionHistory | None
    weights_RS: Tensor
    """Attention weights of all recorded rows at the step of the last piece."""
    row: int
    """Row of this hypothesis in `weights_RS`."""

    def stacked(self) -> Tensor:
        """Return the weights (T, S) of all pieces. S is the largest source width of a step; padding is 0."""
        links = [self]
        while (previous := links[-1].previous) is not None:
            links.append(previous)
        weights_TS = torch.zeros(len(links), max(link.weights_RS.shape[1] for link in links))
        for weights_S, link in zip(weights_TS, reversed(links), strict=True):
            weights_S[: link.weights_RS.shape[1]] = link.weights_RS[link.row]
        return weights_TS


@dataclass(slots=True)
class ActiveSentences:
    """The partial hypotheses of sentences that are searched together."""

    sentences: list[int]
    """The number by which the search and its caller name each sentence."""
    first_columns: list[int]
    """Column of `prefixes_LKT` at which each sentence begins. Columns before it are padding."""
    prefixes_LKT: Tensor
    """Piece ids of each partial hypothesis, without <s>, aligned at the right."""
    totals_LK: Tensor
    """Log-probability of each partial hypothesis, in nats, plus its bonuses for required terms."""
    last_ids_N: Tensor
    """The last piece of each row, which is the input of the next step."""
    state: SearchState
    """The model's state of all rows."""
    attention_N: Sequence[AttentionHistory | None] | None = None
    """Attention history of each row, None for a row that is not recorded; None instead of a list if no row is."""
    constraint_state: ConstraintState | None = None
    """Constraint state of the rows; None if no sentence of the search has constraints."""

    @property
    def width(self) -> int:
        """Rows of each sentence: one before its first step, then as many as the beam is wide."""
        return self.totals_LK.shape[1]

    def prefix(self, place: int, rank: int) -> list[int]:
        """Return the piece ids of row `rank` of the sentence at index `place`, without <s>."""
        prefix: list[int] = self.prefixes_LKT[place, rank, self.first_columns[place] :].tolist()
        return prefix

    def next_length(self, place: int) -> int:
        """Return the number of pieces, </s> included, of the hypotheses of a sentence after the next step."""
        return self.prefixes_LKT.shape[2] - self.first_columns[place] + 1

    def histories(self) -> Sequence[AttentionHistory | None]:
        """Return the attention history of each row; None for a row that has no piece yet or is not recorded."""
        return self.attention_N or [None] * self.totals_LK.numel()

    def add_weights(self, weights_NS: Tensor, recorded: Set[int]) -> None:
        """Append the attention weights of the next piece to the histories of the sentences in `recorded`.

        The source width may differ from that of earlier pieces.
        """
        width = self.width
        rows = [
            place * width + rank
            for place, sentence in enumerate(self.sentences)
            if sentence in recorded
            for rank in range(width)
        ]
        if not rows:
            return
        weights_RS, attention_N = weights_NS[rows].to(torch.float32), [*self.histories()]
        for own, row in enumerate(rows):
            attention_N[row] = AttentionHistory(attention_N[row], weights_RS, own)
        self.attention_N = attention_N

    def extended(
        self,
        stay: Sequence[int],
        rows_LK: Tensor,
        pieces_LK: Tensor,
        totals_LK: Tensor,
        state: SearchState,
        constraint_state: ConstraintState | None,
    ) -> ActiveSentences:
        """Return the sentences that continue after a step, with one more piece in each row.

        Args:
            stay: indices of the sentences that continue.
            rows_LK: for each new hypothesis of these sentences, best first, the row that it extends.
            pieces_LK: the new piece of each hypothesis.
            totals_LK: the log-probability of each hypothesis, in nats.
            state: the model's state after the step, for all rows of the step.
            constraint_state: the constraint state of the new rows; None without constraints.
        """
        rows_N, last_ids_N, shape = rows_LK.flatten(), pieces_LK.flatten(), rows_LK.shape
        rows_stay = len(stay) == len(self.sentences) and shape[1] == self.width
        prefixes_NT = torch.cat([self.prefixes_LKT.flatten(0, 1)[rows_N], last_ids_N.unsqueeze(1)], dim=1)
        attention_N = self.attention_N and [self.attention_N[row] for row in rows_N.tolist()]
        return ActiveSentences(
            sentences=[self.sentences[place] for place in stay],
            first_columns=[self.first_columns[place] for place in stay],
            prefixes_LKT=prefixes_NT.unflatten(0, shape),
            totals_LK=totals_LK,
            last_ids_N=last_ids_N,
            state=state.select(rows_N) if rows_stay else state.keep(rows_N),
            attention_N=attention_N,
            constraint_state=constraint_state,
        )
