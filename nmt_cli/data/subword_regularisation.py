"""Subword regularisation: random segmentations of tokenised text, which depend only on the generator that is passed.

SentencePiece samples too, but its generator has another state in every process, whatever the seed; a training that is
resumed would see other pieces than one without interruptions. Pieces never cross the space that begins a word, so
each word is sampled by itself; bytes and symbols stay as they are.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from random import Random

from nmt_cli.data.tokenizer import UNK, PieceWords, Tokenizer

CACHED_WORDS, MAX_CACHED = 20_000, 16
"""Number of words whose lattice is cached, and most characters of such a word. In a language without spaces a line is
one word, which seldom recurs."""

Lattice = list[tuple[list[float], list[tuple[int, int]]]]
"""For each position in a word, the cumulative probabilities of the pieces that may end there, and the start and the id
of each piece."""


class SubwordSampler:
    """Samples segmentations of a unigram model (Kudo, 2018) or drops merges of BPE (Provilkov et al., 2020)."""

    def __init__(self, tokenizer: Tokenizer, alpha: float) -> None:
        self._pieces = tokenizer.pieces(range(tokenizer.vocab_size))
        self._fixed = tokenizer.fixed_ids()
        self._ids = {piece: id_ for id_, piece in enumerate(self._pieces) if id_ not in self._fixed}
        self._scores = tokenizer.scores()
        self._longest = max(map(len, self._ids), default=1)
        self._alpha = alpha
        self._is_bpe = tokenizer.is_bpe
        self._lattice_of = lru_cache(CACHED_WORDS)(self.lattice)

    def sample(self, ids: Sequence[int], random: Random) -> list[int]:
        """Return the ids of a sampled segmentation of the text that `ids` spell."""
        return [id_ for _, part in self._parts(ids, random) for id_ in part]

    def sample_words(self, best: PieceWords, random: Random) -> PieceWords:
        """Return a sampled segmentation of the text of `best`, with the index of the word of each piece."""
        parts = [(best.words[first], id_) for first, part in self._parts(best.ids, random) for id_ in part]
        return PieceWords(tuple(id_ for _, id_ in parts), tuple(word for word, _ in parts), best.num_words)

    def _parts(self, ids: Sequence[int], random: Random) -> Iterator[tuple[int, list[int]]]:
        """Yield each word or fixed piece (byte, symbol): the index in `ids` where it begins, and its sampled pieces."""
        word, first = "", 0
        for place, id_ in enumerate(ids):
            fixed = id_ in self._fixed
            if word and (fixed or self._pieces[id_].startswith("▁")):
                yield first, self._sample_word(word, random)
                word = ""
            if fixed:
                yield place, [id_]
                continue
            first = first if word else place
            word += self._pieces[id_]
        if word:
            yield first, self._sample_word(word, random)

    def _sample_word(self, word: str, random: Random) -> list[int]:
        return self._sample_bpe(word, random) if self._is_bpe else self._sample_unigram(word, random)

    def _sample_unigram(self, word: str, random: Random) -> list[int]:
        """Return sampled pieces of a word, drawn from its end to its beginning, each given the pieces after it."""
        lattice = self._lattice_of(word) if len(word) <= MAX_CACHED else self.lattice(word)
        end = len(word)
        ids = []
        while end:
            cumulative, pieces = lattice[end]
            place = min(bisect_right(cumulative, random.random()), len(pieces) - 1)
            end, id_ = pieces[place]
            ids.append(id_)
        return ids[::-1]

    def lattice(self, word: str) -> Lattice:
        """Return, for each prefix of a word, the pieces that may end it and their probabilities (forward filtering).

        A segmentation has probability ∝ exp(alpha · sum of its scores) (Kudo, 2018, eq. 8).
        """
        mass = [0.0] + [-math.inf] * len(word)
        lattice: Lattice = [([], [])]
        for end in range(1, len(word) + 1):
            pieces, weights = [], []
            for start in range(max(0, end - self._longest), end):
                id_ = self._ids.get(word[start:end])
                if id_ is not None and mass[start] > -math.inf:
                    pieces.append((start, id_))
                    weights.append(mass[start] + self._alpha * self._scores[id_])
            if not pieces and mass[end - 1] > -math.inf:  # a character that is no piece: of a model of another program
                pieces, weights = [(end - 1, UNK)], [mass[end - 1]]
            highest = max(weights, default=-math.inf)
            shares = [math.exp(weight - highest) for weight in weights]
            total = math.fsum(shares)
            mass[end] = highest + math.log(total) if pieces else -math.inf
            cumulative, below = [], 0.0
            for share in shares:
                below += share / total
                cumulative.append(below)
            lattice.append((cumulative, pieces))
        return lattice

    def _sample_bpe(self, word: str, random: Random) -> list[int]:
        """Return pieces of a word made by merging neighbours, the best pair first, as SentencePiece does; each merge is
        dropped with probability alpha."""
        symbols: list[str] = list(word)
        before = list(range(-1, len(word) - 1))
        after = [*range(1, len(word)), -1]
        agenda: list[tuple[float, int, int, str]] = []

        def consider(left: int, right: int) -> None:
            if left >= 0 and right >= 0:
                merged = symbols[left] + symbols[right]
                id_ = self._ids.get(merged)
                if id_ is not None:
                    heapq.heappush(agenda, (-self._scores[id_], left, right, merged))

        for left in range(len(word) - 1):
            consider(left, left + 1)
        while agenda:
            _, left, right, merged = heapq.heappop(agenda)
            is_past = after[left] != right or symbols[left] + symbols[right] != merged
            if is_past or random.random() < self._alpha:
                continue
            symbols[left], symbols[right] = merged, ""
            after[left] = after[right]
            if after[left] >= 0:
                before[after[left]] = left
            consider(before[left], left)
            consider(left, after[left])
        return [self._ids.get(symbol, UNK) for symbol in symbols if symbol]
