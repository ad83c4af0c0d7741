"""The pool: every ticket is settled once, whatever dies, and nothing is left behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from pool_tasks import (
    Say,
    build,
    build_and_die,
    build_big,
    build_endless,
    build_nothing,
    build_together,
    build_unreadable,
    build_version,
    build_with_one_fork,
)

from nmt_cli.system import workers
from nmt_cli.system.errors import InputError, NmtError
from nmt_cli.system.workers import ThreadLauncher, ZygoteLauncher
from nmt_cli.translation.pool import Pool, TaskCancelled, WorkersDied

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(params=[ThreadLauncher, ZygoteLauncher])
def launcher(request):
    return request.param(build)


@pytest.fixture
def zygote():
    return ZygoteLauncher(build)


def says(*words: str) -> Say:
    return Say(tuple(words))


def pids(pool: Pool) -> list[int]:
    return [member.worker.pid for member in pool._members.values()]


def wait_for(condition, seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that has ended and that nobody has waited for does not."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_results_come_back_whatever_the_number_of_workers(launcher):
    with Pool(launcher, workers=3) as pool:
        tickets = [pool.submit(says(f"a{number}", "b")) for number in range(50)]
        assert [ticket.result(30) for ticket in tickets] == [[f"A{number}", "B"] for number in range(50)]


def test_a_failure_is_that_of_its_task_alone(launcher):
    with Pool(launcher, workers=2) as pool:
        bad, odd, good = (pool.submit(says(word)) for word in ("fail", "mistake", "fine"))
        with pytest.raises(InputError, match="cannot say that"):
            bad.result(30)
        with pytest.raises(
            NmtError, match=r"This is a bug in nmt; please report it with these lines:\n(.*\n)*KeyError: 'mistake'"
        ):
            odd.result(30)
        assert good.result(30) == ["FINE"]


def test_a_model_that_cannot_be_loaded_is_an_error_of_every_task():
    for launcher in (ThreadLauncher(build_nothing), ZygoteLauncher(build_nothing)):
        pool = Pool(launcher, workers=2)
        for _ in range(3):  # the first is accepted; the others may find that the pool has ended
            with pytest.raises(InputError, match="there is no such model"):
                pool.submit(says("a")).result(30)
        pool._thread.join(30)
        with pytest.raises(InputError, match="there is no such model"):
            pool.submit(says("a"))
        pool.close()


def test_a_zygote_that_ends_by_itself_is_an_error():
    with (
        pytest.raises(NmtError, match="crashes, probably because memory is short"),
        Pool(ZygoteLauncher(build_and_die), workers=1) as pool,
    ):
        pool.submit(says("a")).result(30)


def test_workers_share_the_tasks(zygote, tmp_path: Path):
    """Fails if more than one task waits for a worker that does another one."""
    stop, done = tmp_path / "stop", []
    with Pool(zygote, workers=2) as pool:
        blocked = pool.submit(says(f"wait:{stop}"))
        for _ in range(8):
            pool.submit(says("pid")).on_settled(lambda ticket: done.append(ticket.result(0)))
        wait_for(lambda: len(done) == 7)
        assert len({pid for (pid,) in done}) == 1
        stop.touch()
        assert blocked.result(30) == ["WAIT"]


@pytest.mark.parametrize("at", range(4))
def test_a_worker_that_is_killed_costs_nothing(zygote, tmp_path: Path, at: int):
    words = ["a", "b", "c", "d"]
    words[at] = f"die:{tmp_path / 'died'}"
    with Pool(zygote, workers=2) as pool:
        tickets = [pool.submit(says("x")), pool.submit(says(*words)), *(pool.submit(says(f"y{n}")) for n in range(9))]
        found = [ticket.result(30) for ticket in tickets]
    assert found[1] == [word.partition(":")[0].upper() for word in words]
    assert found[2:] == [[f"Y{n}"] for n in range(9)]


def test_what_kills_every_worker_is_named_and_the_rest_is_done(zygote):
    with Pool(zygote, workers=2) as pool:
        tickets = [pool.submit(says("a", "kill", "b")), *(pool.submit(says(f"c{n}")) for n in range(20))]
        with pytest.raises(WorkersDied, match="word kill: 3 worker processes crashed"):
            tickets[0].result(30)
        assert [ticket.result(30) for ticket in tickets[1:]] == [[f"C{n}"] for n in range(20)]


def test_tasks_that_were_done_beside_the_one_that_kills_are_not_blamed(tmp_path: Path):
    """The worker does all of them at once. Fails if they are done together again after it has died."""
    with Pool(ZygoteLauncher(build_together), workers=1, prefetch_counts=(9,)) as pool:
        stop = tmp_path / "stop"
        first = pool.submit(says(f"wait:{stop}"))
        tickets = [pool.submit(says(word)) for word in ("a", "b", "kill", "c", "d")]
        wait_for(lambda: pool.status().assigned == 6)
        stop.touch()
        assert first.result(30) == ["WAIT"]
        with pytest.raises(WorkersDied, match="word kill: 3 worker processes crashed"):
            tickets[2].result(30)
        assert [ticket.result(30) for ticket in tickets if ticket is not tickets[2]] == [["A"], ["B"], ["C"], ["D"]]


def test_each_priority_has_its_own_number_of_tasks_that_a_worker_has(zygote, tmp_path: Path):
    stop = tmp_path / "stop"
    with Pool(zygote, workers=1, prefetch_counts=(3, 1)) as pool:
        tickets = [pool.submit(says(f"wait:{stop}"), priority=number % 2) for number in range(12)]
        wait_for(lambda: pool.status()[1:3] == (8, 4))
        stop.touch()
        assert all(ticket.result(30) == ["WAIT"] for ticket in tickets)


def test_after_a_death_the_next_worker_shows_whether_it_works_though_nobody_asks(zygote):
    with Pool(zygote, workers=2, probe=says("probe"), restart_delays=(0.0,)) as pool:
        assert pool.submit(says("a")).result(30) == ["A"]
        for pid in pids(pool):
            os.kill(pid, 9)
        wait_for(lambda: pool.status().deaths == 1 and not pool.status().failures_in_a_row)
        assert pool.status().workers == 1


def test_a_pool_whose_workers_keep_dying_gives_up(zygote):
    """Each of them dies when it shows whether it works: five in a row, the first killed here."""
    lost: list[int] = []
    pool = Pool(
        zygote,
        workers=1,
        probe=says("kill"),
        restart_delays=(0.0,) * 4,
        on_failure=lambda _: lost.append(pool.status().deaths),
    )
    assert pool.submit(says("a")).result(30) == ["A"]
    for pid in pids(pool):
        os.kill(pid, 9)
    pool._thread.join(30)
    assert lost == [5]
    with pytest.raises(NmtError, match="before they have done anything"):
        pool.submit(says("b"))
    pool.close()


def test_workers_tell_their_state_while_they_work(zygote, tmp_path: Path):
    stop = tmp_path / "stop"
    with Pool(zygote, workers=2) as pool:
        tickets = [pool.submit(says(f"wait:{stop}")) for _ in range(2)]
        wait_for(lambda: pool.status().workers == 2)
        assert pool.states(30) == [None, None]
        stopped, _ = pids(pool)
        os.kill(stopped, signal.SIGSTOP)
        wait_for(lambda: Path(f"/proc/{stopped}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        with pytest.raises(TimeoutError, match=r"it has not answered for 0\.05 seconds"):
            pool.states(0.05)
        os.kill(stopped, signal.SIGCONT)
        assert pool.states(30) == [None, None]
        stop.touch()
        assert [ticket.result(30) for ticket in tickets] == [["WAIT"]] * 2


def test_a_worker_that_dies_before_it_tells_its_state_is_not_waited_for(zygote, tmp_path: Path):
    with Pool(zygote, workers=1) as pool, ThreadPoolExecutor(1) as other:
        ticket = pool.submit(says(f"wait:{tmp_path / 'stop'}"))
        wait_for(lambda: pool.status().workers == 1)
        (pid,) = pids(pool)
        os.kill(pid, signal.SIGSTOP)
        asked = other.submit(pool.states, 30)
        wait_for(lambda: any(member.state_queries for member in pool._members.values()))
        os.kill(pid, signal.SIGKILL)
        assert asked.result(10) == [None]
        (tmp_path / "stop").touch()
        assert ticket.result(30) == ["WAIT"]


@pytest.mark.parametrize("kind", [ThreadLauncher, ZygoteLauncher])
def test_questions_about_the_state_do_not_stop_large_tasks_and_results(kind):
    """The worker writes a result, the pool a task, and both wait for a reader: the one that is asked for the state."""
    has_ended = threading.Event()
    with Pool(kind(build_big), workers=1, prefetch_counts=(4,)) as pool, ThreadPoolExecutor(1) as other:

        def ask() -> None:
            while not has_ended.is_set():
                pool.states(30)

        asked = other.submit(ask)
        tickets = [pool.submit(says("x" * 300_000)) for _ in range(100)]
        try:
            assert all(len(ticket.result(30)) == 600_000 for ticket in tickets)
        finally:
            has_ended.set()
        asked.result(30)


def test_where_no_further_process_can_be_started_those_that_there_are_go_on(capsys):
    with Pool(ZygoteLauncher(build_with_one_fork), workers=3) as pool:
        assert pool.submit(says("a")).result(30) == ["A"]
        tickets = [pool.submit(says("b")) for _ in range(50)]
        assert all(ticket.result(30) == ["B"] for ticket in tickets)
        assert pool.status().workers == 1
    told = (
        "no worker process can be started: resource temporarily unavailable; try fewer --workers; 1 of 3 workers go on"
    )
    assert capsys.readouterr().err == f"warning: {told}\n"


def test_a_file_that_is_missing_is_named(capsys):
    with (
        Pool(ZygoteLauncher(build_unreadable), workers=1) as pool,
        pytest.raises(NmtError, match=r"^model\.safetensors: cannot be read: No such file or directory"),
    ):
        pool.submit(says("a")).result(30)
    assert not capsys.readouterr().err


def test_an_end_does_not_wait_for_what_is_being_loaded(tmp_path):
    zygote = ZygoteLauncher(partial(build_endless, str(tmp_path / "loading")))
    pool = Pool(zygote, workers=1)
    ticket = pool.submit(says("a"))
    wait_for((tmp_path / "loading").exists)
    pool.close()
    with pytest.raises(NmtError, match="the worker processes have ended"):
        ticket.result(30)


def test_a_zygote_that_is_closed_starts_no_other():
    zygote = ZygoteLauncher(build_version)
    zygote.start().kill()
    zygote.close()
    for call in (zygote.start, lambda: zygote.reload("second")):
        with pytest.raises(NmtError, match="the worker processes have ended"):
            call()
    assert zygote._process is not None
    assert zygote._process.poll() is not None


def test_workers_that_have_worked_and_die_together_are_one_failure(tmp_path):
    stop = tmp_path / "stop"
    with Pool(
        ZygoteLauncher(build), workers=6, prefetch_counts=(1,), probe=says("probe"), restart_delays=(0.0, 0.0)
    ) as pool:
        for last in (stop, tmp_path / "other"):
            tickets = [pool.submit(says(f"wait:{last}")) for _ in range(6)]
            wait_for(lambda tickets=tickets: all(ticket.has_begun for ticket in tickets))
            if last != stop:
                for pid in pids(pool):
                    os.kill(pid, signal.SIGKILL)
                wait_for(lambda: pool.status().deaths == 6)
            last.touch()
            assert all(ticket.result(30) == ["WAIT"] for ticket in tickets)


def test_a_probe_that_fails_is_a_worker_that_does_not_work():
    lost = []
    with Pool(
        ZygoteLauncher(build),
        workers=1,
        probe=says("fail"),
        restart_delays=(0.0, 0.0),
        on_failure=lambda _: lost.append(1),
    ) as pool:
        with pytest.raises(NmtError, match="crash before they have done anything"):
            pool.submit(says("kill")).result(30)
        assert lost


def test_where_nobody_reads_the_messages_any_more_the_pool_goes_on(monkeypatch):
    """Standard error is a pipe without a reader: the loss of a worker cannot be told."""
    reading, writing = os.pipe()
    os.close(reading)
    with Pool(ZygoteLauncher(build), workers=1) as pool, os.fdopen(writing, "w") as broken:
        assert pool.submit(says("a")).result(30) == ["A"]
        monkeypatch.setattr(sys, "stderr", broken)
        os.kill(*pids(pool), signal.SIGKILL)
        assert pool.submit(says("b")).result(30) == ["B"]
        monkeypatch.undo()
        with suppress(OSError):  # what it holds back
            broken.close()


@pytest.mark.parametrize("kind", [ThreadLauncher, ZygoteLauncher])
def test_what_is_loaded_anew_is_for_later_workers(kind):
    """Those of before go on with what they have; where it cannot be loaded, later ones have that too."""
    launcher = kind(build_version)
    with Pool(launcher, workers=1) as old:
        assert old.submit(says("a")).result(30) == "first"
        launcher.reload("second")
        for _ in range(2):
            new = Pool(launcher, workers=1)
            assert new.submit(says("a")).result(30) == "second"
            new.end(drain=True)
            with pytest.raises(InputError, match="there is no such version"):
                launcher.reload("bad")
        assert old.submit(says("a")).result(30) == "first"


@pytest.mark.parametrize("kind", [ThreadLauncher, ZygoteLauncher])
def test_a_pool_that_is_limited_starts_no_worker_that_would_have_loaded_something_else(kind):
    launcher = kind(build_version)
    with Pool(launcher, workers=4) as pool:
        assert pool.submit(says("a")).result(30) == "first"
        pool.limit_workers(1)
        launcher.reload("second")
        tickets = [pool.submit(says("a")) for _ in range(200)]
        assert {ticket.result(30) for ticket in tickets} == {"first"}
        pool.limit_workers(4)
        for _ in range(200):
            pool.submit(says("a"))
        wait_for(lambda: pool.status().workers > 1)


def test_a_zygote_that_is_killed_is_replaced(zygote):
    with Pool(zygote, workers=1) as pool:
        assert pool.submit(says("a")).result(30) == ["A"]
        zygote._process.kill()
        (pid,) = pids(pool)
        os.kill(pid, 9)
        assert pool.submit(says("b")).result(30) == ["B"]


def test_a_process_that_was_started_ahead_becomes_the_next_zygote():
    """The tests have torch, so another library stands for it."""
    assert "this" not in sys.modules
    workers.start_ahead("torch")
    assert not workers._started_ahead
    workers.start_ahead("this")
    workers.start_ahead("this")
    (started,) = workers._started_ahead
    with Pool(ZygoteLauncher(build), workers=1) as pool:
        assert pool._launcher._process is started.process
        assert not workers._started_ahead
        assert pool.submit(says("a")).result(30) == ["A"]


def test_a_process_that_was_started_ahead_for_nothing_ends_with_the_command():
    workers.start_ahead("this")
    (started,) = workers._started_ahead
    assert is_alive(started.process.pid)
    workers.end_ahead()
    assert not is_alive(started.process.pid)


@pytest.mark.skipif(not Path("/proc/self/oom_score_adj").exists(), reason="Linux chooses what it kills by this")
def test_where_memory_runs_out_the_system_takes_a_worker_before_the_zygote(zygote):
    def adjusted(pid: int) -> int:
        return int(Path(f"/proc/{pid}/oom_score_adj").read_text())

    with Pool(zygote, workers=1) as pool:
        pool.submit(says("a")).result(30)
        (pid,) = pids(pool)
        assert adjusted(pid) > adjusted(zygote._process.pid)


def test_cancelled_in_every_state_a_ticket_is_settled_once(launcher, tmp_path: Path):
    """Fails if a late result or a second cancellation finds its ticket."""
    stop = tmp_path / "stop"
    with Pool(launcher, workers=1) as pool:
        begun, given, queued, last = (pool.submit(says(*words)) for words in ((f"wait:{stop}",), "a", "b", "c"))
        settled = []
        wait_for(lambda: pool.status().assigned == 2 and Path(f"{stop}.begun").exists())
        for ticket in (begun, given, queued):
            ticket.on_settled(lambda one: settled.append(one.number))
            ticket.cancel()
            ticket.cancel()
            with pytest.raises(TaskCancelled):
                ticket.result(30)
        stop.touch()
        assert last.result(30) == ["C"]
        for ticket in (begun, last):
            ticket.cancel()
        assert settled == [begun.number, given.number, queued.number]
        wait_for(lambda: pool.status()[1:3] == (0, 0))


def test_priorities_come_first_and_then_the_order(launcher, tmp_path: Path):
    stop, order = tmp_path / "stop", []
    with Pool(launcher, workers=1) as pool:
        tickets = [pool.submit(says(f"wait:{stop}")), pool.submit(says("x"))]
        wait_for(lambda: pool.status().assigned == 2)
        for number, priority in enumerate((2, 0, 1, 2, 0)):
            ticket = pool.submit(says("y"), priority=priority)
            ticket.on_settled(lambda _, number=number: order.append(number))
            tickets.append(ticket)
        wait_for(lambda: pool.status().waiting == 5)
        stop.touch()
        for ticket in tickets:
            ticket.result(30)
    assert order == [1, 4, 2, 0, 3]


def test_closed_at_once_a_pool_cancels_what_is_left_and_its_processes_are_gone(zygote, tmp_path: Path):
    pool = Pool(zygote, workers=2)
    tickets = [pool.submit(says(f"wait:{tmp_path / 'never'}")) for _ in range(5)]
    wait_for(lambda: len(pids(pool)) == 2)
    left = [*pids(pool), zygote._process.pid]
    pool.close()
    for ticket in tickets:
        with pytest.raises(TaskCancelled):
            ticket.result(0)
    wait_for(lambda: not any(map(is_alive, left)))
    with pytest.raises(NmtError, match="have ended"):
        pool.submit(says("a"))


def test_closed_at_once_a_pool_waits_for_the_threads_that_work(tmp_path: Path):
    """A process that ended while a thread was in torch was aborted."""
    pool = Pool(ThreadLauncher(build), workers=2)
    for _ in range(2):
        pool.submit(says(f"wait:{tmp_path / 'never'}"))
    wait_for(lambda: pool.status().assigned == 2)
    pool.close()
    assert not [thread for thread in threading.enumerate() if thread.name in ("nmt-worker", "nmt-inbox")]


def test_workers_end_with_their_parent(tmp_path: Path):
    """The parent is killed while a worker works: fails if a worker looks for its parent only between two tasks."""
    program = f"""
