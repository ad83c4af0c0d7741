"""Reads lines of text from a file, a `.gz` file or standard input; all raw text is read by this module.

Lines end at `\\n` only: a CR, U+0085, U+2028 or form feed is part of its line, so parallel files stay in step. Memory
holds one line at a time, whose length is bounded. This module does not interpret the lines.
"""

from __future__ import annotations

import codecs
import gzip
import os
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from io import BufferedReader
from pathlib import Path
from typing import IO, NamedTuple, cast

from nmt_cli.formats.recognise import HEAD_BYTES, advice_on, detect_non_text, detect_unsupported_text, suspected_format
from nmt_cli.system.console import format_count, warn
from nmt_cli.system.errors import InputError

MAX_LINE_BYTES = 256_000_000
"""Most bytes of a line; a few bytes of gzip can expand to a line of any length."""


class TextLines(NamedTuple):
    """Decoded lines without their newlines, and how many of them were not valid UTF-8."""

    lines: list[str]
    num_invalid: int


def is_standard_input(path: str | os.PathLike[str] | None) -> bool:
    """Return True for None and `-`, which both stand for standard input."""
    return path is None or os.fspath(path) == "-"


def input_name(path: str | os.PathLike[str] | None) -> str:
    """Return the name of an input for messages: its path, or `standard input`."""
    return "standard input" if path is None or is_standard_input(path) else os.fspath(path)


@contextmanager
def open_input(path: str | os.PathLike[str] | None, *, warns_of_format: bool = True) -> Iterator[IO[bytes]]:
    """Open a path for reading bytes, decompressed if its name ends in `.gz`; None and `-` give standard input.

    A file that looks like a table or a document gives a warning, unless `warns_of_format` is False.

    Read the stream with `iter_lines`, which also reports later errors. Standard input is left open.

    Raises:
        InputError: there is no such file, it is a directory, it may not be read, it is plainly not text in UTF-8, or
            standard input is closed.
    """
    if path is None or is_standard_input(path):
        yield _standard_input()
        return
    stream = _check_head(_open_file(path), path, warns_of_format=warns_of_format)
    try:
        yield stream
    except BaseException:
        # A thread may be waiting in a pipe, and who closes it would wait for that thread.
        if not is_special_file(path):
            stream.close()
        raise
    stream.close()


def _standard_input() -> IO[bytes]:
    """Return a separate reader of standard input.

    A thread may still wait in it when the program ends, which Python forbids for `sys.stdin`.
    """
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except (AttributeError, OSError, ValueError):
        raise InputError("standard input is closed; give a file") from None


def _open_file(path: str | os.PathLike[str]) -> IO[bytes]:
    name = input_name(path)
    if not name:
        raise InputError("the name of an input file is empty")
    try:
        if os.fspath(path).endswith(".gz"):
            return cast(IO[bytes], gzip.open(path, "rb"))
        return Path(path).open("rb")
    except FileNotFoundError:
        raise InputError(f"{name}: there is no such file") from None
    except IsADirectoryError:
        raise InputError(f"{name}: is a directory; give a text file") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: cannot be opened: {_reason(error)}") from None


def _check_head(stream: IO[bytes], path: str | os.PathLike[str], *, warns_of_format: bool) -> IO[bytes]:
    """Return the stream after a check of its first bytes, which stay unread.

    A file that is plainly not text is refused; one that seems to be a table or a document gives a warning, once. A pipe
    is not checked, because peeking would wait.
    """
    if is_special_file(path):
        return stream
    try:
        head = cast(BufferedReader, stream).peek(HEAD_BYTES)[:HEAD_BYTES]
        status = os.fstat(stream.fileno())
    except (OSError, EOFError, zlib.error):
        stream.close()
        return _open_file(path)  # whose reader says what is wrong
    name = input_name(path)
    if (foreign := detect_non_text(head) or detect_unsupported_text(head)) is not None:
        stream.close()
        raise InputError(foreign.refusal(name))
    if warns_of_format:
        _warn_of_format(name, head, (status.st_dev, status.st_ino, status.st_mtime_ns))
    return stream


