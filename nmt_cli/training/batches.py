"""From pair numbers to batches: the store's pieces, or pieces sampled anew where subword regularisation is on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import numpy as np

from nmt_cli.data.batch import Batch, make_batch
from nmt_cli.data.regularisation import SubwordSampler
from nmt_cli.data.sampler import Drawn
from nmt_cli.data.store import PairStore
from nmt_cli.data.tokenizer import PieceWords, Tokenizer


class BatchMaker:
    """Makes the batch of a step; the same step always gives the same batch."""

    def __init__(
        self,
        store: PairStore,
        tokenizers: tuple[Tokenizer, Tokenizer],
        *,
        seed: int,
        sampling_alpha: float = 0.0,
        with_links: bool = False,
    ) -> None:
        self._store, self._tokenizers, self._seed, self._with_links = store, tokenizers, seed, with_links
        self._samplers: list[SubwordSampler] = []
        if sampling_alpha:
            made = {tokenizer: SubwordSampler(tokenizer, sampling_alpha) for tokenizer in set(tokenizers)}
            self._samplers = [made[tokenizer] for tokenizer in tokenizers]

    def __call__(self, drawn: Drawn, step: int, places: Sequence[int]) -> Batch:
        """The pairs at some places of what was drawn; the pieces of each do not depend on which others are made."""
        numbers = [int(drawn.pairs[place]) for place in places]
        if self._with_links:
            return self._with_alignments(numbers, step, places)
        pairs = [self._store.ids(number) for number in numbers]
        sides = [list(side) for side in zip(*pairs, strict=True)]
        for side, sampler in enumerate(self._samplers):
            sides[side] = list(map(sampler.sample, sides[side], self._randoms(step, places, side)))
        return make_batch(*sides)

    def _with_alignments(self, numbers: Sequence[int], step: int, places: Sequence[int]) -> Batch:
        texts = zip(*(self._store.texts(number) for number in numbers), strict=True)
        sources, targets = (
            list(map(tokenizer.encode_words, side)) for tokenizer, side in zip(self._tokenizers, texts, strict=True)
        )
        if self._samplers:
            sources, targets = (
                list(map(sampler.sample_words, side, self._randoms(step, places, number)))
                for number, (sampler, side) in enumerate(zip(self._samplers, (sources, targets), strict=True))
            )
        links = [
            piece_links(self._store.links(number), source, target)
            for number, source, target in zip(numbers, sources, targets, strict=True)
        ]
        return make_batch([source.ids for source in sources], [target.ids for target in targets], links)

    def _randoms(self, step: int, places: Sequence[int], side: int) -> Iterator[Random]:
        return (Random(f"{self._seed} {step} {place} {side}") for place in places)


def piece_links(links: Sequence[tuple[int, int]], source: PieceWords, target: PieceWords) -> list[tuple[int, int]]:
    """Word links as links between all pieces of the two words; links beyond a line's words are left out."""
    source_pieces = [np.flatnonzero(np.equal(source.words, word)) for word in range(source.num_words)]
    target_pieces = [np.flatnonzero(np.equal(target.words, word)) for word in range(target.num_words)]
    return [
        (int(i), int(j))
        for source_word, target_word in links
        if source_word < source.num_words and target_word < target.num_words
        for i in source_pieces[source_word]
        for j in target_pieces[target_word]
    ]
