"""Collects lines, or pairs of lines, into windows: lists of all that are waiting, up to a limit.

A window closes when it is full or nothing is waiting. A thread reads ahead while a window is being translated, so a
file goes at full speed, and a program that writes one line and waits for its answer gets it.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Generic, TypeVar

from nmt_cli.data.lines import input_name, is_special_file, is_standard_input, warn_of_invalid
from nmt_cli.data.pairs import Corpus, FilterReport, Pair, count_pairs, read_pairs
from nmt_cli.system.console import format_count
from nmt_cli.system.errors import InputError

WINDOW_SIZE = 4096
MAX_WINDOW_BYTES = 8_000_000
WORD_PAIRS_PER_BYTE = 2
"""Number of word pairs that count like one byte of a window. A translation has a matrix of weights where an alignment
is asked for, or where symbols and capitals follow the attention. All matrices of a window are in memory together."""
MAX_MATRIX_WORDS = math.isqrt(MAX_WINDOW_BYTES * WORD_PAIRS_PER_BYTE) + 1
"""Number of words from which on a line fills a window by itself; to save memory, no further words are counted."""
MAX_PAIR_CELLS = 250_000_000
"""Limit of source times target characters, summed over the pairs of a window. Each pair has a matrix of weights between
pieces, which have some four characters each."""
Item = TypeVar("Item")


class _ReadAhead(Generic[Item]):
    """Reads items ahead in a thread: until `window_size` items wait, or their weights reach `max_weight`."""

    def __init__(self, items: Iterable[Item], weigh: Callable[[Item], int], max_weight: int, window_size: int) -> None:
        self._items, self._weigh = items, weigh
        self._max_weight, self._window_size = max_weight, window_size
        self._waiting: deque[Item] = deque()
        self._weight = 0
        self._ended = False
        self._error: BaseException | None = None
        self._condition = threading.Condition()

    def windows(self) -> Iterator[list[Item]]:
        """Yield non-empty windows until the input ends; an error of the reader is raised after the items before it."""
        threading.Thread(target=self._read, daemon=True).start()
        while window := self._next_window():
            yield window
        if self._error is not None:
            raise self._error

    def _next_window(self) -> list[Item]:
        with self._condition:
            self._condition.wait_for(lambda: self._waiting or self._ended)
            window = list(self._waiting)
            self._waiting.clear()
            self._weight = 0
            self._condition.notify_all()
            return window

    def _read(self) -> None:
        try:
            for item in self._items:
                with self._condition:
                    self._condition.wait_for(self._has_room)
                    self._waiting.append(item)
                    self._weight += self._weigh(item)
                    self._condition.notify_all()
        except BaseException as error:
            self._error = error
        with self._condition:
            self._ended = True
            self._condition.notify_all()

    def _has_room(self) -> bool:
        return len(self._waiting) < self._window_size and self._weight < self._max_weight


def windows_of_lines(lines: Iterable[bytes], window_size: int = WINDOW_SIZE) -> Iterator[list[bytes]]:
    """Yield lines in windows that are bounded in lines, in bytes, and in the size of their attention matrices."""
    return _ReadAhead(lines, weight_of, MAX_WINDOW_BYTES, window_size).windows()


def windows_of_list(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield lines in windows as large as the bounds of `windows_of_lines` allow, without reading ahead."""
    return batched(lines, WINDOW_SIZE, weight_of, MAX_WINDOW_BYTES)


def batched(items: Iterable[Item], most: int, weigh: Callable[[Item], int], max_weight: int) -> Iterator[list[Item]]:
    """Yield lists of consecutive items: `most` of them, or fewer once their weights reach `max_weight`."""
    part: list[Item] = []
    weight = 0
    for item in items:
        part.append(item)
        weight += weigh(item)
        if len(part) == most or weight >= max_weight:
            yield part
            part, weight = [], 0
    if part:
        yield part


def weight_of(line: bytes) -> int:
    """Return the weight of a line in a window, in bytes: its length or, if larger, that of its matrix of word pairs."""
    return max(len(line), len(line.split(None, MAX_MATRIX_WORDS)) ** 2 // WORD_PAIRS_PER_BYTE)


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
    yield from _ReadAhead(pairs, _num_cells, MAX_PAIR_CELLS, WINDOW_SIZE).windows()
    if report.replaced:
        warn_of_invalid(f"{input_name(source)} and {input_name(target)}: ", report.replaced, "pair")


def _num_cells(pair: Pair) -> int:
    return (len(pair.source) + 1) * (len(pair.target) + 1)


def with_prefixes(
    windows: Iterable[list[bytes]], prefixes: Iterator[bytes], names: tuple[str, str], first_line: int = 1
) -> Iterator[tuple[list[bytes], list[str]]]:
    """Yield windows of lines with the prefixes (given beginnings) of their translations.

    Args:
        windows: the lines.
        prefixes: the lines of the file of prefixes, in the order of the lines.
        names: the names of the file of lines and of the file of prefixes, for messages.
        first_line: the number of the first prefix in its file.

    Raises:
        InputError: there are more lines than prefixes, or fewer (both counts are named); a prefix is not valid UTF-8.
    """
    num_lines = num_prefixes = 0
    waiting = iter(windows)
    for window in waiting:
        of_window = list(islice(prefixes, len(window)))
        num_lines += len(window)
        num_prefixes += len(of_window)
        if len(of_window) < len(window):
            raise unequal_line_counts_error(names, num_lines + sum(map(len, waiting)), num_prefixes)
        first = num_prefixes - len(of_window)
        numbered = enumerate(of_window, start=first_line + first)
        yield window, [_decoded(names[1], number, line) for number, line in numbered]
    num_prefixes += sum(1 for _ in prefixes)
    if num_prefixes > num_lines:
        raise unequal_line_counts_error(names, num_lines, num_prefixes)


def unequal_line_counts_error(names: tuple[str, str], num_lines: int, num_prefixes: int) -> InputError:
    """Return the error for a file of prefixes with more or fewer lines than its source."""
    return InputError(
        f"{names[1]} has {format_count(num_prefixes, 'line')} but {names[0]} has {num_lines:,}. Line i of the prefixes "
        "begins the translation of line i; an empty line stands for no prefix"
    )


def _decoded(name: str, number: int, line: bytes) -> str:
    try:
        return line.removesuffix(b"\r").decode("utf-8")  # from Windows, a line ends in CR LF
    except UnicodeDecodeError:
        raise InputError(
            f"{name}:{number}: the prefix is not valid UTF-8, so it cannot be kept in an output that is"
        ) from None
