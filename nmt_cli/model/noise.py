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

    def mask(self, shape: tuple[int, ...], probability: float, like: Tensor, rows_dim: int = 0) -> Tensor | None:  # noqa: ARG002
        """Return zeros with the given probability and 1 / (1 - probability) elsewhere; None where nothing would be
        dropped. The rows of the batch lie along `rows_dim`."""
        if probability == 0.0:
            return None
        keep = 1.0 - probability
        uniform = torch.rand(shape, generator=self._generator, device=self._generator.device, dtype=torch.float32)
        return (uniform < keep).to(like.device, like.dtype).div_(keep)

    def order(self, num: int) -> Tensor:
        """Return the numbers below `num` in random order."""
        return torch.randperm(num, generator=self._generator, device=self._generator.device)


class SharedNoise(Noise):
    """Noise that drops the same units in every row of a batch, and the same ones in every batch.

    So each seed is one thinned network, and its predictions for a sentence do not depend on the others in the batch.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(torch.Generator().manual_seed(seed))
        self._seed, self._num_masks = seed, 0

    def mask(self, shape: tuple[int, ...], probability: float, like: Tensor, rows_dim: int = 0) -> Tensor | None:
        # Seeded anew for each mask: the widths of a batch must not change the masks that follow.
        self._num_masks += 1
        self._generator.manual_seed(1_000 * self._seed + self._num_masks)
        of_one_row = tuple(1 if dim == rows_dim else size for dim, size in enumerate(shape))
        mask = super().mask(of_one_row, probability, like)
        return None if mask is None else mask.expand(shape)


def mask_for(
    noise: Noise | None, shape: tuple[int, ...], probability: float, like: Tensor, rows_dim: int = 0
) -> Tensor | None:
    """Return a mask of `shape` like `Noise.mask`, or None where there is no noise."""
    return None if noise is None else noise.mask(shape, probability, like, rows_dim)


def dropped(values: Tensor, probability: float, noise: Noise | None, *, shared_dim: int | None = None) -> Tensor:
    """Return `values` with units dropped; along `shared_dim` (time) every position loses the same units."""
    shape = list(values.shape)
    if shared_dim is not None:
        shape[shared_dim] = 1
    mask = mask_for(noise, tuple(shape), probability, values)
    return values if mask is None else values * mask
