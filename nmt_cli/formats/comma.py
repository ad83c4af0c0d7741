"""Tables with commas, semicolons or vertical bars: CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator

from nmt_cli.errors import InputError
from nmt_cli.formats.encoding import TextFacts
from nmt_cli.formats.opening import Input
from nmt_cli.formats.report import ImportReport
from nmt_cli.formats.tsv import quoted_rows

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
    best, delimiter = 0.0, ""
    for candidate in DELIMITERS:
        widths = []
        try:
            widths = [len(row) for row in csv.reader(lines[:2000], delimiter=candidate, strict=True) if row]
        except csv.Error:
            widths = [len(row) for row in csv.reader(lines[:2000], delimiter=candidate) if row]
        usual = max(set(widths), key=lambda width: (widths.count(width), width), default=0)
        share = widths.count(usual) / max(1, len(widths))
        if usual > 1 and share > best + 0.05:
            best, delimiter = share, candidate
    if not delimiter:
        raise InputError(
            f"{name}: is no table: no comma, semicolon, tab or vertical bar separates columns in its rows. If it is "
            "plain text, give --format text and the file of the translations too"
        )
    return delimiter
