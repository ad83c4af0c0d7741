"""Makes batches from pair numbers, and pads them to rectangles of piece ids.

Shapes: B batch, S source with </s>, T target with </s>.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nmt_cli.data.sampler import SampledBatch
from nmt_cli.data.store import PairStore
from nmt_cli.data.subword_regularisation import SubwordSampler
from nmt_cli.data.tokenizer import BOS, EOS, PAD, PieceWords, Tokenizer


class SourceBatch(NamedTuple):
    """A padded batch of sources with </s> at their end: piece ids, and True at pieces, False at padding."""

    ids_BS: Tensor
    valid_BS: Tensor

    def to(self, device: torch.device) -> SourceBatch:
        return SourceBatch(*(tensor.to(device, non_blocking=True) for tensor in self))


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
    """For each target piece equal weights, with the sum 1, on the source pieces that it is aligned to, or zeros if it
    has no link; None without alignments."""

    @property
    def num_sentences(self) -> int:
        return self.source_BS.shape[0]

    @property
    def num_target_tokens(self) -> int:
        """Number of target pieces with </s>, padding not counted."""
        return int(self.target_valid_BT.sum())

    def to(self, device: torch.device) -> Batch:
        """Return the batch with all tensors on `device`."""
        return self._map_tensors(lambda tensor: tensor.to(device, non_blocking=True))

    def to_async(self, device: torch.device) -> Batch:
        """Return the batch on `device`, copied from pinned memory, so that the host does not wait for a GPU."""
        return (self._map_tensors(Tensor.pin_memory) if device.type == "cuda" else self).to(device)

    def split(self, parts: int) -> list[Batch]:
        """Return at most `parts` micro-batches of about equal numbers of sentences, in order."""
        size = -(-self.num_sentences // parts)
        starts = range(0, self.num_sentences, size)
        return [self._map_tensors(lambda tensor, start=start: tensor[start : start + size]) for start in starts]  # type: ignore[misc]

    def padded(self, num_sentences: int, source_width: int, target_width: int) -> Batch:
        """Return the batch with more padding: `num_sentences` rows, and these source and target widths."""

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

    def _map_tensors(self, change: Callable[[Tensor], Tensor]) -> Batch:
        links = None if self.links_BTS is None else change(self.links_BTS)
        source, source_valid, inputs, outputs, target_valid = (change(tensor) for tensor in self[:5])
        return Batch(source, source_valid, inputs, outputs, target_valid, links)


def round_up(number: int, multiple: int) -> int:
    """Return the smallest multiple of `multiple` that is not below `number`."""
    return -(-number // multiple) * multiple


def pad_sources(sources: Sequence[Sequence[int]], *, multiple: int = 1) -> SourceBatch:
    """Return sources of piece ids as one batch (B, S), each with </s>, and padded at the end.

    S is the length of the longest source with </s>, rounded up to a multiple of `multiple`.
    """
    ids_BS = _pad_rows([[*source, EOS] for source in sources], multiple)
    return SourceBatch(ids_BS, ids_BS != PAD)


def make_batch(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    links: Sequence[Sequence[tuple[int, int]]] | None = None,
) -> Batch:
    """Return pairs of piece ids as one batch, padded to the longest source and target.

    `links` are the alignment of each pair, as (source piece, target piece) from 0."""
    source_BS, source_valid_BS = pad_sources(sources)
    outputs_BT = _pad_rows([[*target, EOS] for target in targets])
    inputs_BT = _pad_rows([[BOS, *target] for target in targets])
    links_BTS = None
    if links is not None:
        links_BTS = torch.zeros(*outputs_BT.shape, source_BS.shape[1])
        places = [(row, target, source) for row, pairs in enumerate(links) for source, target in pairs]
        links_BTS[tuple(torch.tensor(places, dtype=torch.long).view(-1, 3).unbind(1))] = 1.0
        links_BTS = links_BTS / links_BTS.sum(dim=-1, keepdim=True).clamp(min=1.0)
    return Batch(source_BS, source_valid_BS, inputs_BT, outputs_BT, outputs_BT != PAD, links_BTS)


def _pad_rows(rows: Sequence[Sequence[int]], multiple: int = 1) -> Tensor:
    width = round_up(max(len(row) for row in rows), multiple)
    return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows], dtype=torch.long)


class BatchMaker:
    """Makes the batch of an update, from stored pieces, or from sampled segmentations (subword regularisation).

    The same update always gives the same batch.
    """

    def __init__(
        self,
        store: PairStore,
        tokenizers: tuple[Tokenizer, Tokenizer],
        *,
        seed: int,
        sampling_alpha: float = 0.0,
        with_links: bool = False,
    ) -> None:
        self._store, self._seed, self._with_links = store, seed, with_links
        self._samplers: list[SubwordSampler] = []
        if sampling_alpha:
            made = {tokenizer: SubwordSampler(tokenizer, sampling_alpha) for tokenizer in set(tokenizers)}
            self._samplers = [made[tokenizer] for tokenizer in tokenizers]

    def __call__(self, sampled: SampledBatch, step: int, places: Sequence[int]) -> Batch:
        """Return the pairs at `places` of the sampled batch of update `step`, as tensors.

        The pieces of a pair do not depend on the other places, so processes may share a batch."""
        numbers = [int(sampled.pairs[place]) for place in places]
        if self._with_links:
            return self._with_alignments(numbers, step, places)
        pairs = [self._store.ids(number) for number in numbers]
        sides = [list(side) for side in zip(*pairs, strict=True)]
        for side, sampler in enumerate(self._samplers):
            sides[side] = list(map(sampler.sample, sides[side], self._generators(step, places, side)))
        return make_batch(*sides)

    def _with_alignments(self, numbers: Sequence[int], step: int, places: Sequence[int]) -> Batch:
        sources, targets = zip(*map(self._store.pieces, numbers), strict=True)
        if self._samplers:
            sources, targets = (
                tuple(map(sampler.sample_words, side, self._generators(step, places, number)))
                for number, (sampler, side) in enumerate(zip(self._samplers, (sources, targets), strict=True))
            )
        links = [
            piece_links(self._store.links(number), source, target)
            for number, source, target in zip(numbers, sources, targets, strict=True)
        ]
        return make_batch([source.ids for source in sources], [target.ids for target in targets], links)

    def _generators(self, step: int, places: Sequence[int], side: int) -> Iterator[Random]:
        return (Random(f"{self._seed} {step} {place} {side}") for place in places)


def piece_links(links: Sequence[tuple[int, int]], source: PieceWords, target: PieceWords) -> list[tuple[int, int]]:
    """Return word links (source word, target word) as links between all pieces of the two words.

    Links to words beyond the end of a line are left out.
    """
    source_pieces = [np.flatnonzero(np.equal(source.words, word)) for word in range(source.num_words)]
    target_pieces = [np.flatnonzero(np.equal(target.words, word)) for word in range(target.num_words)]
    return [
        (int(i), int(j))
        for source_word, target_word in links
        if source_word < source.num_words and target_word < target.num_words
        for i in source_pieces[source_word]
        for j in target_pieces[target_word]
    ]
