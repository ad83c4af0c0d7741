"""Parallel text: pairs that never shift against each other, and filters that count what they leave out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple

from nmt_cli.data.lines import decode_line, input_name, iter_lines, open_input
from nmt_cli.errors import InputError

MAX_LINKED_WORD = 2**16 - 1
"""The last word that a word alignment can name, as the store keeps it."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Where parallel text lies."""

    source: str
    target: str
    weight: float = 1.0
    alignment: str | None = None

    @property
    def paths(self) -> list[str]:
        """Of its files."""
        return [path for path in (self.source, self.target, self.alignment) if path]


class Pair(NamedTuple):
    """One line of each file."""

    number: int
    """Counts from 1."""
    source: str
    target: str
    alignment: str
    """A line in Pharaoh format; empty where the corpus has none."""


@dataclass(slots=True)
class FilterReport:
    """What became of the pairs of a corpus."""

    read: int = 0
    kept: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    """Reason to number of pairs."""
    replaced: int = 0
    """Pairs with U+FFFD in the place of bytes that are not UTF-8."""

    def leave_out(self, reason: str) -> None:
        self.left_out[reason] = self.left_out.get(reason, 0) + 1

    def __str__(self) -> str:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.left_out.items())
        replaced = f"; {self.replaced:,} not UTF-8, with U+FFFD for the invalid bytes" if self.replaced else ""
        return f"{self.kept:,} of {self.read:,} pairs kept" + (f"; left out: {reasons}" if reasons else "") + replaced


def read_pairs(corpus: Corpus, *, invalid_utf8: str = "error", report: FilterReport | None = None) -> Iterator[Pair]:
    """The pairs of a corpus in order.

    Raises:
        InputError: a file cannot be read; the files differ in their number of lines (both are counted to the end and
            named); a line is not UTF-8 and `invalid_utf8` is `error` (its file and number are named).
    """
    report = report if report is not None else FilterReport()
    paths = corpus.paths
    counts = [0] * len(paths)
    for number, lines in enumerate(_in_step(paths, counts), start=1):
        report.read += 1
        texts = []
        is_valid = True
        for path, line in zip(paths, lines, strict=True):
            text, valid = decode_line(line)
            if not valid and invalid_utf8 == "error":
                raise InputError(
                    f"{path}:{number}: is not valid UTF-8; mend the line, or set data.invalid_utf8 to skip or replace"
                )
            is_valid &= valid
            texts.append(text)
        report.replaced += not is_valid and invalid_utf8 == "replace"
        if not is_valid and invalid_utf8 == "skip":
            report.leave_out("not UTF-8")
            continue
        yield Pair(number, texts[0], texts[1], texts[2] if len(texts) > 2 else "")


def count_pairs(corpus: Corpus) -> int:
    """How many pairs a corpus has, those that are not UTF-8 among them; `InputError` as of `read_pairs`."""
    return sum(1 for _ in _in_step(corpus.paths, [0] * len(corpus.paths)))


def _in_step(paths: list[str], counts: list[int]) -> Iterator[tuple[bytes, ...]]:
    with open_input(paths[0]) as first, open_input(paths[1]) as second:
        if len(paths) == 2:
            yield from _zipped(paths, counts, [iter_lines(first), iter_lines(second)])
        else:
            with open_input(paths[2]) as third:
                yield from _zipped(paths, counts, [iter_lines(first), iter_lines(second), iter_lines(third)])


def _zipped(paths: list[str], counts: list[int], streams: list[Iterator[bytes]]) -> Iterator[tuple[bytes, ...]]:
    for lines in zip_longest(*streams):
        for index, line in enumerate(lines):
            counts[index] += line is not None
        if None in lines:
            break
        yield lines
    if any(count != counts[0] for count in counts):
        for index, stream in enumerate(streams):
            counts[index] += sum(1 for _ in stream)
        described = " and ".join(
            f"{input_name(path)} has {count:,} lines" for path, count in zip(paths, counts, strict=True)
        )
        raise InputError(f"{described}; line i of one must belong to line i of the other, so the counts must be equal")


def parse_links(text: str, place: str) -> list[tuple[int, int]]:
    """The links of a line in Pharaoh format, `0-0 1-2`; `place` is named in the error."""
    links = []
    for link in text.split():
        source, dash, target = link.partition("-")
        if not (dash and source.isdecimal() and target.isdecimal()):
            raise InputError(f"{place}: {link!r} is not a link; an alignment is written like 0-0 1-2")
        if max(len(source), len(target)) > 5 or max(int(source), int(target)) > MAX_LINKED_WORD:
            raise InputError(f"{place}: {link!r} is beyond the {MAX_LINKED_WORD + 1:,} words that a line may have")
        links.append((int(source), int(target)))
    return links
