"""Gradients of tensors that all steps of a recurrent loop share, computed once after the loop.

Autograd alone would compute a product and an addition as large as the shared tensor at every step. Here each step
stores its factors of the gradient, and one product computes the gradient when autograd has gone back through all steps
(docs/adr/0007).

The graph refers to the stored tensors. So these must not refer to the graph: a tensor with a history among them would
close a reference cycle that is never freed.

Shapes: B batch, O outputs, N the rows of all steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt_cli.ops.matmul import num_padding_rows


def defer_gradients(gradients: Callable[[], tuple[Tensor, ...]], *tensors: Tensor) -> tuple[Tensor, ...]:
    """Return the tensors, to be passed to all steps of a loop instead of the originals.

    The steps return no gradients for them. `gradients` is called when autograd has gone back through all steps, and
    returns the gradient of each tensor.
    """
    if not torch.is_grad_enabled():
        return tensors
    shared: tuple[Tensor, ...] = _DeferredGradients.apply(gradients, *tensors)  # type: ignore[no-untyped-call]
    return shared


class _DeferredGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gradients: Callable[[], tuple[Tensor, ...]], *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.gradients = gradients
        ctx.set_materialize_grads(False)
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *_: Tensor | None) -> tuple[Tensor | None, ...]:
        return (None, *ctx.gradients())


class StepGradients:
    """Collects the gradients of all steps of a loop in one tensor of the given dtype."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._all_NO: Tensor | None = None
        self._num_rows_of_step = 0
        self._missing: set[int] = set()

    def keep(self, step: int, num_steps: int, gradient_BO: Tensor) -> Tensor:
        """Copy the gradient of a step (from 0) into the tensor of all steps, and return this part of the tensor."""
        if self._all_NO is None:
            *directions, self._num_rows_of_step, size = gradient_BO.shape
            num_rows = num_steps * self._num_rows_of_step
            padding = num_padding_rows(num_rows, gradient_BO.device, self._dtype)
            self._all_NO = gradient_BO.new_empty(*directions, num_rows + padding, size, dtype=self._dtype)
            self._all_NO[..., num_rows:, :] = 0
            self._missing = set(range(num_steps))
        self._missing.discard(step)
        return self._of_step(self._all_NO, step).copy_(gradient_BO)

    def take(self) -> Tensor:
        """Return the gradients of all steps (N, O), step after step, and forget them.

        A step without a gradient gets zeros. Rows of zeros at the end pad N to a size that suits the products.
        """
        assert self._all_NO is not None
        all_NO, self._all_NO = self._all_NO, None
        for step in self._missing:
            self._of_step(all_NO, step).zero_()
        return all_NO

    def _of_step(self, all_NO: Tensor, step: int) -> Tensor:
        return all_NO.narrow(-2, step * self._num_rows_of_step, self._num_rows_of_step)
