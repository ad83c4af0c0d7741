"""Tables with tabs: Anki and Tatoeba, and what spreadsheets call "text"."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import islice

from nmt_cli.formats.encoding import LINE, TextFacts, read_lines
from nmt_cli.formats.opening import Input
from nmt_cli.formats.references import unescape
from nmt_cli.formats.report import ImportReport
from nmt_cli.system.errors import InputError

_STRICT_CELL = re.compile(r'"(?:[^"]|"")*"')
_TAG = re.compile(r"<(?:br|/?(?:b|i|u|div|span|p|font|sub|sup|em|strong|a|img))\b[^<>]*>", re.I)
MAX_LINES_IN_CELL = 200


def read_tsv(input_file: Input, facts: TextFacts, report: ImportReport) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the line, from 1, on which each row begins, and the cells of the row.

    Quotes are part of the text, as Tatoeba writes them, unless the whole file quotes as spreadsheets do. Lines at the
    beginning such as `#separator:tab` and `#html:true` are directives of Anki and give no row.
    """
    is_quoted, num_directives = _is_quoted(input_file, facts)
    directives = [line.strip().lower() for line in islice(read_lines(input_file, facts), num_directives)]
    report.inputs[-1]["quoted_cells"] = is_quoted
    rows = quoted_rows(input_file, facts, "\t") if is_quoted else _plain_rows(input_file, facts)
    return _anki_rows(rows, directives, report) if directives else rows


def _plain_rows(input_file: Input, facts: TextFacts) -> Iterator[tuple[int, list[str]]]:
    width = 2
    for number, line in enumerate(read_lines(input_file, facts), start=1):
        bare = line.rstrip("\r\n") if line.endswith(("\n", "\r")) else line
        cells = bare.split("\t")
        if "\r" not in bare:
            width = max(2, len(cells))
            yield number, cells
            continue
        # A lone CR in a file with other line ends: between two whole rows it ends one, else it is part of a cell.
        rows = [part.split("\t") for part in bare.split("\r") if part]
        if all(len(row) >= width for row in rows):
            yield from ((number, row) for row in rows)
        else:
            yield number, cells


def _is_quoted(input_file: Input, facts: TextFacts) -> tuple[bool, int]:
    """Return whether quotes around cells belong to the notation, and the number of leading directives of Anki.

    They do if each cell that begins with a quote also ends with one, quotes within are doubled, and one of these holds:
    a quoted cell has a tab, a line end or a quote within; all cells are quoted; exactly the cells with a comma are
    quoted, and there are at least three.
    """
    needed = directives = num_cells = num_quoted = commas = quoted_commas = 0
    rest = ""
    for number, line in enumerate(read_lines(input_file, facts), start=1):
        if number == directives + 1 and re.match(r"#(?:separator|html|\w+ column|columns|tags|deck|notetype):", line):
            directives = number
            continue
        if not rest and '"' not in line:
            num_cells += 1
            commas += "," in line
            continue
        text, rest = rest + line, ""
        for cell in _split_cells(text.rstrip("\r\n")):
            num_cells += 1
            if not cell.startswith('"'):
                commas += "," in cell
                continue
            if _STRICT_CELL.fullmatch(cell):
                num_quoted += 1
                quoted_commas += "," in cell
                needed += '""' in cell[1:-1] or any(c in cell for c in "\t\n\r")
            elif cell.count('"') % 2 and text.count("\n") + text.count("\r") < MAX_LINES_IN_CELL:
                rest = text  # perhaps the cell goes on in the next line
                break
            else:
                return False, directives
    if rest:
        return False, directives
    all_commas = quoted_commas >= 3 and quoted_commas == num_quoted and not commas
    return num_quoted > 0 and (needed > 0 or num_quoted == num_cells or all_commas), directives


