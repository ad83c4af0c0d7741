"""Lines in windows: as many as there are, up to a bound. A window closes when it is full or no line is waiting.

A thread reads ahead while a window is being translated, so a file goes at full speed, and a program that writes one
line and waits for its answer gets it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator

MAX_WINDOW_BYTES = 8_000_000


class ReadAhead:
    """Lines of `lines`, at most `window_size` (and a bounded number of bytes) ahead of who takes them."""

    def __init__(self, lines: Iterable[bytes], window_size: int) -> None:
        self._lines, self._window_size = lines, window_size
        self._waiting: deque[bytes] = deque()
        self._num_bytes = 0
        self._ended = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def windows(self) -> Iterator[list[bytes]]:
        """Yield non-empty windows until the input ends; an error of the reader is raised in its place in the stream."""
        threading.Thread(target=self._read, daemon=True).start()
        while window := self._take():
            yield window
        if self._error is not None:
            raise self._error

    def _take(self) -> list[bytes]:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ended)
            window = list(self._waiting)
            self._waiting.clear()
            self._num_bytes = 0
            self._changed.notify_all()
            return window

    def _read(self) -> None:
        try:
            for line in self._lines:
                with self._changed:
                    self._changed.wait_for(self._has_room)
                    self._waiting.append(line)
                    self._num_bytes += len(line)
                    self._changed.notify_all()
        except BaseException as error:
            self._error = error
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _has_room(self) -> bool:
        return len(self._waiting) < self._window_size and self._num_bytes < MAX_WINDOW_BYTES
