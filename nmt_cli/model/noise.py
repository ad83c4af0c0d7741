"""Dropout whose randomness is a value that is passed, so that a step's masks depend on its seed and on nothing else.

Without a `Noise` (validation, translation) nothing is dropped; there is no train or eval mode to forget.
"""

from __future__ import annotations

import torch
from torch import Tensor


class Noise:
    """The randomness of one forward pass."""

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator

    def mask(self, shape: tuple[int, ...], probability: float, like: Tensor) -> Tensor | None:
        """Return zeros with the given probability and 1 / (1 - probability) elsewhere; None where nothing would be
        dropped."""
        if probability == 0.0:
            return None
        keep = 1.0 - probability
        uniform = torch.rand(shape, generator=self._generator, device=self._generator.device, dtype=torch.float32)
        return (uniform < keep).to(like.device, like.dtype).div_(keep)

    def order(self, num: int) -> Tensor:
        """Return the numbers below `num` in random order."""
        return torch.randperm(num, generator=self._generator, device=self._generator.device)


def mask_for(noise: Noise | None, shape: tuple[int, ...], probability: float, like: Tensor) -> Tensor | None:
    """Return a mask of `shape` like `Noise.mask`, or None where there is no noise."""
    return None if noise is None else noise.mask(shape, probability, like)


def dropped(values: Tensor, probability: float, noise: Noise | None, *, shared_dim: int | None = None) -> Tensor:
    """Return `values` with units dropped; along `shared_dim` (time) every position loses the same units."""
    shape = list(values.shape)
    if shared_dim is not None:
        shape[shared_dim] = 1
    mask = mask_for(noise, tuple(shape), probability, values)
    return values if mask is None else values * mask
