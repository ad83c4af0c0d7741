"""Translation in less than float32: the products with matrices in bfloat16 or int8, everything else as it is."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nmt_cli.model.attention import AdditiveScore
from nmt_cli.model.cells import InputProjection, Product, RecurrentCell
from nmt_cli.model.seq2seq import Seq2Seq

SMALLEST = 64
"""Matrices with a side below this gain nothing."""


class Bf16Product:
    """x W + b with x and W in bfloat16, cast once and not at every step."""

    def __init__(self, weight_IO: Tensor, bias_O: Tensor | None) -> None:
        """`weight_IO` is (inputs, outputs) in bfloat16."""
        self._weight_IO, self._bias_O = weight_IO, bias_O

    @classmethod
    def of(cls, weight_IO: Tensor, bias_O: Tensor | None = None) -> Bf16Product:
        """The product with a matrix in float32."""
        return cls(weight_IO.to(torch.bfloat16).contiguous(), bias_O)

    def columns(self, outputs: Tensor) -> Bf16Product:
        """The product that gives some of the outputs."""
        return Bf16Product(self._weight_IO[:, outputs], None if self._bias_O is None else self._bias_O[outputs])

    def __call__(self, inputs: Tensor) -> Tensor:
        product = torch.matmul(inputs.to(torch.bfloat16), self._weight_IO)
        # One pass casts and adds: the largest of these tensors has a number for every piece of the vocabulary.
        return product.to(inputs.dtype) if self._bias_O is None else torch.add(product, self._bias_O)


class Int8Product:
    """x W + b with x and W in int8, summed in int32: weights with a scale a column; inputs quantised at every product
    with a scale a row, so that a sentence does not depend on its neighbours."""

    def __init__(self, weight_OI: Tensor, scale_O: Tensor, bias_O: Tensor | None) -> None:
        """`weight_OI` is (outputs, inputs) in int8, the layout in which the product is fastest."""
        self._weight_OI, self._scale_O, self._bias_O = weight_OI, scale_O, bias_O

    @classmethod
    def of(cls, weight_IO: Tensor, bias_O: Tensor | None = None) -> Int8Product:
        """The product with a matrix in float32."""
        scale_O = weight_IO.abs().amax(dim=0).clamp(min=1e-12) / 127.0
        return cls((weight_IO / scale_O).round().to(torch.int8).t().contiguous(), scale_O, bias_O)

    def columns(self, outputs: Tensor) -> Int8Product:
        """The product that gives some of the outputs."""
        bias_O = None if self._bias_O is None else self._bias_O[outputs]
        return Int8Product(self._weight_OI[outputs], self._scale_O[outputs], bias_O)

    def __call__(self, inputs: Tensor) -> Tensor:
        rows_NI = inputs.reshape(-1, inputs.shape[-1])
        scale_N1 = rows_NI.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / 127.0
        quantised_NI = (rows_NI / scale_N1).round().to(torch.int8)
        product_NO = torch._int_mm(quantised_NI, self._weight_OI.t()).to(inputs.dtype).mul_(scale_N1)
        if self._bias_O is None:
            product_NO.mul_(self._scale_O)
        else:
            product_NO = torch.addcmul(self._bias_O, product_NO, self._scale_O)
        return product_NO.view(*inputs.shape[:-1], -1)


class _EachDirection:
    """x W of several directions, each with its own product."""

    def __init__(self, products: list[Product]) -> None:
        self._products = products

    def __call__(self, inputs_DBI: Tensor) -> Tensor:
        return torch.stack([product(part) for product, part in zip(self._products, inputs_DBI, strict=True)])


class _Linear(nn.Module):
    """An `nn.Linear` with another product."""

    def __init__(self, product: Product) -> None:
        super().__init__()
        self._product = product

    def forward(self, inputs: Tensor) -> Tensor:
        return self._product(inputs)


def in_precision(model: Seq2Seq, precision: str) -> Seq2Seq:
    """The model, changed in place, with its products in bf16 or int8 and the rest as it is; fp32 changes nothing."""
    if precision not in ("bf16", "int8"):
        return model
    make = Bf16Product.of if precision == "bf16" else Int8Product.of
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear) and min(child.weight.shape) >= SMALLEST:
                bias = None if child.bias is None else child.bias.detach()
                setattr(parent, name, _Linear(make(child.weight.detach().t(), bias)))
        if isinstance(parent, (InputProjection, RecurrentCell)) and len(parent.weight):
            weight = parent.weight.detach()
            parent.quantised = make(weight) if weight.dim() == 2 else _EachDirection([make(part) for part in weight])
        if isinstance(parent, AdditiveScore):
            parent.quantised = make(parent.query.detach())
    model.quantised_output = make(model.output_weight.detach().t(), model.output_bias.detach())
    return model
