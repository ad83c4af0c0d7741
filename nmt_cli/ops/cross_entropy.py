"""Cross-entropy of a projection to the vocabulary, `cross_entropy`, by formula or compiled kernel.

The logits of a batch are by far its largest tensor, and are needed only to compute one number and a gradient. So they
are computed chunk by chunk, and never all held at the same time.

Shapes: N positions, R readout, V vocabulary, C candidates, K chunks of rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from nmt_cli.ops import native
from nmt_cli.ops.matmul import matmul, sum_of_outer_products

ROWS_AT_ONCE = 512
"""Number of target positions whose logits are in memory at the same time."""
ROWS_AT_ONCE_CUDA = 4096
"""The same number on a GPU, where the launch of a kernel takes longer than its work on a few rows."""
_KERNEL = native.Kernel(
    "loss", native.SIZE, native.SIZE, native.COUNT, *[native.POINTER] * 3, native.REAL, *[native.POINTER] * 4
)


class Candidates(NamedTuple):
    """The pieces of the vocabulary over which a softmax is computed, including all targets."""

    pieces_C: Tensor
    log_weights_C: Tensor
    """The logarithm of the number of pieces that each candidate represents."""
    target_indices_N: Tensor
    """The index of each target in `pieces_C`."""


def negative_log_likelihood(logits_NV: Tensor, targets_N: Tensor) -> tuple[Tensor, Tensor]:
    """Return -log p(y) = log sum_v exp(l_v) - l_y for each row (N), in nats, and the logit l_y (N) of its target."""
    logits_NV = logits_NV if logits_NV.dtype == torch.float64 else logits_NV.float()
    chosen_N = logits_NV.gather(1, targets_N.unsqueeze(1)).squeeze(1)
    return logits_NV.logsumexp(dim=-1) - chosen_N, chosen_N


def cross_entropy(
    readout_NR: Tensor,
    weight_VR: Tensor,
    bias_V: Tensor,
    targets_N: Tensor,
    smoothing: float,
    valid_N: Tensor | None = None,
    candidates: Candidates | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the loss and the negative log-likelihood, both sums over rows in nats, with the logits W r + b.

    The loss of a row is (1 - eps) * -log p(y) + eps * mean_v -log p(v), where eps is `smoothing` (Szegedy et al., 2016,
    section 7); the negative log-likelihood is -log p(y). Only the loss carries a gradient.

    Rows where `valid_N` is False do not count, whatever they hold. Under autocast the products are in bfloat16. With
    `candidates` the normalizer is the sum of exp(logit) over the candidates, each times its weight (after Jean et al.,
    2015, section 3); the mean over the vocabulary that label smoothing needs is exact.
    """
    device_type = readout_NR.device.type
    valid_N1 = None
    if valid_N is not None:
        readout_NR = readout_NR.masked_fill(~valid_N.unsqueeze(1), 0.0)  # so that such a row adds nothing to a product
        valid_N1 = valid_N.unsqueeze(1).to(readout_NR.dtype)
    bf16 = torch.is_autocast_enabled(device_type)
    with torch.autocast(device_type, enabled=False):
        total, nll = _ChunkedCrossEntropy.apply(  # type: ignore[no-untyped-call]
            readout_NR, weight_VR, bias_V, targets_N, valid_N1, smoothing, bf16, candidates
        )
    return total, nll


