"""Reversal of padded sequences, with the padding left at the end.

Shapes: B batch, S source, X units.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def reverse_sequence(values_BSX: Tensor, reversal_BS: Tensor) -> Tensor:
    """Return values[b, reversal[b, s]] for all b, s (B, S, X).

    `reversal_BS` must be its own inverse: applied twice, it changes nothing.
    """
    result: Tensor = _ReverseSequence.apply(values_BSX, reversal_BS)  # type: ignore[no-untyped-call]
    return result


class _ReverseSequence(torch.autograd.Function):
    """Reverses values and, in the backward pass, the gradient in the same way. Autograd would add the gradient up
    element by element, which deterministic kernels on a GPU do by sorting all addresses."""

    @staticmethod
    def forward(ctx: Any, values_BSX: Tensor, reversal_BS: Tensor) -> Tensor:
        ctx.save_for_backward(reversal_BS)
        return _gather_positions(values_BSX, reversal_BS)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_BSX: Tensor) -> tuple[Tensor, None]:
        (reversal_BS,) = ctx.saved_tensors
        return _gather_positions(gradient_BSX, reversal_BS), None


def _gather_positions(values_BSX: Tensor, positions_BS: Tensor) -> Tensor:
    return values_BSX.gather(1, positions_BS.unsqueeze(-1).expand(-1, -1, values_BSX.shape[-1]))
