"""Tables with commas, semicolons or vertical bars: CSV."""

from __future__ import annotations

import csv
import shlex
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from nmt_cli.formats.columns import is_header
from nmt_cli.formats.encoding import TextFacts
from nmt_cli.formats.opening import Input
from nmt_cli.formats.report import ImportReport
from nmt_cli.formats.tsv import quoted_rows
from nmt_cli.system.errors import InputError

DELIMITERS = ",;\t|"


def read_csv(
    input_file: Input, facts: TextFacts, head: str, report: ImportReport, separator: str | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the line, from 1, on which each row begins, and the cells of the row.

    Raises:
        InputError: no character separates the cells of most rows alike, several do, or a quoted cell does not end.
    """
    delimiter = separator or find_delimiter(input_file.name, head)
    report.inputs[-1]["separator"] = delimiter
    for number, cells in quoted_rows(input_file, facts, delimiter):
        if number > 1 or not _is_separator_line(cells[0] + delimiter):
            yield number, cells


def _is_separator_line(line: str) -> bool:
    """Return whether a line is of the form `sep=;`, which tells Excel the separator."""
    return len(line) == 5 and line.lower().startswith("sep=")


class _CutRows(NamedTuple):
    """The first rows of a table, cut into cells at one of the possible separators."""

    delimiter: str
    rows: list[list[str]]
    is_strict: bool
    """True if quotes are only where CSV allows them."""

    @property
    def share(self) -> float:
        """Share of the rows that have the most frequent number of cells; 0 if this number is 1."""
        widths = [len(row) for row in self.rows]
        usual = max(set(widths), key=lambda width: (widths.count(width), width), default=0)
        return widths.count(usual) / len(widths) if usual > 1 else 0.0

    @property
    def is_in_text(self) -> bool:
        """True if a blank follows each separator, as after a comma in a sentence, or digits are on both sides."""
        return all(
            cell.startswith(" ") or (before[-1:].isdigit() and cell[:1].isdigit())
            for row in self.rows
            for before, cell in pairwise(row)
        )


def find_delimiter(name: str, head: str) -> str:
    """Return the character that cuts most rows into the same number of cells.

    A first line such as `sep=;` decides. Else these tests are made in turn, and each keeps the separators that pass it,
    or all if none does: quotes are where CSV allows them; all rows have the same number of cells; the first row names
    columns; the separator is no comma of sentences or numbers. Those that then fit clearly fewer rows than the best are
    left out.

    Raises:
        InputError: no separator is left, or several are.
    """
    lines = head.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if _is_separator_line(lines[0]):
        return lines[0][4]
    readings = [_CutRows(one, *_rows(lines[:2000], one)) for one in DELIMITERS]
    likely = [one for one in readings if one.share > 0.05]
    for choice in (
        lambda one: one.is_strict,
        lambda one: one.share == 1,
        lambda one: is_header(one.rows[0]),
        lambda one: not one.is_in_text,
    ):
        likely = [one for one in likely if choice(one)] or likely
    best = max((one.share for one in likely), default=0.0)
    likely = [one for one in likely if one.share >= best - 0.05]
    if not likely:
        raise InputError(
            f"{name}: is not a table: no comma, semicolon, tab or vertical bar separates columns in its rows. If it is "
            "plain text, give --format text and the file of the translations too"
        )
    if len(likely) > 1:
        shown = "; or ".join(f"{' | '.join(cell[:30] for cell in one.rows[-1])!r}" for one in likely)
        tries = "; or ".join(f"--separator {shlex.quote(separator_option(one.delimiter))}" for one in likely)
        raise InputError(
            f"{name}: several separators fit equally well: {shown}. Run the same command again with one of these: "
            f"{tries}"
        )
    return likely[0].delimiter


def separator_option(separator: str) -> str:
    """Return a separator as the user writes it after --separator: `tab` for a tab, else the character itself."""
    return "tab" if separator == "\t" else separator


def _rows(lines: list[str], delimiter: str) -> tuple[list[list[str]], bool]:
    """Return the lines as rows, cut into cells at `delimiter`, and whether quotes are only where CSV allows them.

    A cell that is still open after the last line may be closed after the head of the file.
    """
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    found: list[list[str]] = []
    try:
        for row in rows:
            found += [row] * bool(row)
    except csv.Error:
        if rows.line_num < len(lines):
            return [row for row in csv.reader(lines, delimiter=delimiter) if row], False
    return found, True