import sys
sys.path[:] = {[str(Path(__file__).parents[2]), *sys.path]!r}
from pool_tasks import Say, build
from nmt_cli.system.workers import ZygoteLauncher
from nmt_cli.translation.pool import Pool
zygote = ZygoteLauncher(build)
pool = Pool(zygote, workers=2)
tickets = [pool.submit(Say((f"wait:{tmp_path}/never",))) for _ in range(4)]
while len(pool._members) < 2 or not all(member.has_begun for member in list(pool._members.values())): pass
print(zygote._process.pid, *[member.worker.pid for member in pool._members.values()], flush=True)
input()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    left = [int(pid) for pid in process.stdout.readline().split()]
    assert len(left) == 3
    assert all(map(is_alive, left))
    process.kill()
    process.communicate()
    wait_for(lambda: not any(map(is_alive, left)))


@pytest.mark.parametrize("seed", [*range(10), *(pytest.param(s, marks=pytest.mark.soak) for s in range(10, 300))])
def test_any_sequence_of_submissions_cancellations_and_deaths_settles_every_ticket_once(seed: int):
    """The slow truth is the word itself: a ticket gives it, or was cancelled."""
    random_ = random.Random(seed)
    settled: dict[int, int] = {}
    with Pool(ZygoteLauncher(build), workers=random_.randint(1, 3)) as pool:
        tickets, cancelled = [], set()
        for number in range(60):
            match random_.choice("ssssck"):
                case "s":
                    words = [f"w{number}-{part}" for part in range(random_.randint(1, 5))]
                    ticket = pool.submit(says(*words), priority=random_.randint(0, 2))
                    ticket.on_settled(lambda one: settled.__setitem__(one.number, settled.get(one.number, 0) + 1))
                    tickets.append((ticket, [word.upper() for word in words]))
                case "c" if tickets:
                    ticket, _ = random_.choice(tickets)
                    cancelled.add(ticket.number)
                    ticket.cancel()
                case "k":
                    for pid in random_.sample(running := pids(pool), min(1, len(running))):
                        with suppress(ProcessLookupError):
                            os.kill(pid, 9)
        for ticket, words in tickets:
            try:
                assert ticket.result(30) == words
            except TaskCancelled:
                assert ticket.number in cancelled
    assert settled == {ticket.number: 1 for ticket, _ in tickets}
