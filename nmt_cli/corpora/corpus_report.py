"""Reports the size of corpora and their suspicious lines, before a training.

Every file is read once. Texts are not kept, so memory is about 10 bytes a pair. Nothing is printed or refused here.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt_cli.corpora.duplicates import PairIndex
from nmt_cli.data.lines import decode_line
from nmt_cli.data.pairs import (
    Corpus,
    LengthLimits,
    check_invalid_links,
    first_invalid_link,
    parallel_lines,
    parse_links,
)
from nmt_cli.data.store import CHUNK
from nmt_cli.data.tokenizer import UNK, Tokenizer
from nmt_cli.system.console import Progress
from nmt_cli.system.errors import InputError

NUM_EXAMPLES = 3
OUTLIER_FACTOR = 3.0
"""A pair is an outlier if its ratio of lengths in characters is more than this many times above or below the median
ratio of the corpus. The median takes the languages into account: Chinese is a third as long as English."""
MIN_OUTLIER_CHARACTERS = 20
"""Least characters of the longer side of an outlier. The ratio of shorter pairs says nothing."""
OUTLIER_PAIRS = 2**20
"""Pairs whose ratios are computed at a time."""
FINDINGS = (
    "empty_source",
    "empty_target",
    "invalid_utf8",
    "control_characters",
    "too_long",
    "beyond_ratio",
    "length_ratio",
    "duplicates",
    "copies",
    "overlap",
    "dev_overlap",
    "other_directions",
    "bad_alignment",
    "missing_words",
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
Lines = tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class NamedCorpus:
    """A corpus with its name in messages and its use: training, or dev or test set."""

    name: str
    corpus: Corpus
    is_training: bool = False
    with_links: bool = False
    """True if training uses the word alignment; if not, only the number of its lines is checked."""


@dataclass(slots=True)
class Finding:
    """One kind of finding in a corpus: the number of its lines, and the places of the first `NUM_EXAMPLES`."""

    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, place: str) -> None:
        """Count one more line, and keep its place (`file:line`) if it is one of the first `NUM_EXAMPLES`."""
        self.count += 1
        if len(self.examples) < NUM_EXAMPLES:
            self.examples.append(place)


@dataclass(slots=True)
class SideReport:
    """Counts of one side of a corpus, in pieces, or in words if there is no tokenizer."""

    num_lines: int = 0
    num_units: int = 0
    longest: int = 0
    num_unknown: int = 0
    """Number of pieces that are <unk>; 0 without a tokenizer."""
    num_bytes: int = 0
    """Number of byte pieces, which spell characters that are not in the vocabulary; 0 without a tokenizer."""


@dataclass(slots=True)
class CorpusReport:
    """Sizes and suspicious lines of a corpus. If it has `problems`, which are messages, training would refuse it."""

    name: str
    source: str
    target: str
    is_training: bool
    links: str | None = None
    """Path of the word-alignment file; None if the corpus has none."""
    num_pairs: int = 0
    num_kept: int = 0
    """Pairs that training would use; all pairs of a dev or test set."""
    longest_kept: int = 0
    sides: tuple[SideReport, SideReport] = field(default_factory=lambda: (SideReport(), SideReport()))
    findings: dict[str, Finding] = field(default_factory=lambda: {name: Finding() for name in FINDINGS})
    problems: list[str] = field(default_factory=list)

    @property
    def is_dev(self) -> bool:
        """True if the corpus is a dev set: its name is `dev`, which the direction may follow."""
        return self.name.partition(" ")[0] == "dev"


def analyse(
    corpora: Sequence[NamedCorpus], limits: LengthLimits, tokenizers: tuple[Tokenizer, Tokenizer] | None = None
) -> list[CorpusReport]:
    """Return a report of each corpus, in the order given. A corpus that cannot be read gets a problem in its report."""
    if tokenizers is None:
        limits = replace(limits, max_length_ratio=None)  # it is one of pieces, and words say little about it
    readers = [_Reader(corpus, limits, tokenizers) for corpus in corpora]
    training = [reader for reader in readers if reader.is_training]
    held_out = [reader for reader in readers if not reader.is_training]
    with ExitStack() as stack, Progress("checking", unit="pair") as progress:
        # The training corpora are numbered as one, because a pair of one may repeat a pair of another.
        indexed_training = _IndexedCorpora(stack.enter_context(PairIndex()), training)
        indexed_held_out = [_IndexedCorpora(stack.enter_context(PairIndex()), [reader]) for reader in held_out]
        for indexed in (*indexed_held_out, indexed_training):
            indexed.read(progress)
        for reader in readers:
            reader.find_outliers()
        for indexed in (*indexed_held_out, indexed_training):
            indexed.find_repeats()
        for reader, indexed in zip(held_out, indexed_held_out, strict=True):
            reader.report.findings["overlap"] = indexed.overlap(indexed_training)
            for dev in indexed_held_out:
                if dev is not indexed and dev.readers[0].report.is_dev:
                    reader.report.findings["dev_overlap"] = indexed.overlap(dev)
    return [reader.report for reader in readers]


class _IndexedCorpora:
    """Some corpora whose pairs are numbered consecutively, with the index of these pairs."""

    def __init__(self, index: PairIndex, readers: Sequence[_Reader]) -> None:
        self._index, self.readers = index, readers
        self._bounds = np.zeros(1, dtype=np.int64)
        """The row at which each corpus begins, and the number of all rows."""

    def read(self, progress: Progress) -> None:
        """Read all corpora, fill their reports, and add their pairs to the index."""
        for reader in self.readers:
            reader.read(progress, self._index)
        self._bounds = np.cumsum([0, *(reader.report.num_pairs for reader in self.readers)])

    def find_repeats(self) -> None:
        """Record in the reports the pairs that repeat an earlier pair of these corpora."""
        firsts: list[list[tuple[int, int]]] = [[] for _ in self.readers]
        counts = [0] * len(self.readers)
        for rows, first_rows in self._index.repeats():
            for number, (begin, end) in enumerate(pairwise(self._bounds)):
                own = np.flatnonzero((rows >= begin) & (rows < end))
                counts[number] += len(own)
                nearest = own[np.argsort(rows[own])[:NUM_EXAMPLES]]
                found = [*firsts[number], *zip(rows[nearest].tolist(), first_rows[nearest].tolist(), strict=True)]
                firsts[number] = sorted(found)[:NUM_EXAMPLES]
        for reader, count, found in zip(self.readers, counts, firsts, strict=True):
            examples = [f"{self._place(row)} = {self._place(first)}" for row, first in found]
            reader.report.findings["duplicates"] = Finding(count, examples)

    def overlap(self, other: _IndexedCorpora) -> Finding:
        """Return the number and the first places of the pairs whose source is also in the corpora of `other`."""
        rows = other._index.first_rows(self._index.source_hashes())
        found = np.flatnonzero(rows >= 0)
        examples = [f"{self._place(row)} = {other._place(rows[row])}" for row in found[:NUM_EXAMPLES]]
        return Finding(len(found), examples)

    def _place(self, row: int) -> str:
        """Return the source file and the line of a row, as `file:line`."""
        number = int(np.searchsorted(self._bounds, row, side="right")) - 1
        return f"{self.readers[number].report.source}:{row - self._bounds[number] + 1}"


class _Reader:
    """Reads one corpus and fills its report."""

    def __init__(
        self, named: NamedCorpus, limits: LengthLimits, tokenizers: tuple[Tokenizer, Tokenizer] | None
    ) -> None:
        corpus = named.corpus
        self.is_training, self._with_links = named.is_training, named.with_links
        self.report = CorpusReport(named.name, corpus.source, corpus.target, named.is_training, corpus.alignment)
        self._characters = (array("I"), array("I"))
        self._paths = corpus.paths
        self._limits, self._tokenizers = limits, tokenizers
        self._kinds = [_byte_table(tokenizer) for tokenizer in tokenizers or ()]

    def read(self, progress: Progress, index: PairIndex) -> None:
        """Read the corpus to its end, and add its pairs to an index."""
        report = self.report
        pairs = self._pairs()
        while chunk := list(islice(pairs, CHUNK)):
            self._check_chunk(chunk)
            for source, target, *_ in chunk:
                index.add(source, target)
            progress.advance(len(chunk))
        invalid = report.findings["invalid_utf8"]
        if invalid.count and self.is_training and self._limits.invalid_utf8 == "error":
            what = "is not valid UTF-8" if invalid.count == 1 else f"is one of {invalid.count:,} lines not valid UTF-8"
            report.problems.append(
                f"{invalid.examples[0]}: {what}; fix the line, or set data.invalid_utf8 to skip or replace"
            )
        if report.findings["bad_alignment"].count:
            report.problems.append(report.findings["bad_alignment"].examples[0])
        elif num_missing := report.findings["missing_words"].count:
            try:
                check_invalid_links(self._paths[2], num_missing, report.num_kept)
            except InputError as error:
                report.problems.append(str(error))

    def _pairs(self) -> Iterator[Lines]:
        """Yield a tuple with the same line of each file, up to the end of the shortest, and set the line counts.

        An `InputError` is not raised: it ends the lines, and its message becomes a problem of the report.
        """
        counts: list[int] = []
        try:
            yield from parallel_lines(self._paths, counts)
            if not counts[0] and not self.is_training:
                raise InputError(f"{self._paths[0]}: the {self.report.name} set is empty")
        except InputError as error:
            self.report.problems.append(str(error))
        for side, count in zip(self.report.sides, counts, strict=False):
            side.num_lines = count

    def _check_chunk(self, chunk: list[Lines]) -> None:
        first = self.report.num_pairs + 1
        self.report.num_pairs += len(chunk)
        texts: tuple[list[str], list[str]] = ([], [])
        valid = []
        for number, lines in enumerate(chunk, start=first):
            decoded = [decode_line(line) for line in lines]
            valid.append(all(is_valid for _, is_valid in decoded))
            for path, (_, is_valid) in zip(self._paths, decoded, strict=True):
                if not is_valid:
                    self._record_finding("invalid_utf8", path, number)
            for side in (0, 1):
                texts[side].append(decoded[side][0])
            self._check_pair(texts[0][-1], texts[1][-1], number)
        lengths = [self._measure(side, texts[side]) for side in (0, 1)]
        for offset, (source, target) in enumerate(zip(*lengths, strict=True)):
            is_kept = self._filter(first + offset, source, target, is_valid=valid[offset])
            if is_kept and self._with_links:
                alignment = decode_line(chunk[offset][2])[0]
                self._check_links(alignment, texts[0][offset], texts[1][offset], first + offset)

    def _check_pair(self, source: str, target: str, number: int) -> None:
        """Record empty sides, control characters and a copy in one pair, and the lengths of its sides in characters."""
        stripped = source.strip(), target.strip()
        for path, text, clean, name in zip(
            self._paths, (source, target), stripped, ("empty_source", "empty_target"), strict=False
        ):
            if not clean:
                self._record_finding(name, path, number)
            if control := _CONTROL.search(text):
                self._record_finding("control_characters", path, number, f" (U+{ord(control[0]):04X})")
        if stripped[0] and stripped[0] == stripped[1]:
            self._record_finding("copies", self._paths[0], number)
        for characters, clean in zip(self._characters, stripped, strict=True):
            characters.append(len(clean))

    def _check_links(self, alignment: str, source: str, target: str, number: int) -> None:
        try:
            links = parse_links(alignment, f"{self._paths[2]}:{number}")
        except InputError as error:
            self.report.findings["bad_alignment"].add(str(error))
            return
        if missing := first_invalid_link(links, source, target):
            self._record_finding("missing_words", self._paths[2], number, f" ({missing[0]}-{missing[1]})")

    def _measure(self, side: int, texts: list[str]) -> list[int]:
        """Return the number of pieces (words without a tokenizer) of each text, and add it to the side's report."""
        report = self.report.sides[side]
        if self._tokenizers is None:
            lengths = [len(text.split()) for text in texts]
        else:
            encoded = self._tokenizers[side].encode_all(texts)
            lengths = [len(ids) for ids in encoded]
            pieces = np.fromiter((id_ for ids in encoded for id_ in ids), dtype=np.int64, count=sum(lengths))
            report.num_unknown += int((pieces == UNK).sum())
            report.num_bytes += int(self._kinds[side][pieces].sum())
        report.num_units += sum(lengths)
        report.longest = max(report.longest, *lengths)
        return lengths

    def _filter(self, number: int, source: int, target: int, *, is_valid: bool) -> bool:
        """Record the lengths in pieces of the pair in line `number`; return False if training would leave it out."""
        report, limits = self.report, self._limits
        is_kept = True
        if self.is_training:
            if limits.is_too_long(source, target):
                path = self._paths[0] if source >= target else self._paths[1]
                self._record_finding("too_long", path, number, f" ({max(source, target):,})")
            elif limits.is_beyond_ratio(source, target):
                self._record_finding("beyond_ratio", self._paths[0], number, f" ({source:,} and {target:,})")
            is_skipped = not is_valid and limits.invalid_utf8 == "skip"
            is_kept = limits.why_left_out(source, target) is None and not is_skipped
        if is_kept:
            report.num_kept += 1
            report.longest_kept = max(report.longest_kept, source, target)
        return is_kept

    def _record_finding(self, name: str, path: str, number: int, remark: str = "") -> None:
        self.report.findings[name].add(f"{path}:{number}{remark}")

    def find_outliers(self) -> None:
        """Record the pairs whose ratio of lengths is far from the median of the corpus, which must have been read."""
        source, target = (np.frombuffer(side, dtype=np.uint32) for side in self._characters)
        is_whole = (source > 0) & (target > 0)
        if not is_whole.any():
            return
        ratios = np.empty(len(source), dtype=np.float32)
        for part in (slice(first, first + OUTLIER_PAIRS) for first in range(0, len(ratios), OUTLIER_PAIRS)):
            ratios[part] = np.log(np.maximum(target[part], 1) / np.maximum(source[part], 1))
        whole = ratios[is_whole]
        ratios -= np.median(whole, overwrite_input=True)
        del whole
        is_far = np.abs(ratios, out=ratios) > np.log(OUTLIER_FACTOR)
        is_far &= is_whole
        is_far &= (source >= MIN_OUTLIER_CHARACTERS) | (target >= MIN_OUTLIER_CHARACTERS)
        rows = np.flatnonzero(is_far)
        for row in rows[:NUM_EXAMPLES]:
            remark = f" ({source[row]:,} and {target[row]:,} characters)"
            self._record_finding("length_ratio", self._paths[0], int(row) + 1, remark)
        self.report.findings["length_ratio"].count = len(rows)


def _byte_table(tokenizer: Tokenizer) -> NDArray[Any]:
    """Return a table (V,) that is True at the ids of pieces that spell a byte."""
    table = np.zeros(tokenizer.vocab_size, dtype=bool)
    if tokenizer.has_byte_fallback:
        table[tokenizer.ids_of([f"<0x{byte:02X}>" for byte in range(256)])] = True
    return table
