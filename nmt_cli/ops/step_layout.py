"""The order in which a recurrence in one or two directions reads the positions of a batch, step by step.

With gradients all rows are read at every step: their products are one tensor of (T, B) steps (ops/loop_product.py).
Without gradients the batch is packed: a row is left out after its end, which saves the steps on padding.

Shapes: B batch, S source, D directions, H hidden, X units of any kind, N the rows of all steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from nmt_cli.ops.matmul import ROW_MULTIPLE
from nmt_cli.ops.reverse import reverse_sequence


class StepLayout(Protocol):
    """The order in which a recurrence reads the positions of a batch: which rows take part in which step."""

    counts: list[int]
    """Number of rows that each step reads."""

    def rows_of_steps(self, inputs_BSX: Tensor, num_directions: int) -> Tensor:
        """Return the inputs of all steps, step after step (D, N, X): the first direction reads from left to right, the
        second from right to left."""
        ...

    def annotations(self, states: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Return the states in the order of the source (B, S, DH), with the directions concatenated, and the last state
        of each direction (B, DH).

        `states` has a tensor (D, rows of the step, H) for each step.
        """
        ...


def step_layout(lengths_B: Tensor, reversal_BS: Tensor, *, has_dropout: bool) -> StepLayout:
    """Return the layout of the steps for rows of these lengths.

    `reversal_BS` has, for each position, the position that takes its place when a row is read backwards; padding stays
    at the end. With `has_dropout` there are dropout masks, one for each row, so rows must not be reordered.
    """
    last_B = (lengths_B - 1).clamp(min=0)
    return (
        PaddedLayout(reversal_BS, last_B)
        if has_dropout or torch.is_grad_enabled()
        else PackedLayout(reversal_BS, last_B)
    )


class PaddedLayout:
    """Reads all rows of the batch, in their order, at every step, padding included."""

    def __init__(self, reversal_BS: Tensor, last_B: Tensor) -> None:
        self._reversal_BS, self._last_B = reversal_BS, last_B
        batch, length = reversal_BS.shape
        self.counts = [batch] * length

    def rows_of_steps(self, inputs_BSX: Tensor, num_directions: int) -> Tensor:
        sequences = [inputs_BSX, reverse_sequence(inputs_BSX, self._reversal_BS)][:num_directions]
        return torch.stack([sequence_BSX.transpose(0, 1) for sequence_BSX in sequences]).flatten(1, 2)

    def annotations(self, states: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        forward_BSH, *backward_BSH = torch.stack(list(states), dim=2).unbind(0)
        rows_B = torch.arange(len(self._last_B), device=self._last_B.device)
        last = [hidden_BSH[rows_B, self._last_B] for hidden_BSH in (forward_BSH, *backward_BSH)]
        in_order = [reverse_sequence(hidden_BSH, self._reversal_BS) for hidden_BSH in backward_BSH]
        return torch.cat([forward_BSH, *in_order], dim=-1), torch.cat(last, dim=-1)


class PackedLayout:
    """Reads rows only until they end, the longest rows first. The annotations at padding are undefined."""

    def __init__(self, reversal_BS: Tensor, last_B: Tensor) -> None:
        self._shape, self._last_B = reversal_BS.shape, last_B
        steps_T = torch.arange(int(last_B.max()) + 1, device=last_B.device)
        alive_T = (last_B.unsqueeze(1) >= steps_T).sum(dim=0)
        # The counts fall by multiples of 16, which keep the results batch-invariant.
        counts_T = (-(-alive_T // ROW_MULTIPLE) * ROW_MULTIPLE).clamp(max=len(last_B))
        begins_T = counts_T.cumsum(0) - counts_T
        forward_N = steps_T.repeat_interleave(counts_T)
        ranks_N = torch.arange(len(forward_N), device=last_B.device) - begins_T[forward_N]
        self._rows_N = last_B.argsort(descending=True, stable=True)[ranks_N]
        self._positions_DN = (forward_N, reversal_BS[self._rows_N, forward_N])
        self.counts = counts_T.tolist()

    def rows_of_steps(self, inputs_BSX: Tensor, num_directions: int) -> Tensor:
        positions = self._positions_DN[:num_directions]
        return torch.stack([inputs_BSX[self._rows_N, position_N] for position_N in positions])

    def annotations(self, states: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        states_DNH = torch.cat(list(states), dim=1)
        num_directions, _, size = states_DNH.shape
        states_BSDH = states_DNH.new_zeros(*self._shape, num_directions, size)
        for direction, (states_NH, position_N) in enumerate(zip(states_DNH, self._positions_DN, strict=False)):
            states_BSDH[self._rows_N, position_N, direction] = states_NH
        rows_B = torch.arange(len(self._last_B), device=self._last_B.device)
        last = [states_BSDH[rows_B, self._last_B, 0], states_BSDH[:, 0, -1]][:num_directions]
        return states_BSDH.flatten(2), torch.cat(last, dim=-1)
