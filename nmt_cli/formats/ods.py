"""Spreadsheets of LibreOffice: OpenDocument. Its XML is read as a stream, without a library."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from nmt_cli.formats.columns import NonTextCell
from nmt_cli.formats.encoding import TextFacts
from nmt_cli.formats.opening import Input, check_no_declarations, zip_archive
from nmt_cli.formats.xlsx import only_sheet
from nmt_cli.formats.xml import INVALID_MARKER, read_events
from nmt_cli.system.errors import InputError

MAX_COLUMNS = 1_000
MAX_ROWS = 1 << 20
_CONTENT = "content.xml"
_CELLS = ("table-cell", "covered-table-cell")


class Row(NamedTuple):
    """A row of a sheet that is not empty, or several rows in succession with the same cells."""

    sheet: str
    numbers: range
    """Numbers of the rows, from 1."""
    cells: list[str]


class OdsHandler:
    """Collects the rows of all sheets of a spreadsheet from the events of its XML."""

    def __init__(self) -> None:
        self.items: list[Row] = []
        self._sheet = ""
        self._number = self._aside = self._paragraphs = 0
        self._cells: list[str] = []
        self._text: list[str] | None = None
        self._cell_repeated = self._row_repeated = 1
        self._is_error = False
        self._is_text = True
        """False in a cell with a date, a percentage, a truth value or the like."""
        self._number_of_cell: str | None = None
        """The number in a cell, or None; if the cell shows the number in another form, it is no text."""

    def start(self, name: str, attributes: dict[str, str], _: int) -> None:
        """Begin a sheet, a row, a cell or a part of its text."""
        if name == "table":
            self._sheet, self._number = attributes.get("table:name", ""), 0
        elif name == "table-row":
            self._cells = []
            self._row_repeated = _count(attributes, "table:number-rows-repeated")
        elif name in _CELLS:
            self._text, self._paragraphs = [], 0
            self._is_error = attributes.get("calcext:value-type") == "error"  # such as #N/A
            kind = attributes.get("office:value-type", "string")
            self._number_of_cell = attributes.get("office:value") if kind == "float" else None
            self._is_text = kind in ("string", "float")
            self._cell_repeated = _count(attributes, "table:number-columns-repeated")
        elif name == "annotation":
            self._aside += 1
        elif self._text is not None and not self._aside:
            if name == "p":
                self._text += ["\n"] if self._paragraphs else []
                self._paragraphs += 1
            elif name == "s":
                self._text.append(" " * min(_count(attributes, "text:c"), 1000))
            else:
                self._text += {"tab": ["\t"], "line-break": ["\n"]}.get(name, [])

    def text(self, data: str) -> None:
        """Keep text that is in a paragraph of a cell and not in a comment."""
        if self._text is not None and self._paragraphs and not self._aside:
            self._text.append(data.replace(INVALID_MARKER, ""))

    def end(self, name: str) -> None:
        """End a cell or a row."""
        if name == "annotation":
            self._aside -= 1
        elif name in _CELLS and self._text is not None:
            cell, self._text = "" if self._is_error else "".join(self._text), None
            if not self._is_text or self._number_of_cell not in (None, cell):
                cell = NonTextCell("")
            self._cells += [cell] * min(self._cell_repeated, MAX_COLUMNS - len(self._cells))
        elif name == "table-row":
            while self._cells and not self._cells[-1] and not isinstance(self._cells[-1], NonTextCell):
                self._cells.pop()
            if self._cells:
                numbers = range(self._number + 1, self._number + 1 + self._row_repeated)
                self.items.append(Row(self._sheet, numbers, self._cells))
            self._number += self._row_repeated


def _count(attributes: dict[str, str], name: str) -> int:
    """Return the number of repetitions in the attribute `name`: at most `MAX_ROWS`, and 1 without a valid number."""
    number = attributes.get(name, "1")
    return min(int(number), MAX_ROWS) if re.fullmatch(r"[0-9]{1,9}", number) else 1


def read_ods(input_file: Input, sheet: str | None, num_columns: int = 2) -> Iterator[tuple[str, list[str]]]:
    """Yield the place, such as `Sheet1!3`, and the cells of each row of a sheet; empty rows are left out.

    It is the named sheet, or the only one in which some row has `num_columns` filled cells.

    Raises:
        InputError: the file is damaged or protected, or no sheet or several sheets could be meant.
    """
    check_no_declarations(input_file)
    with zip_archive(input_file) as archive:
        manifest = "META-INF/manifest.xml"
        if _CONTENT not in archive.namelist():
            raise InputError(f"{input_file.name}: holds no {_CONTENT}, so it is not a spreadsheet that can be read")
        if manifest in archive.namelist() and b"encryption-data" in archive.read(manifest):
            raise InputError(f"{input_file.name}: is encrypted; save it again without a password")
    is_table: dict[str, bool] = {}
    for row in _rows(input_file):
        filled = sum(bool(cell) and not cell.isspace() for cell in row.cells)
        is_table[row.sheet] = is_table.get(row.sheet, False) or filled >= num_columns
    if sheet is not None and sheet not in is_table:
        raise InputError(
            f"--sheet {sheet}: {input_file.name} has no such sheet with text; it has {', '.join(is_table)}"
        )
    tables = [title for title, is_one in is_table.items() if is_one]
    chosen = sheet or only_sheet(input_file.name, tables, list(is_table), num_columns)
    for row in _rows(input_file):
        if row.sheet == chosen:
            for number in row.numbers:
                yield f"{chosen}!{number}", row.cells


def _rows(input_file: Input) -> Iterator[Row]:
    return read_events(replace(input_file, member=_CONTENT), TextFacts("UTF-8", "utf-8-sig", "none"), OdsHandler())
