"""Checks that the loss with the current weights is finite; weights are saved only if it is."""

from __future__ import annotations

import math

from nmt_cli.data.batch import Batch
from nmt_cli.system.console import warn
from nmt_cli.system.distributed import World
from nmt_cli.training.loss import evaluate_nll
from nmt_cli.training.weights import Weights

MAX_SENTENCES = 64
"""Most sentences of a batch on which the loss is computed; this takes far less time and memory than an update."""


class FiniteLossCheck:
    """Checks that the loss of the current weights is finite, at most once after each update."""

    def __init__(self, weights: Weights, world: World) -> None:
        self._weights, self._world = weights, world
        self._batch: Batch | None = None
        self._known: bool | None = None

    def reset(self, batch: Batch) -> None:
        """Forget the last result, because an update changes the weights; the next check uses `batch`, a local batch."""
        self._batch, self._known = batch, None

    def record_failure(self) -> None:
        """Record that the loss of the current weights is not finite, as a validation has found."""
        self._known = False

    @property
    def has_failed(self) -> bool:
        """True if the loss of the current weights is known not to be finite."""
        return self._known is False

    def __call__(self, step: int) -> bool:
        """Return True if the loss is finite with both the averaged and the raw weights; if not, warn.

        The loss is computed once; later calls return the same result until `reset` is called.
        """
        if self._known is None:
            with self._weights.use_average():
                is_averaged_finite = self._is_finite()
            is_raw_finite = self._weights.average is None or self._is_finite()
            self._known = is_averaged_finite and is_raw_finite
            if not self._known:
                warn(f"update {step}: the loss with these weights is not finite; they are not kept")
        return self._known

    def _is_finite(self) -> bool:
        """Return True if the loss of some sentences of the local batch, without dropout, is finite in every process.

        Finite weights may still give activations that are not finite.
        """
        assert self._batch is not None
        parts = -(-self._batch.num_sentences // MAX_SENTENCES)
        nll, _ = evaluate_nll(self._weights.model, self._batch.split(parts)[0])
        (num_broken,) = self._world.all_sum(not math.isfinite(nll))
        return not num_broken