class _ChunkedCrossEntropy(torch.autograd.Function):
    """`cross_entropy`, with its gradient computed along with the loss.

    The loss is a sum, so the gradient with respect to the logits, softmax - target, is known as soon as the logits are.
    The products with this gradient are computed at once and scaled in the backward pass. The smoothed target gives
    every piece the share eps / V; this part of the gradient is computed without the logits, as a product of sums.

    `valid_N1` is 1 on rows that count and 0 on other rows, whose readout must be zero; None if all rows count.
    """

    @staticmethod
    def forward(
        ctx: Any, readout_NR: Tensor, weight_VR: Tensor, bias_V: Tensor, targets_N: Tensor, valid_N1: Tensor | None,
        smoothing: float, bf16: bool, candidates: Candidates | None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        at_once = ROWS_AT_ONCE if readout_NR.device.type == "cpu" else ROWS_AT_ONCE_CUDA
        product_type = torch.bfloat16 if bf16 else readout_NR.dtype
        weight_CR, bias_C = weight_VR, bias_V
        if candidates is not None:
            weight_CR, targets_N = weight_VR[candidates.pieces_C], candidates.target_indices_N
            bias_C = bias_V[candidates.pieces_C] + candidates.log_weights_C
        weight_product_CR = weight_CR.to(product_type)
        grad_readout_NR, grad_weight_CR = torch.empty_like(readout_NR), torch.zeros_like(weight_CR)
        sums = readout_NR.new_zeros(2)
        softmax = (_KernelSoftmax if native.has_kernels_for(readout_NR) else _FormulaSoftmax)(bias_C, len(targets_N))
        for start in range(0, len(targets_N), at_once):
            rows = slice(start, start + at_once)
            readout = readout_NR[rows].to(product_type)
            counted_N1 = None if valid_N1 is None else valid_N1[rows]
            grad_NC, found = softmax.gradient(readout, weight_product_CR, targets_N[rows], counted_N1, smoothing)
            sums += found
            grad_readout_NR[rows] = matmul(grad_NC, weight_product_CR)
            grad_weight_CR += sum_of_outer_products(grad_NC, readout)
            del grad_NC  # the next chunk's logits take its place, memory that stays in the cache
        nll, chosen = sums.unbind()
        grad_weight_VR, grad_bias_V = grad_weight_CR, softmax.bias_gradient()
        if candidates is not None:
            grad_weight_VR = torch.zeros_like(weight_VR).index_copy_(0, candidates.pieces_C, grad_weight_CR)
            grad_bias_V = torch.zeros_like(bias_V).index_copy_(0, candidates.pieces_C, grad_bias_V)
        total = nll.clone()
        if smoothing:
            share, sum_R, mean_R = smoothing / len(bias_V), readout_NR.sum(dim=0), weight_VR.mean(dim=0)
            count = len(targets_N) if valid_N1 is None else valid_N1.sum()
            grad_readout_NR -= smoothing * mean_R
            grad_weight_VR -= share * sum_R
            grad_bias_V -= share * count
            total += smoothing * (chosen - torch.dot(sum_R, mean_R) - count * bias_V.mean())
        ctx.save_for_backward(grad_readout_NR, grad_weight_VR, grad_bias_V)
        ctx.mark_non_differentiable(nll)
        return total, nll

    @staticmethod
    def backward(ctx: Any, grad_total: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        return (*(gradient * grad_total for gradient in ctx.saved_tensors), None, None, None, None, None)


class _KernelSoftmax:
    """Computes the loss's gradient with respect to the logits, with the compiled kernel, and sums it for the bias."""

    def __init__(self, bias_V: Tensor, num_rows: int) -> None:
        self._bias_V = bias_V
        self._gradient_KV = bias_V.new_zeros(native.num_chunks(num_rows, len(bias_V)), len(bias_V))

    def gradient(
        self, readout_NR: Tensor, weight_VR: Tensor, targets_N: Tensor, valid_N1: Tensor | None, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        """Return softmax - (1 - smoothing) target (N, V), and a tensor (2,): the sums over rows of -log p(y) and of the
        logit of y. Add the gradient of the bias to its sum."""
        grad_NV = matmul(readout_NR, weight_VR.t())
        valid_N = None if valid_N1 is None else valid_N1.flatten()
        sums_N = softmax_gradient_(grad_NV, self._bias_V, targets_N, valid_N, smoothing, self._gradient_KV)
        return grad_NV, torch.stack([sum_N.sum() for sum_N in sums_N])

    def bias_gradient(self) -> Tensor:
        """Return the gradient of the bias (V), summed over all rows so far."""
        return self._gradient_KV.sum(dim=0)


def softmax_gradient_(
    product_NV: Tensor, bias_V: Tensor, targets_N: Tensor, valid_N: Tensor | None, smoothing: float,
    bias_gradient_KV: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Replace W r by softmax(W r + b) - (1 - smoothing) target in place, and add the sum of this over rows to the
    gradient of the bias. Return -log p(y) and the logit of y for each row (N), zeros for rows that do not count."""
    num_rows, vocab_size = product_NV.shape
    nll_N, chosen_N = bias_V.new_empty(num_rows), bias_V.new_empty(num_rows)
    before = map(native.address, (bias_V, targets_N, valid_N))
    after = map(native.address, (product_NV, bias_gradient_KV, nll_N, chosen_N))
    _KERNEL(product_NV.dtype, num_rows, vocab_size, len(bias_gradient_KV), *before, smoothing, *after)
    return nll_N, chosen_N


class _FormulaSoftmax:
    """Computes the same as `_KernelSoftmax` with operations of torch, for devices and dtypes without a kernel."""

    def __init__(self, bias_V: Tensor, _: int) -> None:
        self._bias_V, self._gradient_V = bias_V, torch.zeros_like(bias_V)

    def gradient(
        self, readout_NR: Tensor, weight_VR: Tensor, targets_N: Tensor, valid_N1: Tensor | None, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        """Return softmax - (1 - smoothing) target (N, V), and a tensor (2,): the sums over rows of -log p(y) and of the
        logit of y. Add the gradient of the bias to its sum."""
        logits_NV = matmul(readout_NR, weight_VR.t()).to(self._bias_V.dtype).add_(self._bias_V)
        sums_2N = torch.stack(negative_log_likelihood(logits_NV, targets_N))
        grad_NV = torch.softmax(logits_NV, dim=1, out=logits_NV)
        grad_NV.scatter_add_(1, targets_N.unsqueeze(1), grad_NV.new_full((len(targets_N), 1), smoothing - 1.0))
        if valid_N1 is not None:
            sums_2N, grad_NV = sums_2N * valid_N1.flatten(), grad_NV * valid_N1
        self._gradient_V += grad_NV.sum(dim=0)
        return grad_NV.to(readout_NR.dtype), sums_2N.sum(dim=1)

    def bias_gradient(self) -> Tensor:
        """Return the gradient of the bias (V), summed over all rows so far."""
        return self._gradient_V
