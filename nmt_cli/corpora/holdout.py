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


def hold_out_of_each(
    corpora: Sequence[tuple[Corpus, tuple[str, str]]], *, sizes: Sequence[int], seed: int,
    dev: Sequence[Files], train: Sequence[Files],
) -> list[Split]:  # fmt: skip
    """Divide each of some corpora as `hold_out` does, in several pairs of languages, which stand beside them.

    A sentence of a held-out pair, on either side, stands in no pair for training of any corpus: a sentence may have
    translations in several languages. `sizes` are the pairs of each corpus with text on both sides.
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
