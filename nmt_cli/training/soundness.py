"""Soundness: weights *predict* if the loss they give is finite. Only such weights are kept."""

from __future__ import annotations

import math

from nmt_cli.data.batch import Batch
from nmt_cli.system.console import warn
from nmt_cli.system.distributed import World
from nmt_cli.training.loss import evaluate_nll
from nmt_cli.training.weights import Weights

MAX_SENTENCES = 64
"""Sentences of a batch by which weights are tried: far less time and memory than an update takes."""


class Soundness:
    """Tells whether the present weights give a finite loss."""

    def __init__(self, weights: Weights, world: World) -> None:
        self._weights, self._world = weights, world
        self._batch: Batch | None = None
        self._known: bool | None = None

    def forget(self, batch: Batch) -> None:
        """Forget the answer, for the weights move; `batch` is this process's part of the update."""
        self._batch, self._known = batch, None

    def deny(self) -> None:
        """Remember that the weights do not predict."""
        self._known = False

    @property
    def is_denied(self) -> bool:
        """True if the present weights are known not to predict."""
        return self._known is False

    def __call__(self, step: int) -> bool:
        """Return True where both the weights that translate and those that training goes on with predict."""
        if self._known is None:
            with self._weights.averaged():
                translates = self._predicts()
            goes_on = self._weights.average is None or self._predicts()
            self._known = translates and goes_on
            if not self._known:
                warn(f"step {step}: the loss with these weights is not finite; they are not kept")
        return self._known

    def _predicts(self) -> bool:
        """Return True where every process has a finite loss, without dropout, of some sentences of its batch.

        Weights may be finite, each of them, and still give activations that are not.
        """
        assert self._batch is not None
        parts = -(-self._batch.num_sentences // MAX_SENTENCES)
        nll, _ = evaluate_nll(self._weights.model, self._batch.split(parts)[0])
        (num_broken,) = self._world.sums(not math.isfinite(nll))
        return not num_broken
