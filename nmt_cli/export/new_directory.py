"""A directory for the files of an export, which must be new or empty."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nmt_cli.system.errors import InputError
from nmt_cli.system.files import make_directory, no_space, sibling_name, sync


@contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """Yield a directory to fill; it becomes `path` only if the block succeeds. Nothing is ever replaced.

    If `path` is an empty directory, that directory stays, with its mode and what is mounted there, and gets the files.

    Raises:
        InputError: `path` exists and is not an empty directory, or no directory can be made or filled there.
        NmtError: the disk is full.
    """
    check_new_directory(path)
    destination = Path(os.path.abspath(path))
    temporary = sibling_name(destination / destination.name if os.path.ismount(destination) else destination)
    try:
        make_directory(temporary.parent)
        temporary.mkdir()
    except OSError as error:
        raise no_space(error) or InputError(
            f"{path}: cannot be made: {(error.strerror or str(error)).lower()}"
        ) from error
    try:
        yield temporary
        for file in temporary.iterdir():
            sync(file)
        sync(temporary)
        if destination.is_dir() and not destination.is_symlink():
            # Somebody else may have put something there meanwhile.
            check_new_directory(path, allowed_entry=temporary.name)
            _move(temporary, destination)
            temporary.rmdir()
            sync(destination)
        else:
            check_new_directory(path)
            os.rename(temporary, destination)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync(temporary.parent)


def _move(directory: Path, destination: Path) -> None:
    """Move the files of a directory into an empty one, all or none.

    Raises:
        InputError: a file cannot be moved.
    """
    moved: list[str] = []
    try:
        for name in sorted(os.listdir(directory)):
            os.rename(directory / name, destination / name)
            moved.append(name)
    except OSError as error:
        for name in moved:
            os.rename(destination / name, directory / name)
        raise InputError(f"{destination}: cannot be filled: {(error.strerror or str(error)).lower()}") from error


def check_new_directory(path: Path, allowed_entry: str = "") -> None:
    """Raise `InputError` if `path` exists and is not an empty directory, as a check before the work of an export.

    An entry of the directory with the name `allowed_entry` is allowed.
    """
    try:
        is_free = not os.path.lexists(path) or (not path.is_symlink() and not {*os.listdir(path)} - {allowed_entry})
    except OSError:  # a file, or a directory that may not be read
        is_free = False
    if not is_free:
        raise InputError(f"{path}: exists already and is not replaced; give a directory that is new or empty")
