"""Writing of files and directories so that they are whole or absent, even after a kill, a full disk or a power cut.

A file is written next to its place, flushed to the disk and renamed, and then the rename is flushed to the disk: in
that order a crash leaves the old file or the new one, never a part (Pillai et al., "All File Systems Are Not Created
Equal", 2014).
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from socket import gethostname
from typing import TextIO

from nmt_cli.system.console import warn
from nmt_cli.system.errors import InputError, NmtError, is_refusal

_TOKEN_BYTES = 8
_SHORT_NAME = 64
"""Bytes that the name of a temporary file may always have. It may have more only if the name of the final file is as
long."""
_LOCKED_ERRNOS = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
"""Errors of `flock` that mean that another process has the lock; all others mean that the file system has no locks."""
_ATTEMPTS = 10
"""Number of times that a lock file is opened, if each time another command removes it before it is locked. The file
opened last is not checked for this, because some file systems change the inode numbers of files."""
_NO_DIRECTORY_SYNC = (errno.EINVAL, errno.EBADF, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
"""Errors by which a file system says that it cannot flush directories to the disk."""
_NO_ROOM_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a write to a full disk, or beyond a limit (`ulimit -f`). Only those of `open` and similar calls name the
file."""
_NO_HARD_LINKS = (errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK)
"""Errors by which a file system says that a file can have one name only."""


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a new, empty file in the same directory to write to; it becomes `path` only if the block succeeds.

    It gets the mode of the file that it replaces, and its owner and group as far as this user may give them.
    """
    replaced = path.stat() if path.exists() else None
    temporary = sibling_name(path)
    try:
        # Until it has the mode of the file that it replaces, nobody else may read it.
        temporary.touch(0o666 if replaced is None else 0o600, exist_ok=False)
        with name_full_disk(path):
            yield temporary
        sync(temporary)
        if replaced is not None:
            _copy_ownership(replaced, temporary)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)  # else the rename itself can be lost


@contextmanager
def name_full_disk(path: Path) -> Iterator[None]:
    """Add `path` to an `OSError` of the block that means that there is no room to write, if the error names no file."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM_ERRNOS and error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def new_paths(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield a new, empty file for each path to write to; they become these paths if the block succeeds: all or none.

    They get their final names from the last to the first, so if the first path exists, all others do. No file is ever
    replaced, even if another program makes it while the block runs.

    Raises:
        FileExistsError: one of the paths exists already.
    """
    temporaries = [sibling_name(path) for path in paths]
    with ExitStack() as named:
        try:
            for temporary in temporaries:
                temporary.touch(exist_ok=False)
            try:
                yield temporaries
            except OSError:
                sizes = [temporary.stat().st_size for temporary in temporaries]
                with name_full_disk(paths[sizes.index(max(sizes))]):  # a limit on sizes stops the largest file
                    raise
            for temporary in temporaries:
                sync(temporary)
            for temporary, path in reversed([*zip(temporaries, paths, strict=True)]):
                named.enter_context(_give_final_name(temporary, path))
            for directory in dict.fromkeys(path.parent for path in paths):
                sync(directory)
        finally:
            for temporary in temporaries:
                temporary.unlink(missing_ok=True)


@contextmanager
def _give_final_name(temporary: Path, path: Path) -> Iterator[None]:
    """Give a temporary file its final name `path`; if the block then fails, remove `path`.

    Raises:
        FileExistsError: `path` exists already.
    """
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        os.rename(temporary, path)
    with removed_on_failure([path]):
        yield


@contextmanager
def removed_on_failure(paths: Sequence[Path]) -> Iterator[None]:
    """Remove files if the block fails, except those that somebody has replaced or changed meanwhile."""
    made = {path: _identity(path) for path in paths}
    try:
        yield
    except BaseException:
        for path, identity in made.items():
            with suppress(FileNotFoundError):
                if _identity(path) == identity:
                    path.unlink()
        raise


def _identity(path: Path) -> tuple[int, ...]:
    status = path.lstat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def sibling_name(path: Path) -> Path:
    """Return a path in the same directory that no other writer takes.

    Its name has at most as many bytes as `path.name`, or `_SHORT_NAME` if that is more. The process ID would not do as
    a part of it: two containers that share a directory can have processes with the same ID.
    """
    ending = f".{secrets.token_hex(_TOKEN_BYTES)}.tmp"
    name = os.fsencode(path.name)
    kept = name[: max(len(name), _SHORT_NAME) - len(f".{ending}")]
    # A character is kept whole: some file systems refuse a name that is not valid UTF-8.
    return path.with_name(f".{os.fsdecode(kept.decode('utf-8', errors='ignore').encode())}{ending}")


def _copy_ownership(replaced: os.stat_result, path: Path) -> None:
    """Give a file the owner, the group and the mode of the one that it replaces, each where the system allows it."""
    for change in (
        partial(os.chown, path, replaced.st_uid, -1),
        partial(os.chown, path, -1, replaced.st_gid),
        partial(os.chmod, path, stat.S_IMODE(replaced.st_mode)),  # last: a change of owner takes some bits away
    ):
        with suppress(OSError):
            change()


@contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """Yield a new directory next to `path` to fill; it takes the place of `path` only if the block succeeds.

    A kill between the last two renames leaves no `path`. The next call first restores the old directory.
    """
    temporary, old = unfinished_path(path), unfinished_path(path.with_name(f"{path.name}.old"))
    if old.exists() and not path.exists():
        os.replace(old, path)
    for left in (temporary, old):
        if left.exists():
            shutil.rmtree(left)  # of an attempt of this program that was killed
    make_directory(path.parent)
    temporary.mkdir()
    try:
        with name_full_disk(path):
            yield temporary
        for file in temporary.iterdir():
            sync(file)
        sync(temporary)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    if path.exists():
        os.replace(path, old)  # removed in its place, it would be there in part for a while
    os.replace(temporary, path)
    sync(path.parent)
    if old.exists():
        shutil.rmtree(old)


def remove_unfinished(directory: Path, *names: str) -> None:
    """Remove the temporary files that killed calls of `atomic_path` have left in a directory.

    `names` are the names of the final files; without names, all temporary files are removed. Only a short name is
    found, because a longer one is cut in the name of its temporary file. Nobody else may be writing these files.
    """
    of_names = "|".join(map(re.escape, names)) or ".*"
    own = re.compile(rf"\.({of_names})\.[0-9a-f]{{{2 * _TOKEN_BYTES}}}\.tmp", re.S)
    for path in directory.glob(".*.tmp"):
        if own.fullmatch(path.name) and path.is_file() and not path.is_symlink():
            path.unlink()


def remove_directory(path: Path) -> None:
    """Remove a directory, if it exists, and the remains of an earlier call for it that was killed.

    It is first renamed to its `unfinished_path`. So if this call is killed, nothing incomplete is left at `path`.
    """
    doomed = unfinished_path(path)
    if doomed.exists():
        shutil.rmtree(doomed)
    if path.exists():
        os.replace(path, doomed)
        shutil.rmtree(doomed)


def unfinished_path(path: Path) -> Path:
    """Return the hidden path next to `path` that a directory has while it is being filled or removed."""
    return path.with_name(f".{path.name}.tmp")


@contextmanager
def ensure_directory(path: Path) -> Iterator[None]:
    """Make a directory where there is none; if the block fails, remove the one that was made, unless it holds a file.

    Raises:
        InputError: it cannot be made.
    """
    is_new = not path.exists()
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be made: {(error.strerror or str(error)).lower()}") from error
    try:
        yield
    except BaseException:
        if is_new:
            with suppress(OSError):  # somebody else has put something into it
                path.rmdir()
        raise


def make_directory(path: Path) -> list[Path]:
    """Make a directory and the missing ones above it; return those that were made, outermost first.

    They are flushed to the disk, so that a power cut does not lose them and their files.

    Raises:
        OSError: a directory cannot be made.
    """
    if path.is_dir():
        return []
    made = make_directory(path.parent) if path.parent != path else []
    try:
        path.mkdir()
        made.append(path)
    except FileExistsError as error:  # somebody else has made it meanwhile
        if not path.is_dir():
            error.strerror = "a symbolic link in it leads nowhere" if path.is_symlink() else error.strerror
            raise
    except OSError:
        remove_empty(made)
        raise
    sync(path.parent)
    return made


def remove_empty(directories: Sequence[Path]) -> None:
    """Remove the directories that are empty, from the last to the first; a parent must precede its children."""
    for directory in reversed(directories):
        with suppress(OSError):
            directory.rmdir()


def remove_paths(paths: Sequence[Path]) -> None:
    """Remove files, and then the directories that are empty; in `paths` a directory must come before its files."""
    for path in paths:
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)
    remove_empty(paths)


@contextmanager
def locked(path: Path, what: str, advice: str) -> Iterator[None]:
    """Hold a lock while the block runs: the file `path`, which is used for nothing else. Its directory is made first.

    If the process dies, the lock is free again.

    If the block refuses the input of the user (`is_refusal`), the file and the directories that were made for it are
    removed again, unless they hold anything else.

    Args:
        path: the file of the lock.
        what: words after "cannot be" in the message for a directory that cannot be used, such as "written to".
        advice: what to do while another process holds the lock, for the message.

    Raises:
        InputError: the directory cannot be used, or another process holds the lock.
        NmtError: the disk is full.
    """
    made: list[Path] = []
    try:
        with _lock_file(path, what, advice, made):
            yield
    except NmtError as error:
        if is_refusal(error):
            remove_empty(made)
        raise


@contextmanager
def _lock_file(path: Path, what: str, advice: str, made: list[Path]) -> Iterator[None]:
    """Hold the lock `path` as `locked` does, and append to `made` the directories that are made for it."""
    for attempts_left in reversed(range(_ATTEMPTS)):
        try:
            made += make_directory(path.parent)
            file, is_new = _open_lock(path)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise no_space(error) or InputError(f"{path.parent}: cannot be {what}: {reason}; choose another") from error
        with file:
            is_held = _acquire_lock(file, path.parent, advice)
            if attempts_left and is_held and not _is_same_file(path, file):
                continue  # a command that was refused has just removed it
            file.seek(0)
            file.truncate()
            began = datetime.now().astimezone().isoformat(timespec="microseconds")
            file.write(f"process {os.getpid()} on {gethostname()} since {began}")
            file.flush()
            try:
                yield
            except NmtError as error:
                if is_new and is_held and is_refusal(error):
                    path.unlink(missing_ok=True)  # while it is held
                raise
        return


def _open_lock(path: Path) -> tuple[TextIO, bool]:
    """Open a lock file; return it, and True if this call has made it."""
    # No link is followed: the directory may be a stranger's, and what it points to another's file.
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.fdopen(os.open(path, flags | os.O_EXCL, 0o666), "r+"), True
    except FileExistsError:
        return os.fdopen(os.open(path, flags, 0o666), "r+"), False


def _acquire_lock(file: TextIO, directory: Path, advice: str) -> bool:
    """Lock a file and return True; if the file system has no locks, log a warning and return False.

    Raises:
        InputError: another process holds it.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _LOCKED_ERRNOS:
            holder = file.read().strip() or "another process"
            raise InputError(f"{directory}: is in use by {holder}; {advice}") from error
        warn(
            f"{directory}: its file system does not support locks ({(error.strerror or str(error)).lower()}), so "
            "a second command that writes there at the same time would not be noticed; run one at a time"
        )
        return False
    return True


