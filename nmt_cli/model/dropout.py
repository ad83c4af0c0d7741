"""Dropout with an explicit source of randomness, so that the masks of an update depend on its seed and on nothing else.

Without a `Noise` (validation, translation) nothing is dropped; there is no train or eval mode to switch.

Shapes: B batch, T positions of source or target, X units.
"""

from __future__ import annotations

import torch
from torch import Tensor


class Noise:
    """Draws the dropout masks and random permutations of one forward pass from a generator."""

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator

    def mask(self, shape: tuple[int, ...], probability: float, like: Tensor) -> Tensor | None:
        """Return an inverted dropout mask of `shape`, or None if the probability is 0.

        It is 0 with the given probability and 1 / (1 - probability) elsewhere, in the type and on the device of `like`.
        """
        if probability == 0.0:
            return None
        keep = 1.0 - probability
        uniform = torch.rand(shape, generator=self._generator, device=self._generator.device, dtype=torch.float32)
        return (uniform < keep).to(like.device, like.dtype).div_(keep)

    def permutation(self, num: int) -> Tensor:
        """Return a random permutation of 0 to num - 1, as an int64 tensor (num,)."""
        return torch.randperm(num, generator=self._generator, device=self._generator.device)


def dropout_mask(noise: Noise | None, shape: tuple[int, ...], probability: float, like: Tensor) -> Tensor | None:
    """Return a mask from `noise.mask`, or None (nothing is dropped) without noise or if the probability is 0."""
    return None if noise is None else noise.mask(shape, probability, like)


def apply_dropout(values_BTX: Tensor, probability: float, noise: Noise | None) -> Tensor:
    """Return the values with units dropped: the same units at all positions of a sentence, none without noise."""
    batch, _, size = values_BTX.shape
    mask = dropout_mask(noise, (batch, 1, size), probability, values_BTX)
    return values_BTX if mask is None else values_BTX * mask
