"""Commands under a disk that fails or a power that is cut: run as a script, a server that has everything imported and
forks a process for each command, which is killed, or given an error, at the file-system operation that it is told.

Operations are those that Python sees: opening for writing, each write, fsync, rename, link, unlink, mkdir, rmdir, and
the writing of a safetensors file as one. A killed write is torn: its first half has arrived.
"""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any

from echoing import Echo
from tqdm import tqdm

Operation = tuple[str, str]
"""Name of a call, and its path."""
GROWS = ("open", "write", "save", "mkdir")
"""Calls that need room on the disk."""


@dataclass(frozen=True)
class Outcome:
    """The result of a command."""

    code: int
    """Minus the signal's number where one ended it."""
    out: bytes
    err: str
    memory: int
    """Bytes that were resident at most, those shared with the server counted."""
    operations: tuple[Operation, ...]


class Faulty:
    """The server, from the side of the tests."""

    translates_dev_set = False
    """Whether trainings translate the dev set, which does nothing on the disk, or only echo it, which is faster."""

    def __init__(self, warm_up: Sequence[str]) -> None:
        own = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
        self._server = subprocess.Popen(
            [sys.executable, __file__, *warm_up], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | own
        )

    def run(
        self, *args: str | Path, at: int | None = None, error: int | None = None, kill_after: float | None = None
    ) -> Outcome:
        """Run `nmt` with `args`. Killed at operation `at` (from 0), or given `error` there: an errno, of which ENOSPC
        stays for all that needs room. Or killed after so many seconds."""
        asked = {"args": [str(arg) for arg in args], "at": at, "error": error, "kill_after": kill_after}
        asked["echoes"] = not self.translates_dev_set
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(asked).encode() + b"\n")
        self._server.stdin.flush()
        answer = json.loads(self._server.stdout.readline())
        operations = tuple((what, path) for what, path in answer["operations"])
        return Outcome(answer["code"], answer["out"].encode("latin-1"), answer["err"], answer["memory"], operations)

    def close(self) -> None:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.stdout.close()
        self._server.wait()


# The server -------------------------------------------------------------------------------------------------------


class _Disk:
    """Counts the operations of this process, and fails at one."""

    def __init__(self, at: int | None, error: int | None, trace: int) -> None:
        self._at, self._error, self._trace = at, error, trace
        self._count = 0

    def operate(self, what: str, path: object, do: Callable[[], Any], torn: Callable[[], Any] | None = None) -> Any:
        if isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")
        number, self._count = self._count, self._count + 1
        os.write(self._trace, json.dumps([what, os.fspath(path)]).encode() + b"\n")  # type: ignore[call-overload]
        if number == self._at and self._error is None:
            if torn is not None:
                torn()
            os.kill(os.getpid(), signal.SIGKILL)
        stays = self._error == errno.ENOSPC and what in GROWS
        if self._at is not None and self._error and (number == self._at or (number > self._at and stays)):
            if torn is not None:
                torn()
            raise OSError(self._error, os.strerror(self._error), os.fspath(path))  # type: ignore[call-overload]
        return do()


class _File:
    """A file open for writing, whose writes are operations."""

    def __init__(self, file: Any, path: Path, disk: _Disk) -> None:
        self._file, self._path, self._disk = file, path, disk

    def write(self, data: Any) -> Any:
        def half() -> None:
            self._file.write(data[: len(data) // 2])
            self._file.flush()

        return self._disk.operate("write", self._path, lambda: self._file.write(data), half)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._file)


@contextmanager
def watched(disk: _Disk) -> Iterator[None]:
    """Let the operations of this process go through `disk`."""
    import safetensors.torch  # from where checkpoint.py takes `save_file` at each call

    before = {name: getattr(os, name) for name in ("fsync", "replace", "link", "unlink", "rmdir", "mkdir")}
    before_open, before_save = Path.open, safetensors.torch.save_file

    def patched(name: str) -> Callable[..., Any]:
        return lambda path, *rest, **how: disk.operate(name, path, lambda: before[name](path, *rest, **how))

    def open_(self: Path, mode: str = "r", *rest: Any, **how: Any) -> Any:
        if not set(mode) & set("wax+"):
            return before_open(self, mode, *rest, **how)
        return _File(disk.operate("open", self, lambda: before_open(self, mode, *rest, **how)), self, disk)

    def save(tensors: Any, path: Path, *rest: Any) -> None:
        def torn() -> None:
            before_save(tensors, path, *rest)
            os.truncate(path, path.stat().st_size // 2)

        disk.operate("save", path, lambda: before_save(tensors, path, *rest), torn)

    try:
        for name in before:
            setattr(os, name, patched(name))
        Path.open, safetensors.torch.save_file = open_, save  # type: ignore[assignment, method-assign]
        yield
    finally:
        for name, real in before.items():
            setattr(os, name, real)
        Path.open, safetensors.torch.save_file = before_open, before_save  # type: ignore[method-assign]


def _serve(warm_up: Sequence[str]) -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    if warm_up:
        assert _command(warm_up) == 0  # so that a forked process imports nothing more
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as trace:
            child = os.fork()
            if child == 0:
                tqdm.set_lock(RLock())  # its own lock is one for all that are forked: who is killed would keep it
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(output.fileno(), 1)
                os.dup2(errors.fileno(), 2)
                sys.stdout = io.TextIOWrapper(os.fdopen(os.dup(1), "wb"))
                sys.stderr = io.TextIOWrapper(os.fdopen(os.dup(2), "wb"), write_through=True)
                if asked["kill_after"] is not None:
                    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # no code of this process runs, as with SIGKILL
                    signal.setitimer(signal.ITIMER_REAL, asked["kill_after"])
                if asked["echoes"]:
                    from nmt_cli.training import validation

                    validation.Translator = Echo  # type: ignore[assignment, misc]
                with watched(_Disk(asked["at"], asked["error"], trace.fileno())):
                    code = _command(asked["args"])
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
            _, status, usage = os.wait4(child, 0)
            for file in (output, errors, trace):
                file.seek(0)
            answer = {
                "code": os.waitstatus_to_exitcode(status),
                "out": output.read().decode("latin-1"),
                "memory": usage.ru_maxrss * 1024,
                "err": errors.read().decode(errors="replace"),
                "operations": [json.loads(operation) for operation in trace.read().splitlines()],
            }
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def _command(args: Sequence[str]) -> int:
    import traceback

    from nmt_cli.cli import main
    from nmt_cli.system.signals import preserve_handlers

    sys.argv = ["nmt", *args]
    try:
        with preserve_handlers():
            main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 99
    return 0


if __name__ == "__main__":
    _serve(sys.argv[1:])
