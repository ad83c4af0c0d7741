"""Worker processes that do tasks, such as translating, and share the memory of what one process has loaded.

A *zygote* is a process without the parent's state: it loads what the tasks need, with one thread, and forks a worker
for each connection that it is given. So a further worker starts within milliseconds, and a model is in memory once. The
parent does without the libraries that the workers load. Where such a library is loaded already, as in a notebook, a
worker is a thread of the same process.

Whatever ends the parent, its workers end: each has a thread that reads from the connection, and exits where it closes.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing.connection import Connection, Pipe
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Protocol

from nmt_cli.system.console import log, relay
from nmt_cli.system.errors import NmtError
from nmt_cli.system.free_memory import free_memory
from nmt_cli.system.processors import num_available
from nmt_cli.system.signals import TERMINATION_SIGNALS

WORKER_BYTES = 200_000_000
"""Bytes of memory that must be free for each worker. Half of it is enough for most models."""
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Variables of the environment by which libraries choose their number of threads when they are loaded."""


class TaskLoop(Protocol):
    """The main function of a worker: it does the tasks that come into an inbox."""

    def __call__(self, inbox: Inbox) -> None:
        """Do the tasks of the inbox until it ends."""


Builder = Callable[[], TaskLoop]
"""Function that loads what the tasks need, such as a model, and returns the loop that does them. It is pickled, so it
must be a function of a module, or a `functools.partial` of one."""


class Message(NamedTuple):
    """A message between parent and worker; `number` says which task, or which question `get state`, it belongs to.

    To a worker: `task` (value: the task), `cancel`, `get state`, `end`. To the parent: `ready`, `begun`, `done` (value:
    the result), `failed` (value: the error), `state` (its value), `logged` (value: text for standard error).

    A zygote is sent `worker` and `renew` (value: the part to load again). In its `done`, `number` is the process ID of
    the new worker or, after loading, the largest number of workers (0 for no limit).
    """

    kind: str
    number: int = 0
    value: Any = None


def import_and_call(module: str, function: str, *arguments: Any) -> TaskLoop:
    """Import a module, call a function of it, and return the loop that it returns.

    A partial of `import_and_call` is a `Builder` for which the parent need not import the module.
    """
    loop: TaskLoop = getattr(import_module(module), function)(*arguments)
    return loop


# In the worker ------------------------------------------------------------------------------------------------------


