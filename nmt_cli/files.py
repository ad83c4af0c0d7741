"""Files and directories that are whole or absent, whenever the program is killed, the disk full or the power cut.

What is to be kept is written beside its place, pushed to the disk, renamed, and the rename pushed to the disk: in that
order a crash leaves the old or the new, never a part (Pillai et al., "All File Systems Are Not Created Equal", 2014).
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from socket import gethostname

from nmt_cli.errors import InputError, NmtError


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a sibling to write to; it becomes `path` only if the block succeeds."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        sync(temporary)
        os.replace(temporary, path)
        sync(path.parent)  # else the rename itself can be lost
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """Yield a sibling directory to fill; it takes the place of `path` only if the block succeeds."""
    temporary = unfinished(path)
    if temporary.exists():
        shutil.rmtree(temporary)  # of an attempt of this program that was killed
    make_directory(path.parent)
    temporary.mkdir()
    yield temporary
    for file in temporary.iterdir():
        sync(file)
    sync(temporary)
    if path.exists():
        shutil.rmtree(path)
    os.replace(temporary, path)
    sync(path.parent)


def remove_unfinished(directory: Path, *names: str) -> None:
    """Remove what killed attempts at `atomic_path` left, nobody else being at it: of files of these names, or of any in
    a directory that holds nothing but this program's."""
    name = "|".join(map(re.escape, names)) or ".+"
    for path in directory.glob(".*.tmp"):
        if re.fullmatch(rf"\.({name})\.\d+\.tmp", path.name) and path.is_file() and not path.is_symlink():
            path.unlink()


def remove_directory(path: Path) -> None:
    """Remove a directory; killed on the way, it is whole or has the name of an unfinished one."""
    doomed = unfinished(path)
    if doomed.exists():
        shutil.rmtree(doomed)
    os.replace(path, doomed)
    shutil.rmtree(doomed)


def unfinished(path: Path) -> Path:
    """The name of a directory while it is being filled or removed."""
    return path.with_name(f".{path.name}.tmp")


def make_directory(path: Path) -> None:
    """Make a directory and those above it, so that a power cut does not take them away with what lies in them."""
    if path.is_dir():
        return
    if path.parent != path:
        make_directory(path.parent)
    path.mkdir(exist_ok=True)
    sync(path.parent)


@contextmanager
def locked(path: Path, what: str, advice: str) -> Iterator[None]:
    """Make the directory of `path`, a file for just this, and hold it against others; who dies leaves no lock behind.

    Raises:
        InputError: it cannot be `what` it should; another process holds it, with `advice` what to do then.
        NmtError: the disk is full.
    """
    try:
        make_directory(path.parent)
        # No link is followed: the directory may be a stranger's, and what it points to another's file.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        lock_file = os.fdopen(os.open(path, flags, 0o666), "r+")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise no_space(error) or InputError(f"{path.parent}: cannot be {what}: {reason}") from error
    with lock_file as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise InputError(f"{path.parent}: is in use by {holder}; {advice}") from error
        file.seek(0)
        file.truncate()
        began = datetime.now().astimezone().isoformat(timespec="microseconds")
        file.write(f"process {os.getpid()} on {gethostname()} since {began}")
        file.flush()
        yield


def sha256_of(path: Path) -> str:
    """SHA-256 of what a file holds, in hexadecimal; `InputError` if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from error


def sync(path: Path) -> None:
    """Push a file or a directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def no_space(error: OSError) -> NmtError | None:
    """The message for a full disk, or None if the error is another."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return None
    where = f"{error.filename}: " if error.filename else ""
    return NmtError(f"{where}no space left on the device; free some and run the same command again")
