"""Pairs taken out of training for validation, and everything too like them to stay."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from nmt_cli.data.pairs import Corpus, Pair, is_whole, read_pairs

MAX_HELD_OUT = 1_000
HELD_OUT_SHARE = 0.05
Files = tuple[IO[bytes], IO[bytes]]
"""The sources and their translations."""


@dataclass(slots=True)
class Split:
    """The numbers of pairs that went to each set, or to none."""

    held_out: int = 0
    training: int = 0
    left_out: int = 0
    """Pairs in neither, because their source or target stands in a held-out pair."""
    without_text: int = 0
    """Pairs without text on one side, which are in neither too."""


def number_to_hold_out(num_pairs: int) -> int:
    """Return 1,000 pairs or one in twenty, whichever is less; one at least."""
    return max(1, min(MAX_HELD_OUT, int(num_pairs * HELD_OUT_SHARE)))


def hold_out(corpora: Sequence[Corpus], *, num_whole: int, seed: int, dev: Files, train: Files) -> Split:
    """Draw pairs by `seed` for `dev` and write the others to `train`, both in their order.

    The pairs are drawn from the `num_whole` pairs with text on both sides. A pair goes into neither file if it has the
    source or the target of a held-out pair (white space around it aside), if a side has no text, or if it is not UTF-8.
    Only the held-out pairs are kept in memory.
    """
    drawn = set(random.Random(seed).sample(range(num_whole), number_to_hold_out(num_whole)))
    held_out = {ordinal: pair for ordinal, pair in _numbered(corpora) if ordinal in drawn}
    sources = {pair.source.strip() for pair in held_out.values()}
    targets = {pair.target.strip() for pair in held_out.values()}
    split = Split()
    for ordinal, pair in _numbered(corpora):
        if ordinal in held_out:
            split.held_out += 1
            _write(dev, pair)
        elif not is_whole(pair):
            split.without_text += 1
        elif pair.source.strip() in sources or pair.target.strip() in targets:
            split.left_out += 1
        else:
            split.training += 1
            _write(train, pair)
    return split


def _numbered(corpora: Sequence[Corpus]) -> Iterator[tuple[int, Pair]]:
    """Yield all pairs. The whole ones are numbered from 0, the others are -1."""
    ordinal = 0
    for corpus in corpora:
        for pair in read_pairs(corpus, invalid_utf8="skip"):
            if is_whole(pair):
                yield ordinal, pair
                ordinal += 1
            else:
                yield -1, pair


def _write(files: Files, pair: Pair) -> None:
    for file, text in zip(files, (pair.source, pair.target), strict=True):
        file.write(text.encode("utf-8") + b"\n")
