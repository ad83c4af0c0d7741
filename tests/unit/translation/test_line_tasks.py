"""Lines through a pool come out in order, whatever their lengths, the windows, and what dies."""

from __future__ import annotations

import heapq
import random
import threading
from collections import deque
from itertools import count
from pathlib import Path

import pytest
from pool_tasks import build_upper

from nmt_cli.system.errors import InputError
from nmt_cli.system.workers import ThreadLauncher, ZygoteLauncher
from nmt_cli.translation import line_tasks
from nmt_cli.translation.line_tasks import LinePool, LineTask, Window, number_windows, translate_windows
from nmt_cli.translation.pool import Pool, WorkersDied
from nmt_cli.translation.windows import WINDOW_SIZE

pytestmark = pytest.mark.timeout(60)


def windows_of(seed: int, num_windows: int, most: int) -> list[tuple[list[bytes], list[str] | None]]:
    """Lines of odd lengths, empty ones too, some windows with prefixes."""
    draw = random.Random(seed)
    found = []
    for number in range(num_windows):
        lines = [b"x" * draw.choice((0, 1, 5, 40)) + b"%d" % draw.randrange(1000) for _ in range(draw.randint(1, most))]
        found.append((lines, [f"p{n}" for n in range(len(lines))] if number % 3 == 2 else None))
    return found


def expected(windows, first: int = 0) -> list[bytes]:
    number_windows = [
        (line, prefixes[n] if prefixes else "") for lines, prefixes in windows for n, line in enumerate(lines)
    ]
    return [
        b"%d %s%s\n" % (n, prefix.encode(), line.upper())
        for n, (line, prefix) in enumerate(number_windows, start=first)
    ]


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("launcher", [ThreadLauncher, ZygoteLauncher])
def test_every_line_comes_out_in_its_place_with_its_number_and_its_prefix(launcher, workers: int):
    windows = windows_of(workers, num_windows=7, most=200)
    with Pool(launcher(build_upper), workers=workers) as pool:
        found = [result.outputs for result in translate_windows(pool, number_windows(windows, 3), workers=workers)]
    assert [len(outputs) for outputs in found] == [len(lines) for lines, _ in windows]
    assert [output for outputs in found for output in outputs] == expected(windows, 3)


def test_what_is_counted_is_the_sum(monkeypatch):
    monkeypatch.setattr(line_tasks, "CHUNK_LINES", 20)
    windows = windows_of(5, num_windows=3, most=100)
    with Pool(ThreadLauncher(build_upper), workers=2) as pool:
        counted = [result.counts.lines for result in translate_windows(pool, number_windows(windows), workers=2)]
    assert counted == [len(lines) for lines, _ in windows]


def test_a_line_that_kills_every_worker_is_named(tmp_path: Path):
    lines = [b"a", b"b", b"kill", *[b"c"] * 50]
    with Pool(ZygoteLauncher(build_upper), workers=2) as pool, pytest.raises(WorkersDied, match="line 13: 3 worker"):
        list(translate_windows(pool, [Window([b"a"] * 10), Window(lines, 10)], workers=2))


def test_a_worker_that_dies_once_changes_nothing(tmp_path: Path):
    windows = windows_of(7, num_windows=4, most=100)
    windows[1][0][3] = b"die:%s" % str(tmp_path / "died").encode()
    with Pool(ZygoteLauncher(build_upper), workers=2) as pool:
        found = [
            output
            for result in translate_windows(pool, number_windows(windows), workers=2)
            for output in result.outputs
        ]
    assert found == expected(windows)


def test_an_error_of_the_input_comes_after_what_was_read_before_it():
    def windows():
        yield Window([b"a"])
        raise InputError("the file ends here")

    with Pool(ThreadLauncher(build_upper), workers=1) as pool:
        results = translate_windows(pool, windows(), workers=1)
        assert next(results).outputs == (b"0 A\n",)
        with pytest.raises(InputError, match="ends here"):
            next(results)


def test_a_window_is_written_while_the_input_waits():
    """A program that writes a line and waits for its translation gets it."""
    answered = threading.Event()

    def windows():
        yield Window([b"a"])
        assert answered.wait(30)
        yield Window([b"b"], 1)

    with Pool(ThreadLauncher(build_upper), workers=2) as pool:
        for result in translate_windows(pool, windows(), workers=2):
            answered.set()
            assert len(result.outputs) == 1


def test_no_more_is_read_than_a_few_windows_ahead(monkeypatch):
    """A file of any size takes the memory of a few windows. Fails if the reading thread does not wait."""
    monkeypatch.setattr(line_tasks, "MAX_PREFETCHED_BYTES", 3 * line_tasks.LINE_OVERHEAD_BYTES)
    read = []

    def windows():
        for number in range(100):
            read.append(number)
            yield Window([b"a"])

    with Pool(ThreadLauncher(build_upper), workers=1) as pool:
        results = translate_windows(pool, windows(), workers=1)
        next(results)
        threading.Event().wait(0.2)
        assert len(read) <= 5
        (reading,) = (thread for thread in threading.enumerate() if thread.name == "nmt-reading")
        results.close()
        reading.join(30)
        assert not reading.is_alive()