@dataclass
class Inbox:
    """A worker's end of the connection to the parent: takes tasks and sends results.

    A thread reads the messages of the parent, so that the parent never has to wait when it sends one.
    """

    connection: Connection
    on_closed: Callable[[], None]
    """Called if the connection ends without a message `end`, because the parent has gone."""
    state: Callable[[], Any] = lambda: None
    """Returns the state of the worker for the parent; called in a separate thread, also while a task is being done."""
    is_buffered: bool = False
    """True if answers are kept until `flush`, so that several need one message. Then the loop looks for messages
    often, and ends by itself if the parent has gone."""
    has_ended: bool = False
    """True once no further task will come, because the parent has said so or has gone."""
    _buffered_messages: list[Message] = field(default_factory=list)
    _waiting: SimpleQueue[Message] = field(default_factory=SimpleQueue)
    _cancelled_numbers: set[int] = field(default_factory=set)
    _send_lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read, name="nmt-inbox", daemon=True)

    def open(self) -> Inbox:
        """Tell the parent that the worker is ready, start to read messages, and return this inbox."""
        self._send([Message("ready")])
        self._reader.start()
        return self

    def _read(self) -> None:
        try:
            while True:
                message = self.connection.recv()
                if message.kind == "cancel":
                    self._cancelled_numbers.add(message.number)
                elif message.kind == "get state":
                    # Not in this thread, which must not wait while the parent waits for it to read.
                    threading.Thread(target=self._tell_state, args=(message.number,), daemon=True).start()
                else:
                    self._waiting.put(message)
                if message.kind == "end":
                    return
        except BaseException:  # also where memory is short: nobody else would see the end of the connection
            self.on_closed()
            self._waiting.put(Message("end"))

    def _tell_state(self, number: int) -> None:
        with suppress(OSError):
            self._send([Message("state", number, self.state())])

    def next(self, *, block: bool = True) -> Message | None:
        """Wait for the next task, and return its message; None if no further task will come.

        If `block` is False, do not wait, and return None if no task has come yet.
        """
        while not self.has_ended:
            try:
                message = self._waiting.get(block)
            except Empty:
                return None
            if message.kind != "task":
                self.has_ended = True
            elif message.number in self._cancelled_numbers:
                self.send_error(message.number, None)
                self.flush()  # the next task may be long in coming
            else:
                self._answer(Message("begun", message.number))
                return message
        return None

    def is_cancelled(self, number: int) -> bool:
        """Return whether the parent has cancelled the task with this number."""
        return number in self._cancelled_numbers

    def send_result(self, number: int, result: Any) -> None:
        """Send the result of the task with this number to the parent."""
        self._cancelled_numbers.discard(number)
        self._answer(Message("done", number, result))

    def send_error(self, number: int, error: Exception | None) -> None:
        """Tell the parent that the task with this number has failed; `error` is None if the task was cancelled."""
        self._cancelled_numbers.discard(number)
        self._answer(Message("failed", number, error if error is None else picklable_error(error)))

    def log(self, text: str) -> None:
        """Have the parent write this to standard error."""
        self._answer(Message("logged", value=text))

    def close(self) -> None:
        """Send the messages that were kept back (see `is_buffered`), and close the connection.

        If it were closed while the thread reads it, the parent would not notice, and the thread might read from another
        file that gets the same descriptor next.
        """
        self.on_closed = lambda: None
        self.flush()
        with socket.socket(fileno=os.dup(self.connection.fileno())) as end, suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        if self._reader.is_alive():
            self._reader.join()
        with self._send_lock:
            self.connection.close()

    def flush(self) -> None:
        """Send the parent the messages that were kept back (see `is_buffered`)."""
        self._send([])

    def _answer(self, message: Message) -> None:
        if self.is_buffered:
            with self._send_lock:
                self._buffered_messages.append(message)
        else:
            self._send([message])

    def _send(self, messages: list[Message]) -> None:
        """Send messages to the parent, after the messages that were kept back for `flush`."""
        with self._send_lock, suppress(BrokenPipeError):  # the reading thread says that the parent is gone
            messages, self._buffered_messages = [*self._buffered_messages, *messages], []
            if messages:
                self.connection.send(messages)


class LazyTaskLoop:
    """Task loop whose model is loaded by each worker itself, because processes cannot share the memory of a GPU."""

    max_workers = 1

    def __init__(self, build: Builder) -> None:
        self._build = build

    def __call__(self, inbox: Inbox) -> None:
        """Do the tasks of the inbox until it ends; if the loop cannot be built, all of them fail."""
        try:
            loop = self._build()
        except Exception as error:
            while (message := inbox.next()) is not None:
                inbox.send_error(message.number, error)
        else:
            loop(inbox)

    def reloaded(self, _: Any) -> LazyTaskLoop:
        """Return this loop unchanged, because each worker that is started from now on loads the newest files itself."""
        return self


class SequentialTaskLoop:
    """Task loop that calls the function `do` with one task after the other, and sends its results to the parent."""

    def __init__(self, do: Callable[[Any], Any]) -> None:
        self._do = do

    def __call__(self, inbox: Inbox) -> None:
        """Do the tasks of the inbox until it ends."""
        while (message := inbox.next()) is not None:
            try:
                result = self._do(message.value)
            except Exception as error:
                inbox.send_error(message.number, error)
            else:
                inbox.send_result(message.number, result)


def picklable_error(error: Exception) -> Exception:
    """Return an error that can be sent to another process and that the parent can show.

    `NmtError`, `MemoryError` and `OSError` stay as they are; any other error becomes an `NmtError` with its traceback.
    """
    if isinstance(error, NmtError | MemoryError | OSError):
        return error
    trace = "".join(traceback.format_exception(error)).rstrip()
    return NmtError(f"a worker process has failed. This is a bug in nmt; please report it with these lines:\n{trace}")


