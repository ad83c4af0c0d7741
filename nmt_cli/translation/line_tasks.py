"""Lines through a pool of workers: in any number of processes, and out in order.

A window of lines is sorted by length and cut into chunks, which the workers translate; while one window is written, the
next ones are read and translated. A worker prepares a line, searches, undoes what it prepared and writes the output
format, so the parent needs nothing that it would have to load.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, repeat
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any, NamedTuple

from nmt_cli.translation.pool import Pool, Ticket
from nmt_cli.translation.results import Counts, Translated
from nmt_cli.translation.windows import windows_of_list

if TYPE_CHECKING:
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
Write = Callable[[int, Translated], Any]
"""Makes the output of a line from its number and its translations."""


class LineTask(NamedTuple):
    """Lines to translate in one go."""

    lines: tuple[bytes, ...]
    numbers: tuple[int, ...]
    """The number of each in the whole input, from 0."""
    prefixes: tuple[str, ...] = ()
    """The beginnings of their translations; none at all where no line has one."""
    changed: tuple[tuple[str, Any], ...] = ()
    """Decoding options that these lines have for themselves."""

    def alone(self) -> list[LineTask]:
        """Return a task for each line."""
        places = range(len(self.lines))
        return [
            LineTask(self.lines[n : n + 1], self.numbers[n : n + 1], self.prefixes[n : n + 1], self.changed)
            for n in places
        ]

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
    """The output of each line, and what was counted."""

    outputs: tuple[Any, ...]
    counts: Counts
    max_pieces: int = 0
    """Pieces of a source beyond which the model translates it in parts."""


def translate_task(translator: Translator, write: Write, task: LineTask) -> LineResult:
    """Translate the lines of a task: the work of one worker."""
    usual = translator.options
    translator.counts, translator.options = Counts(), usual.model_copy(update=dict(task.changed))
    try:
        found = translator.translate_window(task.lines, prefixes=task.prefixes or None, numbers=task.numbers)
    finally:
        translator.options = usual
    outputs = tuple(write(*one) for one in zip(task.numbers, found, strict=True))
    return LineResult(outputs, translator.counts, usual.max_source_pieces)


class LinePool:
    """A pool whose workers translate lines, and what they have counted."""

    def __init__(self, pool: Pool, workers: int) -> None:
        self._pool, self._workers = pool, workers
        self.counts = Counts()
        self._max_pieces = 0

    def translated(
        self, windows: Windows, *, first_line: int = 0, changed: Mapping[str, Any] | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the outputs of each window of lines, in order; `changed` are decoding options for these lines."""
        options = tuple((changed or {}).items())
        for result in translated(self._pool, windows, workers=self._workers, first_line=first_line, changed=options):
            self.counts.add(result.counts)
            self._max_pieces = result.max_pieces
            yield result.outputs

    def of_texts(self, texts: Iterable[str], changed: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """Yield the output of each of some texts, which follow those before; only a few windows are held in memory."""
        lines = (text.encode("utf-8", errors="surrogatepass") for text in texts)
        windows = zip(windows_of_list(lines), repeat(None))
        return chain.from_iterable(self.translated(windows, first_line=self.counts.lines, changed=changed))

    def report(self) -> None:
        """Log the numbers of long, cut and unusual lines."""
        self.counts.report(self._max_pieces)


class _Window(NamedTuple):
    """A window that was handed to the pool."""

    order: list[int]
    """The place of each line of the chunks, one after the other, in the window."""
    tickets: list[Ticket]


def translated(
    pool: Pool, windows: Windows, *, workers: int, first_line: int = 0, changed: tuple[tuple[str, Any], ...] = ()
) -> Iterator[LineResult]:
    """Yield the result of each window of lines, in order. A thread reads ahead.

    `first_line` is the number of the first line in its input, from 0.
    """
    ahead: Queue[_Window | BaseException | None] = Queue(WINDOWS_AHEAD)
    has_ended = threading.Event()

    def read() -> None:
        number = first_line
        try:
            for lines, prefixes in windows:
                ahead.put(_submitted(pool, lines, prefixes, number, workers, changed))
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
        with suppress(Empty):  # so that the thread need not wait for room, and ends
            while True:
                ahead.get_nowait()


def _submitted(
    pool: Pool,
    lines: list[bytes],
    prefixes: Sequence[str] | None,
    number: int,
    workers: int,
    changed: tuple[tuple[str, Any], ...],
) -> _Window:
    order = sorted(range(len(lines)), key=lambda place: -len(lines[place]))
    size = min(CHUNK_LINES, max(SMALLEST_CHUNK, -(-len(lines) // (CHUNKS_A_WORKER * workers))))
    tickets = []
    for start in range(0, len(order), size):
        places = order[start : start + size]
        own = () if prefixes is None else tuple(prefixes[place] for place in places)
        task = LineTask(
            tuple(lines[place] for place in places), tuple(number + place for place in places), own, changed
        )
        tickets.append(pool.submit(task))
    return _Window(order, tickets)


def _gathered(window: _Window) -> LineResult:
    """Wait for the chunks of a window, and return their outputs in the order of its lines."""
    counts, places, most = Counts(), iter(window.order), 0
    outputs: list[Any] = [None] * len(window.order)
    for ticket in window.tickets:
        result: LineResult = ticket.result()
        counts.add(result.counts)
        most = max(most, result.max_pieces)
        for output in result.outputs:
            outputs[next(places)] = output
    return LineResult(tuple(outputs), counts, most)
