"""Pairs that stand twice in the same corpora, and held-out sources that stand in training.

White space around a side makes no difference, here as in `nmt clean`.
Texts are known by 64-bit hashes, which take 8 bytes each. Several corpora are numbered as one, one after the other.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

PART = 2**20
"""Hashes that are sorted at a time, on average."""
Hashes = NDArray[np.uint64]
Rows = NDArray[np.int64]


@dataclass(slots=True)
class TextHashes:
    """The hashes of a corpus, one for each pair."""

    path: str
    """The source file, by which places are named."""
    pairs: array[int] = field(default_factory=lambda: array("Q"))
    sources: array[int] = field(default_factory=lambda: array("Q"))
    """Hashes of the sources of a held-out set; 0 for an empty source."""

    def add(self, rows: Sequence[tuple[bytes, ...]]) -> array[int]:
        """Take the next rows, each of source, target and perhaps more; return the hashes of their sources."""
        sources = array("Q")
        for number, (source, target, *_) in enumerate(rows, start=len(self.pairs) + 1):
            clean_source, clean_target = source.strip(), target.strip()
            is_whole = clean_source and clean_target
            # An empty side is a finding of its own: the pair gets a hash that no other has.
            self.pairs.append(_hash64(b"%b\n%b" % (clean_source, clean_target) if is_whole else b"\n\n%d" % number))
            sources.append(_hash64(clean_source) if clean_source else 0)
        return sources


class Seen:
    """The sources of the held-out sets, each with the first training row that holds it."""

    def __init__(self, held_out: Sequence[TextHashes]) -> None:
        arrays = [np.frombuffer(hashes.sources, dtype=np.uint64) for hashes in held_out]
        known = np.unique(np.concatenate(arrays)) if arrays else np.zeros(0, np.uint64)
        self._known: Hashes = known[known != 0]
        self._rows = np.full(len(self._known), -1, dtype=np.int64)
        self._shown = 0

    def show(self, sources: array[int]) -> None:
        """Look for the next rows of the training corpora."""
        hashes = np.frombuffer(sources, dtype=np.uint64)
        if len(self._known):
            places = self._places(hashes)
            hits = np.flatnonzero(self._known[places] == hashes)[::-1]  # the first of several is written last
            fresh = hits[self._rows[places[hits]] < 0]
            self._rows[places[fresh]] = self._shown + fresh
        self._shown += len(hashes)

    def rows(self, sources: array[int]) -> Rows:
        """Return for each held-out source the first training row that holds it, or -1."""
        hashes = np.frombuffer(sources, dtype=np.uint64)
        if not len(self._known):
            return np.full(len(hashes), -1, dtype=np.int64)
        places = self._places(hashes)
        return np.where(self._known[places] == hashes, self._rows[places], -1)

    def _places(self, hashes: Hashes) -> Rows:
        return np.minimum(np.searchsorted(self._known, hashes), len(self._known) - 1)


def shared(held_out: TextHashes, other: TextHashes, num_examples: int) -> tuple[int, list[str]]:
    """Return the number of sources of one held-out set that stand in another, and the places of the first of them."""
    sources, others = (np.frombuffer(hashes.sources, dtype=np.uint64) for hashes in (held_out, other))
    found = np.flatnonzero((sources != 0) & np.isin(sources, others))
    examples = [
        f"{held_out.path}:{row + 1} = {other.path}:{int(np.argmax(others == sources[row])) + 1}"
        for row in found[:num_examples]
    ]
    return len(found), examples


class Numbering:
    """Rows of corpora that follow each other."""

    def __init__(self, corpora: Sequence[TextHashes]) -> None:
        self._corpora = corpora
        self._bounds: list[int] = [0, *np.cumsum([len(corpus.pairs) for corpus in corpora]).tolist()]

    def place(self, row: int) -> str:
        """Return the file and the line of a row."""
        index = int(np.searchsorted(self._bounds, row, side="right")) - 1
        return f"{self._corpora[index].path}:{row - self._bounds[index] + 1}"

    def repeats(self, num_examples: int) -> list[tuple[int, list[str]]]:
        """Return for each corpus the number of its pairs that stood before, and the places of the first of them."""
        hashes = [np.frombuffer(corpus.pairs, dtype=np.uint64) for corpus in self._corpora]
        num_parts = np.uint64(max(1, -(-self._bounds[-1] // PART)))
        # Equal hashes are in one part, so that only a part is sorted at a time.
        repeats = np.sort(np.concatenate([self._repeats_in(hashes, part, num_parts) for part in range(num_parts)]))
        found = []
        for own in np.split(repeats, np.searchsorted(repeats, self._bounds[1:-1])):
            examples = [
                f"{self.place(int(row))} = {self.place(self._first_row(hashes, int(row)))}"
                for row in own[:num_examples]
            ]
            found.append((len(own), examples))
        return found

    def _repeats_in(self, hashes: Sequence[Hashes], part: int, num_parts: np.uint64) -> Rows:
        """Return the rows of one part of the hashes that stood before."""
        chosen = [
            np.concatenate(
                [
                    first + np.flatnonzero(own[first : first + PART] % num_parts == part)
                    for first in range(0, max(1, len(own)), PART)
                ]
            )
            for own in hashes
        ]
        values = np.concatenate([own[rows] for own, rows in zip(hashes, chosen, strict=True)])
        rows = np.concatenate([begin + rows for begin, rows in zip(self._bounds, chosen, strict=False)])
        order = np.argsort(values, kind="stable")
        values = values[order]
        return np.asarray(rows[order[1:][values[1:] == values[:-1]]])

    def _first_row(self, hashes: Sequence[Hashes], row: int) -> int:
        """Return the first row with the hash of this one."""
        index = int(np.searchsorted(self._bounds, row, side="right")) - 1
        value = hashes[index][row - self._bounds[index]]
        places = ((begin, np.flatnonzero(own == value)) for begin, own in zip(self._bounds, hashes, strict=False))
        return next(begin + int(rows[0]) for begin, rows in places if len(rows))

    def overlap(self, held_out: TextHashes, seen: Seen, num_examples: int) -> tuple[int, list[str]]:
        """Return the number of held-out sources that stand in these corpora, and the places of the first of them."""
        rows = seen.rows(held_out.sources)
        found = np.flatnonzero(rows >= 0)
        examples = [f"{held_out.path}:{index + 1} = {self.place(int(rows[index]))}" for index in found[:num_examples]]
        return len(found), examples


def _hash64(text: bytes) -> int:
    """Return a hash that is never 0, which stands for an empty text."""
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") or 1
