"""Matrix products of a model that only translates: in bfloat16, in int8, or in float32 with a faster layout.

All other parts of the model stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from time import perf_counter

import torch
from torch import Tensor

from nmt_cli.model.seq2seq import Seq2Seq
from nmt_cli.ops.loop_product import LoopModule
from nmt_cli.ops.matmul import Linear, LinearMap, can_pack, has_onednn, linear, pack_weight, packed_linear

MIN_MATRIX_SIDE = 64
"""Least number of rows and of columns at which a matrix is worth converting; smaller ones gain nothing."""
MAX_EXACT_PRODUCTS = 2**24 // 127**2
"""Number of products of two int8 numbers whose sum float32 always holds exactly, in any order of addition."""


class Fp32Product:
    """x W + b in float32, bit for bit equal to `linear`, with W in the layout in which it is multiplied fastest."""

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None) -> None:
        """Copy `weight_OI` (outputs, inputs) into oneDNN's layout."""
        self.weight_OI, self.bias_O = weight_OI, bias_O
        self._packed_OI = pack_weight(weight_OI)

    @classmethod
    def of(cls, weight_IO: Tensor, bias_O: Tensor | None = None) -> Fp32Product:
        """Return the product with the matrix `weight_IO` (inputs, outputs)."""
        return cls(weight_IO.t(), bias_O)

    def columns(self, outputs: Tensor) -> LinearMap:
        """Return the product restricted to the outputs with the given numbers."""
        bias_O = None if self.bias_O is None else self.bias_O[outputs]
        return partial(linear, weight_OI=self.weight_OI[outputs], bias_O=bias_O)

    def __call__(self, inputs: Tensor) -> Tensor:
        return packed_linear(inputs, self._packed_OI, self.bias_O)


class Bf16Product:
    """x W + b with x and W in bfloat16, cast once and not at every step."""

    def __init__(self, weight_IO: Tensor, bias_O: Tensor | None) -> None:
        """Store `weight_IO` (inputs, outputs), which is in bfloat16."""
        self.weight_IO, self.bias_O = weight_IO, bias_O

    @classmethod
    def of(cls, weight_IO: Tensor, bias_O: Tensor | None = None) -> Bf16Product:
        """Return the product with the matrix `weight_IO` (inputs, outputs), which is in float32."""
        return cls(weight_IO.to(torch.bfloat16).contiguous(), bias_O)

    def columns(self, outputs: Tensor) -> Bf16Product:
        """Return the product restricted to the outputs with the given numbers."""
        return Bf16Product(self.weight_IO[:, outputs], None if self.bias_O is None else self.bias_O[outputs])

    def __call__(self, inputs: Tensor) -> Tensor:
        product = torch.matmul(inputs.to(torch.bfloat16), self.weight_IO)
        # One pass casts and adds: the largest of these tensors has a number for every piece of the vocabulary.
        return product.to(inputs.dtype) if self.bias_O is None else torch.add(product, self.bias_O)


@cache
def has_fast_int8() -> bool:
    """Return True if int8 matrix products are faster than float32 ones on this machine, as a trial shows.

    On a processor without instructions for them (VNNI, AMX), torch takes some twenty times as long for int8. Without
    oneDNN there is no trial, and int8 is used.
    """
    if not has_onednn():
        return True
    left_NI, weight_OI = torch.ones(64, 256, dtype=torch.int8), torch.ones(512, 256, dtype=torch.int8)
    floats_NI, packed_OI = left_NI.float(), pack_weight(weight_OI.float())

    def seconds(product: Callable[[], Tensor]) -> float:
        began = perf_counter()
        product()
        return perf_counter() - began

    int8 = min(seconds(lambda: torch._int_mm(left_NI, weight_OI.t())) for _ in range(4))
    return int8 < min(seconds(lambda: packed_linear(floats_NI, packed_OI)) for _ in range(4))


