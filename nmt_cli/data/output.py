"""Writes all data output: to standard output, or to a file that appears only when it is complete."""

from __future__ import annotations

import errno
import gzip
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, cast

from nmt_cli.system.console import format_count, warn
from nmt_cli.system.errors import InputError
from nmt_cli.system.files import atomic_path, new_paths, no_space, why_not_writable


@contextmanager
def open_output(path: Path | None) -> Iterator[IO[bytes]]:
    """Yield a binary stream to standard output (None or `-`) or to `path`, compressed if its name ends in `.gz`.

    A regular file appears under its name only when the block has succeeded. Pipes, devices and streams that are open
    already (`/dev/stdout`, `/dev/fd/N`) are written to directly.

    Raises:
        InputError: the output cannot be opened for writing.
        NmtError: the disk is full.
    """
    if path is None or str(path) == "-":
        try:
            standard = sys.stdout.buffer
        except InputError as error:
            raise InputError(f"{error}; give -o OUT") from error
        yield standard
        standard.flush()
        return
    if path.is_dir():
        raise InputError(f"{path}: is a directory; give the name of a file")
    with ExitStack() as stack:
        try:
            other_names = _count_other_links(path)
            stream = _open(path, stack)
        except OSError as error:
            error.filename = str(path)
            raise no_space(error) or InputError(f"{path}: cannot be written: {_reason(error)}") from error
        yield _compress_if_gz(stream, path, stack)
    if other_names:
        warn(
            f"{path}: is a file of its own now; {format_count(other_names, 'other name')} (hard links) keep the "
            "old content"
        )


def _compress_if_gz(stream: IO[bytes], path: Path, stack: ExitStack) -> IO[bytes]:
    """Return `stream`, or if `path` ends in `.gz` a stream that compresses into it and that `stack` closes."""
    if not path.name.endswith(".gz"):
        return stream
    # No name and no time in it: the same text gives the same bytes.
    return cast(IO[bytes], stack.enter_context(gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0)))


@contextmanager
def open_new_outputs(paths: Sequence[Path]) -> Iterator[list[IO[bytes]]]:
    """Yield a binary stream to each of these new files, compressed if its name ends in `.gz`.

    When the block has succeeded, all files appear under their names, or none. The first one appears last.

    Raises:
        InputError: a file cannot be opened for writing, or one of the names is taken at the beginning or by the end.
        NmtError: the disk is full.
    """
    check_new(paths)
    with ExitStack() as names:
        try:
            temporaries = names.enter_context(new_paths(paths))
        except OSError as error:
            raise no_space(error) or InputError(f"{paths[0].parent}: cannot be written: {_reason(error)}") from error
        with ExitStack() as stack:
            streams = [stack.enter_context(temporary.open("wb")) for temporary in temporaries]
            yield [_compress_if_gz(stream, path, stack) for stream, path in zip(streams, paths, strict=True)]
        try:
            names.close()
        except FileExistsError as error:
            raise InputError(
                f"{error.filename2 or error.filename}: another program has made this file meanwhile, and it is not "
                "overwritten; choose another -o, or move it away"
            ) from error


def check_new(paths: Sequence[Path]) -> None:
    """Raise `InputError` if a new file exists already, or its directory is missing."""
    if taken := [str(path) for path in paths if os.path.lexists(path)]:
        raise InputError(
            f"{', '.join(taken)}: exists already and is not overwritten; choose another -o, or move it away"
        )
    if missing := [path for path in paths if not path.parent.is_dir()]:
        raise InputError(f"{missing[0]}: there is no directory {missing[0].parent}; make it first")


def check_prefix(prefix: str, *, example: str) -> None:
    """Raise `InputError`, with an example, if no file name can begin with the prefix."""
    if prefix in ("", "-") or prefix.endswith("/") or Path(prefix).is_dir():
        raise InputError(f"-o {prefix}: must be the beginning of file names, such as {example}")


def is_stream(path: str | Path | None) -> bool:
    """Return True for None and `-`, which stand for standard input or output."""
    return path is None or str(path) == "-"


def is_open_already(path: Path) -> bool:
    """Return True if an output is a stream that the caller of the program has opened, such as `/dev/stdout`."""
    return is_stream(path) or _open_descriptor(path) is not None


def identity_of(path: str | Path | int) -> tuple[int, int] | None:
    """Return device and inode of a regular file, given by path or descriptor; None if there is no regular file.

    All names (hard links) of a file have the same device and inode.
    """
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None  # who opens it says what is wrong
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def _open(path: Path, stack: ExitStack) -> IO[bytes]:
    """Return a binary stream to `path`. `stack` closes it and, for a regular file, moves the new content into place."""
    descriptor = _open_descriptor(path)
    if descriptor is not None:
        return stack.enter_context(os.fdopen(os.dup(descriptor), "wb"))
    if path.exists() and not path.is_file():
        return stack.enter_context(path.open("wb"))
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if target.is_symlink():  # what no end was found of
        raise OSError(errno.ELOOP, "its symbolic links lead back to itself")
    temporary = stack.enter_context(atomic_path(target))
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return stack.enter_context(temporary.open("wb"))


def _count_other_links(path: Path) -> int:
    """Return the number of hard links of a regular file other than the name that is written to; 0 for other outputs."""
    return path.stat().st_nlink - 1 if path.is_file() and _open_descriptor(path) is None else 0


def check_writable(path: Path) -> None:
    """Raise `InputError` if `open_output` could not write the file, as a check before long work."""
    if path.is_dir():
        raise InputError(f"{path}: is a directory; give the name of a file")
    if path.parent.is_dir() and (reason := why_not_writable(path.parent)):
        raise InputError(f"{path}: cannot be written: {reason}")


def _open_descriptor(path: Path) -> int | None:
    """Return the open file descriptor that `path` stands for, such as `/dev/stdout`, or None for any other path."""
    for _ in range(40):  # as many links as Linux follows
        parent = os.path.realpath(path.parent)
        if parent == f"/proc/{os.getpid()}/fd" and path.name.isdecimal():
            return int(path.name)
        if not path.is_symlink():
            return None
        path = Path(parent, os.readlink(path))
    return None


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
