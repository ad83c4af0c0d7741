"""What training minimises. A loss is a sum and a count, divided once by the count of the whole update.

Shapes: B batch, T target, S source, R readout, V vocabulary, N valid target positions, P pairs of rows, A a pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nmt_cli import native
from nmt_cli.data.batch import Batch
from nmt_cli.model.noise import Noise
from nmt_cli.model.products import matmul, summed_outer
from nmt_cli.model.seq2seq import Seq2Seq

ROWS_AT_ONCE = 512
"""Positions whose logits are held at a time."""
ROWS_IN_CACHE = 64
"""Of these, how many go through the softmax together: their logits fit in a core's cache."""
ROWS_AT_ONCE_CUDA = 4096
"""On a GPU both: a launch takes longer than the work on a few rows."""


@dataclass(frozen=True, slots=True)
class LossSum:
    """Sums over the target pieces of a batch, in nats."""

    total: Tensor
    """What is minimised; carries the gradient."""
    nll: Tensor
    """The negative log-likelihood alone, in float64. Like the count it stays on the device until somebody looks."""
    num_tokens: Tensor


def smoothed_cross_entropy(logits_NV: Tensor, targets_N: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Sum of (1 - eps) * -log p(y) + eps * mean_v -log p(v) (Szegedy et al., 2016, section 7), and of -log p(y)."""
    logits_NV = logits_NV if logits_NV.dtype == torch.float64 else logits_NV.float()
    normalizer_N = logits_NV.logsumexp(dim=-1)
    nll = (normalizer_N - logits_NV.gather(1, targets_N.unsqueeze(1)).squeeze(1)).sum()
    if smoothing == 0.0:
        return nll, nll.detach()
    uniform = (normalizer_N - logits_NV.mean(dim=-1)).sum()
    return (1.0 - smoothing) * nll + smoothing * uniform, nll.detach()


class _ChunkedCrossEntropy(torch.autograd.Function):
    """`smoothed_cross_entropy` of a projection, chunk by chunk, so that the logits of a batch are never held at once.

    A loss is a sum, so its gradient with respect to the logits, softmax - target, is known as soon as they are; the
    products with it are made at once and scaled in the backward pass. The share of the smoothed target that all pieces
    have alike, eps / V, never meets the logits: what it adds is a product of sums. With `agreement` two rows each, 2i
    and 2i + 1, are one position under two masks, and its multiple of their divergence is added.

    `valid_N1` is 1 on rows that count and 0 on others, whose readout must be zero; None if all count.
    """

    @staticmethod
    def forward(
        ctx: Any, readout_NR: Tensor, weight_VR: Tensor, bias_V: Tensor, targets_N: Tensor, valid_N1: Tensor | None,
        smoothing: float, agreement: float, bf16: bool,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        at_once = ROWS_AT_ONCE if readout_NR.device.type == "cpu" else ROWS_AT_ONCE_CUDA
        product_type = torch.bfloat16 if bf16 else readout_NR.dtype
        weight_product_VR = weight_VR.to(product_type)
        grad_readout_NR, grad_weight_VR = torch.empty_like(readout_NR), torch.zeros_like(weight_VR)
        sums = readout_NR.new_zeros(3)
        by_kernels = native.takes(readout_NR) and not agreement
        softmax = _KernelSoftmax(bias_V, len(targets_N)) if by_kernels else _FormulaSoftmax(bias_V, agreement)
        for start in range(0, len(targets_N), at_once):
            rows = slice(start, start + at_once)
            readout = readout_NR[rows].to(product_type)
            counted_N1 = None if valid_N1 is None else valid_N1[rows]
            grad_NV, found = softmax.gradient(readout, weight_product_VR, targets_N[rows], counted_N1, smoothing)
            sums += found
            grad_readout_NR[rows] = matmul(grad_NV, weight_product_VR)
            grad_weight_VR += summed_outer(grad_NV, readout)
            del grad_NV  # the next chunk's logits take its place, memory that stays in the cache
        nll, chosen, divergence = sums.unbind()
        grad_bias_V = softmax.bias_gradient()
        total = nll + agreement * divergence
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
    """From readouts to the gradient of their logits, by the compiled kernels."""

    def __init__(self, bias_V: Tensor, num_rows: int) -> None:
        self._bias_V = bias_V
        self._gradient_KV = bias_V.new_zeros(native.num_chunks(num_rows, len(bias_V)), len(bias_V))

    def gradient(
        self, readout_NR: Tensor, weight_VR: Tensor, targets_N: Tensor, valid_N1: Tensor | None, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        """softmax - target; with the sums of -log p(y), of the logits of y, and of the divergence."""
        grad_NV = matmul(readout_NR, weight_VR.t())
        counted_N = None if valid_N1 is None else valid_N1.flatten()
        sums_N = native.cross_entropy(grad_NV, self._bias_V, targets_N, counted_N, smoothing, self._gradient_KV)
        nll, chosen = (sum_N.sum() for sum_N in sums_N)
        return grad_NV, torch.stack([nll, chosen, torch.zeros_like(nll)])

    def bias_gradient(self) -> Tensor:
        """Of all rows so far."""
        return self._gradient_KV.sum(dim=0)


class _FormulaSoftmax:
    """The same in torch's operations, and with the divergence of pairs."""

    def __init__(self, bias_V: Tensor, agreement: float) -> None:
        self._bias_V, self._agreement = bias_V, agreement
        self._together = ROWS_IN_CACHE if bias_V.device.type == "cpu" else ROWS_AT_ONCE_CUDA
        self._scratch_NV = bias_V.new_empty(self._together, len(bias_V))
        self._gradient_V = torch.zeros_like(bias_V)

    def gradient(
        self, readout_NR: Tensor, weight_VR: Tensor, targets_N: Tensor, valid_N1: Tensor | None, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        """As that of `_KernelSoftmax`."""
        sums = self._bias_V.new_zeros(3)
        grad_NV = readout_NR.new_empty(len(readout_NR), len(self._bias_V))
        for first in range(0, len(readout_NR), self._together):
            some = slice(first, first + self._together)
            counted_N1 = None if valid_N1 is None else valid_N1[some]
            target_N1 = targets_N[some].unsqueeze(1)
            product_NV = torch.mm(readout_NR[some], weight_VR.t(), out=grad_NV[some])
            logits_NV = torch.add(product_NV, self._bias_V, out=self._scratch_NV[: len(target_N1)])
            chosen_N1 = logits_NV.gather(1, target_N1)
            largest_N1, place_N1 = logits_NV.max(dim=1, keepdim=True)
            divergence, pull_NV = _divergence(logits_NV) if self._agreement else (torch.zeros_like(sums[0]), None)
            probability_NV = torch.softmax(logits_NV, dim=1, out=logits_NV)
            # max = normalizer + log p_max, and p_max is at least 1/V
            losses_N1 = largest_N1 - probability_NV.gather(1, place_N1).log() - chosen_N1
            nll, chosen = (_counted(values_N1, counted_N1).sum() for values_N1 in (losses_N1, chosen_N1))
            sums += torch.stack([nll, chosen, divergence])
            if pull_NV is not None:
                probability_NV.add_(pull_NV, alpha=self._agreement)
            probability_NV.scatter_add_(1, target_N1, torch.full_like(chosen_N1, smoothing - 1.0))
            self._gradient_V += _counted(probability_NV, counted_N1).sum(dim=0)
            grad_NV[some] = probability_NV
        return grad_NV, sums

    def bias_gradient(self) -> Tensor:
        """Of all rows so far."""
        return self._gradient_V


def _counted(values_NX: Tensor, valid_N1: Tensor | None) -> Tensor:
    return values_NX if valid_N1 is None else values_NX * valid_N1


def _divergence(logits_NV: Tensor) -> tuple[Tensor, Tensor]:
    """Sum over positions of (KL(p || q) + KL(q || p)) / 2, p of row 2i and q of row 2i + 1, and its gradient with
    respect to the logits.

    It is sum_v (p - q) d / 2 with d = log p - log q; its slope along the logits of p is (p (d - E_p d) + p - q) / 2,
    and along those of q the same with both in each other's place.
    """
    log_p_NV = logits_NV.log_softmax(dim=1)
    probability_PAV = log_p_NV.exp().unflatten(0, (-1, 2))
    between_PV = log_p_NV[0::2] - log_p_NV[1::2]
    difference_PV = probability_PAV[:, 0] - probability_PAV[:, 1]
    total = 0.5 * (difference_PV * between_PV).sum()
    signed_PAV = torch.stack([between_PV, -between_PV], dim=1)
    mean_PA1 = (probability_PAV * signed_PAV).sum(dim=2, keepdim=True)
    gradient_PAV = probability_PAV * (signed_PAV - mean_PA1)
    gradient_PAV[:, 0] += difference_PV
    gradient_PAV[:, 1] -= difference_PV
    return total, gradient_PAV.mul_(0.5).flatten(0, 1)


def chunked_cross_entropy(
    model: Seq2Seq, readout_NR: Tensor, targets_N: Tensor, smoothing: float, agreement: float = 0.0,
    valid_N: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`smoothed_cross_entropy(model.logits(readout_NR), ...)`, the same to rounding, in less memory and time.

    With `agreement` rows 2i and 2i + 1 are one position under two dropout masks, and so many times the divergence of
    their predictions, (KL(p || q) + KL(q || p)) / 2, is added to the first of the two sums. Rows that are not valid
    count nothing, whatever is in them.
    """
    device_type = readout_NR.device.type
    valid_N1 = None
    if valid_N is not None:
        # Zeros, so that such a row adds nothing to a product, and the two rows of a pair do not diverge.
        readout_NR = readout_NR.masked_fill(~valid_N.unsqueeze(1), 0.0)
        valid_N1 = valid_N.unsqueeze(1).to(readout_NR.dtype)
    bf16 = torch.is_autocast_enabled(device_type)
    with torch.autocast(device_type, enabled=False):
        total, nll = _ChunkedCrossEntropy.apply(  # type: ignore[no-untyped-call]
            readout_NR, model.output_weight, model.output_bias, targets_N, valid_N1, smoothing, agreement, bf16
        )
    return total, nll


def coverage_penalty(weights_BTS: Tensor, valid_BT: Tensor) -> Tensor:
    """Sum over steps of sum_j min(alpha_ij, c_ij), c the attention so far (See et al., 2017, eq. 12)."""
    so_far_BTS = weights_BTS.cumsum(dim=1) - weights_BTS
    return (torch.minimum(weights_BTS, so_far_BTS).sum(dim=-1) * valid_BT).sum()


def alignment_cross_entropy(weights_BTS: Tensor, links_BTS: Tensor) -> Tensor:
    """Sum of -sum_j A_ij log alpha_ij over target pieces with links (Chen et al., 2016, eq. 7)."""
    tiny = torch.finfo(weights_BTS.dtype).tiny
    return -(links_BTS * weights_BTS.clamp(min=tiny).log()).sum()


@dataclass(frozen=True, slots=True)
class TranslationLoss:
    """Label-smoothed cross-entropy, with the attention's own losses where they are asked for."""

    label_smoothing: float = 0.0
    coverage_weight: float = 0.0
    alignment_weight: float = 0.0
    r_drop: float = 0.0
    """alpha of Liang et al. (2021), eq. 4: every batch goes through the model twice, under two dropout masks, and both
    should predict alike. The two losses count half each."""

    def __call__(
        self, model: Seq2Seq, batch: Batch, noise: Noise | None = None, *, fixed_shapes: bool = False
    ) -> LossSum:
        """The loss of a batch under teacher forcing. With `fixed_shapes` no shape depends on what is in the batch:
        padded positions go through the softmax too, and count nothing."""
        views = 2 if self.r_drop and noise is not None else 1
        source_BS, valid_BS, inputs_BT = (
            tensor.repeat(views, 1) for tensor in (batch.source_BS, batch.source_valid_BS, batch.inputs_BT)
        )
        memory = model.encode(source_BS, valid_BS, noise)
        decoded = model.decode(inputs_BT, memory, model.start(memory), noise)
        readouts = decoded.readout_BTR.unflatten(0, (views, -1))
        if fixed_shapes:
            readouts, targets_N = readouts.flatten(1, 2), batch.outputs_BT.flatten()
            valid_N = batch.target_valid_BT.flatten().repeat_interleave(views)
        else:
            readouts, targets_N = readouts[:, batch.target_valid_BT], batch.outputs_BT[batch.target_valid_BT]
            valid_N = None
        total, nll = chunked_cross_entropy(
            model,
            readouts.transpose(0, 1).flatten(0, 1),
            targets_N.repeat_interleave(views),
            self.label_smoothing,
            self.r_drop if views == 2 else 0.0,
            valid_N,
        )
        if self.coverage_weight:
            valid_BT = batch.target_valid_BT.repeat(views, 1)
            total = total + self.coverage_weight * coverage_penalty(decoded.weights_BTS, valid_BT)
        if self.alignment_weight and batch.links_BTS is not None:
            links_BTS = batch.links_BTS.repeat(views, 1, 1)
            total = total + self.alignment_weight * alignment_cross_entropy(decoded.weights_BTS, links_BTS)
        return LossSum(total / views, nll.double() / views, batch.target_valid_BT.sum())


@torch.no_grad()
def evaluate_nll(model: Seq2Seq, batch: Batch) -> tuple[float, int]:
    """The summed negative log-likelihood of a batch and its number of target pieces."""
    memory = model.encode(batch.source_BS, batch.source_valid_BS)
    decoded = model.decode(batch.inputs_BT, memory, model.start(memory))
    readout_NR = decoded.readout_BTR[batch.target_valid_BT]
    targets_N = batch.outputs_BT[batch.target_valid_BT]
    nll = 0.0
    for rows, targets in zip(readout_NR.split(ROWS_AT_ONCE), targets_N.split(ROWS_AT_ONCE), strict=True):
        nll += float(smoothed_cross_entropy(model.logits(rows), targets, 0.0)[1])
    return nll, len(targets_N)
