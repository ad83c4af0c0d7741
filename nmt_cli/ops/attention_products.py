"""Weighted sums of the annotations and inner products with the keys, at every step of one loop.

Both are computed without autocast: they are limited by memory, not by arithmetic. Without gradients, `rows` consecutive
rows of weights or queries may share a source.

Shapes: B batch, N rows of which R share a source, S source, C annotation, A attention, T steps.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from nmt_cli.ops.deferred_gradients import defer_gradients
from nmt_cli.ops.matmul import full_precision


class WeightedSums:
    """The weighted sums c_t = sum_j alpha_tj h_j at the steps t of one loop."""

    def __init__(self, values_BSC: Tensor, rows: int = 1) -> None:
        self._rows = rows
        self._steps: list[tuple[Tensor, Tensor]] = []
        (self._shared_BSC,) = defer_gradients(partial(_sum_of_outer_products, self._steps), values_BSC)

    def __call__(self, weights_BS: Tensor) -> Tensor:
        """Return the contexts (B, C) of a step from its attention weights."""
        with full_precision(weights_BS):
            if not torch.is_grad_enabled():
                return weighted_sum(weights_BS, self._shared_BSC, self._rows)
            context_BC: Tensor = _WeightedSumStep.apply(weights_BS, self._shared_BSC, self._steps)  # type: ignore[no-untyped-call]
        return context_BC


class InnerProducts:
    """The inner products e_tj = k_j . q_t at the steps t of one loop."""

    def __init__(self, keys_BSA: Tensor, rows: int = 1) -> None:
        self._rows = rows
        self._steps: list[tuple[Tensor, Tensor]] = []
        (self._shared_BSA,) = defer_gradients(partial(_sum_of_outer_products, self._steps), keys_BSA)

    def __call__(self, query_BA: Tensor) -> Tensor:
        """Return the energies (B, S) of a step from its query."""
        with full_precision(query_BA):
            if not torch.is_grad_enabled():
                return inner_products(self._shared_BSA, query_BA, self._rows)
            energy_BS: Tensor = _InnerProductStep.apply(query_BA, self._shared_BSA, self._steps)  # type: ignore[no-untyped-call]
        return energy_BS


def weighted_sum(weights_NS: Tensor, values_BSC: Tensor, rows: int = 1) -> Tensor:
    """Return sum_j alpha_j h_j (N, C) for each row of the weights; for use without gradients."""
    weights_BRS = group_by_source(weights_NS, values_BSC.shape[0], rows)
    return bmm(weights_BRS, values_BSC).flatten(0, 1)[: weights_NS.shape[0]]


def inner_products(keys_BSA: Tensor, query_NA: Tensor, rows: int = 1) -> Tensor:
    """Return k_j . q (N, S) for each row of the query and each position j of its source; for use without gradients.

    The query is the left factor: `bmm(keys, query)` takes fourteen times as long on CPUs.
    """
    query_BRA = group_by_source(query_NA, keys_BSA.shape[0], rows)
    energy_BRS = torch.bmm(_pad_columns(query_BRA), _pad_columns(keys_BSA).transpose(1, 2))
    return energy_BRS.flatten(0, 1)[: query_NA.shape[0]]


def bmm(left_BRS: Tensor, right_BSC: Tensor) -> Tensor:
    """Return the batched matrix product (B, R, C), like `torch.bmm`.

    Without gradients, each product of the batch depends to the last bit on its own two matrices alone (docs/adr/0005),
    if S is a multiple of 16.
    """
    if torch.is_grad_enabled():
        return torch.bmm(left_BRS, right_BSC)
    return torch.bmm(left_BRS, _pad_columns(right_BSC))[..., : right_BSC.shape[-1]]


def _pad_columns(rows_BSC: Tensor) -> Tensor:
    """Return the rows padded with zeros to at least 32 numbers and a multiple of 4.

    With other sizes, the order in which torch sums the numbers of a row depends on the position of the row in memory.
    Torch also computes a product of fewer than 400 multiplications by a separate loop.
    """
    missing = max(-rows_BSC.shape[-1] % 4, 32 - rows_BSC.shape[-1])
    return F.pad(rows_BSC, (0, missing)) if missing > 0 else rows_BSC


def group_by_source(rows_NX: Tensor, num_sources: int, rows: int) -> Tensor:
    """Return rows (N, X) as (B, R, X): `rows` consecutive rows for each source, with zeros where rows are missing at
    the end."""
    missing = num_sources * rows - rows_NX.shape[0]
    return (F.pad(rows_NX, (0, 0, 0, missing)) if missing else rows_NX).view(num_sources, rows, -1)


def _sum_of_outer_products(steps: list[tuple[Tensor, Tensor]]) -> tuple[Tensor]:
    """Return sum_t a_t b_t^T (B, S, C) for the pairs a_t (B, S) and b_t (B, C) of all steps t, and clear `steps`."""
    left_BST, right_BTC = torch.stack([left for left, _ in steps], 2), torch.stack([right for _, right in steps], 1)
    steps.clear()
    return (torch.bmm(left_BST, right_BTC),)


def _weighted_sum_step(weights_BS: Tensor, values_BSC: Tensor) -> Tensor:
    return torch.bmm(weights_BS.unsqueeze(1), values_BSC).squeeze(1)


def _inner_product_step(keys_BSA: Tensor, query_BA: Tensor) -> Tensor:
    return torch.bmm(query_BA.unsqueeze(1), keys_BSA.transpose(1, 2)).squeeze(1)


class _WeightedSumStep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights_BS: Tensor, values_BSC: Tensor, steps: list[tuple[Tensor, Tensor]]) -> Tensor:
        ctx.save_for_backward(weights_BS, values_BSC)
        ctx.steps = steps
        return _weighted_sum_step(weights_BS, values_BSC)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_BC: Tensor) -> tuple[Tensor, None, None]:
        weights_BS, values_BSC = ctx.saved_tensors
        ctx.steps.append((weights_BS, gradient_BC))
        return _inner_product_step(values_BSC, gradient_BC), None, None


class _InnerProductStep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query_BA: Tensor, keys_BSA: Tensor, steps: list[tuple[Tensor, Tensor]]) -> Tensor:
        ctx.save_for_backward(query_BA, keys_BSA)
        ctx.steps = steps
        return _inner_product_step(keys_BSA, query_BA)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_BS: Tensor) -> tuple[Tensor, None, None]:
        query_BA, keys_BSA = ctx.saved_tensors
        ctx.steps.append((gradient_BS, query_BA))
        return _weighted_sum_step(gradient_BS, keys_BSA), None, None