def _split_cells(text: str) -> list[str]:
    """Return the cells of a line, which is split at the tabs that are not within quotes."""
    if '\t"' not in text and not text.startswith('"'):
        return text.split("\t")
    cells, position = [], 0
    while position <= len(text):
        quoted = _STRICT_CELL.match(text, position)
        if quoted and text[quoted.end() : quoted.end() + 1] in ("", "\t"):
            end = quoted.end()
        elif text.startswith('"', position) and not quoted:
            end = len(text)  # a quote that is not closed in this text
        else:
            end = text.find("\t", position)
            end = len(text) if end < 0 else end
        cells.append(text[position:end])
        position = end + 1
    return cells


def quoted_rows(input_file: Input, facts: TextFacts, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Return an iterator over the rows of a table with quoted cells, each as (number of its first line, cells).

    A lone CR ends a row as other line ends do; but if line ends are mixed, and the row is too short, it is a blank.

    Raises:
        InputError: a quote in the text is not doubled, or a cell with a quote is never closed.
    """
    csv.field_size_limit(1 << 24)
    if facts.line_ends != "mixed":
        lines = read_lines(input_file, facts, universal=facts.line_ends in ("CR", "mostly CR"))
        return _quoted_rows(input_file.name, lines, delimiter)
    parted = _Lines(read_lines(input_file, facts))
    return _whole_rows(_quoted_rows(input_file.name, parted, delimiter), parted)


def _quoted_rows(name: str, lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    begin = 1
    while True:
        try:
            cells = next(rows, None)
        except csv.Error as error:
            raise InputError(
                f"{name}:{begin}: a quoted cell begins in this line and does not end as it should "
                f"({error}); double the quotes within the cell, or save the table as .xlsx"
            ) from None
        if cells is None:
            return
        if rows.line_num - begin > MAX_LINES_IN_CELL:
            raise InputError(
                f"{name}:{begin}: a quoted cell in this line is closed only in line {rows.line_num:,}; "
                "double the quotes within the cell, or save the table as .xlsx"
            )
        yield begin, cells or [""]
        begin = rows.line_num + 1


class _Lines:
    """Iterates over the lines of a table with mixed line ends, of which some may end in a lone CR."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self.ends_in_cr = False
        """True if the line that was read last ends in a lone CR."""

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            for part in LINE.findall(line):
                self.ends_in_cr = part.endswith("\r")
                yield part


def _whole_rows(rows: Iterator[tuple[int, list[str]]], lines: _Lines) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows; one that ends in a lone CR and has too few cells is joined to the next by a blank."""
    width, held = 0, None
    for begin, cells in rows:
        if held is not None and len(held[1]) + len(cells) - 1 <= width:
            begin, cells = held[0], [*held[1][:-1], f"{held[1][-1]} {cells[0]}", *cells[1:]]
        elif held is not None:
            yield held
        width, held = width or len(cells), None
        if lines.ends_in_cr and len(cells) < width:
            held = begin, cells
        else:
            yield begin, cells
    if held is not None:
        yield held


def _anki_rows(
    rows: Iterator[tuple[int, list[str]]], directives: list[str], report: ImportReport
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows after the directives of Anki; HTML markup is removed, and columns that are no text are emptied."""
    is_html = "#html:true" in directives
    others = [int(found[1]) - 1 for line in directives if (found := re.fullmatch(r"#\w+ column:(\d{1,4})", line))]
    for number, cells in rows:
        if number > len(directives):
            texts = ["" if column in others else cell for column, cell in enumerate(cells)]
            yield number, [_without_tags(cell, report) for cell in texts] if is_html else texts


def _without_tags(cell: str, report: ImportReport) -> str:
    """Return a cell of Anki without markup; `<br>` becomes a space."""
    bare = unescape(_TAG.sub(lambda tag: " " if tag[0].lower().startswith("<br") else "", cell))
    if bare != cell:
        report.count_note("cells with HTML markup, which was taken out")
    return bare.replace("\xa0", " ")
