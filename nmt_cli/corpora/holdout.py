"""Holds out pairs for validation, and leaves pairs that share a side with them out of training."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from nmt_cli.data.pairs import Corpus, Pair, has_both_sides, read_pairs

MAX_HELD_OUT = 1_000
HELD_OUT_SHARE = 0.05
Files = tuple[IO[bytes], IO[bytes]]
"""Two files open for writing: the sources and their translations."""


@dataclass(slots=True)
class SplitCounts:
    """Numbers of pairs that were held out, kept for training, or put in neither set."""

    held_out: int = 0
    training: int = 0
    left_out: int = 0
    """Pairs in neither set, because their source or target is also in a held-out pair."""
    without_text: int = 0
    """Pairs in neither set, because a side has no text."""


def number_to_hold_out(num_pairs: int) -> int:
    """Return the number of pairs to hold out: 1,000 or one in twenty, whichever is less, but at least 1."""
    return max(1, min(MAX_HELD_OUT, int(num_pairs * HELD_OUT_SHARE)))


@dataclass(frozen=True, slots=True)
class SplitInput:
    """The corpora of one translation direction, and the open files between which their pairs are divided."""

    corpora: Sequence[Corpus]
    direction: tuple[str, str]
    """Source and target language."""
    num_whole: int
    """Number of pairs in the corpora with text on both sides, from which the held-out pairs are drawn."""
    dev: Files
    train: Files


def hold_out(texts: Sequence[SplitInput], *, seed: int) -> list[SplitCounts]:
    """Write random pairs of each text to its `dev` files and the others to its `train` files; return their numbers.

    `seed` decides which pairs are drawn, of all with text on both sides. The order of pairs does not change. A pair
    is not written at all if one of its sentences (white space around it aside) is in a held-out pair of any of the
    texts in the same language, because a sentence may have translations in several languages; if a side has no text; or
    if it is not UTF-8. Only the held-out pairs are kept in memory.
    """
    held_out: list[dict[int, Pair]] = []
    sentences: dict[str, set[str]] = {}
    for text in texts:
        drawn = set(random.Random(seed).sample(range(text.num_whole), number_to_hold_out(text.num_whole)))
        held_out.append({ordinal: pair for ordinal, pair in _numbered(text.corpora) if ordinal in drawn})
        for pair in held_out[-1].values():
            for language, sentence in zip(text.direction, (pair.source, pair.target), strict=True):
                sentences.setdefault(language, set()).add(sentence.strip())
    return [_split(text, own, sentences) for text, own in zip(texts, held_out, strict=True)]


def _split(text: SplitInput, held_out: Mapping[int, Pair], sentences: Mapping[str, set[str]]) -> SplitCounts:
    """Write the `held_out` pairs (by number, see `_numbered`) to the dev files and others to the training files.

    Pairs with a sentence in `sentences`, which has the held-out sentences of each language, are left out.
    """
    split = SplitCounts()
    sources, targets = (sentences[language] for language in text.direction)
    for ordinal, pair in _numbered(text.corpora):
        if ordinal in held_out:
            split.held_out += 1
            _write(text.dev, pair)
        elif not has_both_sides(pair):
            split.without_text += 1
        elif pair.source.strip() in sources or pair.target.strip() in targets:
            split.left_out += 1
        else:
            split.training += 1
            _write(text.train, pair)
    return split


def _numbered(corpora: Sequence[Corpus]) -> Iterator[tuple[int, Pair]]:
    """Yield all pairs in UTF-8 with a number: from 0 for pairs with text on both sides, -1 for other pairs."""
    ordinal = 0
    for corpus in corpora:
        for pair in read_pairs(corpus, invalid_utf8="skip"):
            if has_both_sides(pair):
                yield ordinal, pair
                ordinal += 1
            else:
                yield -1, pair


def _write(files: Files, pair: Pair) -> None:
    for file, text in zip(files, (pair.source, pair.target), strict=True):
        file.write(text.encode("utf-8") + b"\n")
