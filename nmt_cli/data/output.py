"""The one way out for data: standard output, or a file that is whole or absent."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from nmt_cli.errors import InputError


@contextmanager
def open_output(path: Path | None) -> Iterator[IO[bytes]]:
    """A binary stream to standard output (None or `-`) or to `path`, compressed if its name ends in `.gz`.

    A regular file appears under its name only when the block has succeeded. Pipes, devices and what is open already
    (`/dev/stdout`, `/dev/fd/N`) are written to directly.

    Raises:
        InputError: it cannot be opened for writing.
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
    try:
        descriptor = _open_descriptor(path)
        is_special = descriptor is not None or (path.exists() and not path.is_file())
        target = path.resolve() if path.is_symlink() and not is_special else path
        written = target if is_special else target.with_name(f".{target.name}.{os.getpid()}.tmp")
        stream = written.open("wb") if descriptor is None else os.fdopen(os.dup(descriptor), "wb")
        if not is_special and path.exists() and not os.access(path, os.W_OK):
            stream.close()
            written.unlink()
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {(error.strerror or str(error)).lower()}") from error
    except RuntimeError as error:
        raise InputError(f"{path}: cannot be written: its symbolic links lead back to itself") from error
    try:
        with stream:
            if path.name.endswith(".gz"):
                # No name and no time in it: the same text gives the same bytes.
                with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as compressed:
                    yield cast(IO[bytes], compressed)
            else:
                yield stream
            stream.flush()
            if not is_special:
                os.fsync(stream.fileno())
        if not is_special:
            os.replace(written, target)
    finally:
        if not is_special:
            written.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """`InputError` where `open_output` could not write the file, for a look before the work."""
    if path.is_dir():
        raise InputError(f"{path}: is a directory; give the name of a file")
    if path.parent.is_dir() and not os.access(path.parent, os.W_OK | os.X_OK):
        raise InputError(f"{path}: cannot be written: permission denied")


def _open_descriptor(path: Path) -> int | None:
    """The number by which this process has open what `path` names; None if it names a place of the file system."""
    for _ in range(40):  # as many links as Linux follows
        parent = os.path.realpath(path.parent)
        if parent == f"/proc/{os.getpid()}/fd" and path.name.isdecimal():
            return int(path.name)
        if not path.is_symlink():
            return None
        path = Path(parent, os.readlink(path))
    return None
