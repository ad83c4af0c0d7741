"""Matrix products on a CPU, padded to a few recurring shapes, because oneDNN caches a kernel for each shape.

oneDNN computes all products in bfloat16. In float32 it computes only the products of a single step, for which it is
faster than torch's default. Every batch has a different number of rows, so rows are padded (docs/adr/0018).

Shapes: N rows, I inputs, O outputs; D directions may lead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LinearMap = Callable[[Tensor], Tensor]
"""A function from x (N, I) to x W (+ b) (N, O), in any precision."""
MAX_STEP_ROWS = 1024
"""Most rows of a product of a single step; a product with more rows is treated as one of all steps together."""
ROW_MULTIPLE, LARGE_ROW_MULTIPLE = 16, 256
"""The rows of a product are padded to a multiple of the first, or of the second if they are more than
`MAX_STEP_ROWS`."""


def full_precision(tensor: Tensor) -> torch.autocast:
    """Return a context manager that switches autocast off for the device of `tensor`."""
    return torch.autocast(tensor.device.type, enabled=False)


@cache
def has_onednn() -> bool:
    """Return True if this build of torch has oneDNN's product of dense tensors."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def num_padding_rows(num_rows: int, device: torch.device, dtype: torch.dtype) -> int:
    """Return the number of rows of zeros to append to `num_rows` rows of a product; 0 except in bfloat16 on a CPU."""
    if device.type != "cpu" or dtype != torch.bfloat16:
        return 0
    return -num_rows % (ROW_MULTIPLE if num_rows <= MAX_STEP_ROWS else LARGE_ROW_MULTIPLE)


def pad_rows(rows_NI: Tensor) -> Tensor:
    """Return the rows with `num_padding_rows` rows of zeros appended."""
    *directions, num_rows, size = rows_NI.shape
    missing = num_padding_rows(num_rows, rows_NI.device, rows_NI.dtype)
    # Joined and not padded, because torch 2.6 cannot pad a tensor that has no columns.
    return torch.cat((rows_NI, rows_NI.new_zeros(*directions, missing, size)), dim=-2) if missing else rows_NI


def matmul(left_NI: Tensor, right_IO: Tensor) -> Tensor:
    """Return the matrix product left right (N, O), or (D, N, O) for D pairs of matrices, in their dtype."""
    needs_gradient = torch.is_grad_enabled() and (left_NI.requires_grad or right_IO.requires_grad)
    if needs_gradient or left_NI.dim() != right_IO.dim() or not _can_use_onednn(left_NI, right_IO):
        return torch.matmul(pad_rows(left_NI), right_IO)[..., : left_NI.shape[-2], :]
    if left_NI.dim() == 3:
        return torch.stack([_onednn_linear(left, right.t()) for left, right in zip(left_NI, right_IO, strict=True)])
    return _onednn_linear(left_NI, right_IO.t())


def sum_of_outer_products(left_NI: Tensor, right_NO: Tensor) -> Tensor:
    """Return left^T right (I, O) or (D, I, O), the sum of the outer products of all rows; for use without gradients."""
    return torch.matmul(pad_rows(left_NI).transpose(-1, -2), pad_rows(right_NO))


def linear(inputs: Tensor, weight_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """Return x W^T + b (..., O) for inputs (..., I), like `F.linear`; under autocast, in autocast's dtype."""
    rows_NI, device_type = inputs.flatten(0, -2), inputs.device.type
    if torch.is_autocast_enabled(device_type):
        rows_NI = rows_NI.to(torch.get_autocast_dtype(device_type))
    elif not torch.is_grad_enabled() and _can_use_onednn(rows_NI[:MAX_STEP_ROWS], weight_OI):
        return _onednn_linear_by_parts(rows_NI, weight_OI, bias_O).view(*inputs.shape[:-1], -1)
    return F.linear(pad_rows(rows_NI), weight_OI, bias_O)[: len(rows_NI)].view(*inputs.shape[:-1], -1)


def can_pack(weight_OI: Tensor) -> bool:
    """Return True if oneDNN can multiply with this matrix, so that `pack_weight` can be used."""
    return _can_use_onednn(weight_OI[:1], weight_OI)


def pack_weight(weight_OI: Tensor) -> Tensor:
    """Return a copy of a matrix in oneDNN's own layout, for `packed_linear`."""
    copy: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight_OI.detach().contiguous(), ROW_MULTIPLE)
    return copy


def packed_linear(inputs: Tensor, packed_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """Return what `linear` returns, to the last bit, for float32 inputs (..., I) and a matrix from `pack_weight`.

    This saves laying out the matrix anew for each product. No gradient is recorded.
    """
    rows_NI = inputs.flatten(0, -2)
    return _onednn_linear_by_parts(rows_NI, packed_OI, bias_O).view(*inputs.shape[:-1], -1)


class Linear(nn.Linear):
    """An `nn.Linear` that computes its product with `linear`, or by the `replacement` of a model that only
    translates."""

    replacement: LinearMap | None = None

    def forward(self, inputs: Tensor) -> Tensor:
        if self.replacement is not None:
            return self.replacement(inputs)
        return linear(inputs, self.weight, self.bias)


def _can_use_onednn(rows_NI: Tensor, matrix: Tensor) -> bool:
    """Return True if oneDNN is used for the product: at most `MAX_STEP_ROWS` rows in float32 on a CPU, and a matrix
    whose rows or columns are contiguous."""
    return (
        rows_NI.device.type == "cpu"
        and rows_NI.dtype == matrix.dtype == torch.float32
        and rows_NI.dim() <= 3
        and 0 < rows_NI.shape[-2] <= MAX_STEP_ROWS
        and 1 in matrix.stride()[-2:]
        and 0 not in matrix.stride()
        and matrix.numel() > 0
        and has_onednn()
    )


def _onednn_linear_by_parts(rows_NI: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
    """Return x W^T + b for any number of rows.

    More than `MAX_STEP_ROWS` rows are cut into parts: the library that is faster for them rounds differently
    (docs/adr/0005).
    """
    products = [_onednn_linear(part_NI, weight_OI, bias_O) for part_NI in rows_NI.split(MAX_STEP_ROWS)]
    return products[0] if len(products) == 1 else torch.cat(products)


def _onednn_linear(rows_NI: Tensor, matrix_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    num_rows = len(rows_NI)
    # oneDNN keeps half a megabyte for each shape that it has seen, so there are eight between two powers of two.
    missing = -num_rows % max(ROW_MULTIPLE, (1 << (num_rows - 1).bit_length()) // 16)
    padded = F.pad(rows_NI, (0, 0, 0, missing)) if missing else rows_NI.contiguous()
    product: Tensor = torch.ops.mkldnn._linear_pointwise(padded, matrix_OI, bias_O, "none", [], "")
    return product[:num_rows]
