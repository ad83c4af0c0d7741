"""Spreadsheets of Excel, read with openpyxl."""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from nmt_cli.formats.columns import NonTextCell
from nmt_cli.formats.opening import Input, check_no_declarations, zip_archive
from nmt_cli.system.errors import InputError

_NUM_SURVEYED = 50
"""Number of rows at the beginning of each sheet by which the sheet with a table is found."""
_ESCAPE = re.compile(r"_x(00[01][0-9A-Fa-f]|005[Ff](?=_x))_")


def read_xlsx(input_file: Input, sheet: str | None, num_columns: int = 2) -> Iterator[tuple[str, list[str]]]:
    """Yield the place, such as `Sheet1!3`, and the cells of each row of a sheet.

    It is the named sheet, or the only one in which some row has `num_columns` cells of text.

    Raises:
        InputError: the file is damaged or protected, or no sheet or several sheets could be meant.
    """
    with _workbook(input_file) as book:
        chosen = _sheet(input_file.name, {one.title: one for one in book.worksheets}, sheet, num_columns)
        for number, row in enumerate(chosen.iter_rows(), start=1):
            yield f"{chosen.title}!{number}", [_text(cell) for cell in row]


def advice_on_formulas(input_file: Input, sheet: str | None) -> str:
    """Return the advice for a formula without a saved result in the sheet, or in any; empty if there is none."""
    with zip_archive(input_file) as archive:
        sheets = [replace(input_file, member=name) for name in archive.namelist() if name.startswith("xl/worksheets/")]
    if not any(b"<f" in chunk for one in sheets for chunk in one.chunks()):  # openpyxl is much slower
        return ""
    with _workbook(input_file) as results, _workbook(input_file, data_only=False) as formulas:
        for one, other in zip(results.worksheets, formulas.worksheets, strict=True):
            if sheet not in (None, one.title):
                continue
            for row, others in zip(one.iter_rows(), other.iter_rows(), strict=True):
                for cell, formula in zip(row, others, strict=True):
                    if formula.data_type == "f" and cell.value is None and cell.data_type == "n":  # not an empty text
                        return (
                            f"the cell {one.title}!{formula.coordinate} and perhaps others hold formulas without saved "
                            "results; open the file in a spreadsheet program and save it"
                        )
    return ""


@contextmanager
def _workbook(input_file: Input, *, data_only: bool = True) -> Iterator[Any]:
    """Open a workbook with the results of its formulas or, without `data_only`, with the formulas.

    Raises:
        InputError: openpyxl is missing, or cannot read the file.
    """
    openpyxl = load_openpyxl(input_file.name)
    check_no_declarations(input_file)
    with open(input_file.path, "rb") as file:  # a copy of standard input has no ending, which openpyxl asks of a name
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of styles and extensions, which say nothing of the text
                book = openpyxl.load_workbook(file, read_only=True, data_only=data_only)
        except Exception as error:  # openpyxl lets the errors of its own libraries through
            raise _unreadable(input_file.name, error) from None
        try:
            for sheet in book.worksheets:
                sheet.reset_dimensions()  # some programs write wrong ones
            yield book
        except (InputError, MemoryError):
            raise
        except Exception as error:
            raise _unreadable(input_file.name, error) from None
        finally:
            book.close()


def _unreadable(name: str, error: Exception) -> InputError:
    return InputError(f"{name}: is damaged, or no spreadsheet that openpyxl can read ({error}); save it again")


def load_openpyxl(name: str) -> Any:
    """Return the module openpyxl.

    Raises:
        InputError: it is not installed.
    """
    try:
        import openpyxl
    except ImportError:
        raise InputError(
            f"{name}: reading XLSX needs openpyxl: pip install 'nmt-cli[formats]'; or save the sheet as CSV in UTF-8"
        ) from None
    return openpyxl


def _sheet(name: str, sheets: dict[str, Any], asked: str | None, num_columns: int) -> Any:
    if asked is not None:
        if asked not in sheets:
            raise InputError(f"--sheet {asked}: {name} has no such sheet; it has {', '.join(sheets)}")
        return sheets[asked]
    usable = []
    for title, one in sheets.items():
        rows = one.iter_rows(max_row=_NUM_SURVEYED)
        texts = (sum(isinstance(cell.value, str) and bool(_text(cell).strip()) for cell in row) for row in rows)
        if any(number >= num_columns for number in texts):
            usable.append(title)
    return sheets[only_sheet(name, usable, list(sheets), num_columns, _NUM_SURVEYED)]


def only_sheet(name: str, usable: list[str], sheets: list[str], num_columns: int, num_rows: int | None = None) -> str:
    """Return the name of the only sheet in `usable`, the sheets with `num_columns` columns of text.

    With `num_rows`, the message says that only so many rows at the beginning of each sheet were tested.

    Raises:
        InputError: no sheet or several could be meant; the message has the options that settle it.
    """
    if not usable:
        where = "" if num_rows is None else f" in its first {num_rows} rows"
        advice = "" if num_rows is None else ". If the table begins further down, name its sheet: --sheet NAME"
        columns = "a column" if num_columns == 1 else "two columns"
        raise InputError(f"{name}: no sheet has {columns} of text{where}; its sheets are {', '.join(sheets)}{advice}")
    if len(usable) > 1:
        tries = "; or ".join(f"--sheet {shlex.quote(title)}" for title in usable)
        raise InputError(
            f"{name}: {len(usable)} sheets have columns of text. Run the same command again with one of these: {tries}"
        )
    return usable[0]


def _text(cell: Any) -> str:
    """Return the text of a cell, empty for an error such as #N/A.

    A number that is shown as it is written is text; dates, percentages, truth values and the like are `NonTextCell`.
    Control characters, which a file has as `_x000D_`, are decoded, and so is that text itself, `_x005F_x000D_`.
    """
    if (
        cell.value is not None
        and cell.data_type not in ("s", "e", "inlineStr", "str")
        and not isinstance(cell.value, str)
    ):
        is_plain = isinstance(cell.value, int | float) and not isinstance(cell.value, bool)
        return str(cell.value) if is_plain and cell.number_format in ("General", "@", "0") else NonTextCell("")
    text = "" if cell.value is None or cell.data_type == "e" else str(cell.value)
    return _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), text) if "_x" in text else text
