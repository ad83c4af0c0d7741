"""Log lines and progress bars, which show a person what a command does. They go to stderr: stdout is for data."""

from __future__ import annotations

import shlex
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TextIO

from nmt_cli.system.errors import NmtError

_log_files: list[TextIO] = []
_is_silent = _is_quiet = False
_IMPORTANT = ("warning: ", "error: ")
_logged_messages: set[str] = set()


def log(message: str) -> None:
    """Write a line to stderr (above a progress bar, if one is drawn) and to the log files that are open.

    After `be_quiet` stderr gets only lines that begin with `warning: ` or `error: `. A line that cannot be written,
    because nobody reads stderr any more or the disk is full, is an error in the main thread only, where it ends the
    command.
    """
    if _is_silent:
        return
    try:
        _write(message)
    except OSError:
        if threading.current_thread() is threading.main_thread():
            raise


def _write(message: str) -> None:
    if not _is_quiet or message.startswith(_IMPORTANT):
        bars = getattr(sys.modules.get("tqdm"), "tqdm", None)  # another thread may be loading it
        with nullcontext() if bars is None else bars.external_write_mode(file=sys.stderr):
            print(message, file=sys.stderr, flush=True)
    for file in _log_files:
        print(message, file=file, flush=True)


def relay(text: str) -> None:
    """Log each line of `text`, which another process has written for its stderr."""
    for line in text.splitlines():
        log(line)


def log_once(message: str) -> None:
    """Log a line, unless this command has logged the same line before."""
    if message not in _logged_messages:
        _logged_messages.add(message)
        log(message)


def reset() -> None:
    """Forget which lines an earlier command of this process has written with `log_once`, and whether it was quiet."""
    global _is_quiet
    _logged_messages.clear()
    _is_quiet = False


def be_quiet() -> None:
    """Show only warnings and errors until the next command begins."""
    global _is_quiet
    _is_quiet = True


def is_quiet() -> bool:
    """Return True if only warnings and errors are shown."""
    return _is_quiet


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 line`, `1,000 lines`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def command_line(*words: object) -> str:
    """Return a command as a shell reads it, with quotes where a name needs them."""
    return shlex.join(map(str, words))


def warn(message: str) -> None:
    """Log a line that begins with `warning: `."""
    log(f"warning: {message}")


@contextmanager
def without_logging() -> Iterator[None]:
    """Show neither log lines nor progress bars while the block runs: of several processes one is enough to watch."""
    global _is_silent
    _is_silent = True
    try:
        yield
    finally:
        _is_silent = False


@contextmanager
def log_file(path: Path) -> Iterator[None]:
    """Copy every log line to the end of `path` while the block runs, and the error that ends the block."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        _log_files.append(file)
        try:
            yield
        except (NmtError, OSError) as error:  # the command line shows it on stderr, after this file is closed
            if str(error):
                with suppress(OSError):  # the disk may be full
                    print(f"nmt: {error}", file=file, flush=True)
            raise
        finally:
            _log_files.remove(file)


class Progress:
    """A progress bar on stderr, drawn only where stderr is a terminal."""

    def __init__(
        self, description: str, *, total: int | None = None, unit: str = "it", initial: int = 0, is_hidden: bool = False
    ) -> None:
        """Draw a bar with `description` before it; nothing is drawn if `is_hidden` is True.

        The bar counts from `initial` to `total` units, such as lines; without an end if `total` is None.
        """
        self.is_shown = not is_hidden and not _is_silent and not _is_quiet and sys.stderr.isatty()
        """True if a bar is drawn; if not, log lines must show the progress."""
        if self.is_shown:
            from tqdm import tqdm  # as slow to load as the rest of a command

            self._bar = tqdm(
                total=total,
                initial=initial,
                desc=description,
                unit=unit,
                unit_scale=True,
                dynamic_ncols=True,
                leave=False,
                file=sys.stderr,
            )

    def advance(self, amount: int = 1, note: str | None = None) -> None:
        """Move the bar on by `amount` units, and show `note` at its end; None keeps the previous note."""
        if not self.is_shown:
            return
        if note is not None:
            self._bar.set_postfix_str(note, refresh=False)
        self._bar.update(amount)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_shown:
            self._bar.close()
