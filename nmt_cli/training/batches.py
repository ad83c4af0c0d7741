"""From pair numbers to batches: the store's pieces, or pieces sampled anew where subword regularisation is on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nmt_cli.data.batch import Batch, make_batch
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
        self._store, self._tokenizers, self._seed = store, tokenizers, seed
        self._sampling_alpha, self._with_links = sampling_alpha, with_links

    def __call__(self, drawn: Drawn, step: int) -> Batch:
        numbers = [int(number) for number in drawn.pairs]
        if self._with_links:
            return self._with_alignments(numbers)
        if self._sampling_alpha:
            texts = [self._store.texts(number) for number in numbers]
            sources, targets = (
                tokenizer.sample_all(
                    [text[side] for text in texts],
                    alpha=self._sampling_alpha,
                    seed=self._seed * 1_000_003 + 2 * step + side,
                )
                for side, tokenizer in enumerate(self._tokenizers)
            )
            return make_batch(sources, targets)
        pairs = [self._store.ids(number) for number in numbers]
        return make_batch([source for source, _ in pairs], [target for _, target in pairs])

    def _with_alignments(self, numbers: Sequence[int]) -> Batch:
        sources, targets, links = [], [], []
        for number in numbers:
            source_text, target_text = self._store.texts(number)
            source = self._tokenizers[0].encode_words(source_text)
            target = self._tokenizers[1].encode_words(target_text)
            sources.append(source.ids)
            targets.append(target.ids)
            links.append(piece_links(self._store.links(number), source, target))
        return make_batch(sources, targets, links)


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
