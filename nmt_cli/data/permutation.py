"""A random permutation that is computed, not stored: a number of it takes the same time and memory at any size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

ROUNDS = 6
IndexArray = NDArray[np.int64]
_Words = NDArray[np.uint64]


class Permutation:
    """The numbers 0 to `size` - 1 in an order that depends on the seed alone.

    A Feistel network permutes the numbers below the next power of four. A result that is not below `size` goes through
    the network again until it is (Black & Rogaway, "Ciphers with Arbitrary Finite Domains", 2002, section 4), which
    takes less than four passes on average.
    """

    def __init__(self, size: int, seed: Sequence[int]) -> None:
        self._size = size
        self._half_bits = np.uint64(max(1, (max(size - 1, 1).bit_length() + 1) // 2))
        self._half_mask = np.uint64((1 << int(self._half_bits)) - 1)
        self._keys = np.random.SeedSequence(list(seed)).generate_state(ROUNDS, np.uint64)

    def __call__(self, places: IndexArray) -> IndexArray:
        """Return the numbers at `places` of the permutation, an array of the same shape, each in [0, size)."""
        numbers = self._permute_once(places.astype(np.uint64))
        beyond = np.flatnonzero(numbers >= self._size)
        while len(beyond):
            numbers[beyond] = self._permute_once(numbers[beyond])
            beyond = beyond[numbers[beyond] >= self._size]
        return numbers.astype(np.int64)

    def _permute_once(self, numbers: _Words) -> _Words:
        left, right = numbers >> self._half_bits, numbers & self._half_mask
        for key in self._keys:
            left, right = right, left ^ (_mix_bits(right ^ key) & self._half_mask)
        return (left << self._half_bits) | right


def _mix_bits(words: _Words) -> _Words:
    """Mix the bits: every bit of a word depends on all of it (the finaliser of splitmix64; Steele et al., 2014)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
