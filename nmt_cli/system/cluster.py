"""Workers on the machines of a Ray cluster. Only this module uses Ray.

Ray starts a process with a worker, finds it a machine and a device, carries tasks to it and results back, and notices
when it has died. A pool treats such a worker like any other: a thread of this process reads its connection.
"""

from __future__ import annotations

import io
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from typing import Any, NamedTuple

from nmt_cli.system import signals
from nmt_cli.system.console import log, log_once
from nmt_cli.system.errors import InputError, NmtError
from nmt_cli.system.workers import Builder, Inbox, LazyTaskLoop, Message, ThreadLauncher, Worker, picklable_error

THIS_MACHINE = "local"
"""The address for which `connect` starts Ray on this machine, and ends it after the block."""
WAIT_SECONDS = 30.0
END_SECONDS = 10.0
LOCAL_STORE_BYTES = 200_000_000
"""Size of the shared memory of a Ray started on this machine, which holds messages on their way. Beyond it Ray uses the
disk."""

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is sent anywhere
    "RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1",  # which prints a stack where SIGTERM only ends the program
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # else Ray warns that this will be its default
}


@dataclass(frozen=True, slots=True)
class Resources:
    """Numbers of processors and GPUs: those that a worker needs, or those of a whole cluster."""

    cpus: int
    gpus: int


class _LoadResult(NamedTuple):
    """Report of a worker that has tried to load what its tasks need, such as a model; `error` is None if it could."""

    host: str
    pid: int
    stderr: str
    """Text that the worker wrote to standard error while it loaded."""
    error: Exception | None


class _Actor:
    """A process of Ray that does tasks with one worker, which is a thread of it (`ThreadLauncher`)."""

    def open(self, build: Builder, threads: int) -> _LoadResult:
        """Start the worker, which loads what its tasks need; return where it runs, and the error if it could not
        load."""
        stderr, error = io.StringIO(), None
        try:
            with redirect_stderr(stderr):
                self._connection = ThreadLauncher(build, threads=threads).start().connection
        except Exception as failed:
            error = picklable_error(failed)
        return _LoadResult(socket.gethostname(), os.getpid(), stderr.getvalue(), error)

    def do(self, task: Any) -> Message:
        """Do a task, and return the message with its result (`done`) or its error (`failed`)."""
        self._connection.send(Message("task", value=task))
        while True:
            messages: list[Message] = self._connection.recv()
            for message in messages:
                if message.kind in ("done", "failed"):
                    return message


def require_ray() -> Any:
    """Return the module `ray`.

    Raises:
        InputError: it is not installed; the message says how to get it.
    """
    os.environ.update({name: value for name, value in _ENVIRONMENT.items() if name not in os.environ})
    try:
        import ray
    except ImportError as error:
        raise InputError(f"--address needs Ray: pip install 'nmt-cli[ray]' ({error})") from None
    return ray


@contextmanager
def connect(address: str, *, num_cpus: int | None = None) -> Iterator[Cluster]:
    """Join the Ray cluster at `address` or start one on this machine, and yield it; leave or end it after the block.

    The signals that end the program keep their handlers; the one exception that these may raise through Ray is
    KeyboardInterrupt.

    Args:
        address: `HOST:PORT` of a cluster, `auto` for one that runs on this machine, or `local` to start one for the
            block.
        num_cpus: number of processors of a cluster that is started; None means all.

    Raises:
        InputError: Ray is not installed; no cluster answers.
        NmtError: Ray cannot be started on this machine.
    """
    ray, is_local = require_ray(), address == THIS_MACHINE
    how: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": "ERROR"}
    if is_local:
        how |= {"num_cpus": num_cpus, "object_store_memory": LOCAL_STORE_BYTES, "include_dashboard": False}
    else:
        _check_reachable(address)
    # Ray prints its remarks to standard output, which is for data.
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere if is_local else sys.stderr):
        try:
            try:
                with signals.preserve_handlers():
                    ray.init(**how)
            except NmtError:
                raise
            except Exception as error:  # a plain one where a node does not start in time
                reason = str(error).strip().partition("\n")[0]
                if is_local:
                    raise NmtError(f"Ray cannot be started on this machine: {reason}") from error
                raise InputError(
                    f"--address {address}: cannot be joined: {reason} (if it asks for a token: RAY_AUTH_MODE=token)"
                ) from error
            yield Cluster(ray, is_local=is_local)
        finally:
            ray.shutdown()


