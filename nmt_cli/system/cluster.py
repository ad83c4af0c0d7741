"""Work for many processes, on this machine or on a cluster of them: the one place that knows Ray.

Ray starts the processes, finds them a machine and a device, carries work to them and answers back, and notices when one
has died. What the work is, is not known here.
"""

from __future__ import annotations

import os
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from itertools import count
from typing import Any, Generic, TypeVar

from nmt_cli.system import signals
from nmt_cli.system.console import log
from nmt_cli.system.errors import InputError, NmtError

MAX_ATTEMPTS = 3
"""Number of workers that may die of one piece of work, or in a row before they are ready."""
WAIT_SECONDS = 1.0
LOCAL_STORE_BYTES = 200_000_000
"""Shared memory on this machine for messages on their way. Beyond that Ray uses the disk."""

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is sent anywhere
    "RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1",  # which prints a stack where SIGTERM only ends the program
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # else Ray warns that this will be its default
}
Key = TypeVar("Key")
Message = TypeVar("Message")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Resources:
    """The processors that a worker needs, or that there are."""

    cpus: int
    gpus: int


@dataclass(frozen=True, slots=True)
class _Given(Generic[Key, Message]):
    """A piece of work and how often it was given to a worker that died."""

    key: Key
    message: Message
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class _Failure:
    """The reply of a worker that cannot answer."""

    host: str
    message: str
    exit_code: int | None
    """The exit code of an NmtError; None for any other exception."""


class _Worker:
    """Lives in a process of its own: opens what it works with once, then does what it is given."""

    def open(self, start: Callable[[], Callable[[Any], Any]]) -> tuple[str, int] | _Failure:
        try:
            self._work = start()
        except Exception as error:
            return _failure(error)
        return socket.gethostname(), os.getpid()

    def work(self, message: Any) -> Any:
        try:
            return self._work(message)
        except Exception as error:
            return _failure(error)


def _failure(error: Exception) -> _Failure:
    host = socket.gethostname()
    if isinstance(error, NmtError):
        return _Failure(host, str(error), error.exit_code)
    return _Failure(host, f"{type(error).__name__}: {error}", None)


def require_ray() -> Any:
    """Return the library; `InputError` says how to get it."""
    os.environ.update({name: value for name, value in _ENVIRONMENT.items() if name not in os.environ})
    try:
        import ray
    except ImportError as error:
        raise InputError(f"this needs Ray: pip install 'nmt-cli[ray]' ({error})") from None
    return ray


@contextmanager
def connect(address: str | None, *, num_cpus: int | None = None) -> Iterator[Cluster]:
    """Join the Ray cluster at `address` (`auto` finds one that runs here), or start Ray on this machine for the block.

    The signals that end the program keep their handlers; the one exception that these may raise through Ray is
    KeyboardInterrupt.

    Args:
        num_cpus: with no address, what Ray may count on; all cores unless told.

    Raises:
        InputError: Ray is not installed; no cluster answers.
    """
    ray = require_ray()
    if address is not None:
        _check_that_somebody_answers(address)
    how: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        how |= {"address": "local", "num_cpus": num_cpus, "object_store_memory": LOCAL_STORE_BYTES}
        how["include_dashboard"] = False
    # Ray prints its remarks to standard output, which is for data.
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere if address is None else sys.stderr):
        try:
            try:
                with signals.kept():
                    ray.init(**how)
            except NmtError:
                raise
            except Exception as error:  # a plain one where a node does not start in time
                reason = str(error).strip().partition("\n")[0]
                if address is None:
                    raise NmtError(f"Ray cannot be started on this machine: {reason}") from error
                raise InputError(
                    f"--address {address}: cannot be joined: {reason} (if it asks for a token: RAY_AUTH_MODE=token)"
                ) from error
            yield Cluster(ray, is_local=address is None)
        finally:
            ray.shutdown()