class _ForwardedStderr:
    """Replacement for standard error that sends whole lines to the parent, which writes them."""

    encoding = "utf-8"

    def __init__(self, send: Callable[[str], None]) -> None:
        self._send, self._line = send, ""

    def write(self, text: str) -> int:
        *lines, self._line = (self._line + text).splitlines(keepends=True) or [""]
        if self._line.endswith("\n"):
            lines, self._line = [*lines, self._line], ""
        if lines:
            self._send("".join(lines))
        return len(text)

    def flush(self) -> None:
        """Do nothing: only the beginning of a line is held back."""

    def isatty(self) -> bool:
        """Return False, because only the parent shows progress."""
        return False


# In the zygote ------------------------------------------------------------------------------------------------------


def _zygote(control: Connection) -> None:
    """Call the builder that comes over `control`, then fork a worker for each connection that comes over it.

    Return when the parent has gone, or when loading has failed.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the workers: the system forgets them
    threads, build = control.recv()
    sys.stderr = _ForwardedStderr(lambda text: control.send(Message("logged", value=text)))
    try:
        loop = build()
    except Exception as error:
        control.send(Message("failed", value=picklable_error(error)))
        return
    control.send(Message("done", getattr(loop, "max_workers", 0)))
    while True:
        try:
            message = control.recv()
            if message.kind == "renew":
                loop = _reload(control, loop, message.value)
                continue
            handle = recv_handle(control)
        except (EOFError, OSError):
            return
        try:
            pid = os.fork()
        except OSError as error:
            os.close(handle)
            reason = (error.strerror or str(error)).lower()
            failure = NmtError(f"no worker process can be started: {reason}; try fewer --workers")
            control.send(Message("failed", value=failure))
            continue
        if pid == 0:
            control.close()
            _work_and_exit(Connection(handle), loop, threads)
        os.close(handle)
        control.send(Message("done", pid))


def _reload(control: Connection, loop: Any, part: Any) -> TaskLoop:
    """Return the loop with the part `part` (such as a model) loaded again, or the old loop if that fails.

    Tell the parent over `control` whether it has failed.
    """
    try:
        loop = loop.reloaded(part)
    except Exception as error:
        control.send(Message("failed", value=picklable_error(error)))
    else:
        control.send(Message("done"))
    reloaded: TaskLoop = loop
    return reloaded


def _work_and_exit(connection: Connection, loop: TaskLoop, threads: int) -> None:
    """Do the tasks that come over a connection, then end this process without torch's cleanup, which takes a second."""
    code, inbox = 1, Inbox(connection, on_closed=lambda: os._exit(1))
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with suppress(OSError):  # where memory runs out, a worker is easier to replace than the zygote
            Path("/proc/self/oom_score_adj").write_text("500")
        if (torch := sys.modules.get("torch")) is not None:
            torch.set_num_threads(threads)
        inbox.open()
        sys.stderr = _ForwardedStderr(inbox.log)
        loop(inbox)
        code = 0
    except Exception:
        traceback.print_exc()
    finally:
        inbox.flush()
        os._exit(code)


# In the parent ------------------------------------------------------------------------------------------------------


@dataclass
class Worker:
    """The parent's handle of a worker: the connection to it, and the means to end it."""

    connection: Connection
    pid: int
    """Process ID; 0 for a worker that is a thread of this process or was started by Ray."""
    end: Callable[[], object] | None = None
    """Ends at once a worker that was started by Ray; None for other workers."""

    def kill(self) -> None:
        """End the worker at once, whatever it does, and close the connection."""
        self.kill_process()
        self.connection.close()

    def kill_process(self) -> None:
        """End the process of the worker at once, so that its side of the connection is closed."""
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        if self.end is not None:
            self.end()


class Launcher(Protocol):
    """Starts workers: processes, or threads, that do tasks."""

    max_workers: int
    """Number of workers that can be started; 0 for any number. It is known once there is a worker."""

    def start(self) -> Worker:
        """Start a worker, and return the handle of it."""

    def give_up(self) -> None:
        """Have a `start` that waits in another thread fail soon, if that is possible; the launcher is closed next."""

    def close(self) -> None:
        """End the launcher; its workers end when their connections are closed."""


