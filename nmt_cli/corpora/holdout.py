"""Holds out pairs for validation, and leaves pairs that share a side with them out of training."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from nmt_cli.data.pairs import Corpus, Pair, is_whole, read_pairs

MAX_HELD_OUT = 1_000
HELD_OUT_SHARE = 0.05
Files = tuple[IO[bytes], IO[bytes]]
"""Two files open for writing: the sources and their translations."""


@dataclass(slots=True)
class Split:
    """The numbers of pairs that went to each set, or to none."""

    held_out: int = 0
    training: int = 0
    left_out: int = 0
    """Pairs in neither set, because their source or target is also in a held-out pair."""
    without_text: int = 0
    """Pairs in neither set, because a side has no text."""


def number_to_hold_out(num_pairs: int) -> int:
    """Return the number of pairs to hold out: 1,000 or one in twenty, whichever is less, but at least 1."""
    return max(1, min(MAX_HELD_OUT, int(num_pairs * HELD_OUT_SHARE)))


def hold_out(corpora: Sequence[Corpus], *, num_whole: int, seed: int, dev: Files, train: Files) -> Split:
    """Write pairs drawn by `seed` to `dev` and the others to `train`, both in their order; return their numbers.

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


def hold_out_of_each(
    corpora: Sequence[tuple[Corpus, tuple[str, str]]], *, sizes: Sequence[int], seed: int,
    dev: Sequence[Files], train: Sequence[Files],
) -> list[Split]:  # fmt: skip
    """Split each corpus as `hold_out` does; `corpora` has each corpus with its source and target language.

    No training pair of any corpus has a sentence that is in a held-out pair of any corpus in the same language, because
    a sentence may have translations in several languages. `sizes` are the numbers of pairs of each corpus with text on
    both sides.
    """
    held_out: list[dict[int, Pair]] = []
    sentences: dict[str, set[str]] = {}
    for (corpus, languages), num_whole in zip(corpora, sizes, strict=True):
        drawn = set(random.Random(seed).sample(range(num_whole), number_to_hold_out(num_whole)))
        held_out.append({ordinal: pair for ordinal, pair in _numbered([corpus]) if ordinal in drawn})
        for pair in held_out[-1].values():
            for language, text in zip(languages, (pair.source, pair.target), strict=True):
                sentences.setdefault(language, set()).add(text.strip())
    splits = []
    for (corpus, languages), own, dev_files, train_files in zip(corpora, held_out, dev, train, strict=True):
        split = Split()
        known = [sentences[language] for language in languages]
        for ordinal, pair in _numbered([corpus]):
            if ordinal in own:
                split.held_out += 1
                _write(dev_files, pair)
            elif not is_whole(pair):
                split.without_text += 1
            elif pair.source.strip() in known[0] or pair.target.strip() in known[1]:
                split.left_out += 1
            else:
                split.training += 1
                _write(train_files, pair)
        splits.append(split)
    return splits


def _numbered(corpora: Sequence[Corpus]) -> Iterator[tuple[int, Pair]]:
    """Yield all pairs in UTF-8 with a number: from 0 for pairs with text on both sides, -1 for other pairs."""
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
