"""Workers that share a queue of tasks.

One thread owns all state: what is submitted, cancelled and answered reaches it as messages. A task that was accepted
has a ticket, which is settled exactly once. A ticket is queued, given to a worker, begun by it, and done, failed or
cancelled; where its worker dies, it is queued again. Numbers of what waits are computed from the queues.
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
from queue import SimpleQueue
from time import monotonic
from typing import Any, NamedTuple, Protocol

from nmt_cli.system.console import log, relay
from nmt_cli.system.errors import NmtError
from nmt_cli.system.workers import Launcher, Message, Worker

AHEAD = 2
"""Tasks that a worker has at a time: one that it does, and one that it finds when it has done that."""
MAX_DEATHS = 3
"""Deaths of workers after which the task that they did fails."""
MAX_STARTS = 3
"""Workers that end one after the other without having begun anything, before the pool gives up."""


class Task(Protocol):
    """The work that a worker does in one go. It is pickled."""

    def alone(self) -> Sequence[Task]:
        """Return the same work as smaller tasks, one for each thing that a user would name; one if it is small."""

    def joined(self, results: Sequence[Any]) -> Any:
        """Return the result of this task from those of `alone()`."""

    def name(self) -> str:
        """Return how a message names this task: `line 17`."""


class WorkersDied(NmtError):
    """The workers that did a task have died."""


class Cancelled(Exception):
    """Nobody waits for the result any more."""


class Status(NamedTuple):
    """The pool at one moment."""

    workers: int
    """Workers that are alive."""
    waiting: int
    """Tasks that no worker has."""
    given: int
    """Tasks that a worker has."""
    turn_seconds: float
    """Seconds since the loop last went round."""


class Ticket:
    """An accepted task."""

    def __init__(self, number: int, task: Task, priority: int, pool: Pool) -> None:
        self.number, self.task, self.priority, self._pool = number, task, priority, pool
        self._future: Future[Any] = Future()
        self.deaths = 0
        """Workers that died while they did it."""
        self.has_begun = False
        self.is_settled = False

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the result, and return it.

        Raises:
            Cancelled: the ticket was cancelled.
            WorkersDied: the workers that did the task have died, one after the other.
            NmtError: the task has failed.
            TimeoutError: there is no result yet.
        """
        return self._future.result(timeout)

    def cancel(self) -> None:
        """Have the task left out, or its result thrown away. Any thread may call this, at any time."""
        self._pool._post(Message("cancel", self.number))

    def on_settled(self, call: Callable[[Ticket], None]) -> None:
        """Have this called once, when there is a result or an error; at once if there is one already."""
        self._future.add_done_callback(lambda _: call(self))

    def _settle(self, result: Any = None, error: BaseException | None = None) -> None:
        self.is_settled = True
        if error is not None:
            self._future.set_exception(error)
        else:
            self._future.set_result(result)


@dataclass
class _Member:
    """A worker, and what it has been given."""

    worker: Worker
    given: dict[int, Ticket] = field(default_factory=dict)
    is_ready: bool = False
    """True once it has loaded what it needs, which on another machine takes its time."""
    has_begun: bool = False
    """True once it has begun any task."""


@dataclass
class _Parted:
    """A task that is done in smaller ones, after a worker died while it did it."""

    ticket: Ticket
    children: list[Ticket]


