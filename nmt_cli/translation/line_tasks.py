"""Translates lines with a pool of workers, in any number of processes; the outputs have the order of the lines.

A window of lines is sorted by length and cut into chunks, which the workers translate; while one window is written, the
next ones are read and translated. A worker prepares a line, searches, undoes what it prepared and writes the output
format, so the parent process need not load a model.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from nmt_cli.system.console import format_count
from nmt_cli.translation.counts import Counts
from nmt_cli.translation.pool import Pool, Ticket
from nmt_cli.translation.windows import windows_of_list

if TYPE_CHECKING:
    from nmt_cli.translation.results import TranslatedLine
    from nmt_cli.translation.translator import Translator

CHUNK_LINES = 512
"""Lines of a chunk at most. Smaller chunks are slower, because fewer lines of like length share a batch."""
MIN_CHUNK_LINES = 16
CHUNKS_PER_WORKER = 3
"""Chunks under way for each worker: one that it translates, one to begin next, and one to share out at the end."""
MAX_PREFETCHED_BYTES = 32_000_000
"""Bytes of lines that are read but not yet written, at which reading pauses, as behind a slow line. Two windows may
always be under way."""
LINE_OVERHEAD_BYTES = 64
"""Bytes of memory that a line takes in addition to its text, or a little less."""
OutputFormatter = Callable[[int, "TranslatedLine"], Any]
"""Makes the output of a line from its number (from 0) and its translations."""


class LineTask(NamedTuple):
    """Lines that a worker translates as one task."""

    lines: tuple[bytes, ...]
    numbers: tuple[int, ...]
    """Number of each line in the whole input, from 0."""
    prefixes: tuple[str, ...] = ()
    """Given beginning of the translation of each line; an empty tuple if no line has one."""
    overrides: tuple[tuple[str, Any], ...] = ()
    """Decoding options (name, value) of these lines in place of those of the translator."""

    def subtasks(self) -> list[LineTask]:
        """Return a task for each line."""
        places = range(len(self.lines))
        return [
            LineTask(self.lines[n : n + 1], self.numbers[n : n + 1], self.prefixes[n : n + 1], self.overrides)
            for n in places
        ]

    def join_results(self, results: Sequence[LineResult]) -> LineResult:
        """Return the result of this task from those of its lines."""
        counts = Counts()
        for result in results:
            counts.add(result.counts)
        outputs = tuple(chain.from_iterable(result.outputs for result in results))
        return LineResult(outputs, counts, max(result.max_pieces for result in results))

    def name(self) -> str:
        """Return the name of the first line for messages, such as `line 17`."""
        return f"line {self.numbers[0] + 1:,}" if self.numbers else "the model"


class LineResult(NamedTuple):
    """Output of each line of a task, and the counts of all its lines."""

    outputs: tuple[Any, ...]
    counts: Counts
    max_pieces: int = 0
    """Number of pieces beyond which a source was translated in parts."""


def translate_task(translator: Translator, write: OutputFormatter, task: LineTask) -> LineResult:
    """Translate the lines of a task, as a worker does; `write` makes the output of each line."""
    usual = translator.options
    translator.counts, translator.options = Counts(), usual.model_copy(update=dict(task.overrides))
    outputs: list[Any] = []
    try:
        for lines in windows_of_list(task.lines):  # few where they are long
            here = slice(len(outputs), len(outputs) + len(lines))
            numbers = task.numbers[here]
            found = translator.translate_window(lines, prefixes=task.prefixes[here] or None, numbers=numbers)
            outputs.extend(map(write, numbers, found))
    finally:
        translator.options = usual
    return LineResult(tuple(outputs), translator.counts, usual.max_source_pieces)


class Window(NamedTuple):
    """Lines that are read together, and written together."""

    lines: Sequence[bytes]
    first_line: int = 0
    """The number of the first line in its input, from 0."""
    prefixes: Sequence[str] | None = None
    """Given beginning of the translation of each line; None if no line has one."""


class LinePool:
    """A pool of workers that translate lines, and the sum of their counts."""

    def __init__(self, pool: Pool, workers: int) -> None:
        self._pool, self._workers = pool, workers
        self.counts = Counts()
        self._max_pieces = 0
        self._began = monotonic()

    def translate_windows(
        self, windows: Iterable[Window], overrides: Mapping[str, Any] | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the outputs of each window of lines, in order; `overrides` are decoding options for these lines."""
        options = tuple((overrides or {}).items())
        for result in translate_windows(self._pool, windows, workers=self._workers, overrides=options):
            self.counts.add(result.counts)
            self._max_pieces = result.max_pieces
            yield result.outputs

    def translate_lines(self, texts: Iterable[str], overrides: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """Yield the output of each text; only a few windows are held in memory.

        The numbers of the lines continue from those that the pool has translated before.
        """
        lines = (text.encode("utf-8", errors="surrogatepass") for text in texts)
        windows = zip(windows_of_list(lines), repeat(None))
        return chain.from_iterable(self.translate_windows(number_windows(windows, self.counts.lines), overrides))

    def report(self) -> None:
        """Warn of empty and repetitive translations, and of unusual lines, as `Counts.report` does."""
        self.counts.report(self._max_pieces)

    def speed(self, unit: str = "line") -> str:
        """Return a message: the number of lines, the seconds since the pool was opened, lines and pieces a second."""
        counts, seconds = self.counts, max(monotonic() - self._began, 1e-9)
        return (
            f"{format_count(counts.lines, unit)} in {seconds:.1f} s: {counts.lines / seconds:,.1f} {unit}s/s, "
            f"{counts.target_pieces / seconds:,.0f} pieces/s"
        )


def number_windows(
    windows: Iterable[tuple[Sequence[bytes], Sequence[str] | None]], first_line: int = 0
) -> Iterator[Window]:
    """Yield consecutive windows of lines and prefixes (or None), with the number of the first line of each."""
    for lines, prefixes in windows:
        yield Window(lines, first_line, prefixes)
        first_line += len(lines)


def translate_windows(
    pool: Pool, windows: Iterable[Window], *, workers: int, overrides: tuple[tuple[str, Any], ...] = ()
) -> Iterator[LineResult]:
    """Yield the result of each window of lines, in order. A thread reads ahead."""
    prefetcher = _Prefetcher(pool, workers, overrides)
    threading.Thread(target=prefetcher.read, args=(windows,), name="nmt-reading", daemon=True).start()
    try:
        while (window := prefetcher.next()) is not None:
            yield _gather_results(window)
            prefetcher.release(window)
    finally:
        prefetcher.end()


class _SubmittedWindow(NamedTuple):
    """A window whose chunks were handed to the pool."""

    order: list[int]
    """For each line, in the order of the chunks, its index in the window."""
    tickets: list[Ticket]
    num_bytes: int


class _Prefetcher:
    """Reads windows ahead, and hands them to the pool in just enough chunks that no worker waits.

    While there are enough chunks, it reads no window; more lines gather meanwhile, so the next chunks are larger.
    """

    def __init__(self, pool: Pool, workers: int, overrides: tuple[tuple[str, Any], ...]) -> None:
        self._pool, self._overrides = pool, overrides
        self._most_chunks = CHUNKS_PER_WORKER * workers
        self._submitted: deque[_SubmittedWindow] = deque()
        self._num_chunks = 0
        """Chunks that are not done yet."""
        self._num_windows = self._num_lines = self._num_bytes = 0
        """Windows, lines and bytes that are read and not written yet."""
        self._end: BaseException | bool = False
        """True once the input has ended; the error if one ended it."""
        self._condition = threading.Condition()

    def read(self, windows: Iterable[Window]) -> None:
        """Hand each window to the pool, as soon as there is room for it."""
        end: BaseException | bool = True
        try:
            for window in windows:
                submitted = self._submit_window(window)
                with self._condition:
                    self._submitted.append(submitted)
                    self._condition.notify_all()
                    self._condition.wait_for(self._has_room)
                    if self._end:
                        return
        except BaseException as error:
            end = error
        self.end(end)

    def next(self) -> _SubmittedWindow | None:
        """Wait for the next window, and return it; None at the end. An error that ended the input is raised."""
        with self._condition:
            self._condition.wait_for(lambda: self._submitted or self._end)
            if self._submitted:
                return self._submitted.popleft()
            if isinstance(self._end, BaseException):
                raise self._end
            return None

    def release(self, window: _SubmittedWindow) -> None:
        """Free the room of a window that has been written."""
        self._count(-1, -len(window.order), -window.num_bytes)

    def end(self, end: BaseException | bool = True) -> None:
        """Record that no window follows, or the error that ended the input."""
        with self._condition:
            self._end = end
            self._condition.notify_all()

    def _has_room(self) -> bool:
        is_free = self._num_windows < 2 or self._num_bytes < MAX_PREFETCHED_BYTES
        return (is_free and self._num_chunks < self._most_chunks) or bool(self._end)

    def _count(self, windows: int, lines: int, num_bytes: int) -> None:
        with self._condition:
            self._num_windows += windows
            self._num_lines += lines
            self._num_bytes += num_bytes
            self._condition.notify_all()

    def _submit_window(self, window: Window) -> _SubmittedWindow:
        lines, first, prefixes = window
        order = sorted(range(len(lines)), key=lambda place: -len(lines[place]))
        num_bytes = LINE_OVERHEAD_BYTES * len(lines) + sum(map(len, lines))
        self._count(1, len(lines), num_bytes)
        size = min(CHUNK_LINES, max(MIN_CHUNK_LINES, -(-self._num_lines // self._most_chunks)))
        tickets = []
        for start in range(0, len(order), size):
            places = order[start : start + size]
            own = () if prefixes is None else tuple(prefixes[place] for place in places)
            numbers = tuple(first + place for place in places)
            with self._condition:
                self._num_chunks += 1
            ticket = self._pool.submit(LineTask(tuple(lines[place] for place in places), numbers, own, self._overrides))
            ticket.on_settled(self._on_chunk_settled)
            tickets.append(ticket)
        return _SubmittedWindow(order, tickets, num_bytes)

    def _on_chunk_settled(self, _: Ticket) -> None:
        with self._condition:
            self._num_chunks -= 1
            self._condition.notify_all()


def _gather_results(window: _SubmittedWindow) -> LineResult:
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
