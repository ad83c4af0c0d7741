"""Chooses the pairs of each batch: a new order each epoch, which depends on the seed and the epoch and nothing else.

An epoch's pairs are shuffled and taken in pools; within a pool, pairs of like length share a batch. Neither the order
nor the corpus is held in memory: a pool is planned when it is reached, from its number alone. So neither a batch nor
resuming in the middle of an epoch costs more with a larger corpus.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from nmt_cli.data.permutation import Permutation
from nmt_cli.system.errors import InputError

BATCHES_IN_POOL = 100
_ORDER, _SHARE, _BATCHES = 1, 2, 3
"""Parts of a seed for different random orders: of an epoch, of a corpus that is drawn in part, of a pool's batches."""
NumberArray = NDArray[Any]


class Lengths(Protocol):
    """Numbers of pieces of one side of all pairs, by pair number, on disk or in memory."""

    def __getitem__(self, numbers: NumberArray, /) -> NumberArray:
        """Return the lengths (N,) of the pairs with these numbers (N,)."""
        ...


class Cursor(NamedTuple):
    """The position of the next batch in the sequence of all batches."""

    epoch: int = 0
    pool: int = 0
    batch: int = 0
    """Index of the batch in the pool. Beyond the last batch of the pool, counting continues in later pools."""


class SampledBatch(NamedTuple):
    """The numbers of the pairs of one batch."""

    pairs: NumberArray
    next: Cursor
    """The position of the batch after this one."""
    progress: float
    """Number of epochs that are done after this batch, with the fraction of the current one."""


def check_weights(sizes: Sequence[int], weights: Sequence[float]) -> None:
    """Raise `InputError` if the weight of a corpus is so small that an epoch has none of its pairs."""
    repeated, drawn = _shares(np.asarray(sizes, dtype=np.int64), weights)
    problems = [
        f"data.train.{place}.weight: {weight:g} leaves none of {size:,} pairs for an epoch; raise it, or leave the "
        "corpus out"
        for place, (count, size, weight) in enumerate(zip((repeated + drawn).tolist(), sizes, weights, strict=True))
        if size and not count
    ]
    if problems:
        raise InputError("\n".join(problems))


def _shares(sizes: NumberArray, weights: Sequence[float]) -> tuple[NumberArray, NumberArray]:
    """Return two numbers of pairs of each corpus in an epoch: from whole repetitions, and drawn at random in addition.

    A corpus of weight 2.5 is repeated twice, and a random half of it is drawn in addition.
    """
    whole, fraction = np.divmod(np.asarray(weights, dtype=float), 1.0)
    return sizes * whole.astype(np.int64), np.round(sizes * fraction).astype(np.int64)


def temperature_weights(sizes: Sequence[int], temperature: float) -> list[float]:
    """Return the weight of each corpus: how many times an epoch reads it, perhaps with a fraction.

    A corpus of n pairs gets a share of an epoch in proportion to n^(1/T), for the temperature T. The number of
    pairs of all corpora in an epoch stays the same.
    """
    if temperature == 1.0:
        return [1.0] * len(sizes)
    shares = [size ** (1.0 / temperature) for size in sizes]
    pairs_a_share = sum(sizes) / max(sum(shares), 1.0)
    return [pairs_a_share * share / size if size else 1.0 for share, size in zip(shares, sizes, strict=True)]


