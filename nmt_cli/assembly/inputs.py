"""Checks of the inputs that a command names, and reading of texts that belong together line by line."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from nmt_cli.data.lines import input_name, is_standard_input, open_input, read_text_lines
from nmt_cli.system.console import warn
from nmt_cli.system.errors import InputError
from nmt_cli.system.files import no_space


def read_parallel(paths: Sequence[str | None]) -> list[list[str]]:
    """Return the lines of each input; those that are not valid UTF-8 are counted on stderr.

    Raises:
        InputError: an input cannot be read; standard input is named twice; the inputs are empty or differ in length.
    """
    from nmt_cli.scoring import check_line_counts

    refuse_standard_input_twice(paths)
    texts = [_read(path) for path in paths]
    check_line_counts([(input_name(path), len(text)) for path, text in zip(paths, texts, strict=True)])
    return texts


def refuse_standard_input_twice(paths: Sequence[str | None]) -> None:
    """Raise `InputError` where more than one of the inputs is standard input."""
    if sum(is_standard_input(path) for path in paths) > 1:
        raise InputError("standard input can be read only once: give files for the other inputs")


@contextmanager
def readable_again(paths: Sequence[str]) -> Iterator[list[str]]:
    """Yield the paths, with a temporary copy in place of standard input, for work that reads a file more than once.

    Raises:
        InputError: standard input is named twice, or is closed.
        OSError: as the operating system says.
    """
    refuse_standard_input_twice(paths)
    if not any(map(is_standard_input, paths)):
        yield list(paths)
        return
    with TemporaryDirectory(prefix="nmt-") as directory:
        copy = Path(directory, input_name("-"))
        try:
            with open_input("-") as stream, copy.open("wb") as file:
                shutil.copyfileobj(stream, file)
        except OSError as error:
            if no_space(error):  # in a place that nobody has named
                error.filename = str(Path(directory).parent)
            raise
        yield [str(copy) if is_standard_input(path) else path for path in paths]


def refuse_one_file(pair: Sequence[str]) -> None:
    """Raise `InputError` where source and target, as far as they are there, are one file."""
    source, target = map(Path, pair)
    if source.exists() and target.exists() and source.samefile(target):
        raise InputError(f"{source}: is given as source and as target. Give two files")


def refuse_odd_languages(languages: Sequence[str]) -> None:
    """Raise `InputError` where --source-lang or --target-lang cannot be the ending of a file's name."""
    for option, language in zip(("--source-lang", "--target-lang"), languages, strict=True):
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", language):
            raise InputError(f"{option} {language}: must be a language code, such as en or pt_BR")


def _read(path: str | None) -> list[str]:
    lines, num_invalid = read_text_lines(path)
    if num_invalid:
        what = "1 line is" if num_invalid == 1 else f"{num_invalid:,} lines are"
        warn(f"{input_name(path)}: {what} not valid UTF-8; U+FFFD stands for the invalid bytes")
    return lines
