"""Sampled softmax: draws the candidates of each update, the part of the vocabulary over which its softmax is computed.

On a CPU the softmax over all pieces is a third of an update, and more with larger vocabularies. But most pieces are
rare, and many of a joint vocabulary occur in no target at all. Jean, Cho, Memisevic & Bengio (2015) therefore take a
part of them. Here the candidates are the targets of the batch, the frequent pieces, and a random share of the others.
Each of these is weighted to stand also for those that were not drawn, so the denominator is right on average.

Shapes: N positions, C candidates, V vocabulary.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nmt_cli.model.dropout import Noise
from nmt_cli.ops.cross_entropy import Candidates

FREQUENT_COVERAGE = 0.95
"""Share of the target pieces of a training text that the frequent pieces make up; these are always candidates."""
SAMPLED_SHARE = 0.1
"""Share of the other pieces (neither frequent nor in the batch) that are drawn for an update."""
MIN_SMOOTHING = 1e-3
"""Least label smoothing in `log_frequencies`, so that pieces which are never a target get some probability."""


class CandidateSampler:
    """Draws the candidates of each update: the pieces over which its softmax is computed."""

    def __init__(self, counts_V: Tensor) -> None:
        """Prepare from the number of times that each piece (V) occurs in the targets of the training text."""
        by_frequency_V = counts_V.argsort(descending=True, stable=True)
        so_far_V = counts_V[by_frequency_V].double().cumsum(dim=0)
        num_frequent = 1 + int((so_far_V < FREQUENT_COVERAGE * so_far_V[-1]).sum())
        self._is_frequent_V = torch.zeros(len(counts_V), dtype=torch.bool)
        self._is_frequent_V[by_frequency_V[:num_frequent]] = True

    def draw(self, targets_N: Tensor, noise: Noise) -> Candidates:
        """Return the candidates of an update: pieces (C), their log-weights (C), and the index in them (N) of each
        target."""
        is_certain_V = self._is_frequent_V.clone()
        is_certain_V[targets_N] = True
        certain, others = is_certain_V.nonzero().flatten(), (~is_certain_V).nonzero().flatten()
        drawn = others[noise.permutation(len(others))[: math.ceil(SAMPLED_SHARE * len(others))]]
        log_weights_C = torch.zeros(len(certain) + len(drawn))
        if len(drawn):
            log_weights_C[len(certain) :] = math.log(len(others) / len(drawn))
        place_V = torch.zeros_like(is_certain_V, dtype=torch.long)
        place_V[certain] = torch.arange(len(certain))
        return Candidates(torch.cat([certain, drawn]), log_weights_C, place_V[targets_N])


def log_frequencies(counts_V: Tensor, smoothing: float) -> Tensor:
    """Return an output bias (V): the log of each piece's share of the targets after label smoothing, minus the mean
    log.

    A softmax with this bias alone predicts each piece as often as it occurs. Without it, a training would learn only
    slowly that the pieces which are seldom drawn are rare.
    """
    smoothing = max(smoothing, MIN_SMOOTHING)
    share_V = (1.0 - smoothing) * counts_V.double() / counts_V.sum() + smoothing / len(counts_V)
    log_V = share_V.log()
    return (log_V - log_V.mean()).float()
