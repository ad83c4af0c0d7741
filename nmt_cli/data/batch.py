"""Padded tensors of a batch.

Shapes: B batch, S source with </s>, T target with </s>.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from nmt_cli.data.tokenizer import BOS, EOS, PAD


class Sources(NamedTuple):
    """Sources with </s> at their end."""

    ids_BS: Tensor
    valid_BS: Tensor

    def to(self, device: torch.device) -> Sources:
        return Sources(*(tensor.to(device, non_blocking=True) for tensor in self))


class Batch(NamedTuple):
    """Pairs for teacher forcing: position t of `inputs_BT` is what the decoder reads to predict `outputs_BT` at t."""

    source_BS: Tensor
    source_valid_BS: Tensor
    inputs_BT: Tensor
    """<s> and the target."""
    outputs_BT: Tensor
    """The target and </s>."""
    target_valid_BT: Tensor
    links_BTS: Tensor | None = None
    """Where alignments are given: for each target piece the share of each of its source pieces, or zeros."""

    @property
    def num_sentences(self) -> int:
        return self.source_BS.shape[0]

    @property
    def num_target_tokens(self) -> int:
        """Target pieces with </s>, padding not counted."""
        return int(self.target_valid_BT.sum())

    def to(self, device: torch.device) -> Batch:
        """The batch on a device."""
        return self._mapped(lambda tensor: tensor.to(device, non_blocking=True))

    def split(self, parts: int) -> list[Batch]:
        """The batch cut into at most `parts` of about equal numbers of sentences."""
        size = -(-self.num_sentences // parts)
        starts = range(0, self.num_sentences, size)
        return [self._mapped(lambda tensor, start=start: tensor[start : start + size]) for start in starts]  # type: ignore[misc]

    def padded(self, num_sentences: int, source_width: int, target_width: int) -> Batch:
        """The batch with padding at its right and below, up to these sizes."""

        def to_size(tensor: Tensor, *sizes: int) -> Tensor:
            missing = [size - present for size, present in zip(sizes, tensor.shape, strict=True)]
            # PAD, False and no link are all 0.
            return F.pad(tensor, [side for more in reversed(missing) for side in (0, more)])

        source, target = (num_sentences, source_width), (num_sentences, target_width)
        return Batch(
            to_size(self.source_BS, *source),
            to_size(self.source_valid_BS, *source),
            to_size(self.inputs_BT, *target),
            to_size(self.outputs_BT, *target),
            to_size(self.target_valid_BT, *target),
            None if self.links_BTS is None else to_size(self.links_BTS, *target, source_width),
        )

    def _mapped(self, change: Callable[[Tensor], Tensor]) -> Batch:
        links = None if self.links_BTS is None else change(self.links_BTS)
        source, source_valid, inputs, outputs, target_valid = (change(tensor) for tensor in self[:5])
        return Batch(source, source_valid, inputs, outputs, target_valid, links)


def round_up(number: int, multiple: int) -> int:
    """The next multiple, or the number itself if it is one."""
    return -(-number // multiple) * multiple


def pad_sources(sources: Sequence[Sequence[int]], *, multiple: int = 1) -> Sources:
    """Sources of piece ids, each with </s>, padded at the end to the longest, or on to a multiple of some width."""
    ids_BS = _padded([[*source, EOS] for source in sources], multiple)
    return Sources(ids_BS, ids_BS != PAD)


def make_batch(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    links: Sequence[Sequence[tuple[int, int]]] | None = None,
) -> Batch:
    """Pairs of piece ids as one batch; `links` are piece to piece, `source-target`."""
    source_BS, source_valid_BS = pad_sources(sources)
    outputs_BT = _padded([[*target, EOS] for target in targets])
    inputs_BT = _padded([[BOS, *target] for target in targets])
    links_BTS = None
    if links is not None:
        links_BTS = torch.zeros(*outputs_BT.shape, source_BS.shape[1])
        for row, pairs in enumerate(links):
            for source, target in pairs:
                links_BTS[row, target, source] = 1.0
        links_BTS = links_BTS / links_BTS.sum(dim=-1, keepdim=True).clamp(min=1.0)
    return Batch(source_BS, source_valid_BS, inputs_BT, outputs_BT, outputs_BT != PAD, links_BTS)


def _padded(rows: Sequence[Sequence[int]], multiple: int = 1) -> Tensor:
    width = round_up(max(len(row) for row in rows), multiple)
    return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows], dtype=torch.long)