class ReloadableLauncher(Launcher, Protocol):
    """Starts workers, and can load again what they need, such as a newer checkpoint of a model."""

    def reload(self, part: Any) -> None:
        """Load again what `part` names, such as the index of a model; workers started from now on use the new one.

        Raises:
            NmtError: it cannot be loaded, so the old part stays in use.
        """


class ThreadLauncher:
    """Starts workers that are threads of this process, which has loaded the libraries already."""

    def __init__(self, build: Builder, *, threads: int | None = None, max_workers: int = 0) -> None:
        self._loop: TaskLoop | None = None
        self._build, self._threads, self.max_workers = build, threads, max_workers
        self._workers: list[threading.Thread] = []

    def start(self) -> Worker:
        """Return a new worker; the first call first loads what the tasks need."""
        self._loop = self._loop or self._build()
        if self._threads and (torch := sys.modules.get("torch")) is not None:
            torch.set_num_threads(self._threads)
        ours, theirs = Pipe()
        inbox = Inbox(theirs, on_closed=lambda: None if inbox.is_buffered else _interrupt(thread))
        thread = threading.Thread(target=self._run, args=(self._loop, inbox), name="nmt-worker", daemon=True)
        self._workers = [*filter(threading.Thread.is_alive, self._workers), thread]
        thread.start()
        return Worker(ours, 0)

    def reload(self, part: Any) -> None:
        """Load again what `part` names, such as the index of a model; workers started from now on use the new one."""
        loop: Any = self._loop or self._build()
        self._loop = loop.reloaded(part)

    def give_up(self) -> None:
        """Do nothing, because a thread that loads cannot be ended."""

    @staticmethod
    def _run(loop: TaskLoop, inbox: Inbox) -> None:
        try:
            loop(inbox.open())
        except SystemExit:  # as it ends a process
            pass
        finally:
            inbox.close()

    def close(self) -> None:
        """Forget what was loaded, and wait for the workers: torch aborts a process that ends while a thread uses it."""
        self._loop = None
        for thread in self._workers:
            thread.join()


