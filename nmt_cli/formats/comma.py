"""Tables with commas, semicolons or vertical bars: CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator

from nmt_cli.formats.encoding import TextFacts
from nmt_cli.formats.opening import Input
from nmt_cli.formats.report import ImportReport
from nmt_cli.formats.tsv import quoted_rows
from nmt_cli.system.errors import InputError

DELIMITERS = ",;\t|"


def read_csv(given: Input, facts: TextFacts, head: str, report: ImportReport) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows with the number of the line where each begins.

    Raises:
        InputError: no character separates the cells of most rows alike, or a quoted cell does not end.
    """
    delimiter = find_delimiter(given.name, head)
    report.inputs[-1]["separator"] = delimiter
    for number, cells in quoted_rows(given, facts, delimiter):
        if number > 1 or not _is_separator_line(cells[0] + delimiter):
            yield number, cells


def _is_separator_line(line: str) -> bool:
    """Return True for `sep=;`, by which Excel is told the separator."""
    return len(line) == 5 and line.lower().startswith("sep=")


def find_delimiter(name: str, head: str) -> str:
    """Return the character that separates the cells in most rows alike."""
    lines = head.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if _is_separator_line(lines[0]):
        return lines[0][4]
    enough, delimiter = (False, 0.05), ""
    for candidate in DELIMITERS:
        widths, is_strict = _widths(lines[:2000], candidate)
        usual = max(set(widths), key=lambda width: (widths.count(width), width), default=0)
        share = widths.count(usual) / max(1, len(widths))
        if usual > 1 and (is_strict, share) > enough:
            enough, delimiter = (is_strict, share + 0.05), candidate
    if not delimiter:
        raise InputError(
            f"{name}: is no table: no comma, semicolon, tab or vertical bar separates columns in its rows. If it is "
            "plain text, give --format text and the file of the translations too"
        )
    return delimiter


def _widths(lines: list[str], delimiter: str) -> tuple[list[int], bool]:
    """Return the number of cells of each row, and False if quotes do not stand as they should with this delimiter.

    A cell that is still open after the last line may be closed after the head of the file.
    """
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    widths: list[int] = []
    try:
        for row in rows:
            widths += [len(row)] * bool(row)
    except csv.Error:
        if rows.line_num < len(lines):
            return [len(row) for row in csv.reader(lines, delimiter=delimiter) if row], False
    return widths, True