class Sampler:
    """Yields the batches of a training from any position on, as the numbers of their pairs."""

    def __init__(
        self,
        source_lengths: Lengths,
        target_lengths: Lengths,
        *,
        bounds: Sequence[int],
        target_pieces: Sequence[int],
        weights: Sequence[float],
        batch_size: int,
        batch_type: str,
        seed: int,
    ) -> None:
        """Prepare the batches of a training text.

        The lengths are numbers of pieces without </s>. `bounds` has the number of the first pair of each corpus and the
        number of all pairs, `target_pieces` the target pieces of each corpus without </s>. `batch_size` counts
        sentences if `batch_type` is "sentences", else padded target pieces with </s>.

        Raises:
            InputError: the weight of a corpus is so small that an epoch has none of its pairs.
        """
        self._source_lengths, self._target_lengths = source_lengths, target_lengths
        self._batch_size, self._batch_type, self._seed = batch_size, batch_type, seed
        self._starts = np.asarray(bounds[:-1], dtype=np.int64)
        self._sizes = np.diff(bounds)
        check_weights(self._sizes.tolist(), weights)
        self._repeated, drawn = _shares(self._sizes, weights)
        self._ends = np.cumsum(self._repeated + drawn)
        shares = np.diff(self._ends, prepend=0) / np.maximum(self._sizes, 1)
        pieces = float((shares * (np.asarray(target_pieces) + self._sizes)).sum())
        self.sentences_per_batch = (
            batch_size if batch_type == "sentences" else batch_size * self.pairs_per_epoch / pieces
        )
        """Estimated sentences per batch."""
        self._pool_size = BATCHES_IN_POOL * max(1, round(self.sentences_per_batch))

    @property
    def pairs_per_epoch(self) -> int:
        """Number of pairs in an epoch; pairs of a corpus with the weight 2 count twice."""
        return int(self._ends[-1]) if len(self._ends) else 0

    def batches_per_epoch(self) -> float:
        """Return the estimated number of batches of an epoch, from the mean length."""
        return max(1.0, self.pairs_per_epoch / self.sentences_per_batch)

    def count_batches(self) -> int:
        """Return the exact number of batches of the first epoch; all are planned, which takes long for a large text."""
        return sum(len(self._plan(0, pool)) for pool in range(self._num_pools))

    def batches_from(self, cursor: Cursor) -> Iterator[SampledBatch]:
        """Yield the batches from `cursor` on, epoch after epoch, without end."""
        epoch, pool, batch = cursor
        num_pools = self._num_pools
        while True:
            if pool >= num_pools:
                epoch, pool, batch = epoch + 1, 0, 0
            batches = self._plan(epoch, pool)
            done = pool * self._pool_size + sum(map(len, batches[:batch]))
            for index in range(batch, len(batches)):
                done += len(batches[index])
                following = Cursor(epoch, pool, index + 1)
                if index + 1 == len(batches):
                    following = Cursor(epoch, pool + 1, 0) if pool + 1 < num_pools else Cursor(epoch + 1, 0, 0)
                yield SampledBatch(batches[index], following, epoch + done / self.pairs_per_epoch)
            pool, batch = pool + 1, max(0, batch - len(batches))

    @property
    def _num_pools(self) -> int:
        """Number of pools of an epoch."""
        return -(-self.pairs_per_epoch // self._pool_size)

    def _plan(self, epoch: int, pool: int) -> list[NumberArray]:
        """Return the batches of a pool: its pairs, sorted by length and cut, in random order."""
        first = pool * self._pool_size
        places = np.arange(first, min(first + self._pool_size, self.pairs_per_epoch))
        pairs = self._pairs(epoch, Permutation(self.pairs_per_epoch, [self._seed, epoch, _ORDER])(places))
        target_lengths = self._target_lengths[pairs] + 1
        order = np.lexsort((self._source_lengths[pairs], target_lengths))
        by_length, lengths = pairs[order], target_lengths[order]
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
        np.random.default_rng([self._seed, epoch, _BATCHES, pool]).shuffle(batches)
        return batches

    def _pairs(self, epoch: int, entries: NumberArray) -> NumberArray:
        """Return the pair numbers of entries of an epoch before it is shuffled.

        These entries are in the order of the corpora: of each its whole repetitions, then the pairs drawn at random.
        """
        corpora = np.searchsorted(self._ends, entries, side="right")
        within = entries - np.where(corpora > 0, self._ends[corpora - 1], 0)
        pairs: NumberArray = self._starts[corpora] + within % np.maximum(self._sizes[corpora], 1)
        for corpus in np.unique(corpora[within >= self._repeated[corpora]]):
            drawn = np.flatnonzero((corpora == corpus) & (within >= self._repeated[corpora]))
            places = within[drawn] - self._repeated[corpus]
            some = Permutation(int(self._sizes[corpus]), [self._seed, epoch, _SHARE, int(corpus)])
            pairs[drawn] = self._starts[corpus] + some(places)
        return pairs