def _is_same_file(path: Path, file: TextIO) -> bool:
    """Return True if `path` is still the path of the open file `file`; False if it was removed or replaced."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content in hexadecimal; raise `InputError` if the file cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from error


def sync(path: Path) -> None:
    """Flush a file or a directory to the disk; skip a directory that this user may not read or its file system
    cannot flush."""
    is_directory = path.is_dir()
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        if is_directory:  # files may be put into it, but it may not be read
            return
        raise
    try:
        os.fsync(descriptor)
    except OSError as error:
        if not (is_directory and error.errno in _NO_DIRECTORY_SYNC):
            raise
    finally:
        os.close(descriptor)


def why_not_writable(directory: Path) -> str:
    """Return why no file can be made in a directory, as the system's error message; empty if one probably can."""
    if os.access(directory, os.W_OK | os.X_OK):
        return ""
    try:
        is_read_only = os.statvfs(directory).f_flag & os.ST_RDONLY
    except OSError as error:
        return os.strerror(error.errno or errno.EACCES).lower()
    return os.strerror(errno.EROFS if is_read_only else errno.EACCES).lower()


def no_space(error: OSError) -> NmtError | None:
    """Return an error to show to the user if `error` means that the disk is full; None if it means anything else."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return None
    where = f"{error.filename}: " if error.filename else ""
    return NmtError(f"{where}no space left on the device; free some and run the same command again")
