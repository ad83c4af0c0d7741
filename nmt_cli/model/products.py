"""The products of a step: of few rows with a matrix, again and again.

In float32 on a CPU they are made by oneDNN, which is faster there than what torch takes (docs/adr/0018).

Shapes: N rows, I inputs, O outputs; D directions may lead.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

MOST_ROWS = 1024
"""More are not of a step; their number is another every time, and oneDNN would make and keep a kernel for each."""
MULTIPLE = 16
"""Rows are padded to such, so that few kernels serve all batches."""


@cache
def has_onednn() -> bool:
    """Whether this build of torch has oneDNN's product of dense tensors."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def matmul(left_NI: Tensor, right_IO: Tensor) -> Tensor:
    """left right (N, O), or (D, N, O) of as many pairs, in their dtype; for autograd a constant."""
    if left_NI.dim() != right_IO.dim() or left_NI.dim() > 3 or not _is_for_onednn(left_NI, right_IO):
        return torch.matmul(left_NI, right_IO)
    if left_NI.dim() == 3:
        return torch.stack([_onednn(left, right.t()) for left, right in zip(left_NI, right_IO, strict=True)])
    return _onednn(left_NI, right_IO.t())


def linear(inputs: Tensor, weight_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """`F.linear`: x W^T + b of (..., I); in bfloat16 where autocast says so."""
    rows_NI = inputs.flatten(0, -2)
    autocasts = torch.is_autocast_enabled(inputs.device.type)
    if torch.is_grad_enabled() or autocasts or not _is_for_onednn(rows_NI, weight_OI):
        return F.linear(inputs, weight_OI, bias_O)
    product: Tensor = _onednn(rows_NI, weight_OI, bias_O).unflatten(0, inputs.shape[:-1])
    return product


class Linear(nn.Linear):
    """An `nn.Linear` by `linear`."""

    def forward(self, inputs: Tensor) -> Tensor:
        return linear(inputs, self.weight, self.bias)


def _is_for_onednn(rows_NI: Tensor, matrix: Tensor) -> bool:
    """Few rows in float32 on a CPU; rows or columns of the matrix must stand side by side."""
    return (
        rows_NI.device.type == "cpu"
        and rows_NI.dtype == matrix.dtype == torch.float32
        and 0 < rows_NI.shape[-2] <= MOST_ROWS
        and 1 in matrix.stride()[-2:]
        and 0 not in matrix.stride()
        and matrix.numel() > 0
        and has_onednn()
    )


def _onednn(rows_NI: Tensor, matrix_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    num_rows, missing = len(rows_NI), -len(rows_NI) % MULTIPLE
    padded_PI = F.pad(rows_NI, (0, 0, 0, missing)) if missing else rows_NI.contiguous()
    product_PO: Tensor = torch.ops.mkldnn._linear_pointwise(padded_PI, matrix_OI, bias_O, "none", [], "")
    return product_PO[:num_rows]
