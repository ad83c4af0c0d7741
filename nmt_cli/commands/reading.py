"""Checks of the inputs that a command names, and reading of texts that belong together line by line."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

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


def refuse_overwriting(output: Path | None, inputs: Iterable[str | Path | None]) -> None:
    """Refuse an output that is one of the inputs, by whatever path each is named; None and `-` are standard streams.

    Raises:
        InputError: both are the same regular file. Pipes and devices can be read and written at once.
    """
    written = _identity(output, standard_stream=1)
    for path in inputs:
        if written is not None and written == _identity(path, standard_stream=0):
            named = "Standard output" if output is None or str(output) == "-" else f"The output {output}"
            raise InputError(
                f"{input_name(path)}: cannot be both input and output. {named} is the same file; choose another name"
            )


def _identity(path: str | Path | None, *, standard_stream: int) -> tuple[int, int] | None:
    """Return device and inode of a regular file; None for anything else and for what is not there."""
    try:
        status = os.fstat(standard_stream) if path is None or str(path) == "-" else os.stat(path)
    except (OSError, ValueError):
        return None  # who opens it says what is wrong
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def _read(path: str | None) -> list[str]:
    lines, num_invalid = read_text_lines(path)
    if num_invalid:
        what = "1 line is" if num_invalid == 1 else f"{num_invalid:,} lines are"
        warn(f"{input_name(path)}: {what} not valid UTF-8; U+FFFD stands for the invalid bytes")
    return lines