class Int8Product:
    """x W + b with x and W in int8, summed in int32.

    Weights have a scale for each column. Inputs are quantised at every product with a scale for each row, so that a
    sentence does not depend on its neighbours.

    Where float32 products are faster, they add up the same integers, without rounding.
    """

    def __init__(self, weight_OI: Tensor, scale_O: Tensor, bias_O: Tensor | None) -> None:
        """Store `weight_OI` (outputs, inputs), which is in int8; the product is fastest in this layout."""
        self.weight_OI, self.scale_O, self.bias_O = weight_OI, scale_O, bias_O
        self._packed_parts: list[Tensor] = []
        if weight_OI.numel() and not has_fast_int8():
            self._packed_parts = [pack_weight(part.float()) for part in weight_OI.split(MAX_EXACT_PRODUCTS, dim=1)]

    @classmethod
    def of(cls, weight_IO: Tensor, bias_O: Tensor | None = None) -> Int8Product:
        """Return the product with the matrix `weight_IO` (inputs, outputs), which is in float32."""
        scale_O = weight_IO.abs().amax(dim=0).clamp(min=1e-12) / 127.0
        return cls((weight_IO / scale_O).round().to(torch.int8).t().contiguous(), scale_O, bias_O)

    def columns(self, outputs: Tensor) -> Int8Product:
        """Return the product restricted to the outputs with the given numbers."""
        bias_O = None if self.bias_O is None else self.bias_O[outputs]
        return Int8Product(self.weight_OI[outputs], self.scale_O[outputs], bias_O)

    def __call__(self, inputs: Tensor) -> Tensor:
        rows_NI = inputs.reshape(-1, inputs.shape[-1])
        scale_N1 = rows_NI.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / 127.0
        product_NO = self._sums((rows_NI / scale_N1).round()).mul_(scale_N1)
        if self.bias_O is None:
            product_NO.mul_(self.scale_O)
        else:
            product_NO = torch.addcmul(self.bias_O, product_NO, self.scale_O)
        return product_NO.view(*inputs.shape[:-1], -1)

    def _sums(self, integers_NI: Tensor) -> Tensor:
        """Return the product (N, O) of whole numbers with the int8 weights, rounded once to float32."""
        if not self._packed_parts:
            return torch._int_mm(integers_NI.to(torch.int8), self.weight_OI.t()).to(integers_NI.dtype)
        parts = zip(integers_NI.split(MAX_EXACT_PRODUCTS, dim=1), self._packed_parts, strict=True)
        sums = [packed_linear(part_NI, packed_OI) for part_NI, packed_OI in parts]
        return sums[0] if len(sums) == 1 else torch.stack(sums).double().sum(0).float()


class _DirectionProducts:
    """x W for inputs (directions, rows, features) of a recurrent layer, with another matrix W for each direction."""

    def __init__(self, products: list[LinearMap]) -> None:
        self._products = products

    def __call__(self, inputs_DBI: Tensor) -> Tensor:
        return torch.stack([product(part) for product, part in zip(self._products, inputs_DBI, strict=True)])


def is_large(weight: Tensor) -> bool:
    """Return True if a matrix is large enough to gain from conversion.

    `convert_precision` converts the matrices of cells, queries and the output vocabulary whatever their size.
    """
    return min(weight.shape) >= MIN_MATRIX_SIDE


def convert_precision(model: Seq2Seq, precision: str) -> Seq2Seq:
    """Return the model, changed in place for translation: its products in fp32, bf16 or int8, the rest as it is.

    fp32 changes no result. On a CPU its products are faster, but need memory for a copy of the matrices.
    """
    if precision == "fp32" and not can_pack(model.output_weight):
        return model
    kinds: dict[str, type[Fp32Product | Bf16Product | Int8Product]]
    kinds = {"fp32": Fp32Product, "bf16": Bf16Product, "int8": Int8Product}
    make = kinds[precision].of
    for part in model.modules():
        if isinstance(part, Linear) and is_large(part.weight):
            part.replacement = make(part.weight.detach().t(), None if part.bias is None else part.bias.detach())
        elif isinstance(part, LoopModule) and len(part.matrix):
            matrix = part.matrix.detach()
            part.replacement = make(matrix) if matrix.dim() == 2 else _DirectionProducts([make(one) for one in matrix])
    model.output_replacement = make(model.output_weight.detach().t(), model.output_bias.detach())
    if precision == "int8":
        for table in {id(table): table for table in (model.source_embedding, model.target_embedding)}.values():
            if is_large(table):
                table.data = rounded_rows(table.detach())
    return model


def rounded_rows(table_VE: Tensor) -> Tensor:
    """Return an embedding table with each row rounded to int8 numbers times a scale of the row.

    Products that take an embedding as input do not change, because they round their inputs in this way. Only the
    lexical model, which adds embeddings as they are, does. So an exported copy of the model needs only the int8 numbers
    to translate the same.
    """
    product = Int8Product.of(table_VE.t())
    return product.weight_OI * product.scale_O.unsqueeze(1)
