"""The gates of a recurrent cell: a sum of matrix products, each with its layer normalisation or bias.

A `GateTerm` holds a product before its normalisation, because a compiled kernel does the rest of a step in one pass.

Shapes: B batch, G gates x hidden, D directions (a leading dimension that may be absent), K chunks of rows.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from nmt_cli.ops import native
from nmt_cli.ops.deferred_gradients import defer_gradients


class GateTerm(NamedTuple):
    """One summand of a cell's gates at a step: a matrix product, and the normalisation or bias that follows it."""

    product_BG: Tensor
    """The matrix product W x, before normalisation and bias; in bfloat16 under autocast."""
    affine: GateAffine
    """The layer normalisation or bias that is applied to the product."""

    def value(self) -> Tensor:
        """Return the summand (B, G): gain * LN(W x) + bias, or W x + bias."""
        gain, bias = self.affine.gain, self.affine.bias
        product_BG = self.product_BG.to(bias.dtype)
        return product_BG + bias if gain is None else gate_norm(product_BG, gain, bias)


Gates = tuple[GateTerm, ...]
"""The summands of the gates of a step, such as W x and U h. Tuples of summands are joined with `+`."""


def sum_terms(gates: Gates) -> Tensor:
    """Return the sum of all terms (B, G): the gates before their activation functions."""
    first, *others = [term.value() for term in gates]
    return sum(others, start=first)


def gate_norm(gates_BG: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    """Return the gates (..., G), each layer-normalised separately (Ba et al., 2016, section 3.1 and supplement);
    `gain` and `bias` end in (gates, hidden)."""
    by_gate = gates_BG.view(*gates_BG.shape[:-1], *gain.shape[-2:])
    return torch.addcmul(bias, F.layer_norm(by_gate, gain.shape[-1:]), gain).flatten(-2)


def batch_invariant_sigmoid(gate_BH: Tensor) -> Tensor:
    """Return the sigmoid of all numbers of a contiguous tensor.

    Torch computes the numbers after the last full group of 32 by another function, which rounds differently. Without
    gradients the last group is padded, so that a row does not depend on the number of rows (docs/adr/0005).
    """
    missing = -gate_BH.numel() % 32
    if not missing or torch.is_grad_enabled():
        return torch.sigmoid(gate_BH)
    return torch.sigmoid(F.pad(gate_BH.flatten(), (0, missing)))[:-missing].view_as(gate_BH)


class GateAffine:
    """The layer-normalisation gain (if any) and the bias of a term, for all steps of one loop."""

    def __init__(self, gain: Tensor | None, bias: Tensor) -> None:
        """Share gain and bias among all steps. Without `gain` there is no layer normalisation."""
        self.gain, self.bias = gain, bias
        parameters = [bias] if gain is None else [gain, bias]
        self.affine_gradients = AffineGradients(parameters)
        self.shared = defer_gradients(self.affine_gradients.gradients, *parameters)


class AffineGradients:
    """Accumulates the gradients of gain and bias, into which the kernels add at each step.

    The autograd graph refers to this object, so it holds only detached tensors.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self._parameters = [parameter.detach() for parameter in parameters]
        self._sums: list[Tensor] = []

    def packed(self, product_BG: Tensor, gradient_BG: Tensor | None = None, num_chunks: int = 0) -> PackedTerm:
        """Return the C structure that a kernel reads: addresses of a product, of gain and bias, and of their gradients.

        The gradient of the product is written to `gradient_BG`; without it, as in the forward pass, there are no
        gradients. `num_chunks` is the number of partial sums of the gradients of gain and bias.
        """
        packed = PackedTerm()
        packed.product, packed.direction = _address_and_stride(product_BG)
        packed.gain, packed.bias = map(native.address, _gain_and_bias(self._parameters))
        if gradient_BG is not None:
            if not self._sums:
                self._sums = [parameter.new_zeros(num_chunks, *parameter.shape) for parameter in self._parameters]
            packed.product_gradient, packed.gradient_direction = _address_and_stride(gradient_BG)
            packed.gain_gradient, packed.bias_gradient = map(native.address, _gain_and_bias(self._sums))
        return packed

    def gradients(self) -> tuple[Tensor, ...]:
        """Return the gradients of gain (if any) and bias, summed over all steps, and forget them."""
        sums, self._sums = self._sums, []
        return tuple(sum_K.sum(dim=0) for sum_K in sums)


class PackedTerm(ctypes.Structure):
    """The C structure `Term` of kernels.cpp, a summand of the gates."""

    _fields_ = [
        *((name, native.POINTER) for name in ("product", "product_gradient", "gain", "bias")),
        *((name, native.POINTER) for name in ("gain_gradient", "bias_gradient")),
        *((name, native.SIZE) for name in ("direction", "gradient_direction")),
    ]


def as_rows(tensor_DBG: Tensor) -> Tensor:
    """Return the tensor, copied if needed so that the rows of a direction are contiguous, as the kernels require."""
    return tensor_DBG if _has_contiguous_rows(tensor_DBG) else tensor_DBG.contiguous()


def _has_contiguous_rows(tensor_DBG: Tensor) -> bool:
    rows, columns = tensor_DBG.stride()[-2:]
    return columns == 1 and (rows == tensor_DBG.shape[-1] or tensor_DBG.shape[-2] <= 1)


def _address_and_stride(tensor_DBG: Tensor) -> tuple[int, int]:
    """Return the address of the first row, and the stride between directions in elements (0 without directions)."""
    assert _has_contiguous_rows(tensor_DBG)
    return tensor_DBG.data_ptr(), tensor_DBG.stride(0) if tensor_DBG.dim() == 3 else 0


def _gain_and_bias(tensors: Sequence[Tensor]) -> tuple[Tensor | None, Tensor | None]:
    gain, bias = [None, None, *tensors][-2:]
    return gain, bias
