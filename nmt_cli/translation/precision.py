"""Translation in less than float32: the decoder's matrix products in bfloat16 or int8, everything else as it is."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from nmt_cli.model.attention import AdditiveScore
from nmt_cli.model.cells import InputProjection, Product, RecurrentCell
from nmt_cli.model.seq2seq import Seq2Seq

SMALLEST = 64
"""Matrices with a side below this gain nothing."""


class Bf16Product:
    """x W with both in bfloat16, cast once and not at every step."""

    def __init__(self, weight_IO: Tensor) -> None:
        """`weight_IO` is (inputs, outputs)."""
        self._weight_IO = weight_IO.to(torch.bfloat16).contiguous()

    def __call__(self, inputs: Tensor) -> Tensor:
        return torch.matmul(inputs.to(torch.bfloat16), self._weight_IO).to(inputs.dtype)


class Int8Product:
    """x W with both in int8, summed in int32: weights with a scale a column; inputs quantised at every product with a
    scale a row, so that a sentence does not depend on its neighbours."""

    def __init__(self, weight_IO: Tensor) -> None:
        """`weight_IO` is (inputs, outputs)."""
        scale_O = weight_IO.abs().amax(dim=0).clamp(min=1e-12) / 127.0
        quantised_IO = (weight_IO / scale_O).round().to(torch.int8)
        self._weight_IO = quantised_IO.t().contiguous().t()  # the layout in which the product is fastest
        self._scale_O = scale_O

    def __call__(self, inputs: Tensor) -> Tensor:
        rows_NI = inputs.reshape(-1, inputs.shape[-1])
        scale_N1 = rows_NI.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / 127.0
        quantised_NI = (rows_NI / scale_N1).round().to(torch.int8)
        product_NO: Tensor = torch._int_mm(quantised_NI, self._weight_IO).to(inputs.dtype) * scale_N1 * self._scale_O
        return product_NO.view(*inputs.shape[:-1], -1)


class _Linear(nn.Module):
    """An `nn.Linear` with another product."""

    def __init__(self, linear: nn.Linear, make: Callable[[Tensor], Product]) -> None:
        super().__init__()
        self._product = make(linear.weight.detach().t())
        self._bias = linear.bias

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = self._product(inputs)
        return outputs if self._bias is None else outputs + self._bias


def in_precision(model: Seq2Seq, precision: str) -> Seq2Seq:
    """The model, changed in place, with the products of its decoder and vocabulary in bf16 or int8; fp32 changes none.

    The encoder runs once a sentence and stays in float32.
    """
    if precision not in ("bf16", "int8"):
        return model
    make: Callable[[Tensor], Product] = Bf16Product if precision == "bf16" else Int8Product
    for parent in list(model.decoder.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear) and min(child.weight.shape) >= SMALLEST:
                setattr(parent, name, _Linear(child, make))
        if isinstance(parent, (InputProjection, RecurrentCell)) and len(parent.weight):
            parent.quantised = make(parent.weight.detach())
        if isinstance(parent, AdditiveScore):
            parent.quantised = make(parent.query.detach())
    model.quantised_output = make(model.output_weight.detach().t())
    return model
