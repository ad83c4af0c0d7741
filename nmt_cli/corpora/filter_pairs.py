"""Filtering of a corpus in two passes: the first draws a sample and finds repeated pairs, the second applies filters.

Memory holds the sample, one block of pairs, and one byte for each pair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt_cli.corpora.duplicates import DUPLICATE, HELD_OUT, MANY_TARGETS, PairIndex, line_hashes
from nmt_cli.corpora.pair_filter import PairFilters
from nmt_cli.data.lines import decode_line
from nmt_cli.data.pairs import parallel_lines
from nmt_cli.system.console import Progress
from nmt_cli.system.errors import InputError

SAMPLE_PAIRS = 20_000
SAMPLE_CHARACTERS = 1_000
"""Number of characters of each side that the sample keeps; the rest of a long line is cut off."""
BLOCK = 4_096
"""Number of consecutive pairs that are read and filtered together."""
NUM_EXAMPLES = 3
Lines = tuple[bytes, ...]


def cleaned_paths(texts: Sequence[str], prefix: str) -> list[Path]:
    """Return the paths of the files that cleaning some texts writes: one for each text, and a list of dropped pairs.

    The file for a text has the ending of this text, such as `.en` or `.en.gz`. `.source` and `.target` are endings of
    sides without one, and come before the endings of sides with the same.
    """
    endings = []
    for path in map(Path, texts):
        endings.append(f"{Path(path.stem).suffix}.gz" if path.suffix == ".gz" else path.suffix)
    if len(endings) == 1:
        endings = [endings[0] or ".txt"]
    else:
        sides = list(zip((".source", ".target"), endings, strict=True))
        endings = [ending or side for side, ending in sides]
        if endings[0] == endings[1]:
            endings = [f"{side}{ending}" for side, ending in sides]
    return [Path(f"{prefix}{ending}") for ending in (*endings, ".dropped.tsv")]


class FilteredPair(NamedTuple):
    """A pair of lines with the names of the filters that it fails."""

    number: int
    """Line number, from 1."""
    source: bytes
    target: bytes
    failed_filters: list[str]
    """Names of the filters, worst first."""


@dataclass(slots=True)
class FilterCounts:
    """Counts of the pairs of a corpus: read, examined, dropped, and by the filters that they fail."""

    read: int = 0
    """All pairs of the corpus."""
    examined: int = 0
    """Pairs to which the filters were applied; of a large corpus this may be a part."""
    dropped: int = 0
    found: Counter[str] = field(default_factory=Counter)
    """Pairs that fail each filter. A pair may fail several."""
    dropped_by: Counter[str] = field(default_factory=Counter)
    """Dropped pairs, each under the first filter that drops it."""
    examples: dict[str, list[int]] = field(default_factory=dict)
    """Line numbers of the first pairs that fail each filter; of stretches out of step, the lines where they begin."""
    last: dict[str, int] = field(default_factory=dict)
    inactive_filters: tuple[str, ...] = ()
    """Filters that find nothing, because the corpus is too small or its sides are too alike to learn from."""

    @property
    def kept(self) -> int:
        """Examined pairs that are not dropped."""
        return self.examined - self.dropped

    def add(self, pair: FilteredPair, dropping: frozenset[str]) -> str | None:
        """Count a pair; return the first filter in `dropping` (the filters that drop pairs) that it fails, or None."""
        self.examined += 1
        for name in pair.failed_filters:
            self.found[name] += 1
            examples = self.examples.setdefault(name, [])
            goes_on = name == "out-of-step" and self.last.get(name) == pair.number - 1
            if len(examples) < NUM_EXAMPLES and not goes_on:
                examples.append(pair.number)
            self.last[name] = pair.number
        reason = next((name for name in pair.failed_filters if name in dropping), None)
        if reason is not None:
            self.dropped += 1
            self.dropped_by[reason] += 1
        return reason

    def share(self, count: int) -> float:
        """Return a count as a share of the examined pairs, in per cent."""
        return 100 * count / max(1, self.examined)


class FirstPass(NamedTuple):
    """The result of reading a corpus once before it is filtered: its size, a sample, and marks of repeated pairs."""

    num_pairs: int
    sample: list[tuple[str, str]]
    bits: NDArray[np.uint8]
    """For each pair the sum of the bits that apply: `DUPLICATE`, `MANY_TARGETS`, `HELD_OUT` (`PairIndex.bits`)."""


def first_pass(paths: Sequence[str], held_out: Sequence[str] = ()) -> FirstPass:
    """Read a corpus once; return its number of pairs, a sample, and marks of repeated and held-out pairs.

    `held_out` are files of sources that should not be in the corpus. The sample is drawn by the hashes of the pairs, so
    it is the same each time and holds each pair once.

    Raises:
        InputError: a file cannot be read, or the files of the corpus have unequal line counts.
    """
    sample: dict[int, Lines] = {}
    limit = 2**64
    held_out_hashes = line_hashes(held_out)
    with PairIndex() as index, Progress("reading", unit="pair") as progress:
        for lines in parallel_lines(paths):
            source, target = lines[0].strip(), lines[1].strip()
            value = index.add(source, target)
            if value < limit and source and target:
                # Four bytes a character at most. A character that is cut in two becomes U+FFFD.
                sample[value] = source[: 4 * SAMPLE_CHARACTERS], target[: 4 * SAMPLE_CHARACTERS]
                if len(sample) >= 2 * SAMPLE_PAIRS:
                    limit = sorted(sample)[SAMPLE_PAIRS]
                    sample = {key: sample[key] for key in sample if key < limit}
            if not len(index) % BLOCK:
                progress.advance(BLOCK)
        chosen = sorted(sample)[:SAMPLE_PAIRS]
        texts = [(decode_line(sample[key][0])[0], decode_line(sample[key][1])[0]) for key in chosen]
        return FirstPass(len(index), texts, index.bits(held_out_hashes))


def filtered_pairs(
    paths: Sequence[str], known: FirstPass, filters: PairFilters, *, max_pairs: int | None = None
) -> Iterator[FilteredPair]:
    """Yield the pairs of a corpus in order, with the filters that each fails.

    With `max_pairs`, only about that many pairs are examined and yielded, in blocks from all over the corpus.

    Raises:
        InputError: the files cannot be read, or their length is no longer that of the first pass, `known`.
    """
    every = 1 if max_pairs is None else max(1, -(-known.num_pairs // max_pairs))
    rows = parallel_lines(paths)
    first = 0
    with Progress("filtering", unit="pair", total=known.num_pairs) as progress:
        for number, block in enumerate(iter(lambda: list(islice(rows, BLOCK)), [])):
            if first + len(block) > known.num_pairs:
                raise InputError(f"{' and '.join(paths)}: became longer while they were read; run the command again")
            if number % every == 0:
                sides = [(decode_line(lines[0]), decode_line(lines[1])) for lines in block]
                bits = known.bits[first : first + len(block)].tolist()
                marks = [
                    _marks(seen, source[1] and target[1]) for seen, (source, target) in zip(bits, sides, strict=True)
                ]
                found = filters.failed_filters([(source[0], target[0]) for source, target in sides], marks)
                for row, (lines, failed_filters) in enumerate(zip(block, found, strict=True), start=first + 1):
                    yield FilteredPair(row, lines[0], lines[1], failed_filters)
            first += len(block)
            progress.advance(len(block))
    if first < known.num_pairs:
        raise InputError(f"{' and '.join(paths)}: became shorter while they were read; run the command again")


def _marks(bits: int, is_valid: bool) -> list[str]:
    """Return the names of the filters that a pair fails by its bits (`PairIndex.bits`) or because it is not UTF-8."""
    marks = [] if is_valid else ["mixed-encodings"]
    if bits & DUPLICATE:
        marks.append("duplicate")
    if bits & MANY_TARGETS:
        marks.append("many-targets")
    if bits & HELD_OUT:
        marks.append("leak")
    return marks


def count_filtered(paths: Sequence[str], dropping: frozenset[str], *, max_pairs: int | None = None) -> FilterCounts:
    """Return the counts of pairs that fail each filter, and of pairs that the filters `dropping` would drop."""
    known = first_pass(paths)
    filters = PairFilters(known.sample)
    counts = FilterCounts(read=known.num_pairs, inactive_filters=filters.inactive_filters)
    for pair in filtered_pairs(paths, known, filters, max_pairs=max_pairs):
        counts.add(pair, dropping)
    return counts
