"""Handlers for the signals that end the program (SIGINT, SIGTERM, SIGHUP), and the exit code that the program then has.

Whoever starts the program may have set some of them to be ignored: a shell script does so with SIGINT for programs in
the background, and nohup with SIGHUP. These stay ignored.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

TERMINATION_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_RESEND_SECONDS = 0.005
"""Seconds until a signal that could not end the program is sent again: too few to do much of the work meanwhile."""
_DUPLICATE_SECONDS = 1.0
"""Seconds within which a second signal counts as the first one that has come twice: torchrun passes on signals that
its processes also receive themselves."""
Handler = Callable[[int, FrameType | None], None] | signal.Handlers
Result = TypeVar("Result")


def exit_code(number: int) -> int:
    """Return the exit code that shells give to a program that a signal has ended."""
    return 128 + number


class SignalExit(SystemExit):
    """Ends the program, or the function that `SignalDeferrer.run_interruptible` calls, because a signal has come.

    Python and libraries swallow exceptions in places: in a `__del__`, and where C asks if an object has an attribute.
    So code that catches this exception must call `acknowledge`. If the exception is deleted without that, the signal
    is sent again.
    """

    def __init__(self, number: int, send_again: Callable[[], None]) -> None:
        """Make an exception for signal `number`; `send_again` is called if nobody acknowledges it."""
        super().__init__(exit_code(number))
        self._number, self._send_again = number, send_again

    def acknowledge(self) -> int:
        """Mark the signal as handled, and return the exit code of a program that it ends."""
        self._send_again = _nothing
        return exit_code(self._number)

    def __del__(self) -> None:
        self._send_again()


# Handlers ---------------------------------------------------------------------------------------------------------


@contextmanager
def handle_signals(handler: Handler) -> Iterator[None]:
    """Have `handler` called for the signals of `TERMINATION_SIGNALS` that are not ignored, while the block runs."""
    with preserve_handlers():
        for number in _active_handlers():
            signal.signal(number, handler)
        yield


@contextmanager
def preserve_handlers() -> Iterator[None]:
    """Restore the handlers of the signals of `TERMINATION_SIGNALS` after a block that may set others."""
    before = _active_handlers()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def raise_on_signal() -> Iterator[None]:
    """Raise `SignalExit` in the block when a signal comes, so that half-written files are removed.

    After the block these signals are ignored: the program ends by itself, with its own exit code.
    """
    handler, hook = _RaisingHandler(), sys.unraisablehook
    sys.unraisablehook = _show_unraisable
    for number in _active_handlers():
        signal.signal(number, handler)
    try:
        yield
    finally:
        handler.is_over = True
        for number in TERMINATION_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        sys.unraisablehook = hook


def _active_handlers() -> dict[signal.Signals, Any]:
    """Return the current handlers of the signals that end the program, without those that are ignored.

    Outside the main thread, which alone may set handlers, the result is empty.
    """
    if threading.current_thread() is not threading.main_thread():  # which alone may set handlers
        return {}
    handlers = {number: signal.getsignal(number) for number in TERMINATION_SIGNALS}
    return {number: handler for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}


def _is_second_interrupt(number: int, since: float) -> bool:
    """Return True if a signal is a second Ctrl-C, by which a person wants an ending program to end at once.

    `since` is the time (`time.monotonic`) of the first signal. SIGTERM and SIGHUP may come by themselves any number of
    times.
    """
    return number == signal.SIGINT and time.monotonic() - since > _DUPLICATE_SECONDS


class _RaisingHandler:
    """Handler of signals that raises `SignalExit`.

    While files are being removed after that, it raises again only for Ctrl-C.
    """

    def __init__(self) -> None:
        self.is_over = False
        self._raised_at: float | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._raised_at is not None and not _is_second_interrupt(number, self._raised_at):
            return
        if _is_importing(frame):
            _send_again(number)
            return
        self._raised_at = time.monotonic()
        raise SignalExit(number, lambda: self._on_swallowed(number))

    def _on_swallowed(self, number: int) -> None:
        if not self.is_over:
            self._raised_at = None
            _send_again(number)


class SignalDeferrer:
    """Remembers the first signal, so that a step can be finished and saved before the program ends.

    A second signal ends the program at once if it is Ctrl-C.
    """

    def __init__(self) -> None:
        self.deadline = math.inf
        """Time (`time.monotonic`) from which on the program behaves as if SIGTERM had come."""
        self._number = 0
        self._received_at = 0.0
        self._cuts = False

    @property
    def received(self) -> int:
        """Number of the first signal that has come; if none has, SIGTERM's number after the deadline, before it 0."""
        return self._number or (signal.SIGTERM if self.is_past_deadline else 0)

    @property
    def is_past_deadline(self) -> bool:
        """True if the time `deadline` has come."""
        return time.monotonic() >= self.deadline

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Remember the signals that come while the block runs."""
        with handle_signals(self._handle_signal):
            yield

    def run_interruptible(self, act: Callable[[], Result]) -> Result | None:
        """Return the result of `act`; None if a signal comes, which breaks off `act` at any point, so this must be
        safe."""
        result = None
        try:
            try:
                self._cuts = True
                if not self._number:
                    result = act()
            finally:
                self._cuts = False
        except SignalExit as ended:  # may come as late as in the line above
            ended.acknowledge()
            result = None
        return result

    def _handle_signal(self, number: int, frame: FrameType | None) -> None:
        raises = self._cuts or (self._number and _is_second_interrupt(number, self._received_at))
        if raises and _is_importing(frame):
            _send_again(number)
            return
        before = self._number, self._received_at, self._cuts
        if not self._number:
            self._number, self._received_at = number, time.monotonic()
        if raises:
            self._cuts = False

            def on_swallowed() -> None:
                self._number, self._received_at, self._cuts = before
                _send_again(number)

            raise SignalExit(number, on_swallowed)


# Where an exception would be lost ---------------------------------------------------------------------------------


def _is_importing(frame: FrameType | None) -> bool:
    """Return True if a stack frame is inside an import statement, directly or through its callers.

    Code that imports a module may swallow an exception, as torch does when it looks for numpy, and continue with half
    of the module.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _show_unraisable(what: sys.UnraisableHookArgs) -> None:
    """Show an exception that Python swallows, as in a `__del__`, but no `SignalExit`: its signal comes again."""
    if not isinstance(what.exc_value, SignalExit):
        sys.__unraisablehook__(what)


def _nothing() -> None:
    pass


def _send_again(number: int) -> None:
    """Send this process the signal `number` again in a moment, after `_RESEND_SECONDS`."""
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(number))
    signal.setitimer(signal.ITIMER_REAL, _RESEND_SECONDS)


@contextmanager
def exiting_at_once() -> Iterator[None]:
    """End the process at once, without any cleanup, if a signal comes while the block runs.

    This is for a long call of a library that leaves nothing half written. During such a call Python raises no
    exceptions for signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    watcher = threading.Thread(target=_exit_on_signal, args=(reader,), daemon=True)
    watcher.start()
    before = signal.set_wakeup_fd(writer)  # where Python puts the number of a signal, whatever the main thread does
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writer)  # which ends the watcher
        watcher.join()
        os.close(reader)


def _exit_on_signal(reader: int) -> None:
    while number := os.read(reader, 1):
        if number[0] in TERMINATION_SIGNALS:
            os._exit(exit_code(number[0]))