@lru_cache(maxsize=1024)
def _warn_of_format(name: str, head: bytes, identity: tuple[int, ...]) -> None:
    """Warn of a byte order mark or another format in the first bytes `head` of a file, once for each content of it."""
    del identity
    if head.startswith(codecs.BOM_UTF8):
        warn(f"{name}: begins with a byte order mark, which is read as a character of line 1; `nmt import` removes it")
    if kind := suspected_format(head, name):
        advice = f"if it is {kind}, {advice_on(kind)}"
        warn(f"{name}: looks like {kind} but is read as plain text, one sentence a line; {advice}")


def iter_lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a binary stream without their `\\n`; a last line without one counts as a line.

    Raises:
        InputError: the stream fails while it is read, is not the gzip data that its name promises, or has a line that
            is too long to be held in memory.
    """
    number = 0
    while line := _read_line(stream):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise InputError(
                f"{_stream_name(stream)}:{number}: the line is longer than {MAX_LINE_BYTES:,} bytes; is this text?"
            )
        yield line[:-1] if line.endswith(b"\n") else line


def lines_of_shard(path: str | os.PathLike[str] | None, shard: str) -> range:
    """Return the numbers (from 0) of the lines of shard `I/N`, I from 1: of L lines, those from L(I-1)/N to L·I/N.

    The shards of a file, joined in order, are the whole file.

    Raises:
        InputError: `shard` is not of this form, or the input cannot be read at all or not twice.
    """
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", shard, flags=re.ASCII)
    number, num_shards = (int(group) for group in match.groups()) if match else (0, 0)
    if not 1 <= number <= num_shards:
        raise InputError(f"--shard {shard}: must be I/N with I from 1 to N, such as 1/4")
    if is_standard_input(path) or is_special_file(path):
        raise InputError(f"--shard {shard}: needs a file, which is counted first; {input_name(path)} is read once only")
    with open_input(path, warns_of_format=False) as stream:  # it is opened again for its lines
        num_lines = sum(1 for _ in iter_lines(stream))
    return range(num_lines * (number - 1) // num_shards, num_lines * number // num_shards)


def is_special_file(path: str | os.PathLike[str] | None) -> bool:
    """Return True for a pipe or a device, which can be read once only."""
    return path is not None and os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _read_line(stream: IO[bytes]) -> bytes:
    try:
        return stream.readline(MAX_LINE_BYTES + 1)
    except EOFError:
        raise InputError(f"{_stream_name(stream)}: the compressed data ends too early; the file is cut off") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{_stream_name(stream)}: is not gzip data, or damaged: {error}") from None
    except OSError as error:
        raise InputError(f"{_stream_name(stream)}: cannot be read: {_reason(error)}") from None


def decode_line(line: bytes) -> tuple[str, bool]:
    """Return the text of a line, and whether it was valid UTF-8; if it was not, U+FFFD stands for the invalid bytes."""
    try:
        return line.decode("utf-8"), True
    except UnicodeDecodeError:
        return line.decode("utf-8", errors="replace"), False


def warn_of_invalid(place: str, number: int, noun: str = "line") -> None:
    """Warn that `number` lines (or other units, called `noun`) are not UTF-8; `number` is at least 1.

    The message begins with `place`.
    """
    are = "is" if number == 1 else "are"
    warn(
        f"{place}{format_count(number, noun)} {are} not valid UTF-8; invalid bytes are read as U+FFFD. nmt import "
        "converts other encodings"
    )


def read_text_lines(path: str | os.PathLike[str] | None) -> TextLines:
    """Return all lines of an input as text; for inputs that must be held in memory, such as references.

    Raises:
        InputError: as `open_input` and `iter_lines` raise it.
    """
    lines: list[str] = []
    num_invalid = 0
    with open_input(path) as stream:
        for line in iter_lines(stream):
            text, is_valid = decode_line(line)
            lines.append(text)
            num_invalid += not is_valid
    return TextLines(lines, num_invalid)


def _stream_name(stream: IO[bytes]) -> str:
    name = getattr(stream, "name", None)
    return name if isinstance(name, str) else "standard input"  # whose own name is a number


def _reason(error: Exception) -> str:
    strerror = error.strerror if isinstance(error, OSError) else None
    return (strerror or str(error)).lower()
