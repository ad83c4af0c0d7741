"""The annotations of the encoder, to which the decoder attends.

No `nn.Module` stores them. The caller keeps them and selects rows when it reorders the beam, so nothing can be out of
date.

Shapes: B batch, N rows of a decoder, S source, C annotation, A attention, E embedding.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F


class Memory(NamedTuple):
    """A batch of source sentences after the encoder: annotations, attention keys and masks."""

    states_BSC: Tensor
    """The annotations h_j: the encoder's states at each source position."""
    keys_BSA: Tensor
    """The keys of the attention: the annotations, projected once for each sentence."""
    valid_BS: Tensor
    """True where there is a piece, False on padding."""
    final_BC: Tensor
    """The last hidden units of each direction: forward at the last piece, backward at the first (with `reverse_source`
    the other way round)."""
    embedded_BSE: Tensor | None = None
    """The embedded source pieces, if the model has a lexical model, which needs them."""
    rows: int = 1
    """Number of consecutive rows of a decoder that attend to each source; more than one only in a beam search."""
    masked_NS: Tensor | None = None
    """True at source positions to which a row of the decoder must not attend; None if there are none."""

    def select(self, sources: Tensor, rows: int = 1) -> Memory:
        """Return a memory of the sources with these indices, in that order, each shared by `rows` decoder rows."""
        states, keys, valid, final = (tensor.index_select(0, sources) for tensor in self[:4])
        embedded = None if self.embedded_BSE is None else self.embedded_BSE.index_select(0, sources)
        return Memory(states, keys, valid, final, embedded, rows)

    @property
    def max_source_length(self) -> int:
        """Length of the longest source in pieces, without padding."""
        return int(self.valid_BS.any(dim=0).sum())

    def at_width(self, width: int) -> Memory:
        """Return the memory padded or cut to `width` source positions, at least `max_source_length`."""
        missing = width - self.valid_BS.shape[1]
        if missing == 0:
            return self
        positions = (0, 0, 0, missing)  # a negative number cuts off
        embedded = None if self.embedded_BSE is None else F.pad(self.embedded_BSE, positions)
        return self._replace(
            states_BSC=F.pad(self.states_BSC, positions),
            keys_BSA=F.pad(self.keys_BSA, positions),
            valid_BS=F.pad(self.valid_BS, (0, missing)),
            embedded_BSE=embedded,
        )

    def join(self, other: Memory) -> Memory:
        """Return one memory of all sources, those of `self` first; both must have the same padded width and `rows`."""
        states, keys, valid, final = (torch.cat(pair) for pair in zip(self[:4], other[:4], strict=True))
        embedded = None
        if self.embedded_BSE is not None and other.embedded_BSE is not None:
            embedded = torch.cat([self.embedded_BSE, other.embedded_BSE])
        return Memory(states, keys, valid, final, embedded, self.rows)

    def valid_for(self, num_rows: int) -> Tensor:
        """Return a mask (`num_rows`, S), True where a decoder row may attend: on pieces, except where `masked_NS` is
        True."""
        valid_NS = self.valid_BS if self.rows == 1 else self.valid_BS.repeat_interleave(self.rows, dim=0)[:num_rows]
        return valid_NS if self.masked_NS is None else valid_NS & ~self.masked_NS
