"""Reads all parallel text, so that source and target lines stay in step, and defines the limits of their length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple, Protocol

from nmt_cli.data.lines import decode_line, input_name, iter_lines, open_input
from nmt_cli.system.console import format_count
from nmt_cli.system.errors import InputError, UnequalLinesError

MAX_LINKED_WORD = 2**16 - 1
"""Largest index of a word in an alignment, because the store keeps these as numbers of 16 bits."""


class ParallelText(Protocol):
    """The names of two files of which line i of one is the translation of line i of the other."""

    @property
    def source(self) -> str: ...

    @property
    def target(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Corpus:
    """The paths of the files of a parallel corpus, and the number of times that an epoch reads it (`weight`)."""

    source: str
    target: str
    weight: float = 1.0
    alignment: str | None = None
    tags: tuple[str, ...] = ()
    """Tags of the direction of this corpus, in a model of several directions."""

    @property
    def paths(self) -> list[str]:
        """Paths of the files of source, target and, if there is one, alignment."""
        return [path for path in (self.source, self.target, self.alignment) if path]


class Pair(NamedTuple):
    """A line of the source file with the same lines of the target and alignment files."""

    number: int
    """Line number, from 1."""
    source: str
    target: str
    alignment: str
    """A line in Pharaoh format; empty where the corpus has none."""


@dataclass(slots=True)
class FilterReport:
    """Counts of the pairs of a corpus, kept and left out."""

    read: int = 0
    kept: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    """Numbers of pairs by the reason to leave them out."""
    replaced: int = 0
    """Pairs with U+FFFD in the place of bytes that are not UTF-8."""

    def count_left_out(self, reason: str) -> None:
        self.left_out[reason] = self.left_out.get(reason, 0) + 1

    def __str__(self) -> str:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.left_out.items())
        replaced = f"; {self.replaced:,} not UTF-8, with U+FFFD for the invalid bytes" if self.replaced else ""
        return f"{self.kept:,} of {self.read:,} pairs kept" + (f"; left out: {reasons}" if reasons else "") + replaced


@dataclass(frozen=True, slots=True)
class LengthLimits:
    """The limits of length, and of encoding, beyond which pairs are left out of training."""

    max_length: int = 100
    """Most pieces on either side."""
    max_length_ratio: float | None = None
    """Most pieces of the longer side for each piece of the shorter side; None is no limit."""
    invalid_utf8: str = "error"
    """Treatment of pairs that are not UTF-8: `error`, `skip`, or `replace` (invalid bytes with U+FFFD)."""

    def is_too_long(self, source: int, target: int) -> bool:
        """Return True if a side has more pieces than `max_length`."""
        return max(source, target) > self.max_length

    def is_beyond_ratio(self, source: int, target: int) -> bool:
        """Return True if the ratio of the numbers of pieces is above the limit; sides without pieces have no ratio."""
        longer, shorter = max(source, target), min(source, target)
        return self.max_length_ratio is not None and longer > self.max_length_ratio * shorter > 0

    def why_left_out(self, source: int, target: int) -> str | None:
        """Return the reason to leave out a pair with these numbers of pieces, or None to keep it."""
        if min(source, target) == 0:
            return "with an empty side"
        if self.is_too_long(source, target):
            return f"longer than {self.max_length} pieces"
        if self.is_beyond_ratio(source, target):
            return f"with a length ratio above {self.max_length_ratio:g}"
        return None


def read_pairs(corpus: Corpus, *, invalid_utf8: str = "error", report: FilterReport | None = None) -> Iterator[Pair]:
    """Yield the pairs of a corpus in order, and count them in `report` along with those left out.

    Raises:
        InputError: a file cannot be read, the files differ in their number of lines, or a line is not UTF-8 and
            `invalid_utf8` is `error` (the message names the line).
    """
    report = report if report is not None else FilterReport()
    for number, lines in enumerate(parallel_lines(corpus.paths), start=1):
        report.read += 1
        decoded = [decode_line(line) for line in lines]
        is_valid = all(valid for _, valid in decoded)
        if not is_valid and invalid_utf8 == "error":
            path = next(path for path, (_, valid) in zip(corpus.paths, decoded, strict=True) if not valid)
            raise InputError(
                f"{path}:{number}: is not valid UTF-8; fix the line, or set data.invalid_utf8 to skip or replace"
            )
        if not is_valid and invalid_utf8 == "skip":
            report.count_left_out("not UTF-8")
            continue
        report.replaced += not is_valid
        yield Pair(number, decoded[0][0], decoded[1][0], decoded[2][0] if len(decoded) > 2 else "")


def count_pairs(corpus: Corpus) -> int:
    """Return the number of pairs of a corpus, valid UTF-8 or not; raise `InputError` as `parallel_lines` does."""
    return sum(1 for _ in parallel_lines(corpus.paths))


def parallel_lines(paths: Sequence[str], counts: list[int] | None = None) -> Iterator[tuple[bytes, ...]]:
    """Yield line i of all files together. At the end, `counts` is filled with the number of lines of each file.

    Raises:
        InputError: a file cannot be read, or the files differ in their number of lines; the message names all numbers.
    """
    with ExitStack() as stack:
        streams = [iter_lines(stack.enter_context(open_input(path))) for path in paths]
        num_rows = 0
        last: tuple[bytes | None, ...] = (None,) * len(paths)
        for lines in zip_longest(*streams):
            if None in lines:
                last = lines
                break
            num_rows += 1
            yield lines
        found = [
            num_rows + (line is not None) + sum(1 for _ in stream) for line, stream in zip(last, streams, strict=True)
        ]
    if counts is not None:
        counts[:] = found
    if len(set(found)) > 1:
        named = " and ".join(
            f"{input_name(path)} has {format_count(count, 'line')}" for path, count in zip(paths, found, strict=True)
        )
        message = f"{named}; line i of one must belong to line i of the other, so the counts must be equal"
        raise UnequalLinesError(message, list(paths), found)


def parse_links(text: str, place: str) -> list[tuple[int, int]]:
    """Return the links (source word, target word) of a line in Pharaoh format, `0-0 1-2`.

    Raises:
        InputError: the line is not in this format, or a number is too large; the message begins with `place`.
    """
    links = []
    for link in text.split():
        source, dash, target = link.partition("-")
        if not (dash and source.isdecimal() and target.isdecimal()):
            raise InputError(f"{place}: {link!r} is not a link; an alignment is written like 0-0 1-2")
        if max(len(source), len(target)) > 5 or max(int(source), int(target)) > MAX_LINKED_WORD:
            raise InputError(f"{place}: {link!r} is beyond the {MAX_LINKED_WORD + 1:,} words that a line may have")
        links.append((int(source), int(target)))
    return links


def first_invalid_link(links: Sequence[tuple[int, int]], source: str, target: str) -> tuple[int, int] | None:
    """Return the first link to a word beyond the end of either side, or None."""
    num_source, num_target = len(source.split()), len(target.split())
    return next((link for link in links if link[0] >= num_source or link[1] >= num_target), None)


def check_invalid_links(path: str, num_invalid: int, num_pairs: int) -> str:
    """Return a warning about pairs with links to words that they do not have.

    Raises:
        InputError: more than half of the pairs have such links, so the alignments were made for another text or with
            other numbers.
    """
    message = (
        f"{path}: {num_invalid:,} of {num_pairs:,} pairs have links to words that they do not have. Words are "
        "separated by white space and numbered from 0, and a link names the source word first"
    )
    if 2 * num_invalid > num_pairs:
        raise InputError(f"{message}. Make the alignments for the files that data.train names")
    return message


def has_both_sides(pair: Pair) -> bool:
    """Return True if both sides have text."""
    return bool(pair.source.strip() and pair.target.strip())
