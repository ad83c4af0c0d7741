"""The training loss: a sum, which is divided once by the number of target pieces of the whole update.

Shapes: B batch, T target, S source, R readout, N valid target positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nmt_cli.data.batch import Batch
from nmt_cli.model.dropout import Noise
from nmt_cli.model.seq2seq import Seq2Seq
from nmt_cli.ops.cross_entropy import ROWS_AT_ONCE, cross_entropy, negative_log_likelihood
from nmt_cli.training.candidates import CandidateSampler


@dataclass(frozen=True, slots=True)
class LossSum:
    """Sums over the target pieces of a batch, in nats."""

    total: Tensor
    """The loss that is minimised, a scalar from which gradients are computed."""
    nll: Tensor
    """The negative log-likelihood alone, a scalar in float64, which stays on the device until it is read."""


def coverage_penalty(weights_BTS: Tensor, valid_BT: Tensor) -> Tensor:
    """Return the sum over valid steps i of sum_j min(alpha_ij, c_ij), where c_ij is the sum of the attention weights of
    position j before step i (See et al., 2017, eq. 12)."""
    so_far_BTS = weights_BTS.cumsum(dim=1) - weights_BTS
    return (torch.minimum(weights_BTS, so_far_BTS).sum(dim=-1) * valid_BT).sum()


def alignment_cross_entropy(weights_BTS: Tensor, links_BTS: Tensor) -> Tensor:
    """Return -sum A_ij log alpha_ij over all target pieces i and source pieces j (Chen et al., 2016, eq. 7).

    A is `links_BTS`, which is zero for target pieces without links, and alpha are the attention weights.
    """
    tiny = torch.finfo(weights_BTS.dtype).tiny
    return -(links_BTS * weights_BTS.clamp(min=tiny).log()).sum()


@dataclass(frozen=True, slots=True)
class TranslationLoss:
    """Label-smoothed cross-entropy, plus coverage and alignment losses of the attention if their weights are not 0."""

    label_smoothing: float = 0.0
    coverage_weight: float = 0.0
    alignment_weight: float = 0.0
    candidates: CandidateSampler | None = None
    """Draws the pieces over which the softmax of an update is computed; None takes all pieces."""

    def __call__(
        self, model: Seq2Seq, batch: Batch, noise: Noise | None = None, *, fixed_shapes: bool = False
    ) -> LossSum:
        """Return the loss and the nll of a batch under teacher forcing, sums over target pieces in nats.

        With `fixed_shapes` no shape depends on the values of the batch: padded positions go through the softmax too,
        with weight zero, and the softmax is never sampled.
        """
        memory = model.encode(batch.source_BS, batch.source_valid_BS, noise)
        decoded = model.decode(batch.inputs_BT, memory, model.initial_state(memory), noise)
        readout_BTR, targets_BT, valid_BT = decoded.readout_BTR, batch.outputs_BT, batch.target_valid_BT
        weight_VR, bias_V = model.output_weight, model.output_bias
        if fixed_shapes:
            total, nll = cross_entropy(
                readout_BTR.flatten(0, 1), weight_VR, bias_V, targets_BT.flatten(), self.label_smoothing,
                valid_BT.flatten(),
            )  # fmt: skip
        else:
            targets_N = targets_BT[valid_BT]
            drawn = None if self.candidates is None or noise is None else self.candidates.draw(targets_N, noise)
            total, nll = cross_entropy(
                readout_BTR[valid_BT], weight_VR, bias_V, targets_N, self.label_smoothing, candidates=drawn
            )
        if self.coverage_weight:
            total = total + self.coverage_weight * coverage_penalty(decoded.weights_BTS, valid_BT)
        if self.alignment_weight and batch.links_BTS is not None:
            total = total + self.alignment_weight * alignment_cross_entropy(decoded.weights_BTS, batch.links_BTS)
        return LossSum(total, nll.double())


@torch.no_grad()
def evaluate_nll(model: Seq2Seq, batch: Batch) -> tuple[float, int]:
    """Return the negative log-likelihood of a batch, a sum in nats, and its number of target pieces with </s>."""
    memory = model.encode(batch.source_BS, batch.source_valid_BS)
    decoded = model.decode(batch.inputs_BT, memory, model.initial_state(memory))
    readout_NR = decoded.readout_BTR[batch.target_valid_BT]
    targets_N = batch.outputs_BT[batch.target_valid_BT]
    nll = 0.0
    for rows, targets in zip(readout_NR.split(ROWS_AT_ONCE), targets_N.split(ROWS_AT_ONCE), strict=True):
        nll += float(negative_log_likelihood(model.logits(rows), targets)[0].sum())
    return nll, len(targets_N)
