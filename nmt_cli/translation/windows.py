"""Lines, or pairs of them, in windows: as many as there are, up to a bound.

A window closes when it is full or nothing is waiting. A thread reads ahead while a window is being translated, so a
file goes at full speed, and a program that writes one line and waits for its answer gets it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from nmt_cli.data.lines import is_special_file, is_standard_input
from nmt_cli.data.pairs import Corpus, FilterReport, Pair, count_pairs, read_pairs
from nmt_cli.system.console import counted, warn

WINDOW_SIZE = 4096
MAX_WINDOW_BYTES = 8_000_000
WORD_PAIRS_A_BYTE = 2
"""Word pairs that weigh as much as a byte: a translation has a matrix of weights where an alignment is asked for, or
where signs and capitals follow the attention, and all matrices of a window are in memory together."""
MAX_PAIR_CELLS = 250_000_000
"""Source times target characters of the pairs of a window, of which each piece has some four: pairs have matrices."""
Item = TypeVar("Item")


class _ReadAhead(Generic[Item]):
    """Items, at most `window_size` (and `max_weight`, by what `weigh` says of each) ahead of who takes them."""

    def __init__(self, items: Iterable[Item], weigh: Callable[[Item], int], max_weight: int, window_size: int) -> None:
        self._items, self._weigh = items, weigh
        self._max_weight, self._window_size = max_weight, window_size
        self._waiting: deque[Item] = deque()
        self._weight = 0
        self._ended = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def windows(self) -> Iterator[list[Item]]:
        """Yield non-empty windows until the input ends; an error of the reader is raised in its place in the stream."""
        threading.Thread(target=self._read, daemon=True).start()
        while window := self._take():
            yield window
        if self._error is not None:
            raise self._error

    def _take(self) -> list[Item]:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ended)
            window = list(self._waiting)
            self._waiting.clear()
            self._weight = 0
            self._changed.notify_all()
            return window

    def _read(self) -> None:
        try:
            for item in self._items:
                with self._changed:
                    self._changed.wait_for(self._has_room)
                    self._waiting.append(item)
                    self._weight += self._weigh(item)
                    self._changed.notify_all()
        except BaseException as error:
            self._error = error
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _has_room(self) -> bool:
        return len(self._waiting) < self._window_size and self._weight < self._max_weight


def windows_of_lines(lines: Iterable[bytes], window_size: int = WINDOW_SIZE) -> Iterator[list[bytes]]:
    """Yield lines in windows that are bounded in number, in bytes, and in the size of their matrices of weights."""
    return _ReadAhead(lines, _weight, MAX_WINDOW_BYTES, window_size).windows()


def windows_of_list(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield lines that are all there in windows with the same bounds."""
    window: list[bytes] = []
    weight = 0
    for line in lines:
        if len(window) == WINDOW_SIZE or weight >= MAX_WINDOW_BYTES:
            yield window
            window, weight = [], 0
        window.append(line)
        weight += _weight(line)
    if window:
        yield window


def _weight(line: bytes) -> int:
    return max(len(line), len(line.split()) ** 2 // WORD_PAIRS_A_BYTE)


def windows_of_pairs(source: str, target: str) -> Iterator[list[Pair]]:
    """Yield the pairs of two files in windows that are bounded in number and in the size of their matrices of weights.

    Files that can be read twice are counted before the first window, so that nothing is written if they do not belong
    together. At the end a warning counts the pairs that were not UTF-8.

    Raises:
        InputError: the files differ in length (both counts are named), or one cannot be read.
    """
    if not any(is_standard_input(path) or is_special_file(path) for path in (source, target)):
        count_pairs(Corpus(source, target))
    report = FilterReport()
    pairs = read_pairs(Corpus(source, target), invalid_utf8="replace", report=report)
    yield from _ReadAhead(pairs, _cells, MAX_PAIR_CELLS, WINDOW_SIZE).windows()
    if report.replaced:
        warn(f"{counted(report.replaced, 'pair')} not valid UTF-8; U+FFFD stands for the invalid bytes")


def _cells(pair: Pair) -> int:
    return (len(pair.source) + 1) * (len(pair.target) + 1)
