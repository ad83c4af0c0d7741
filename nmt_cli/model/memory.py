"""What the encoder leaves for the decoder. Values that are passed, so beams reorder cleanly and caches cannot go stale.

Shapes: B batch, S source, C annotation, A attention, H encoder hidden.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Memory(NamedTuple):
    """An encoded batch of sources."""

    states_BSC: Tensor
    """The annotations h_j."""
    keys_BSA: Tensor
    """What the attention compares its query with, projected once a sentence."""
    valid_BS: Tensor
    """True where there is a piece, False on padding."""
    final_BC: Tensor
    """The last state of each direction: forward at the last piece, backward at the first."""

    def select(self, rows: Tensor) -> Memory:
        """The memory of the given rows, in that order."""
        return Memory(*(tensor.index_select(0, rows) for tensor in self))