def _interrupt(thread: threading.Thread) -> None:
    """Raise `SystemExit` in a thread as soon as it runs Python code again; no step of a search delays that for long."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))


class _ZygoteProcess:
    """A zygote (a process that loads a model once and forks the workers), and the connection to it."""

    def __init__(self, library: str = "") -> None:
        """Start the process, which first imports the module `library`, unless it is empty."""
        self.control, theirs = Pipe()
        call = f"from nmt_cli.system.workers import main; main({theirs.fileno()}, {library!r})"
        environment = {**os.environ, **dict.fromkeys(VARIABLES, "1"), "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {call}"],
            pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment,
        )  # fmt: skip
        theirs.close()

    def end(self) -> None:
        """End the process, and wait until it has ended."""
        self.control.close()
        self.process.kill()
        self.process.wait()


_started_ahead: list[_ZygoteProcess] = []
"""The process that `start_ahead` has started and no `ZygoteLauncher` has taken yet, if there is one."""


def start_ahead(library: str) -> None:
    """Start the process of the next `ZygoteLauncher` early; it imports `library` while the command is still starting.

    If this process has imported the library itself, workers will be threads, and nothing is started.
    """
    if library not in sys.modules and not _started_ahead:
        _started_ahead.append(_ZygoteProcess(library))
        atexit.register(end_ahead)


def end_ahead() -> None:
    """End the process that `start_ahead` has started, if no `ZygoteLauncher` has taken it."""
    while _started_ahead:
        _started_ahead.pop().end()


class ZygoteLauncher:
    """Starts worker processes that share the memory of what one process, the zygote, has loaded."""

    def __init__(self, build: Builder, *, threads: int = 1) -> None:
        """Start the zygote, and return at once; the first call of `start` waits until it has loaded.

        Each worker computes in `threads` threads.
        """
        self._build, self._threads = build, threads
        self._process: subprocess.Popen[bytes] | None = None
        self._control: Connection | None = None
        self._is_ready = self._is_closed = False
        self._control_lock = threading.Lock()
        """Lock held from each request to the zygote until its answer, because several pools may share the zygote."""
        self.max_workers = 0
        self._begin()

    def _begin(self) -> None:
        started = _started_ahead.pop() if _started_ahead else _ZygoteProcess()
        self._process, self._control, self._is_ready = started.process, started.control, False
        with suppress(BrokenPipeError, ConnectionResetError):  # it was killed, which `start` finds out
            self._control.send((self._threads, self._build))

    def start(self) -> Worker:
        """Return a new worker.

        Raises:
            NmtError: what the tasks need cannot be loaded, or no process can be started.
        """
        with self._control_lock:
            try:
                return self._start()
            except (EOFError, OSError):  # it was killed
                self._begin_again()
            try:
                return self._start()
            except (EOFError, OSError) as error:
                raise NmtError(
                    "the process that loads the model crashes, probably because memory is short; try --workers 1"
                ) from error

    def reload(self, part: Any) -> None:
        """Load again what `part` names, such as the index of a model; workers started from now on use the new one.

        Raises:
            NmtError: it cannot be loaded, so the old part stays in use, or the zygote has crashed.
        """
        with self._control_lock:
            try:
                self._wait()
                assert self._control is not None
                self._control.send(Message("renew", value=part))
                self._receive()
            except (EOFError, OSError) as error:
                self._begin_again()
                raise NmtError("the process that loads the model crashed, probably because memory is short") from error

    def _begin_again(self) -> None:
        """Start another zygote after one has crashed; it loads the files that are on the disk now.

        Raises:
            NmtError: the launcher is closed.
        """
        self._end()
        if self._is_closed:
            raise NmtError("the worker processes have ended")
        log("the process that loads the model crashed; it is started again")
        self._begin()

    def _wait(self) -> None:
        """Wait until the zygote has loaded what the tasks need; return at once if it has loaded before."""
        if not self._is_ready:
            self.max_workers = self._receive().number
            self._is_ready = True

    def _start(self) -> Worker:
        self._wait()
        assert self._control is not None
        assert self._process is not None
        ours, theirs = Pipe()
        try:
            self._control.send(Message("worker"))
            send_handle(self._control, theirs.fileno(), self._process.pid)
            return Worker(ours, self._receive().number)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()

    def _receive(self) -> Message:
        """Return the zygote's next answer; lines for standard error that it sends before are written there.

        Raises:
            EOFError, OSError: the zygote has ended.
            NmtError, MemoryError: the zygote answers that something has failed. An OSError there comes as an NmtError.
        """
        assert self._control is not None
        while True:
            message: Message = self._control.recv()
            if message.kind == "failed":
                error: Exception = message.value
                if isinstance(error, OSError):  # which would look as if the zygote had been killed
                    told = f"{error.filename or 'the model'}: cannot be read: {error.strerror or error}"
                    raise NmtError(told) from error
                raise error
            if message.kind == "done":
                return message
            relay(message.value)

    def give_up(self) -> None:
        """Kill the zygote, so that a call of `start` or `reload` that waits in another thread fails."""
        self._is_closed = True
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """End the zygote for good; the workers end where their connections are closed."""
        self._is_closed = True
        self._end()

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def num_workers(threads: int) -> int:
    """Return the number of workers, with `threads` threads each, for which this machine has processors and memory;
    at least one."""
    free = free_memory()
    by_memory = free // WORKER_BYTES if free is not None else num_available()
    return max(1, min(num_available() // threads, by_memory))


def launcher_of(build: Builder, *, threads: int | None = None) -> ReloadableLauncher:
    """Return a launcher of workers on this machine: of processes, or of a single thread if torch is loaded already.

    `threads` is the number of threads in which each worker computes; if it is None, a process has one.
    """
    if "torch" in sys.modules:
        return ThreadLauncher(build, threads=threads, max_workers=1)
    return ZygoteLauncher(build, threads=threads or 1)


def main(descriptor: int, library: str) -> None:
    """Run as a zygote on the connection with this file descriptor, and exit without a teardown.

    `library` is a module to import first, or empty.
    """
    for number in TERMINATION_SIGNALS:  # they reach the whole group; the parent decides
        signal.signal(number, signal.SIG_IGN)
    try:
        if library:
            with suppress(ImportError):  # what needs it says so better
                import_module(library)
        _zygote(Connection(descriptor))
    except (EOFError, BrokenPipeError):
        pass
    finally:
        os._exit(0)
