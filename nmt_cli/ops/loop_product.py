"""Products of the steps of one recurrent loop with one matrix; the matrix gets its gradient once, after the loop.

Under autocast the products are in bfloat16 and stay so: whoever needs them in another dtype converts them.

Shapes: B batch, I inputs, O outputs, T steps, N the rows of all steps; D directions may lead.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt_cli.ops.deferred import StepGradients, share
from nmt_cli.ops.matmul import matmul, summed_outer, with_missing_rows


class LoopProduct:
    """x_t W for the steps t of one loop; W is cast once."""

    def __init__(self, weight_IO: Tensor) -> None:
        """Take a matrix (I, O), or (D, I, O) for directions that run side by side."""
        self._kept = _KeptByProducts(weight_IO)
        (self._shared_IO,) = share(self._kept.weight_gradient, weight_IO)

    def __call__(self, inputs_BI: Tensor) -> Tensor:
        """Return x W (B, O)."""
        if not torch.is_grad_enabled():
            return self._kept.product(inputs_BI.to(self._kept.product_type))
        product_BO: Tensor = _Product.apply(inputs_BI, self._shared_IO, self._kept)  # type: ignore[no-untyped-call]
        return product_BO


class LoopInputs:
    """x_t W for the steps t of one loop whose inputs are all known before it: one product for the whole loop."""

    def __init__(self, inputs_TBI: Tensor, weight_IO: Tensor) -> None:
        """Take inputs (T, B, I), or (D, T, B, I) for a weight (D, I, O)."""
        self._kept = _KeptByInputs(inputs_TBI, weight_IO)
        self._shared = share(self._kept.gradients, inputs_TBI, weight_IO)

    def __call__(self, step: int) -> Tensor:
        """Return the product (B, O) of a step."""
        if not torch.is_grad_enabled():
            return self._kept.part(step)
        part_BO: Tensor = _Part.apply(*self._shared, self._kept, step)  # type: ignore[no-untyped-call]
        return part_BO


class _KeptByProducts:
    """The inputs and gradients of the steps of a `LoopProduct`."""

    def __init__(self, weight_IO: Tensor) -> None:
        self.product_type = _product_type(weight_IO)
        self.cast_IO = weight_IO.detach().to(self.product_type)
        self._inputs: list[Tensor] = []
        self._weight_type = weight_IO.dtype
        self._gradients = StepGradients(self.product_type)

    def product(self, cast_BI: Tensor) -> Tensor:
        return matmul(cast_BI, self.cast_IO)

    def keep_inputs(self, inputs_BI: Tensor) -> int:
        """Remember what a step multiplied and return the step's number."""
        self._inputs.append(inputs_BI.detach())
        return len(self._inputs) - 1

    def keep_gradient(self, step: int, gradient_BO: Tensor) -> Tensor:
        return self._gradients.keep(step, len(self._inputs), gradient_BO)

    def weight_gradient(self) -> tuple[Tensor]:
        """Return sum_t x_t^T g_t, computed as one product over the rows of all steps."""
        gradients_NO = self._gradients.take()
        missing = gradients_NO.shape[-2] - sum(inputs_BI.shape[-2] for inputs_BI in self._inputs)
        zeros_XI = gradients_NO.new_zeros(*self._inputs[0].shape[:-2], missing, self._inputs[0].shape[-1])
        inputs_NI = torch.cat([*self._inputs, zeros_XI], dim=-2)
        return (summed_outer(inputs_NI, gradients_NO).to(self._weight_type),)


class _KeptByInputs:
    """The product of a `LoopInputs` and the gradients of its steps."""

    def __init__(self, inputs_TBI: Tensor, weight_IO: Tensor) -> None:
        self._input_type, product_type = inputs_TBI.dtype, _product_type(weight_IO)
        self._sizes = inputs_TBI.shape[-3:-1]
        self._inputs_NI = with_missing_rows(inputs_TBI.detach().to(product_type).flatten(-3, -2))
        self._weight_IO = weight_IO.detach().to(product_type)
        self._products_TBO = self._by_step(torch.matmul(self._inputs_NI, self._weight_IO))
        self._gradients = StepGradients(product_type)

    def part(self, step: int) -> Tensor:
        part_BO: Tensor = self._products_TBO.select(-3, step)
        return part_BO

    def keep_gradient(self, step: int, gradient_BO: Tensor) -> None:
        self._gradients.keep(step, self._sizes[0], gradient_BO)

    def gradients(self) -> tuple[Tensor, Tensor]:
        """Return the gradients of the inputs and of the weight."""
        gradients_NO = self._gradients.take()
        inputs_NI = torch.matmul(gradients_NO, self._weight_IO.transpose(-1, -2))
        weight_IO = summed_outer(self._inputs_NI, gradients_NO)
        return self._by_step(inputs_NI).to(self._input_type), weight_IO.to(self._input_type)

    def _by_step(self, rows_NX: Tensor) -> Tensor:
        """Return (T, B, X) without the rows that only pad."""
        steps_TBX: Tensor = rows_NX[..., : self._sizes.numel(), :].unflatten(-2, self._sizes)
        return steps_TBX


def _product_type(weight: Tensor) -> torch.dtype:
    """Return the dtype in which autocast multiplies with a weight."""
    device_type = weight.device.type
    autocasts = torch.is_autocast_enabled(device_type) and weight.dtype == torch.float32
    return torch.get_autocast_dtype(device_type) if autocasts else weight.dtype


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs_BI: Tensor, _: Tensor, kept: _KeptByProducts) -> Tensor:
        cast_BI = inputs_BI.to(kept.product_type)
        ctx.kept, ctx.input_type = kept, inputs_BI.dtype
        ctx.step = kept.keep_inputs(cast_BI) if ctx.needs_input_grad[1] else None
        return kept.product(cast_BI)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_BO: Tensor) -> tuple[Tensor | None, None, None]:
        kept: _KeptByProducts = ctx.kept
        if ctx.step is not None:
            gradient_BO = kept.keep_gradient(ctx.step, gradient_BO)
        if not ctx.needs_input_grad[0]:
            return None, None, None
        return matmul(gradient_BO, kept.cast_IO.transpose(-1, -2)).to(ctx.input_type), None, None


class _Part(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, _: Tensor, __: Tensor, kept: _KeptByInputs, step: int) -> Tensor:
        ctx.kept, ctx.step = kept, step
        return kept.part(step)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_BO: Tensor) -> tuple[None, ...]:
        ctx.kept.keep_gradient(ctx.step, gradient_BO)
        return None, None, None, None