def _check_reachable(address: str) -> None:
    """Raise `InputError` if nobody answers at the address; Ray itself would try for minutes."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or "/" in host:
        raise InputError(f"--address {address}: must be auto, local or HOST:PORT, as `ray start` says it")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"--address {address}: no Ray cluster answers there ({str(error).lower()}); start one with ray start"
        ) from error


class Cluster:
    """A cluster of machines on which Ray starts workers."""

    def __init__(self, ray: Any, *, is_local: bool) -> None:
        self._ray, self._is_local = ray, is_local

    def resources(self) -> Resources:
        """Return the numbers of processors and GPUs of all machines together."""
        found = self._ray.cluster_resources()
        return Resources(int(found.get("CPU", 0)), int(found.get("GPU", 0)))

    def launcher(self, build: Builder, *, needs: Resources, threads: int) -> RayLauncher:
        """Return a launcher of workers on these machines.

        Each worker reserves the processors and GPUs in `needs`, and computes in `threads` threads.
        """
        return RayLauncher(self._ray, build, needs, threads, is_local=self._is_local)


class RayLauncher:
    """Starts workers on the machines of a Ray cluster, where enough processors and GPUs are free."""

    max_workers = 0

    def __init__(self, ray: Any, build: Builder, needs: Resources, threads: int, *, is_local: bool) -> None:
        self._ray, self._build, self._needs, self._threads, self._is_local = ray, build, needs, threads, is_local
        self._type = ray.remote(_Actor).options(num_cpus=needs.cpus, num_gpus=needs.gpus, max_restarts=0)
        self._started: list[tuple[Any, threading.Thread]] = []
        self._is_closed = False

    def start(self) -> Worker:
        """Return a new worker at once; it sends the message `ready` when it has loaded what its tasks need."""
        ours, theirs = Pipe()
        actor = self._type.remote()
        thread = threading.Thread(target=self._run, args=(actor, theirs), name="nmt-ray-worker", daemon=True)
        self._started.append((actor, thread))
        thread.start()
        return Worker(ours, 0, end=lambda: self._kill(actor))

    def give_up(self) -> None:
        """Do nothing, because `start` never waits."""

    def close(self) -> None:
        """End all workers."""
        self._is_closed = True
        for actor, thread in self._started:
            self._ray.kill(actor)
            thread.join(END_SECONDS)

    def _kill(self, actor: Any) -> None:
        """End a process of Ray, perhaps on a machine where only Ray reaches it; do nothing once all are ended by
        `close`."""
        if not self._is_closed:
            self._ray.kill(actor)

    def _run(self, actor: Any, connection: Connection) -> None:
        """Carry tasks to a worker and its results back, until the pool or the worker ends."""
        inbox = Inbox(connection, on_closed=lambda: None)
        try:
            loaded = self._wait_until_loaded(actor)
            inbox.open()
            if loaded.error is not None:
                LazyTaskLoop(lambda: self._fail(loaded))(inbox)
                return
            log(f"worker ready: process {loaded.pid} on {loaded.host}")
            while (message := inbox.next()) is not None:
                answer: Message = self._ray.get(actor.do.remote(message.value))
                if answer.kind == "done":
                    inbox.send_result(message.number, answer.value)
                else:
                    inbox.send_error(message.number, self._with_host(loaded, answer.value))
        except self._ray.exceptions.RayError as error:
            if not self._is_closed:
                log(f"a worker process crashed: {([*str(error).strip().splitlines()] or [type(error).__name__])[-1]}")
        finally:
            self._kill(actor)
            inbox.close()

    def _wait_until_loaded(self, actor: Any) -> _LoadResult:
        """Wait until a Ray process has tried to load what its tasks need, and return its report.

        If the first process takes long, as when no processors are free, that is logged.
        """
        opening = actor.open.remote(self._build, self._threads)
        while not self._ray.wait([opening], timeout=WAIT_SECONDS)[0]:
            if actor is self._started[0][0]:
                log(
                    f"no worker is ready yet; each needs {self._needs.cpus} CPUs and {self._needs.gpus} GPUs to be free"
                )
        loaded: _LoadResult = self._ray.get(opening)
        for line in loaded.stderr.splitlines():
            log_once(line)
        return loaded

    def _fail(self, loaded: _LoadResult) -> Any:
        raise self._with_host(loaded, loaded.error)

    def _with_host(self, loaded: _LoadResult, error: Any) -> Exception:
        """Return an error of a worker; an `NmtError` from another machine gets the name of that machine in its
        message."""
        if self._is_local or not isinstance(error, NmtError):
            return error  # type: ignore[no-any-return]
        kind = InputError if error.exit_code == InputError.exit_code else NmtError
        return kind(f"worker on {loaded.host}: {error}")
