"""How commands read texts that belong together line by line and are held in memory."""

from __future__ import annotations

from collections.abc import Sequence

from nmt_cli.console import warn
from nmt_cli.data.lines import input_name, is_standard_input, read_text_lines
from nmt_cli.errors import InputError


def read_parallel(paths: Sequence[str | None]) -> list[list[str]]:
    """The lines of each input; those that are not valid UTF-8 are counted on stderr.

    Raises:
        InputError: an input cannot be read; standard input is named twice; the inputs are empty or differ in length.
    """
    from nmt_cli.scoring import check_line_counts

    refuse_standard_input_twice(paths)
    texts = [_read(path) for path in paths]
    check_line_counts([(input_name(path), len(text)) for path, text in zip(paths, texts, strict=True)])
    return texts


def refuse_standard_input_twice(paths: Sequence[str | None]) -> None:
    """`InputError` where more than one of the inputs is standard input."""
    if sum(is_standard_input(path) for path in paths) > 1:
        raise InputError("standard input can be read only once: give files for the other inputs")


def _read(path: str | None) -> list[str]:
    lines, num_invalid = read_text_lines(path)
    if num_invalid:
        what = "1 line is" if num_invalid == 1 else f"{num_invalid:,} lines are"
        warn(f"{input_name(path)}: {what} not valid UTF-8; U+FFFD stands for the invalid bytes")
    return lines
