"""Matrix products on a CPU in shapes that come again, those in float32 by oneDNN where it is faster than torch.

oneDNN makes all products in bfloat16, and those of a step in float32. For every new shape it makes a kernel and keeps
parts of it for good, and every batch has other numbers of rows: so rows are padded (docs/adr/0018).

Shapes: N rows, I inputs, O outputs; D directions may lead.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

MOST_ROWS = 1024
"""Of a step; more are those of all steps together."""
MULTIPLE, MULTIPLE_OF_MANY = 16, 256
"""To which the rows of a step are padded, and those of all steps."""


@cache
def has_onednn() -> bool:
    """Whether this build of torch has oneDNN's product of dense tensors."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def missing_rows(num_rows: int, device: torch.device, dtype: torch.dtype) -> int:
    """How many rows of zeros a product in this dtype wants below so many."""
    if device.type != "cpu" or dtype != torch.bfloat16:
        return 0
    return -num_rows % (MULTIPLE if num_rows <= MOST_ROWS else MULTIPLE_OF_MANY)


def with_missing_rows(rows_NI: Tensor) -> Tensor:
    """The rows with those zeros."""
    *directions, num_rows, size = rows_NI.shape
    missing = missing_rows(num_rows, rows_NI.device, rows_NI.dtype)
    # Joined, not padded: torch 2.6 does not pad what has no columns.
    return torch.cat((rows_NI, rows_NI.new_zeros(*directions, missing, size)), dim=-2) if missing else rows_NI


def matmul(left_NI: Tensor, right_IO: Tensor) -> Tensor:
    """left right (N, O), or (D, N, O) of as many pairs, in their dtype; for autograd a constant."""
    if left_NI.dim() != right_IO.dim() or not _is_for_onednn(left_NI, right_IO):
        return torch.matmul(with_missing_rows(left_NI), right_IO)[..., : left_NI.shape[-2], :]
    if left_NI.dim() == 3:
        return torch.stack([_onednn(left, right.t()) for left, right in zip(left_NI, right_IO, strict=True)])
    return _onednn(left_NI, right_IO.t())


def summed_outer(left_NI: Tensor, right_NO: Tensor) -> Tensor:
    """left^T right (I, O), the sum of all rows' outer products, or (D, I, O); for autograd a constant."""
    return torch.matmul(with_missing_rows(left_NI).transpose(-1, -2), with_missing_rows(right_NO))


def linear(inputs: Tensor, weight_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """`F.linear`: x W^T + b of (..., I); in bfloat16 where autocast says so."""
    rows_NI, device_type = inputs.flatten(0, -2), inputs.device.type
    if torch.is_autocast_enabled(device_type):
        rows_NI = rows_NI.to(torch.get_autocast_dtype(device_type))
    elif not torch.is_grad_enabled() and _is_for_onednn(rows_NI, weight_OI):
        return _onednn(rows_NI, weight_OI, bias_O).view(*inputs.shape[:-1], -1)
    return F.linear(with_missing_rows(rows_NI), weight_OI, bias_O)[: len(rows_NI)].view(*inputs.shape[:-1], -1)


class Linear(nn.Linear):
    """An `nn.Linear` by `linear`."""

    def forward(self, inputs: Tensor) -> Tensor:
        return linear(inputs, self.weight, self.bias)


def _is_for_onednn(rows_NI: Tensor, matrix: Tensor) -> bool:
    """Few rows in float32 on a CPU; rows or columns of the matrix must stand side by side."""
    return (
        rows_NI.device.type == "cpu"
        and rows_NI.dtype == matrix.dtype == torch.float32
        and rows_NI.dim() <= 3
        and 0 < rows_NI.shape[-2] <= MOST_ROWS
        and 1 in matrix.stride()[-2:]
        and 0 not in matrix.stride()
        and matrix.numel() > 0
        and has_onednn()
    )


def _onednn(rows_NI: Tensor, matrix_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    num_rows, missing = len(rows_NI), -len(rows_NI) % MULTIPLE
    padded = F.pad(rows_NI, (0, 0, 0, missing)) if missing else rows_NI.contiguous()
    product: Tensor = torch.ops.mkldnn._linear_pointwise(padded, matrix_OI, bias_O, "none", [], "")
    return product[:num_rows]
