"""The products of all steps of a recurrent loop with one matrix.

Under autocast the products are returned in bfloat16; callers that need another dtype convert them.

Shapes: B batch, I inputs, O outputs, T steps, N the rows of all steps; D directions may lead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from nmt_cli.ops.deferred_gradients import StepGradients, defer_gradients
from nmt_cli.ops.matmul import MAX_STEP_ROWS, LinearMap, matmul, pad_rows, sum_of_outer_products


class LoopModule(nn.Module):
    """Base class of the parts of a model that multiply with one matrix in a loop.

    In a model that only translates, `replacement` may be set to compute the product in another way
    (`translation/precision.py`).
    """

    matrix_name: ClassVar[str] = "weight"
    """Name of the attribute that holds the matrix, (I, O) or (D, I, O)."""

    def __init__(self) -> None:
        super().__init__()
        self.replacement: LinearMap | None = None

    @property
    def matrix(self) -> Tensor:
        """The weight matrix W of the products x W: (I, O), or (D, I, O) with directions."""
        return cast(Tensor, getattr(self, self.matrix_name))

    def product(self) -> LinearMap:
        """Return a function, for the steps of one loop, from x (B, I) to the product x W (B, O)."""
        return self.replacement or loop_product(self.matrix)

    def products_of_steps(self, inputs_NI: Tensor, counts: Sequence[int]) -> Iterator[Tensor]:
        """Yield the product x_t W of each step of a loop whose inputs are all known before it.

        `inputs_NI` has the rows of all steps, step after step; `counts` has the number of rows of each step, which must
        all be equal if gradients are recorded. Without gradients a row of a product depends on its own inputs alone.
        """
        if torch.is_grad_enabled() and self.replacement is None:
            products = LoopProducts(inputs_NI.unflatten(-2, (len(counts), counts[0])), self.matrix)
            return map(products, range(len(counts)))
        product = self.product()
        all_NO = torch.cat([product(part_NI) for part_NI in inputs_NI.split(MAX_STEP_ROWS, dim=-2)], dim=-2)
        return iter(all_NO.split(list(counts), dim=-2))


def loop_product(weight_IO: Tensor) -> LinearMap:
    """Return a function, for the steps of one loop, from x (B, I) to the product x W (B, O); W is cast once."""
    product_type = _product_type(weight_IO)
    cast_IO = weight_IO.to(product_type)
    return lambda inputs_BI: matmul(inputs_BI.to(product_type), cast_IO)


class LoopProducts:
    """The products x_t W of the steps t of one loop whose inputs are all known before it. They are computed as one
    product for the whole loop, and so are the gradients, after it."""

    def __init__(self, inputs_TBI: Tensor, weight_IO: Tensor) -> None:
        """Prepare the product of all steps: inputs (T, B, I) and a weight (I, O), or (D, T, B, I) and (D, I, O)."""
        self._state = _LoopProductsState(inputs_TBI, weight_IO)
        self._shared = defer_gradients(self._state.gradients, inputs_TBI, weight_IO)

    def __call__(self, step: int) -> Tensor:
        """Return the product (B, O) of a step."""
        part_BO: Tensor = _StepProduct.apply(*self._shared, self._state, step)  # type: ignore[no-untyped-call]
        return part_BO


class _LoopProductsState:
    """The data of a `LoopProducts` outside the autograd graph: the product and the gradients of its steps."""

    def __init__(self, inputs_TBI: Tensor, weight_IO: Tensor) -> None:
        self._input_type, product_type = inputs_TBI.dtype, _product_type(weight_IO)
        self._sizes = inputs_TBI.shape[-3:-1]
        self._inputs_NI = pad_rows(inputs_TBI.detach().to(product_type).flatten(-3, -2))
        self._weight_IO = weight_IO.detach().to(product_type)
        self._products_TBO = self._by_step(torch.matmul(self._inputs_NI, self._weight_IO))
        self._gradients = StepGradients(product_type)

    def part(self, step: int) -> Tensor:
        part_BO: Tensor = self._products_TBO.select(-3, step)
        return part_BO

    def keep_gradient(self, step: int, gradient_BO: Tensor) -> None:
        self._gradients.keep(step, self._sizes[0], gradient_BO)

    def gradients(self) -> tuple[Tensor, Tensor]:
        """Return the gradients of the inputs (T, B, I) and of the weight (I, O); D leads if they have directions."""
        gradients_NO = self._gradients.take()
        inputs_NI = torch.matmul(gradients_NO, self._weight_IO.transpose(-1, -2))
        weight_IO = sum_of_outer_products(self._inputs_NI, gradients_NO)
        return self._by_step(inputs_NI).to(self._input_type), weight_IO.to(self._input_type)

    def _by_step(self, rows_NX: Tensor) -> Tensor:
        """Return rows (N, X) grouped by step (T, B, X), without the padding rows at the end."""
        steps_TBX: Tensor = rows_NX[..., : self._sizes.numel(), :].unflatten(-2, self._sizes)
        return steps_TBX


def _product_type(weight: Tensor) -> torch.dtype:
    """Return the dtype of products with a weight: autocast's if that is on and the weight is float32, else its own."""
    device_type = weight.device.type
    autocasts = torch.is_autocast_enabled(device_type) and weight.dtype == torch.float32
    return torch.get_autocast_dtype(device_type) if autocasts else weight.dtype


class _StepProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, _: Tensor, __: Tensor, state: _LoopProductsState, step: int) -> Tensor:
        ctx.state, ctx.step = state, step
        return state.part(step)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_BO: Tensor) -> tuple[None, ...]:
        ctx.state.keep_gradient(ctx.step, gradient_BO)
        return None, None, None, None