def _check_that_somebody_answers(address: str) -> None:
    """Raise `InputError` where nobody answers at the address; Ray itself goes on asking for minutes."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or "/" in host:
        raise InputError(f"--address {address}: must be auto or HOST:PORT, as `ray start` says it")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise InputError(f"--address {address}: nobody answers there: {str(error).lower()}") from error


class Cluster:
    """The machines that Ray has."""

    def __init__(self, ray: Any, *, is_local: bool) -> None:
        self._ray, self._is_local = ray, is_local

    def resources(self) -> Resources:
        """Return what there is on all machines."""
        found = self._ray.cluster_resources()
        return Resources(int(found.get("CPU", 0)), int(found.get("GPU", 0)))

    def hire(
        self, start: Callable[[], Callable[[Message], Answer]], *, num_workers: int, needs: Resources
    ) -> Pool[Message, Answer]:
        """Start workers that each call `start` once, and what it returns with each message."""
        return Pool(self._ray, start, num_workers, needs, is_local=self._is_local)


class Pool(Generic[Message, Answer]):
    """Workers, and a new one in the place of each that dies."""

    def __init__(
        self,
        ray: Any,
        start: Callable[[], Callable[[Message], Answer]],
        num_workers: int,
        needs: Resources,
        *,
        is_local: bool,
    ) -> None:
        self._ray, self._is_local, self._start, self._needs = ray, is_local, start, needs
        self._type = ray.remote(_Worker).options(num_cpus=needs.cpus, num_gpus=needs.gpus, max_restarts=0)
        self._opening: dict[Any, Any] = {}
        """The worker of each reference to what it will return; so in `_busy`, with the work."""
        self._busy: dict[Any, tuple[Any, _Given[Any, Message]]] = {}
        self._free: list[Any] = []
        self._num_stillborn = 0
        for _ in range(num_workers):
            self._hire()

    def answers(self, work: Iterable[tuple[Key, Message]]) -> Iterator[tuple[Key, Answer] | None]:
        """Yield the answer to each message with its key, as they come, and None while none comes.

        Work is taken when a worker is free. That of a worker that dies is given to another.

        Raises:
            NmtError: one raised in a worker, or in the place of another exception of a worker; too many workers died.
        """
        source = iter(work)
        waiting: deque[_Given[Key, Message]] = deque()
        while True:
            if not waiting and (task := next(source, None)) is not None:
                waiting.append(_Given(*task))
            if waiting and self._free:
                worker, given = self._free.pop(), waiting.popleft()
                self._busy[worker.work.remote(given.message)] = (worker, given)
                continue
            if not waiting and not self._busy:
                return
            done, _ = self._ray.wait([*self._busy, *self._opening], timeout=WAIT_SECONDS)
            for reference in done:
                if reference in self._opening:
                    self._welcome(reference)
                    continue
                worker, given = self._busy.pop(reference)
                try:
                    answer = self._answer(reference, str(given.key))
                except _DiedError as death:
                    waiting.appendleft(self._mourn(worker, given, death))
                    continue
                self._free.append(worker)
                yield given.key, answer
            if not done:
                yield None

    def wait_for_one(self) -> None:
        """Return when a worker is ready; say so where it takes long, as on a cluster without room."""
        for waited in count(1):
            if self._free:
                return
            done, _ = self._ray.wait([*self._opening], timeout=WAIT_SECONDS)
            if not done and waited % 30 == 0:
                log(
                    f"no worker is ready yet; each needs {self._needs.cpus} CPUs and {self._needs.gpus} GPUs to be free"
                )
            for reference in done:
                self._welcome(reference)

    def _hire(self) -> None:
        worker = self._type.remote()
        self._opening[worker.open.remote(self._start)] = worker

    def _welcome(self, reference: Any) -> None:
        """Take in a worker that is ready, or died before it was."""
        worker = self._opening.pop(reference)
        try:
            host, process = self._answer(reference, "a worker")
        except _DiedError as death:
            self._num_stillborn += 1
            if self._num_stillborn == MAX_ATTEMPTS:
                raise NmtError(f"{MAX_ATTEMPTS} workers in a row died before they were ready: {death}") from None
            self._hire()
            return
        self._num_stillborn = 0
        self._free.append(worker)
        log(f"worker ready: process {process} on {host}")

    def _mourn(self, worker: Any, given: _Given[Key, Message], death: _DiedError) -> _Given[Key, Message]:
        """Return the work of a worker that has died, to be given to another; a new one is on its way."""
        self._ray.kill(worker)  # it may live where it cannot be reached
        attempts = given.attempts + 1
        if attempts == MAX_ATTEMPTS:
            raise NmtError(
                f"{given.key}: {attempts} workers died one after the other while they worked on it; the last: {death}"
            ) from None
        log(f"a worker died; another does {given.key}")
        self._hire()
        return _Given(given.key, given.message, attempts)

    def _answer(self, reference: Any, what: str) -> Any:
        """Return what a worker returned.

        Raises:
            _DiedError: the worker has died.
            NmtError: it has raised an exception.
        """
        try:
            answer = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise _DiedError(lines[-1]) from None
        if isinstance(answer, _Failure):
            where = "" if self._is_local else f"worker on {answer.host}: "
            if answer.exit_code is None:
                raise NmtError(f"{where}{what} failed: {answer.message}")
            raise (InputError if answer.exit_code == InputError.exit_code else NmtError)(f"{where}{answer.message}")
        return answer


class _DiedError(Exception):
    """A worker has gone; the message is what Ray knows of it."""
