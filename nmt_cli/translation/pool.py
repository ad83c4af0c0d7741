"""Workers that share a queue of tasks.

One thread owns all state: submissions, cancellations and answers reach it as messages. A task that was accepted
has a ticket, which is settled exactly once. A ticket is queued, given to a worker, begun by it, and done, failed or
cancelled; if its worker dies, it is queued again. The numbers in `Status` are computed from the queues.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from multiprocessing.connection import Connection, Pipe, wait
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, NamedTuple, Protocol

from nmt_cli.system.console import log, relay, warn
from nmt_cli.system.errors import NmtError
from nmt_cli.system.workers import Launcher, Message, Worker

PREFETCH_COUNT = 2
"""Tasks that a worker has at a time: one that it does, and one to begin next."""
MAX_DEATHS = 3
"""A task fails when this many workers have died while they did it."""
RESTART_DELAYS = (0.0, 0.0)
"""Seconds to wait before workers are started again after the first failure in a row, the second, and so on. After one
more failure the pool gives up."""


class Task(Protocol):
    """The work that a worker does in one go. It is pickled."""

    def subtasks(self) -> Sequence[Task]:
        """Return this work as smaller tasks, one for each item that a user would name, such as a line.

        A task of a single item returns one task.
        """

    def join_results(self, results: Sequence[Any]) -> Any:
        """Return the result of this task from those of `subtasks()`."""

    def name(self) -> str:
        """Return the name of this task for messages, such as `line 17`."""


class WorkersDied(NmtError):
    """The workers that did a task have died."""


class TaskCancelled(Exception):
    """The task was cancelled, because nobody waits for its result any more."""


class Status(NamedTuple):
    """Numbers of live workers, of waiting and assigned tasks, and of deaths and failures in a pool, at one moment."""

    workers: int
    """Workers that are alive."""
    waiting: int
    """Tasks that no worker has."""
    assigned: int
    """Tasks that a worker has."""
    deaths: int
    """Workers that have died since the pool began."""
    failures_in_a_row: int
    """Failures (see `RESTART_DELAYS`) since a worker last finished a task or, in a pool without a probe, began one."""


class Ticket:
    """The handle of an accepted task, by which to wait for its result or cancel it."""

    def __init__(self, number: int, task: Task, priority: int, pool: Pool) -> None:
        self.number, self.task, self.priority, self._pool = number, task, priority, pool
        self._future: Future[Any] = Future()
        self.deaths = 0
        """Number of workers that died while they did the task."""
        self.has_begun = False
        self.is_settled = False

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the result, and return it.

        Raises:
            TaskCancelled: the task was cancelled.
            WorkersDied: the workers that did the task have died, one after the other.
            NmtError: the task has failed.
            TimeoutError: there is no result after `timeout` seconds.
        """
        return self._future.result(timeout)

    def cancel(self) -> None:
        """Cancel the task: it is not begun, or its result is discarded. Any thread may call this, at any time."""
        self._pool._post(Message("cancel", self.number))

    def on_settled(self, call: Callable[[Ticket], None]) -> None:
        """Call `call` once with this ticket when there is a result or an error; at once if there is one already."""
        self._future.add_done_callback(lambda _: call(self))

    def _settle(self, result: Any = None, error: BaseException | None = None) -> None:
        self.is_settled = True
        if error is not None:
            self._future.set_exception(error)
        else:
            self._future.set_result(result)


@dataclass
class _PoolWorker:
    """A worker, and the tasks that it has been given."""

    worker: Worker
    assigned: dict[int, Ticket] = field(default_factory=dict)
    is_ready: bool = False
    """True once the worker has reported that it is ready; it gets no task before that."""
    has_begun: bool = False
    """True once the worker has begun any task."""
    has_finished_task: bool = False
    """True once the worker has finished any task."""
    is_alone: bool = False
    """True if the worker gets no other task until it has finished the one that it has."""
    state_queries: set[int] = field(default_factory=set)
    """Numbers of the questions about the worker's state that it has not answered yet."""

    def num_tasks(self, priority: int) -> int:
        """Return the number of tasks with this priority that the worker has."""
        return sum(ticket.priority == priority for ticket in self.assigned.values())