class Pool:
    """Workers of one kind; one that dies is replaced."""

    def __init__(self, launcher: Launcher, *, workers: int) -> None:
        """Begin, with as many workers at most; they are started when there are tasks for them."""
        self._launcher, self._num_workers = launcher, workers
        self._mailbox: SimpleQueue[Message] = SimpleQueue()
        self._bell, self._rung = Pipe(duplex=False)[::-1]
        self._ringing = threading.Lock()
        self._numbers = count(1)
        self._tickets: dict[int, Ticket] = {}
        """The tickets that are not settled, by their numbers."""
        self._queues: dict[int, deque[Ticket]] = {}
        """Tickets that no worker has, by priority."""
        self._members: dict[Connection, _Member] = {}
        self._parted: dict[int, _Parted] = {}
        """The parted tasks, by the number of each of their children."""
        self._failed_starts = 0
        self._is_ending = self._has_ended = False
        self._fatal: NmtError | None = None
        self._turn = monotonic()
        self._thread = threading.Thread(target=self._run, name="nmt-pool", daemon=True)
        self._thread.start()

    # For every thread -----------------------------------------------------------------------------------------------

    def submit(self, task: Task, *, priority: int = 0) -> Ticket:
        """Accept a task; those of a smaller priority come first, then those that came first.

        Raises:
            NmtError: the pool has ended.
        """
        ticket = Ticket(next(self._numbers), task, priority, self)
        if not self._post(Message("submit", ticket.number, ticket)):
            raise self._fatal or NmtError("the pool of workers has ended")
        return ticket

    def status(self) -> Status:
        """Return how many workers and tasks there are."""
        waiting = sum(map(len, list(self._queues.values())))
        given = sum(len(member.given) for member in list(self._members.values()))
        return Status(len(self._members), waiting, given, monotonic() - self._turn)

    def close(self, *, drain: bool = False) -> None:
        """End the workers: with `drain` when all tasks are done, otherwise at once. What is left is cancelled."""
        self._post(Message("drain" if drain else "end"))
        self._thread.join()
        self._launcher.close()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close(drain=kind is None)

    def _post(self, message: Message) -> bool:
        """Leave a message for the thread of the pool; return False if it has ended."""
        with self._ringing:
            if not self._has_ended:
                self._mailbox.put(message)
                if not self._rung.poll():
                    self._bell.send_bytes(b".")
            return not self._has_ended

    # For the thread of the pool -------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._is_ending or self._tickets:
                self._turn = monotonic()
                self._hire()
                self._give()
                if self._is_ending and not self._tickets:
                    break
                for ready in wait([self._rung, *self._members]):
                    if ready is self._rung:
                        self._open_mail()
                    elif isinstance(ready, Connection):
                        self._hear(ready)
        except NmtError as error:
            self._fatal = error
        except BaseException as error:  # a mistake of the program must not leave anybody waiting for ever
            self._fatal = NmtError(f"the pool of workers has failed: {type(error).__name__}: {error}")
            self._fatal.__cause__ = error
        finally:
            self._end()

    def _open_mail(self) -> None:
        with self._ringing:
            self._rung.recv_bytes()
        while not self._mailbox.empty():
            message = self._mailbox.get()
            match message.kind:
                case "submit":
                    self._accept(message.value)
                case "cancel":
                    self._cancel(message.number)
                case "drain":
                    self._is_ending = True
                case "end":
                    self._is_ending = True
                    for number in list(self._tickets):
                        self._settle(number, error=Cancelled())

    def _accept(self, ticket: Ticket) -> None:
        self._tickets[ticket.number] = ticket
        self._queues.setdefault(ticket.priority, deque()).append(ticket)

    def _cancel(self, number: int) -> None:
        parted = [one for one in self._parted.values() if one.ticket.number == number]
        for child in parted[0].children if parted else ():
            self._cancel(child.number)
        for member in self._members.values():
            if number in member.given:
                self._tell(member, Message("cancel", number))
        self._settle(number, error=Cancelled())

    def _hire(self) -> None:
        """Start the workers that are missing, if there is something to do."""
        while len(self._members) < min(self._num_workers, len(self._tickets)):
            if self._members and 0 < self._launcher.most_workers <= len(self._members):
                return
            worker = self._launcher.start()
            self._members[worker.connection] = _Member(worker)

    def _give(self) -> None:
        """Give tasks to the workers that have few, those with the fewest first."""
        for ahead in range(AHEAD):
            for member in list(self._members.values()):
                if member.is_ready and len(member.given) <= ahead and (ticket := self._next()) is not None:
                    member.given[ticket.number] = ticket
                    self._tell(member, Message("task", ticket.number, ticket.task))

    def _next(self) -> Ticket | None:
        for priority in sorted(self._queues):
            queue = self._queues[priority]
            while queue:
                if not (ticket := queue.popleft()).is_settled:
                    return ticket
        return None

    def _tell(self, member: _Member, message: Message) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # it has died; its connection will say so
            member.worker.connection.send(message)

    def _hear(self, connection: Connection) -> None:
        member = self._members[connection]
        try:
            message: Message = connection.recv()
        except (EOFError, OSError):
            self._bury(member)
            return
        match message.kind:
            case "ready":
                member.is_ready = True
            case "begun" if message.number in member.given:
                member.given[message.number].has_begun = member.has_begun = True
                self._failed_starts = 0
            case "done":
                member.given.pop(message.number, None)
                self._settle(message.number, message.value)
            case "failed":
                member.given.pop(message.number, None)
                self._settle(message.number, error=message.value or Cancelled())
            case "logged":
                relay(message.value)

    def _bury(self, member: _Member) -> None:
        """Queue again what a worker had that has died."""
        del self._members[member.worker.connection]
        member.worker.kill()
        log("a worker has ended by itself; others do its work")
        if not member.has_begun:
            self._failed_starts += 1
            if self._failed_starts >= MAX_STARTS:
                raise NmtError("the workers end one after the other before they have done anything")
        for ticket in reversed(member.given.values()):
            if not ticket.is_settled:
                self._queue_again(ticket)

    def _queue_again(self, ticket: Ticket) -> None:
        queue = self._queues.setdefault(ticket.priority, deque())
        if not ticket.has_begun:
            queue.appendleft(ticket)
            return
        ticket.deaths, ticket.has_begun = ticket.deaths + 1, False
        smaller = ticket.task.alone()
        if len(smaller) > 1:
            children = [Ticket(next(self._numbers), task, ticket.priority, self) for task in smaller]
            for child in reversed(children):
                child.deaths = ticket.deaths
                self._tickets[child.number] = child
                self._parted[child.number] = _Parted(ticket, children)
                queue.appendleft(child)
        elif ticket.deaths >= MAX_DEATHS:
            told = f"{ticket.task.name()}: {ticket.deaths} processes have ended by themselves over it, probably because"
            self._settle(ticket.number, error=WorkersDied(f"{told} memory ran out"))
        else:
            queue.appendleft(ticket)

    def _settle(self, number: int, result: Any = None, error: BaseException | None = None) -> None:
        """End a ticket. Where it is settled already, which a late result or a second cancellation finds, do nothing."""
        ticket = self._tickets.pop(number, None)
        if ticket is None:
            return
        ticket._settle(result, error)
        parted = self._parted.pop(number, None)
        if parted is None or parted.ticket.is_settled:
            return
        if error is not None:
            self._settle(parted.ticket.number, error=error)
        elif all(child.is_settled for child in parted.children):
            whole = parted.ticket.task.joined([child.result() for child in parted.children])
            self._settle(parted.ticket.number, whole)

    def _end(self) -> None:
        """End all workers, and settle what is left."""
        for member in list(self._members.values()):
            if self._fatal is None and not member.given:
                self._tell(member, Message("end"))
                member.worker.connection.close()
            else:
                member.worker.kill()
        self._members.clear()
        with self._ringing:
            self._has_ended = True
        while not self._mailbox.empty():
            if (message := self._mailbox.get()).kind == "submit":
                self._accept(message.value)
        for number in list(self._tickets):
            self._settle(number, error=self._fatal or Cancelled())
