"""A command of `nmt` in a process of its own, which ends when this process gets a signal to end, or dies."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from types import FrameType
from typing import IO

from nmt_cli.system.signals import exit_code, handle_signals

_PR_SET_PDEATHSIG = 1


class CommandProcess:
    """Runs a command in a process that gets the signals that this process gets, and on Linux dies with this process."""

    def __init__(self, arguments: Sequence[str], log: IO[bytes] | None = None) -> None:
        """Prepare to run `nmt` with these arguments; its output goes to `log`, or else to stderr."""
        self._arguments, self._log = arguments, log
        self._process: subprocess.Popen[bytes] | None = None
        self.received = 0
        """Number of the first signal that this process has received, or 0."""

    def run(self) -> int:
        """Run the command to its end and return its exit code, negative if a signal killed it."""
        with handle_signals(self._forward_signal):
            if self.received:
                return exit_code(self.received)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "nmt_cli", *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno() if self._log is None else self._log,
                stderr=self._log,
                preexec_fn=partial(_die_with_parent, _libc()),
            )
            if self.received:
                self._process.send_signal(self.received)
            return self._process.wait()

    def _forward_signal(self, number: int, _: FrameType | None) -> None:
        self.received = self.received or number
        if self._process is not None:
            self._process.send_signal(number)


def _libc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if sys.platform == "linux" else None


def _die_with_parent(libc: ctypes.CDLL | None) -> None:
    """Ask Linux to kill this process when its parent dies: else the stage would run on next to its second attempt."""
    if libc is not None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