@pytest.mark.parametrize("workers", [1, 2])
def test_while_all_workers_have_enough_the_lines_that_come_gather_to_larger_chunks(tmp_path: Path, workers: int):
    """Fails if windows are handed over as they come: a quick writer of single lines would get no batches."""
    stop = tmp_path / "stop"

    def windows():
        for number in range(50):
            assert number <= line_tasks.CHUNKS_PER_WORKER * workers or stop.exists()
            yield Window([b"wait:%s" % str(stop).encode()], number)

    with Pool(ThreadLauncher(build_upper), workers=workers) as pool:
        threading.Timer(0.2, stop.touch).start()
        assert len(list(translate_windows(pool, windows(), workers=workers))) == 50


def test_few_lines_are_cut_for_all_workers_and_many_into_large_chunks():
    """Fails if the size of a chunk follows from the number of workers alone."""

    class Recording:
        def __init__(self) -> None:
            self.sizes: list[int] = []

        def submit(self, task: LineTask):
            self.sizes.append(len(task.lines))
            return type("Ticket", (), {"on_settled": lambda *_: None})

    for workers, lines, expected in ((2, 60, 16), (2, 4096, 512), (64, 4096, 22), (64, 200_000, 512)):
        pool = Recording()
        line_tasks._Prefetcher(pool, workers, ())._submit_window(Window([b"a"] * lines))
        assert max(pool.sizes) == expected


class FakePool:
    """Workers that take as many units of time for a chunk as it has lines."""

    def __init__(self, workers: int) -> None:
        self.free, self.now = workers, 0
        self.sizes: list[int] = []
        self._waiting: deque[FakeTicket] = deque()
        self._running: list[tuple[int, int, FakeTicket]] = []
        self._numbers = count()

    def submit(self, task: LineTask) -> FakeTicket:
        self.sizes.append(len(task.lines))
        self._waiting.append(FakeTicket(len(task.lines)))
        return self._waiting[-1]

    def start(self) -> None:
        while self._waiting and self.free:
            ticket = self._waiting.popleft()
            self.free -= 1
            heapq.heappush(self._running, (self.now + ticket.num_lines, next(self._numbers), ticket))

    def finish_one(self) -> None:
        self.now, _, ticket = heapq.heappop(self._running)
        self.free += 1
        ticket.is_done = True
        ticket.call(ticket)

    @property
    def is_idle(self) -> bool:
        return not self._running


class FakeTicket:
    def __init__(self, num_lines: int) -> None:
        self.num_lines, self.is_done = num_lines, False

    def on_settled(self, call) -> None:
        self.call = call


@pytest.mark.parametrize("workers", [1, 2, 8, 64])
def test_no_worker_waits_while_there_are_lines_and_chunks_become_large(workers: int):
    """Fails if the windows that are read ahead, or the chunks of one, do not follow from the number of workers."""
    pool, left, given = FakePool(workers), 400_000, deque()
    ahead = line_tasks._Prefetcher(pool, workers, ())
    while True:
        while left and ahead._has_room():
            number = min(WINDOW_SIZE, left)
            given.append(ahead._submit_window(Window([b""] * number)))
            left -= number
        pool.start()
        assert not left or not pool.free
        if pool.is_idle:
            break
        pool.finish_one()
        while given and all(ticket.is_done for ticket in given[0].tickets):
            ahead.release(given.popleft())
    assert sum(pool.sizes) == 400_000
    assert max(pool.sizes) >= 250
    assert 400_000 / pool.now > 0.9 * workers


def test_a_task_is_the_sum_of_its_lines():
    task = LineTask((b"a", b"b", b"c"), (4, 2, 9), ("x", "", "y"))
    assert task.subtasks() == [
        LineTask((b"a",), (4,), ("x",)),
        LineTask((b"b",), (2,), ("",)),
        LineTask((b"c",), (9,), ("y",)),
    ]
    assert [one.prefixes for one in task._replace(prefixes=()).subtasks()] == [(), (), ()]


def test_texts_follow_those_before_and_have_options_of_their_own():
    """Samples belong to the number of a line. Fails if each list of texts begins anew."""
    with Pool(ThreadLauncher(build_upper), workers=2) as pool:
        lines = LinePool(pool, 2)
        assert list(lines.translate_lines(["a", "b"])) == [b"0 A\n", b"1 B\n"]
        assert list(lines.translate_lines(["c"], {"mark": "!"})) == [b"2 C!\n"]
        assert lines.counts.lines == 3
