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
        """Return an inverted dropout mask of `shape`, or None if the probability is 0.

        It is 0 with the given probability and 1 / (1 - probability) elsewhere, in the type and on the device of `like`.
        """
        if probability == 0.0:
            return None
        keep = 1.0 - probability
        uniform = torch.rand(shape, generator=self._generator, device=self._generator.device, dtype=torch.float32)
        return (uniform < keep).to(like.device, like.dtype).div_(keep)

    def order(self, num: int) -> Tensor:
        """Return a random permutation of 0 to num - 1, as an int64 tensor (num,)."""
        return torch.randperm(num, generator=self._generator, device=self._generator.device)


def mask_for(noise: Noise | None, shape: tuple[int, ...], probability: float, like: Tensor) -> Tensor | None:
    """Return `noise.mask`, or None without noise, as in validation and translation."""
    return None if noise is None else noise.mask(shape, probability, like)


def dropped(values: Tensor, probability: float, noise: Noise | None, *, shared_dim: int | None = None) -> Tensor:
    """Return `values` with dropout; along `shared_dim` (time) every position loses the same units."""
    shape = list(values.shape)
    if shared_dim is not None:
        shape[shared_dim] = 1
    mask = mask_for(noise, tuple(shape), probability, values)
    return values if mask is None else values * mask
