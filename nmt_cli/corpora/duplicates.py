"""An index of the pairs of corpora, which finds repeated pairs and held-out sources in bounded memory.

White space around a side makes no difference. Texts are compared by hashes of 64 bits, which are stored in a temporary
file and compared part by part. The file has no name, so nothing is left of it when the program is killed.
"""

from __future__ import annotations

import hashlib
import tempfile
from array import array
from collections.abc import Iterator, Sequence
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from nmt_cli.data.lines import iter_lines, open_input
from nmt_cli.system.errors import InputError
from nmt_cli.system.files import no_space

DUPLICATE, MANY_TARGETS, HELD_OUT = 1, 2, 4
"""Bits that mark a pair: the same pair has come before; its source has come before with `MAX_TARGETS` or more other
targets; its source is held out."""
MAX_TARGETS = 3
"""Number of targets of one source after which further targets are marked `MANY_TARGETS`."""
HASHES_PER_PART = 2**22
"""Number of hashes that are compared at a time."""
NO_HASH = 0
"""Value in place of the hash of a pair with an empty side, which never counts as a repetition."""
Hashes = NDArray[np.uint64]
Rows = NDArray[np.int64]


class PairIndex:
    """Hashes of pairs and of their sources, in temporary files. Pairs have row numbers, from 0, as they are added."""

    def __init__(self) -> None:
        self._pairs, self._sources = _HashFile(HASHES_PER_PART), _HashFile(HASHES_PER_PART)

    def __enter__(self) -> PairIndex:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._pairs.close()
        self._sources.close()

    def __len__(self) -> int:
        return len(self._pairs)

    def add(self, source: bytes, target: bytes) -> int:
        """Add the next pair and return its hash, which is `NO_HASH` if a side is empty."""
        source, target = source.strip(), target.strip()
        is_whole = bool(source and target)
        value = _hash64(b"%b\n%b" % (source, target)) if is_whole else NO_HASH
        self._pairs.add(value)
        self._sources.add(_hash64(source) if is_whole else NO_HASH)
        return value

    def repeats(self) -> Iterator[tuple[Rows, Rows]]:
        """Yield, in parts, the rows of pairs that repeat an earlier pair, and the rows of the pairs they repeat."""
        for rows, values in self._pairs.parts():
            is_first = np.ones(len(rows), dtype=bool)
            is_first[1:] = values[1:] != values[:-1]
            first_rows = rows[is_first][np.cumsum(is_first) - 1]
            yield rows[~is_first], first_rows[~is_first]

    def source_hashes(self) -> Hashes:
        """Return the hash of each source in the order of the rows; `NO_HASH` if a side of the pair is empty."""
        return self._sources.values()

    def first_rows(self, sources: Hashes) -> Rows:
        """Return, for each of these hashes, the first row of this index with this source, or -1 if there is none."""
        known, places = np.unique(sources, return_inverse=True)
        found = np.full(len(known), -1, dtype=np.int64)
        for rows, values in self._sources.parts():
            first = np.searchsorted(values, known)
            is_here = first < len(values)
            is_here[is_here] = values[first[is_here]] == known[is_here]
            found[is_here] = rows[first[is_here]]
        return found[places]

    def bits(self, held_out: Hashes) -> NDArray[np.uint8]:
        """Return the bits of each row: `DUPLICATE`, `MANY_TARGETS`, and `HELD_OUT` if its source is in `held_out`."""
        bits = np.zeros(len(self), dtype=np.uint8)
        for rows, _ in self.repeats():
            bits[rows] |= DUPLICATE
        for rows, values in self._sources.parts():
            bits[rows[np.isin(values, held_out)]] |= HELD_OUT
            is_new = bits[rows] & DUPLICATE == 0
            rows, values = rows[is_new], values[is_new]
            # Equal values stand side by side. If the value MAX_TARGETS places back is the same, that many came before.
            bits[rows[MAX_TARGETS:][values[MAX_TARGETS:] == values[:-MAX_TARGETS]]] |= MANY_TARGETS
        return bits


def line_hashes(paths: Sequence[str]) -> Hashes:
    """Return the distinct hashes, in rising order, of the lines with text in some files.

    Raises:
        InputError: a file cannot be read.
    """
    hashes = np.concatenate([_NO_ROWS[1], *map(hashes_by_line, paths)])
    return np.unique(hashes[hashes != NO_HASH])


def hashes_by_line(path: str) -> Hashes:
    """Return the hash of each line of a file, in order; `NO_HASH` for a line without text.

    Raises:
        InputError: the file cannot be read.
    """
    with open_input(path) as stream:
        stripped = (line.strip() for line in iter_lines(stream))
        hashes = array("Q", (_hash64(line) if line else NO_HASH for line in stripped))
    return np.frombuffer(hashes, dtype=np.uint64)


def _hash64(text: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") or NO_HASH + 1


class _HashFile:
    """A temporary file of 64-bit hashes. Row i, from 0, is the hash that was added as number i."""

    def __init__(self, part: int) -> None:
        self._file = tempfile.TemporaryFile(prefix="nmt-", buffering=0)  # noqa: SIM115 (closed at the end)
        self._waiting, self._written, self._part = array("Q"), 0, part

    def close(self) -> None:
        self._file.close()

    def __len__(self) -> int:
        return self._written + len(self._waiting)

    def add(self, value: int) -> None:
        self._waiting.append(value)
        if len(self._waiting) * 16 >= self._part:
            self._write()

    def _write(self) -> None:
        try:
            self._file.seek(0, 2)
            data = memoryview(self._waiting.tobytes())
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            error.filename = tempfile.gettempdir()
            where = f"{error.filename}: temporary files cannot be written"
            raise no_space(error) or InputError(f"{where}: {(error.strerror or str(error)).lower()}") from error
        self._written += len(self._waiting)
        self._waiting = array("Q")

    def values(self) -> Hashes:
        """Return all hashes in the order in which they were added."""
        self._write()
        return np.concatenate([_NO_ROWS[1], *(values for _, values in self._chunks())])

    def parts(self) -> Iterator[tuple[Rows, Hashes]]:
        """Yield the rows and their hashes in parts, sorted by hash and then by row; equal hashes are in one part.

        Rows with `NO_HASH` are left out.
        """
        self._write()
        num_parts = max(1, -(-len(self) // self._part))
        for part in range(num_parts):
            found = []
            for first, values in self._chunks():
                own = np.flatnonzero((values % np.uint64(num_parts) == part) & (values != NO_HASH))
                found.append((first + own, values[own]))
            rows, values = (np.concatenate(columns) for columns in zip(*found, strict=True)) if found else _NO_ROWS
            order = np.argsort(values, kind="stable")
            yield rows[order], values[order]

    def _chunks(self) -> Iterator[tuple[int, Hashes]]:
        self._file.seek(0)
        first = 0
        while data := self._file.read(8 * max(1, self._part // 8)):
            values = np.frombuffer(data, dtype=np.uint64)
            yield first, values
            first += len(values)


_NO_ROWS = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.uint64)
