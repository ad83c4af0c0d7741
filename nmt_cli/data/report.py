"""What corpora hold and what is suspicious in them, line by line, before any of them is trained on.

Every file is read once, held-out text first. Texts are not kept: pairs and sources are known by 64-bit hashes, so that
memory is about 30 bytes a pair. Nothing is printed or refused here.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt_cli.console import Progress
from nmt_cli.data.corpus import Corpus, parse_links
from nmt_cli.data.lines import decode_line, iter_lines, open_input
from nmt_cli.data.store import CHUNK, Filters
from nmt_cli.data.tokenizer import UNK, Tokenizer
from nmt_cli.errors import InputError

NUM_EXAMPLES = 3
OUTLIER_FACTOR = 3.0
"""A pair is an outlier if its ratio of lengths in characters is this many times the corpus's median ratio, or less than
this part of it. The median takes the languages into account: Chinese is a third as long as English."""
MIN_OUTLIER_CHARACTERS = 20
"""Of the longer side: the ratio of shorter pairs says nothing."""
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
    "bad_alignment",
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
Lines = tuple[bytes, ...]
Hashes = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class NamedCorpus:
    """A corpus and what it is for."""

    name: str
    corpus: Corpus
    is_training: bool = False
    with_links: bool = False
    """Its alignment is used; else it must only have as many lines."""


@dataclass(slots=True)
class Finding:
    """Lines with something in common: how many, and where the first of them are."""

    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, place: str) -> None:
        """Count a line."""
        self.count += 1
        if len(self.examples) < NUM_EXAMPLES:
            self.examples.append(place)


@dataclass(slots=True)
class SideReport:
    """One side of a corpus, in pieces, or in words where no tokenizer is given."""

    num_lines: int = 0
    num_units: int = 0
    longest: int = 0
    num_unknown: int = 0
    """Pieces that are <unk>."""
    num_bytes: int = 0
    """Pieces that spell one byte of a character that has no piece."""


@dataclass(slots=True)
class CorpusReport:
    """What a corpus holds. Its `problems` are those for which training would refuse it."""

    name: str
    source: str
    target: str
    is_training: bool
    num_pairs: int = 0
    num_kept: int = 0
    """Pairs that training would take; all of a held-out set."""
    longest_kept: int = 0
    sides: tuple[SideReport, SideReport] = field(default_factory=lambda: (SideReport(), SideReport()))
    findings: dict[str, Finding] = field(default_factory=lambda: {name: Finding() for name in FINDINGS})
    problems: list[str] = field(default_factory=list)


def analyse(
    corpora: Sequence[NamedCorpus], filters: Filters, tokenizers: tuple[Tokenizer, Tokenizer] | None = None
) -> list[CorpusReport]:
    """A report of each corpus, in the order given. What cannot be read becomes a problem of its report."""
    readers = [_Reader(corpus, filters, tokenizers) for corpus in corpora]
    training = [reader for reader in readers if reader.is_training]
    held_out = [reader for reader in readers if not reader.is_training]
    with Progress("checking", unit="pair") as progress:
        for reader in held_out:
            reader.read(progress)
        seen = _Seen([reader.source_hashes for reader in held_out])
        for reader in training:
            reader.read(progress, seen)
    for reader in readers:
        reader.find_outliers()
    for reader in held_out:
        _find_repeats([reader])
        _find_overlap(reader, training, seen)
    if training:
        _find_repeats(training)
    return [reader.report for reader in readers]


class _Reader:
    """Goes through one corpus."""

    def __init__(self, named: NamedCorpus, filters: Filters, tokenizers: tuple[Tokenizer, Tokenizer] | None) -> None:
        corpus = named.corpus
        self.is_training, self._with_links = named.is_training, named.with_links
        self.report = CorpusReport(named.name, corpus.source, corpus.target, named.is_training)
        self.pair_hashes: array[int] = array("Q")
        self.source_hashes: array[int] = array("Q")
        """Of a held-out set; 0 for an empty source."""
        self._characters = (array("I"), array("I"))
        self._paths = corpus.paths
        self._filters, self._tokenizers = filters, tokenizers
        self._kinds = [_byte_table(tokenizer) for tokenizer in tokenizers or ()]

    def read(self, progress: Progress, seen: _Seen | None = None) -> None:
        """Read the corpus to its end; its sources are shown to `seen`."""
        report = self.report
        pairs = self._pairs()
        while chunk := list(islice(pairs, CHUNK)):
            self._take(chunk, seen)
            progress.advance(len(chunk))
        invalid = report.findings["invalid_utf8"]
        if invalid.count and self.is_training and self._filters.invalid_utf8 == "error":
            what = "is not valid UTF-8" if invalid.count == 1 else f"is one of {invalid.count:,} lines not valid UTF-8"
            report.problems.append(
                f"{invalid.examples[0]}: {what}; mend the line, or set data.invalid_utf8 to skip or replace"
            )
        if report.findings["bad_alignment"].count:
            report.problems.append(report.findings["bad_alignment"].examples[0])

    def _pairs(self) -> Iterator[Lines]:
        """The lines of the files, as far as all have one. A failure ends them and is noted: those before it count."""
        try:
            yield from self._read_in_step()
        except InputError as error:
            self.report.problems.append(str(error))

    def _read_in_step(self) -> Iterator[Lines]:
        counts = [0] * len(self._paths)
        with ExitStack() as stack:
            streams = [iter_lines(stack.enter_context(open_input(path))) for path in self._paths]
            for lines in zip_longest(*streams):
                for index, line in enumerate(lines):
                    counts[index] += line is not None
                if None in lines:
                    break
                yield lines
            for index, stream in enumerate(streams):
                counts[index] += sum(1 for _ in stream)
        for side, count in zip(self.report.sides, counts, strict=False):
            side.num_lines = count
        if len(set(counts)) > 1:
            named = " and ".join(f"{path} has {count:,} lines" for path, count in zip(self._paths, counts, strict=True))
            raise InputError(f"{named}; line i of one must belong to line i of the other, so the counts must be equal")
        if not counts[0] and not self.is_training:
            raise InputError(f"{self._paths[0]}: the {self.report.name} set is empty")

    def _take(self, chunk: list[Lines], seen: _Seen | None) -> None:
        first = self.report.num_pairs + 1
        self.report.num_pairs += len(chunk)
        texts: tuple[list[str], list[str]] = ([], [])
        valid = []
        for number, lines in enumerate(chunk, start=first):
            decoded = [decode_line(line) for line in lines]
            valid.append(all(is_valid for _, is_valid in decoded))
            for path, (_, is_valid) in zip(self._paths, decoded, strict=True):
                if not is_valid:
                    self._find("invalid_utf8", path, number)
            for side in (0, 1):
                texts[side].append(decoded[side][0])
            self._look_at(texts[0][-1], texts[1][-1], number)
        lengths = [self._measure(side, texts[side]) for side in (0, 1)]
        for offset, (source, target) in enumerate(zip(*lengths, strict=True)):
            is_kept = self._filter(first + offset, source, target, is_valid=valid[offset])
            if is_kept and self._with_links:
                self._check_links(decode_line(chunk[offset][2])[0], first + offset)
        self._hash(chunk, first, seen)

    def _look_at(self, source: str, target: str, number: int) -> None:
        """What can be said of one pair from its characters."""
        stripped = source.strip(), target.strip()
        for path, text, clean, name in zip(
            self._paths, (source, target), stripped, ("empty_source", "empty_target"), strict=False
        ):
            if not clean:
                self._find(name, path, number)
            if control := _CONTROL.search(text):
                self._find("control_characters", path, number, f" (U+{ord(control[0]):04X})")
        if stripped[0] and stripped[0] == stripped[1]:
            self._find("copies", self._paths[0], number)
        for characters, clean in zip(self._characters, stripped, strict=True):
            characters.append(len(clean))

    def _check_links(self, text: str, number: int) -> None:
        try:
            parse_links(text, f"{self._paths[2]}:{number}")
        except InputError as error:
            self.report.findings["bad_alignment"].add(str(error))

    def _measure(self, side: int, texts: list[str]) -> list[int]:
        """The length of each text; what its pieces are goes into the report."""
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
        """Whether training takes the pair, as `store` decides it."""
        report, filters = self.report, self._filters
        longer, shorter = max(source, target), min(source, target)
        is_too_long = self.is_training and longer > filters.max_length
        if is_too_long:
            path = self._paths[0] if source >= target else self._paths[1]
            self._find("too_long", path, number, f" ({longer:,})")
        ratio = filters.max_length_ratio if self._tokenizers is not None else None
        is_out_of_ratio = ratio is not None and longer > ratio * shorter > 0
        if is_out_of_ratio and self.is_training and not is_too_long:
            self._find("beyond_ratio", self._paths[0], number, f" ({source:,} and {target:,})")
        is_left_out = shorter == 0 or is_too_long or is_out_of_ratio or not (is_valid or filters.invalid_utf8 != "skip")
        is_kept = not (self.is_training and is_left_out)
        if is_kept:
            report.num_kept += 1
            report.longest_kept = max(report.longest_kept, longer)
        return is_kept

    def _hash(self, chunk: list[Lines], first: int, seen: _Seen | None) -> None:
        sources = array("Q")
        for number, (source, target, *_) in enumerate(chunk, start=first):
            clean_source, clean_target = source.strip(), target.strip()
            is_whole = clean_source and clean_target
            # An empty side is a finding of its own: the pair gets a hash that no other has.
            self.pair_hashes.append(_hash64(b"%b\n%b" % (source, target) if is_whole else b"\n\n%d" % number))
            sources.append(_hash64(clean_source) if clean_source else 0)
        if seen is None:
            self.source_hashes.extend(sources)
        else:
            seen.show(sources)

    def _find(self, name: str, path: str, number: int, remark: str = "") -> None:
        self.report.findings[name].add(f"{path}:{number}{remark}")

    def find_outliers(self) -> None:
        """Pairs whose sides fit each other badly, once the median of the corpus is known."""
        source, target = (np.frombuffer(side, dtype=np.uint32) for side in self._characters)
        is_whole = (source > 0) & (target > 0)
        if not is_whole.any():
            return
        ratios = np.log(np.maximum(target, 1) / np.maximum(source, 1), dtype=np.float32)
        is_far = np.abs(ratios - np.median(ratios[is_whole])) > np.log(OUTLIER_FACTOR)
        rows = np.flatnonzero(is_whole & is_far & (np.maximum(source, target) >= MIN_OUTLIER_CHARACTERS))
        for row in rows[:NUM_EXAMPLES]:
            remark = f" ({source[row]:,} and {target[row]:,} characters)"
            self._find("length_ratio", self._paths[0], int(row) + 1, remark)
        self.report.findings["length_ratio"].count = len(rows)


class _Seen:
    """Which sources of the held-out sets stand in training, and where first."""

    def __init__(self, held_out: Sequence[array[int]]) -> None:
        arrays = [np.frombuffer(hashes, dtype=np.uint64) for hashes in held_out]
        known = np.unique(np.concatenate(arrays)) if arrays else np.zeros(0, np.uint64)
        self._known: Hashes = known[known != 0]
        self._rows = np.full(len(self._known), -1, dtype=np.int64)
        self._shown = 0

    def show(self, sources: array[int]) -> None:
        """The next rows of the training corpora, which follow each other."""
        hashes = np.frombuffer(sources, dtype=np.uint64)
        if len(self._known):
            places = self._places(hashes)
            hits = np.flatnonzero(self._known[places] == hashes)[::-1]  # the first of several is written last
            fresh = hits[self._rows[places[hits]] < 0]
            self._rows[places[fresh]] = self._shown + fresh
        self._shown += len(hashes)

    def rows(self, sources: array[int]) -> NDArray[np.int64]:
        """For each held-out source the first training row that holds it, or -1."""
        hashes = np.frombuffer(sources, dtype=np.uint64)
        if not len(self._known):
            return np.full(len(hashes), -1, dtype=np.int64)
        places = self._places(hashes)
        return np.where(self._known[places] == hashes, self._rows[places], -1)

    def _places(self, hashes: Hashes) -> NDArray[np.int64]:
        return np.minimum(np.searchsorted(self._known, hashes), len(self._known) - 1)


def _find_repeats(readers: Sequence[_Reader]) -> None:
    """Pairs that stood before in the same corpora."""
    hashes = np.concatenate([np.frombuffer(reader.pair_hashes, dtype=np.uint64) for reader in readers])
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    repeats = np.sort(order[1:][ordered[1:] == ordered[:-1]])
    bounds = _bounds(readers)
    for index, reader in enumerate(readers):
        own = repeats[np.searchsorted(repeats, bounds[index]) : np.searchsorted(repeats, bounds[index + 1])]
        finding = reader.report.findings["duplicates"]
        for row in own[:NUM_EXAMPLES]:
            first = int(np.argmax(hashes == hashes[row]))
            finding.add(f"{_place(readers, bounds, int(row))} = {_place(readers, bounds, first)}")
        finding.count = len(own)


def _find_overlap(reader: _Reader, training: Sequence[_Reader], seen: _Seen) -> None:
    rows = seen.rows(reader.source_hashes)
    found = np.flatnonzero(rows >= 0)
    finding = reader.report.findings["overlap"]
    bounds = _bounds(training)
    for index in found[:NUM_EXAMPLES]:
        finding.add(f"{reader.report.source}:{index + 1} = {_place(training, bounds, int(rows[index]))}")
    finding.count = len(found)


def _bounds(readers: Sequence[_Reader]) -> list[int]:
    return [0, *np.cumsum([len(reader.pair_hashes) for reader in readers]).tolist()]


def _place(readers: Sequence[_Reader], bounds: list[int], row: int) -> str:
    index = int(np.searchsorted(bounds, row, side="right")) - 1
    return f"{readers[index].report.source}:{row - bounds[index] + 1}"


def _hash64(text: bytes) -> int:
    """Never 0, which stands for an empty text."""
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") or 1


def _byte_table(tokenizer: Tokenizer) -> NDArray[Any]:
    """Of each id, whether it spells a byte."""
    table = np.zeros(tokenizer.vocab_size, dtype=bool)
    if tokenizer.spells_bytes:
        table[tokenizer.ids_of([f"<0x{byte:02X}>" for byte in range(256)])] = True
    return table
