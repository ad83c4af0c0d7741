"""Lines through a pool of workers: in any number of processes, and out in order.

A window of lines is sorted by length and cut into chunks, which the workers translate; while one window is written, the
next ones are read and translated. A worker prepares a line, searches, undoes what it prepared and writes the output
format, so the parent needs nothing that it would have to load.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from queue import Queue
from typing import TYPE_CHECKING, NamedTuple

from nmt_cli.translation.pool import Pool, Ticket
from nmt_cli.translation.results import Counts

if TYPE_CHECKING:
    from nmt_cli.translation.output_formats import Formatter
    from nmt_cli.translation.translator import Translator

CHUNK_LINES = 512
"""Lines of a chunk at most. Smaller chunks are slower, because fewer lines of like length share a batch."""
SMALLEST_CHUNK = 16
CHUNKS_A_WORKER = 4
"""Chunks of a small window for each worker, so that all end at about the same time."""
WINDOWS_AHEAD = 2
"""Windows that are read while one is written."""
Windows = Iterable[tuple[list[bytes], Sequence[str] | None]]
"""Lines, and the beginnings of their translations or None."""


class LineTask(NamedTuple):
    """Lines to translate in one go."""

    lines: tuple[bytes, ...]
    numbers: tuple[int, ...]
    """The number of each in the whole input, from 0."""
    prefixes: tuple[str, ...] = ()
    """The beginnings of their translations; none at all where no line has one."""

    def alone(self) -> list[LineTask]:
        """Return a task for each line."""
        places = range(len(self.lines))
        return [LineTask(self.lines[n : n + 1], self.numbers[n : n + 1], self.prefixes[n : n + 1]) for n in places]

    def joined(self, results: Sequence[LineResult]) -> LineResult:
        """Return the result of this task from those of its lines."""
        counts = Counts()
        for result in results:
            counts.add(result.counts)
        outputs = tuple(chain.from_iterable(result.outputs for result in results))
        return LineResult(outputs, counts, max(result.max_pieces for result in results))

    def name(self) -> str:
        """Return how a message names the first line."""
        return f"line {self.numbers[0] + 1:,}"


class LineResult(NamedTuple):
    """What is written for each line, and what was counted."""

    outputs: tuple[bytes, ...]
    counts: Counts
    max_pieces: int = 0
    """Pieces of a source beyond which the model translates it in parts."""


def translate_task(translator: Translator, write: Formatter, task: LineTask) -> LineResult:
    """Translate the lines of a task: the work of one worker."""
    translator.counts = Counts()
    found = translator.translate_window(task.lines, prefixes=task.prefixes or None, numbers=task.numbers)
    outputs = [write(*one).encode("utf-8", errors="replace") for one in zip(task.numbers, found, strict=True)]
    return LineResult(tuple(outputs), translator.counts, translator.options.max_source_pieces)


class _Window(NamedTuple):
    """A window that was handed to the pool."""

    order: list[int]
    """The place of each line of the chunks, one after the other, in the window."""
    tickets: list[Ticket]


def translated(pool: Pool, windows: Windows, *, workers: int, first_line: int = 0) -> Iterator[LineResult]:
    """Yield what is written for each window of lines, in order. A thread reads ahead.

    `first_line` is the number of the first line in its input, from 0.
    """
    ahead: Queue[_Window | BaseException | None] = Queue(WINDOWS_AHEAD)
    has_ended = threading.Event()

    def read() -> None:
        number = first_line
        try:
            for lines, prefixes in windows:
                ahead.put(_submitted(pool, lines, prefixes, number, workers))
                number += len(lines)
                if has_ended.is_set():
                    return
            ahead.put(None)
        except BaseException as error:
            ahead.put(error)

    threading.Thread(target=read, name="nmt-reading", daemon=True).start()
    try:
        while (window := ahead.get()) is not None:
            if isinstance(window, BaseException):
                raise window
            yield _gathered(window)
    finally:
        has_ended.set()


def _submitted(pool: Pool, lines: list[bytes], prefixes: Sequence[str] | None, number: int, workers: int) -> _Window:
    order = sorted(range(len(lines)), key=lambda place: -len(lines[place]))
    size = min(CHUNK_LINES, max(SMALLEST_CHUNK, -(-len(lines) // (CHUNKS_A_WORKER * workers))))
    tickets = []
    for start in range(0, len(order), size):
        places = order[start : start + size]
        own = () if prefixes is None else tuple(prefixes[place] for place in places)
        task = LineTask(tuple(lines[place] for place in places), tuple(number + place for place in places), own)
        tickets.append(pool.submit(task))
    return _Window(order, tickets)


def _gathered(window: _Window) -> LineResult:
    """Wait for the chunks of a window, and return their outputs in the order of its lines."""
    outputs, counts, places, most = [b""] * len(window.order), Counts(), iter(window.order), 0
    for ticket in window.tickets:
        result: LineResult = ticket.result()
        counts.add(result.counts)
        most = max(most, result.max_pieces)
        for output in result.outputs:
            outputs[next(places)] = output
    return LineResult(tuple(outputs), counts, most)
