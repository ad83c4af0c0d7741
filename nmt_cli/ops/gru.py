"""One step of a gated recurrent unit, `gru_step`, by formula or compiled kernel.

Shapes: B batch, H hidden, G gates (3H); D directions may lead.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt_cli.ops import native
from nmt_cli.ops.gates import AffineGradients, Gates, GateTerm, PackedTerm, as_rows, sum_terms

_TERMS, _SIZES = ctypes.POINTER(PackedTerm), (native.SIZE, native.SIZE, native.SIZE, native.COUNT)
_FORWARD = native.Kernel("gru_forward", _TERMS, native.COUNT, *_SIZES, *[native.POINTER] * 2)
_BACKWARD = native.Kernel("gru_backward", _TERMS, native.COUNT, *_SIZES, *[native.POINTER] * 3)


def gru_step(inputs: Gates, recurrent: GateTerm, hidden_BH: Tensor) -> Tensor:
    """Return the state h' (B, H) after the state h, given the gate terms W x of the inputs and U h of the recurrence.

    r, z = sigmoid(W x + U h);  n = tanh(W x + r * U h);  h' = (1 - z) * n + z * h
    (Cho et al., 2014, with the reset gate after the product, so that one product serves all gates: docs/adr/0003).
    """
    if native.has_kernels_for(hidden_BH):
        return _by_kernel((*inputs, recurrent), hidden_BH)
    return gru_formula(sum_terms(inputs), recurrent.value(), hidden_BH)


def gru_formula(inputs_BG: Tensor, recurrent_BG: Tensor, hidden_BH: Tensor) -> Tensor:
    """Return h' (B, H) from W x and U h, as `gru_step` defines it."""
    size = hidden_BH.shape[-1]
    inputs_BX, input_BH = inputs_BG.split([2 * size, size], dim=-1)
    recurrent_BX, recurrent_BH = recurrent_BG.split([2 * size, size], dim=-1)
    reset_BH, update_BH = torch.sigmoid(inputs_BX + recurrent_BX).chunk(2, dim=-1)
    proposal_BH = torch.tanh(torch.addcmul(input_BH, reset_BH, recurrent_BH))
    return torch.lerp(proposal_BH, hidden_BH, update_BH)


# The kernel, which also normalises the terms or adds their biases -----------------------------------------------------


def _by_kernel(terms: Gates, hidden_BH: Tensor) -> Tensor:
    affine_gradients = [term.affine.affine_gradients for term in terms]
    dtype = terms[-1].product_BG.dtype
    products = [term.product_BG.to(dtype) for term in terms]
    if not torch.is_grad_enabled():
        return _forward(affine_gradients, products, hidden_BH.contiguous())
    shared = [parameter for term in terms for parameter in term.affine.shared]
    updated_BH: Tensor = _GruStepFunction.apply(hidden_BH, affine_gradients, *products, *shared)  # type: ignore[no-untyped-call]
    return updated_BH


class _GruStepFunction(torch.autograd.Function):
    """A GRU step by the compiled kernel. It saves only its products and the previous state; the backward pass computes
    the rest again."""

    @staticmethod
    def forward(ctx: Any, hidden_BH: Tensor, affine_gradients: list[AffineGradients], *tensors: Tensor) -> Tensor:
        hidden_BH, products = hidden_BH.contiguous(), tensors[: len(affine_gradients)]
        ctx.affine_gradients, ctx.num_shared = affine_gradients, len(tensors) - len(affine_gradients)
        ctx.save_for_backward(hidden_BH, *products)
        return _forward(affine_gradients, products, hidden_BH)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_BH: Tensor) -> tuple[Tensor | None, ...]:
        hidden_BH, *products = ctx.saved_tensors
        gradients = [product_BG.new_empty(product_BG.shape) for product_BG in products]
        sizes = _sizes(hidden_BH)
        rows = [as_rows(product_BG) for product_BG in products]
        packed = (PackedTerm * len(products))(
            *(
                one.packed(product_BG, product_gradient_BG, sizes[-1])
                for one, product_BG, product_gradient_BG in zip(ctx.affine_gradients, rows, gradients, strict=True)
            )
        )
        kept_BH, gradient_BH = torch.empty_like(hidden_BH), gradient_BH.contiguous()
        addresses = (native.address(tensor) for tensor in (hidden_BH, gradient_BH, kept_BH))
        _BACKWARD(products[0].dtype, packed, len(products), *sizes, *addresses)
        return kept_BH, None, *gradients, *[None] * ctx.num_shared


def _forward(
    affine_gradients: list[AffineGradients], products: list[Tensor] | tuple[Tensor, ...], hidden_BH: Tensor
) -> Tensor:
    updated_BH = torch.empty_like(hidden_BH)
    rows = [as_rows(product_BG) for product_BG in products]  # held until the kernel has read them
    packed = (PackedTerm * len(rows))(*(one.packed(row_BG) for one, row_BG in zip(affine_gradients, rows, strict=True)))
    addresses = (native.address(hidden_BH), native.address(updated_BH))
    _FORWARD(rows[0].dtype, packed, len(rows), *_sizes(hidden_BH), *addresses)
    return updated_BH


def _sizes(hidden_BH: Tensor) -> tuple[int, int, int, int]:
    """Return the sizes that the kernel takes: directions (1 without), rows, hidden units, and chunks of rows."""
    *directions, batch, size = hidden_BH.shape
    chunks = native.num_chunks(hidden_BH.numel() // max(1, size), 3 * size)
    return directions[0] if directions else 1, batch, size, chunks
