"""The rows (partial hypotheses) of a search, and the scores of their next pieces.

In every model a row has a memory (the encoded source) and a state of the decoder.

Shapes: B sentences, S source, N rows, P rows padded to a multiple of 16, V vocabulary, U pieces that a batch may
generate, W pieces that a row may generate, R readout.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from nmt_cli.data.batch import round_up
from nmt_cli.model.annotations import Memory
from nmt_cli.model.decoder import DecoderState
from nmt_cli.ops.log_softmax import log_softmax_
from nmt_cli.ops.matmul import LinearMap
from nmt_cli.search.hypothesis import SearchState
from nmt_cli.translation.shortlist import Candidates

PADDING_MULTIPLE = 16
"""Rows and source positions are padded to multiples of this, which fit the vectors of a processor (docs/adr/0005)."""


class RowVocabulary(NamedTuple):
    """The pieces that the rows may generate (a shortlist or all), and the output product of each model."""

    products: tuple[LinearMap, ...]
    """For each model, the product that gives the logits (P, U) of the candidates' pieces, or of all (P, V)."""
    candidates: Candidates | None = None
    """Candidates of each row; None means that every row may use all pieces."""

    def keep(self, rows: Tensor) -> RowVocabulary:
        return self if self.candidates is None else RowVocabulary(self.products, self.candidates.select(rows))

    def log_probs(self, part: int, readout_PR: Tensor, num_rows: int) -> Tensor:
        """Return log-probabilities (N, W), in nats, of each row's pieces under model number `part`."""
        logits = self.products[part](readout_PR)[:num_rows].float()
        if self.candidates is None:
            return log_softmax_(logits)
        # Each row's own, from the first column on: so its sum does not depend on the pieces of other rows.
        own_NW = logits.gather(1, self.candidates.columns_BW)
        return F.log_softmax(own_NW.masked_fill_(~self.candidates.valid_BW, -math.inf), dim=-1)


class Rows(NamedTuple):
    """The memory (encoded source) and decoder state of every row in every model, padding rows included."""

    num_rows: int
    """Number of rows without the padding rows."""
    parts: tuple[tuple[Memory, DecoderState], ...]
    shares_memory: tuple[bool, ...]
    """For each model, True if rows of one source may share the memory of the source."""
    vocabulary: RowVocabulary

    def select(self, rows: Tensor) -> Rows:
        # A row keeps to its sentence, so its memory and its words stay what they are.
        padded = padded_rows(rows).to(self.parts[0][0].valid_BS.device)
        return self._replace(parts=tuple((memory, state.select(padded)) for memory, state in self.parts))

    def keep(self, rows: Tensor) -> Rows:
        padded = padded_rows(rows).to(self.parts[0][0].valid_BS.device)
        parts = tuple(
            (_memory_of(memory, padded, len(rows), shared=shared), state.select(padded))
            for (memory, state), shared in zip(self.parts, self.shares_memory, strict=True)
        )
        return Rows(len(rows), parts, self.shares_memory, self.vocabulary.keep(padded[: len(rows)]))

    def extract(self, rows: Tensor) -> Rows:
        # Each with a memory of its own: whether rows share one may change the last bit, and which are here is chance.
        return self._replace(shares_memory=(False,) * len(self.shares_memory)).keep(rows)

    def replace(self, rows: Tensor, other: SearchState) -> Rows:
        assert isinstance(other, Rows)
        rows = rows.to(self.parts[0][0].valid_BS.device)
        parts = tuple(
            (memory, state.replace(rows, new))
            for (memory, state), (_, new) in zip(self.parts, other.parts, strict=True)
        )
        return self._replace(parts=parts)

    def join(self, other: Rows, vocabulary: RowVocabulary) -> Rows:
        """Return the rows of both, those of `self` first, with as little source padding as they need.

        `vocabulary` is the vocabulary of the joined rows.
        """
        device = self.parts[0][0].valid_BS.device
        num_rows = self.num_rows + other.num_rows
        missing = -num_rows % PADDING_MULTIPLE
        first_P, second_P = (
            torch.cat([torch.arange(count), torch.zeros(padding, dtype=torch.long)]).to(device)
            for count, padding in ((self.num_rows, 0), (other.num_rows, missing))
        )
        width = round_up(max(rows.parts[0][0].max_source_length for rows in (self, other)), PADDING_MULTIPLE)
        parts = tuple(
            (
                _memory_of(memory, first_P, self.num_rows, shared=shared)
                .at_width(width)
                .join(_memory_of(other_memory, second_P, other.num_rows, shared=shared).at_width(width)),
                state.select(first_P).at_width(width).join(other_state.select(second_P).at_width(width)),
            )
            for (memory, state), (other_memory, other_state), shared in zip(
                self.parts, other.parts, self.shares_memory, strict=True
            )
        )
        return Rows(num_rows, parts, self.shares_memory, vocabulary)


def _memory_of(memory: Memory, padded_P: Tensor, num_rows: int, *, shared: bool) -> Memory:
    """Return the memory of the rows with the numbers `padded_P`, of which those after the first `num_rows` are padding.

    With `shared`, the rows of a source share its memory if all sources have the same number of consecutive rows.
    """
    source_P = padded_P // memory.rows
    if shared and num_rows:
        sources, counts = source_P[:num_rows].unique_consecutive(return_counts=True)
        rows = int(counts[0])
        if bool((counts == rows).all()):
            missing = -(-len(source_P) // rows) - len(sources)
            return memory.select(torch.cat([sources, sources[:1].expand(missing)]), rows)
    return memory.select(source_P)


def padded_width(ids: Sequence[int]) -> int:
    """Return the number of source positions of a sentence in a batch, with </s>, rounded up to a multiple of 16."""
    return round_up(len(ids) + 1, PADDING_MULTIPLE)


def padded_rows(rows: Tensor) -> Tensor:
    """Return the row numbers, padded at the end to a multiple of 16 with copies of the first."""
    missing = -len(rows) % PADDING_MULTIPLE
    return torch.cat([rows, rows[:1].expand(missing)]) if missing else rows
