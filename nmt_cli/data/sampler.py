"""Which pairs make which batch: a new order each epoch that depends on the seed and the epoch and on nothing else.

An epoch's pairs are shuffled and taken in pools; within a pool, pairs of like length share a batch. A pool is planned
when it is reached, so the cost of a batch does not grow with the corpus, and any batch can be reached again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt_cli.errors import InputError

BATCHES_IN_POOL = 100
Numbers = NDArray[Any]


class Cursor(NamedTuple):
    """A place in the sequence of batches: the next one to come."""

    epoch: int = 0
    batch: int = 0


class Drawn(NamedTuple):
    """One batch of pair numbers."""

    pairs: Numbers
    next: Cursor
    """The place after it."""
    progress: float
    """Epochs that are done after it, with their fraction."""


class Sampler:
    """The batches of training, in order, from any place on."""

    def __init__(
        self,
        source_lengths: Numbers,
        target_lengths: Numbers,
        *,
        bounds: Sequence[int],
        weights: Sequence[float],
        batch_size: int,
        batch_type: str,
        seed: int,
    ) -> None:
        """`bounds` and `weights` are those of the corpora; `batch_size` counts padded target pieces with </s>, or
        sentences.

        Raises:
            InputError: the weights leave an epoch without a pair.
        """
        self._source_lengths, self._target_lengths = source_lengths, target_lengths + 1
        self._bounds, self._weights = bounds, weights
        self._batch_size, self._batch_type, self._seed = batch_size, batch_type, seed
        if not len(self._order(np.random.default_rng(0))):
            raise InputError("data.train: the weights leave no pair for an epoch; raise them")
        mean = float(self._target_lengths.mean())
        per_batch = batch_size if batch_type == "sentences" else max(1, round(batch_size / mean))
        self._pool_size = BATCHES_IN_POOL * per_batch

    def batches_an_epoch(self) -> float:
        """About how many batches an epoch has."""
        sizes = np.diff(self._bounds) * np.asarray(self._weights)
        if self._batch_type == "sentences":
            return float(sizes.sum()) / self._batch_size
        means = [
            float(self._target_lengths[start:end].mean()) if end > start else 0.0
            for start, end in zip(self._bounds[:-1], self._bounds[1:], strict=True)
        ]
        return float((sizes * means).sum()) / self._batch_size

    def from_cursor(self, cursor: Cursor) -> Iterator[Drawn]:
        """Every batch from `cursor` on, without end."""
        epoch, first = cursor
        while True:
            index = 0
            for pairs, done in self._epoch(epoch, first):
                index += 1
                if index <= first:
                    continue
                ends = done >= 1.0
                yield Drawn(pairs, Cursor(epoch + 1, 0) if ends else Cursor(epoch, index), epoch + done)
            epoch, first = epoch + 1, 0

    def _epoch(self, epoch: int, first: int) -> Iterator[tuple[Numbers, float]]:  # noqa: ARG002
        """Batches with the share of the epoch that is done after each."""
        random = np.random.default_rng([self._seed, epoch])
        order = self._order(random)
        done = 0
        for start in range(0, len(order), self._pool_size):
            pool = order[start : start + self._pool_size]
            for batch in self._plan(pool, random):
                done += len(batch)
                yield batch, 1.0 if done == len(order) else done / len(order)

    def _order(self, random: np.random.Generator) -> Numbers:
        """All pairs of the epoch, shuffled: a corpus of weight 2.5 twice and a random half."""
        parts = []
        for start, end, weight in zip(self._bounds[:-1], self._bounds[1:], self._weights, strict=True):
            whole, fraction = divmod(weight, 1.0)
            parts.extend([np.arange(start, end)] * int(whole))
            share = round(fraction * (end - start))
            if share:
                parts.append(start + random.choice(end - start, size=share, replace=False))
        order = np.concatenate(parts) if parts else np.arange(0)
        random.shuffle(order)
        return order

    def _plan(self, pool: Numbers, random: np.random.Generator) -> list[Numbers]:
        """Cut a pool, sorted by length, into batches, and shuffle these."""
        by_length = pool[np.lexsort((self._source_lengths[pool], self._target_lengths[pool]))]
        lengths = self._target_lengths[by_length]
        batches, start = [], 0
        for end in range(1, len(by_length) + 1):
            # Sorted, so the last is the longest: the next pair would pad all others to its own length.
            size_with_next = end - start + 1
            cost = (
                size_with_next
                if self._batch_type == "sentences"
                else size_with_next * lengths[min(end, len(lengths) - 1)]
            )
            if end == len(by_length) or cost > self._batch_size:
                batches.append(by_length[start:end])
                start = end
        random.shuffle(batches)
        return batches
