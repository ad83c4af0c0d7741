"""Matrix products inside a recurrent loop, with one product for the gradient of each matrix after it.

Autograd alone would make a product and an addition at every step, in bfloat16 under autocast; here the steps' inputs
and gradients are kept and multiplied once, and the matrix is cast once.

Shapes: B batch, I inputs, O outputs, N all steps' rows.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class LoopProduct:
    """x_t W for the steps t of one loop, in which x_{t+1} depends on x_t W. A value of one forward pass.

    Because of that dependence the backward pass reaches the first step last, and there the gradient of W is due.
    """

    def __init__(self, weight_IO: Tensor) -> None:
        """`weight_IO` is (I, O), or (D, I, O) for directions that go side by side."""
        device_type = weight_IO.device.type
        autocasts = torch.is_autocast_enabled(device_type) and weight_IO.dtype == torch.float32
        self._weight_IO = weight_IO
        self.product_type = torch.get_autocast_dtype(device_type) if autocasts else weight_IO.dtype
        self.cast_IO = weight_IO.detach().to(self.product_type)
        self.needs_gradient = torch.is_grad_enabled() and weight_IO.requires_grad
        self.steps: list[tuple[Tensor, Tensor]] = []
        self._has_begun = self._is_closed = False

    def __call__(self, inputs_BI: Tensor) -> Tensor:
        """x W in the dtype of x."""
        is_first, self._has_begun = not self._has_begun, True
        if not torch.is_grad_enabled():
            return torch.matmul(inputs_BI.to(self.product_type), self.cast_IO).to(inputs_BI.dtype)
        # The matrix comes along where the backward pass would not otherwise come by: the input needs no gradient.
        weight_IO = self._weight_IO if is_first or not inputs_BI.requires_grad else None
        product: Tensor = _Step.apply(inputs_BI, weight_IO, self, is_first)  # type: ignore[no-untyped-call]
        return product

    def keep(self, inputs_BI: Tensor, gradient_BO: Tensor) -> None:
        """Remember a step for `weight_gradient`."""
        if self._is_closed:
            raise RuntimeError("a later step of the loop was reached after its first; the gradient would lack it")
        self.steps.append((inputs_BI, gradient_BO))

    def weight_gradient(self) -> Tensor:
        """sum_t x_t^T g_t, as one product over all steps' rows."""
        self._is_closed = True
        inputs_NI = torch.cat([inputs for inputs, _ in self.steps], dim=-2)
        gradients_NO = torch.cat([gradient for _, gradient in self.steps], dim=-2)
        self.steps.clear()
        return torch.matmul(inputs_NI.transpose(-1, -2), gradients_NO).to(self._weight_IO.dtype)


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs_BI: Tensor,
        weight_IO: Tensor | None,  # noqa: ARG004 (so that autograd knows of it)
        loop: LoopProduct,
        is_first: bool,
    ) -> Tensor:
        cast_BI = inputs_BI.to(loop.product_type)
        ctx.save_for_backward(cast_BI)
        ctx.loop, ctx.is_first = loop, is_first
        return torch.matmul(cast_BI, loop.cast_IO).to(inputs_BI.dtype)

    @staticmethod
    def backward(ctx: Any, gradient_BO: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        (cast_BI,) = ctx.saved_tensors
        loop: LoopProduct = ctx.loop
        cast_BO = gradient_BO.to(loop.product_type)
        if loop.needs_gradient:
            loop.keep(cast_BI, cast_BO)
        gradient_BI = torch.matmul(cast_BO, loop.cast_IO.transpose(-1, -2)).to(gradient_BO.dtype)
        due = ctx.is_first and loop.needs_gradient
        return gradient_BI, loop.weight_gradient() if due else None, None, None