@dataclass
class _Split:
    """A task that is split into smaller ones, because a worker has died while it did the task."""

    ticket: Ticket
    children: list[Ticket]


class Pool:
    """Workers, in processes or threads, that do the tasks of one queue; a worker that dies is replaced."""

    def __init__(
        self,
        launcher: Launcher,
        *,
        workers: int,
        prefetch_counts: Sequence[int] = (),
        probe: Task | None = None,
        restart_delays: Sequence[float] = RESTART_DELAYS,
        on_failure: Callable[[NmtError], None] = lambda _: None,
    ) -> None:
        """Start the thread of the pool. Workers are started when there are tasks for them.

        Args:
            launcher: starts the workers.
            workers: how many there are at most.
            prefetch_counts: for workers that do several tasks at once, the most tasks of each priority that a worker
                has at a time. If empty, a worker has at most `PREFETCH_COUNT` tasks in all.
            probe: a task for the next worker after one has died, which shows whether workers work again. Without it, a
                worker that begins a task shows that.
            restart_delays: see `RESTART_DELAYS`.
            on_failure: is called with the reason if the pool gives up.
        """
        self._launcher, self._num_workers = launcher, workers
        self._prefetch_counts, self._restart_delays = prefetch_counts, restart_delays
        self._probe, self._on_failure = probe, on_failure
        self._mailbox: SimpleQueue[Message] = SimpleQueue()
        self._wake_writer, self._wake_reader = Pipe(duplex=False)[::-1]
        self._wake_lock = threading.Lock()
        self._numbers = count(1)
        self._tickets: dict[int, Ticket] = {}
        """The tickets that are not settled, by their numbers."""
        self._queues: dict[int, deque[Ticket]] = {}
        """Tickets that no worker has, by priority."""
        self._suspects: deque[Ticket] = deque()
        """Tickets that a worker must do alone: the probe, and tasks during which a worker died."""
        self._members: dict[Connection, _PoolWorker] = {}
        self._state_queries: dict[int, SimpleQueue[Any]] = {}
        """For each question about the state of the workers, by its number, a queue for the answers."""
        self._splits: dict[int, _Split] = {}
        """The split tasks, by the number of each of their children."""
        self._probe_ticket: Ticket | None = None
        """The task that shows whether workers work again."""
        self._deaths = self._failures = 0
        self._resume_at = 0.0
        """Monotonic time in seconds before which no worker is started."""
        self._starting = threading.Lock()
        """Lock that is held while workers are started."""
        self._is_ending = self._has_ended = False
        self._fatal: NmtError | None = None
        self._now = monotonic()
        self._thread = threading.Thread(target=self._run, name="nmt-pool", daemon=True)
        self._thread.start()

    # For every thread -----------------------------------------------------------------------------------------------

    def submit(self, task: Task, *, priority: int = 0) -> Ticket:
        """Accept a task. Tasks with a smaller `priority` number come first; those of one priority keep their order.

        Raises:
            NmtError: the pool has ended.
        """
        ticket = Ticket(next(self._numbers), task, priority, self)
        if not self._post(Message("submit", ticket.number, ticket)):
            raise self._fatal or NmtError("the worker processes have ended")
        return ticket

    def limit_workers(self, most: int) -> None:
        """Set the largest number of workers, after any start that is under way. Workers beyond it are not ended."""
        with self._starting:
            self._num_workers = most

    def status(self) -> Status:
        """Return the present numbers of workers, tasks, deaths and failures."""
        waiting = sum(map(len, list(self._queues.values()))) + len(self._suspects)
        assigned = sum(len(member.assigned) for member in list(self._members.values()))
        return Status(len(self._members), waiting, assigned, self._deaths, self._failures)

    def states(self, timeout: float) -> list[Any]:
        """Return the state of each worker (`Inbox.state`), or None for a worker that dies meanwhile.

        Raises:
            TimeoutError: a worker does not answer within `timeout` seconds.
            NmtError: the pool has ended.
        """
        until, answers = monotonic() + timeout, SimpleQueue[Any]()
        number = next(self._numbers)
        self._state_queries[number] = answers
        try:
            if not self._post(Message("get state", number)):
                raise self._fatal or NmtError("the worker processes have ended")
            return [answers.get(timeout=max(0.0, until - monotonic())) for _ in range(answers.get(timeout=timeout))]
        except Empty:
            raise TimeoutError(f"it has not answered for {timeout:g} seconds") from None
        finally:
            del self._state_queries[number]

    def end(self, *, drain: bool = False) -> None:
        """End the workers: with `drain` when all tasks are done, otherwise at once. The tasks left are cancelled."""
        self._post(Message("drain" if drain else "end"))
        for member in () if drain else list(self._members.values()):
            member.worker.kill_process()  # it may take no messages, and so keep the thread of the pool
        self._thread.join()

    def close(self, *, drain: bool = False) -> None:
        """End the workers, as `end` does, and close their launcher."""
        if not drain:
            self._launcher.give_up()
        self.end(drain=drain)
        self._launcher.close()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close(drain=kind is None)

    def _post(self, message: Message) -> bool:
        """Leave a message for the thread of the pool; return False if it has ended."""
        with self._wake_lock:
            if not self._has_ended:
                self._mailbox.put(message)
                if not self._wake_reader.poll():
                    self._wake_writer.send_bytes(b".")
            return not self._has_ended

    # For the thread of the pool -------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._is_ending or self._tickets:
                self._now = monotonic()
                self._start_workers()
                self._assign()
                if self._is_ending and not self._tickets:
                    break
                left = self._resume_at - self._now
                for ready in wait([self._wake_reader, *self._members], left if left > 0 else None):
                    if ready is self._wake_reader:
                        self._read_mailbox()
                    elif isinstance(ready, Connection):
                        self._receive(ready)
        except NmtError as error:
            self._fatal = error
        except BaseException as error:  # a mistake of the program must not leave anybody waiting for ever
            self._fatal = NmtError(
                f"the worker processes cannot be used: {type(error).__name__}: {error}. This is a bug in nmt; please "
                "report it"
            )
            self._fatal.__cause__ = error
        finally:
            self._end()

    def _read_mailbox(self) -> None:
        with self._wake_lock:
            self._wake_reader.recv_bytes()
        while not self._mailbox.empty():
            message = self._mailbox.get()
            match message.kind:
                case "submit":
                    self._accept(message.value)
                case "cancel":
                    self._cancel(message.number)
                case "get state":
                    if (answers := self._state_queries.get(message.number)) is not None:
                        answers.put(len(self._members))
                        for member in self._members.values():
                            member.state_queries.add(message.number)
                            self._send(member, message)
                case "drain":
                    self._is_ending = True
                case "end":
                    self._is_ending = True
                    for number in list(self._tickets):
                        self._settle(number, error=TaskCancelled())

    def _accept(self, ticket: Ticket) -> None:
        self._tickets[ticket.number] = ticket
        self._queues.setdefault(ticket.priority, deque()).append(ticket)

    def _cancel(self, number: int) -> None:
        parted = [one for one in self._splits.values() if one.ticket.number == number]
        for child in parted[0].children if parted else ():
            self._cancel(child.number)
        for member in self._members.values():
            if number in member.assigned:
                self._send(member, Message("cancel", number))
        self._settle(number, error=TaskCancelled())

    def _start_workers(self) -> None:
        """Start workers until each unsettled task has one or the limit is reached; none during a delay after a failure.

        Raises:
            NmtError: no worker can be started, and there is none.
        """
        with self._starting:
            while len(self._members) < min(self._num_workers, len(self._tickets)) and self._now >= self._resume_at:
                if self._members and 0 < self._launcher.max_workers <= len(self._members):
                    return
                try:
                    worker = self._launcher.start()
                except NmtError as error:
                    if not self._members:
                        raise
                    warn(f"{error}; {len(self._members)} of {self._num_workers} workers go on")
                    self._num_workers = len(self._members)
                    return
                self._members[worker.connection] = _PoolWorker(worker)

    def _assign(self) -> None:
        """Give tasks to the workers that have few, those with the fewest first."""
        ready = [member for member in self._members.values() if member.is_ready]
        for member in ready:
            member.is_alone = member.is_alone and bool(member.assigned)
            if not member.assigned and (ticket := self._next(self._suspects)) is not None:
                self._assign_to(member, ticket, is_alone=True)
        free = [member for member in ready if not member.is_alone]
        for priority in sorted(self._queues) if free else ():
            while True:
                member = min(free, key=lambda one: self._load(one, priority))
                most = self._prefetch_counts[priority] if self._prefetch_counts else PREFETCH_COUNT
                if self._load(member, priority)[0] >= most or (ticket := self._next(self._queues[priority])) is None:
                    break
                self._assign_to(member, ticket)

    def _load(self, member: _PoolWorker, priority: int) -> tuple[int, int]:
        """Return the number of a worker's tasks that count towards the limit of a priority, and of all its tasks."""
        return member.num_tasks(priority) if self._prefetch_counts else len(member.assigned), len(member.assigned)

    def _assign_to(self, member: _PoolWorker, ticket: Ticket, *, is_alone: bool = False) -> None:
        member.assigned[ticket.number], member.is_alone = ticket, is_alone
        self._send(member, Message("task", ticket.number, ticket.task))

    @staticmethod
    def _next(queue: deque[Ticket]) -> Ticket | None:
        """Take and return the first ticket of a queue that is not settled; None if there is none."""
        while queue:
            if not (ticket := queue.popleft()).is_settled:
                return ticket
        return None

    def _send(self, member: _PoolWorker, message: Message) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # it has died; its connection will say so
            member.worker.connection.send(message)

    def _receive(self, connection: Connection) -> None:
        member = self._members[connection]
        try:
            messages: list[Message] = connection.recv()
        except (EOFError, OSError):
            self._remove_dead(member)
            return
        for message in messages:
            self._handle(member, message)

    def _handle(self, member: _PoolWorker, message: Message) -> None:
        """Process a message that a worker has sent."""
        match message.kind:
            case "ready":
                member.is_ready = True
            case "begun" if message.number in member.assigned:
                member.assigned[message.number].has_begun = member.has_begun = True
                self._failures = self._failures if self._probe else 0
            case "done":
                self._failures, member.has_finished_task = 0, True
                member.assigned.pop(message.number, None)
                self._settle(message.number, message.value)
            case "failed" if self._probe_ticket is not None and message.number == self._probe_ticket.number:
                self._remove_dead(member, message.value)  # as where the memory of a GPU is not free yet
            case "failed":
                member.assigned.pop(message.number, None)
                self._settle(message.number, error=message.value or TaskCancelled())
            case "state":
                self._answer_state(member, message.number, message.value)
            case "logged":
                relay(message.value)

    def _answer_state(self, member: _PoolWorker, number: int, state: Any) -> None:
        member.state_queries.discard(number)
        if (answers := self._state_queries.get(number)) is not None:
            answers.put(state)

    def _remove_dead(self, member: _PoolWorker, error: Exception | None = None) -> None:
        """Remove a worker that has died or, with an error, cannot work, and queue its tasks again.

        Raises:
            NmtError: there were too many failures in a row.
        """
        for number in tuple(member.state_queries):  # the next one will be asked
            self._answer_state(member, number, None)
        del self._members[member.worker.connection]
        member.worker.kill()
        log("a worker process crashed; the others take over its work" if error is None else f"error: {error}")
        self._deaths += 1
        # Workers that have worked and die together, as where memory is short for a moment, are one failure.
        is_proven = member.has_begun if self._probe is None else member.has_finished_task and self._failures > 0
        if not is_proven:
            self._failures += 1
            if self._failures > len(self._restart_delays):
                raise NmtError(
                    "the worker processes crash before they have done anything, probably because memory is short; try "
                    "--workers 1"
                ) from error
            self._resume_at = monotonic() + self._restart_delays[self._failures - 1]
        for ticket in reversed(member.assigned.values()):
            if not ticket.is_settled:
                self._queue_again(ticket)
        if self._probe is not None and not self._is_ending:
            self._schedule_probe(self._probe)

    def _schedule_probe(self, probe: Task) -> None:
        """Queue the probe (see `__init__`) for the next worker, which does it before any other task."""
        if self._probe_ticket is None or self._probe_ticket.is_settled:
            self._probe_ticket = Ticket(next(self._numbers), probe, 0, self)
            self._tickets[self._probe_ticket.number] = self._probe_ticket
        elif self._probe_ticket in self._suspects:
            self._suspects.remove(self._probe_ticket)
        else:  # a worker has it
            return
        self._suspects.appendleft(self._probe_ticket)

    def _queue_again(self, ticket: Ticket) -> None:
        if not ticket.has_begun:
            queue = self._suspects if ticket.deaths else self._queues.setdefault(ticket.priority, deque())
            queue.appendleft(ticket)
            return
        ticket.deaths, ticket.has_begun = ticket.deaths + 1, False
        smaller = ticket.task.subtasks()
        if len(smaller) > 1:
            children = [Ticket(next(self._numbers), task, ticket.priority, self) for task in smaller]
            for child in reversed(children):
                child.deaths = ticket.deaths
                self._tickets[child.number] = child
                self._splits[child.number] = _Split(ticket, children)
                self._suspects.appendleft(child)
        elif ticket.deaths >= MAX_DEATHS:
            told = (
                f"{ticket.task.name()}: {ticket.deaths} worker processes crashed at it, probably because memory ran "
                "out; shorten it, or try fewer --workers or a smaller --batch-tokens"
            )
            self._settle(ticket.number, error=WorkersDied(told))
        else:
            self._suspects.appendleft(ticket)

    def _settle(self, number: int, result: Any = None, error: BaseException | None = None) -> None:
        """Settle a ticket with a result or an error; do nothing if it is settled already, as by a cancellation.

        A split task is settled with its last child, or with the first child that fails.
        """
        ticket = self._tickets.pop(number, None)
        if ticket is None:
            return
        ticket._settle(result, error)
        parted = self._splits.pop(number, None)
        if parted is None or parted.ticket.is_settled:
            return
        if error is not None:
            self._settle(parted.ticket.number, error=error)
        elif all(child.is_settled for child in parted.children):
            whole = parted.ticket.task.join_results([child.result() for child in parted.children])
            self._settle(parted.ticket.number, whole)

    def _end(self) -> None:
        """End all workers, and settle the tickets that are left with an error."""
        for member in list(self._members.values()):
            if self._fatal is None and not member.assigned:
                self._send(member, Message("end"))
                member.worker.connection.close()
            else:
                member.worker.kill()
        self._members.clear()
        with self._wake_lock:
            self._has_ended = True
        while not self._mailbox.empty():
            if (message := self._mailbox.get()).kind == "submit":
                self._accept(message.value)
        for number in list(self._tickets):
            self._settle(number, error=self._fatal or TaskCancelled())
        if self._fatal is not None:
            self._on_failure(self._fatal)
