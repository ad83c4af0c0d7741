"""Spreadsheets of Excel, read with openpyxl."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

from nmt_cli.errors import InputError
from nmt_cli.formats.opening import Input, check_no_declarations

_ESCAPE = re.compile(r"_x(00[01][0-9A-Fa-f]|005[Ff](?=_x))_")


def read_xlsx(given: Input, sheet: str | None) -> Iterator[tuple[str, list[str]]]:
    """Yield the rows of the sheet, or of the only one with two columns of text, with the name of their first cell.

    Raises:
        InputError: the file is damaged or protected, or several sheets could be meant.
    """
    openpyxl = load_openpyxl(given.path)
    check_no_declarations(given.path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and extensions, which say nothing of the text
            book = openpyxl.load_workbook(given.path, read_only=True, data_only=True)
    except Exception as error:  # openpyxl lets the errors of its own libraries through
        raise _unreadable(given.path, error) from None
    try:
        chosen = _sheet(given.path, {one.title: one for one in book.worksheets}, sheet)
        for number, row in enumerate(chosen.iter_rows(values_only=True), start=1):
            yield f"{chosen.title}!{number}", [_text(value) for value in row]
    except (InputError, MemoryError):
        raise
    except Exception as error:
        raise _unreadable(given.path, error) from None
    finally:
        book.close()


def _unreadable(path: str, error: Exception) -> InputError:
    return InputError(f"{path}: is damaged, or no spreadsheet that openpyxl can read ({error}); save it again")


def load_openpyxl(path: str) -> Any:
    """Return the library; `InputError` where the extra is not installed."""
    try:
        import openpyxl
    except ImportError:
        raise InputError(
            f"{path}: reading XLSX needs openpyxl: pip install 'nmt-cli[formats]'; or save the sheet as CSV in UTF-8"
        ) from None
    return openpyxl


def _sheet(path: str, sheets: dict[str, Any], asked: str | None) -> Any:
    if asked is not None:
        if asked not in sheets:
            raise InputError(f"--sheet {asked}: {path} has no such sheet; it has {', '.join(sheets)}")
        return sheets[asked]
    usable = []
    for title, one in sheets.items():
        one.reset_dimensions()  # some programs write wrong ones
        rows = one.iter_rows(max_row=50, values_only=True)
        if any(sum(isinstance(value, str) and not value.isspace() for value in row) > 1 for row in rows):
            usable.append(title)
    return sheets[only_sheet(path, usable, list(sheets))]


def only_sheet(path: str, usable: list[str], sheets: list[str]) -> str:
    """Return the only sheet that can be meant, else refuse with the commands that settle it."""
    if not usable:
        raise InputError(f"{path}: no sheet has two columns of text; its sheets are {', '.join(sheets)}")
    if len(usable) > 1:
        tries = "; or ".join(f"--sheet '{title}'" for title in usable)
        raise InputError(
            f"{path}: {len(usable)} sheets have columns of text. Run the same command with what is right: {tries}"
        )
    return usable[0]


def _text(value: object) -> str:
    """Return a cell as text. Control characters are written as `_x000D_`, and that as `_x005F_x000D_`."""
    text = "" if value is None else str(value)
    return _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), text) if "_x" in text else text
