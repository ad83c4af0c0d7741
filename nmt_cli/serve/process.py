"""The engines in a process of their own.

Python runs one thread of a process at a time. So that the search does not stand still for HTTP and for the text of
requests, it has its own process, with an engine for each direction. The two processes talk through a pipe that nobody
else can reach.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from queue import SimpleQueue
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, NamedTuple

from nmt_cli.serve.asking import (
    PROBE,
    Abilities,
    Busy,
    Cancellation,
    Cancelled,
    EngineCounts,
    TooMuch,
    Wanted,
    place_of,
)
from nmt_cli.system.console import log
from nmt_cli.system.errors import ConfigError, InputError, ModelError, NmtError, PredictionError
from nmt_cli.system.signals import ENDING
from nmt_cli.translation.results import Translated

if TYPE_CHECKING:
    from nmt_cli.serve.engine import Engine
    from nmt_cli.translation.translator import Translator

Open = Callable[[], "Translator"]
"""Loads the newest checkpoint of a model. The other process calls it, so it is a function of a module, or a partial of
one."""
SHORT = 2_000
"""Characters of a request whose text the thread that reads requests makes into pieces itself."""
ERRORS = (NmtError, InputError, ConfigError, ModelError, PredictionError, Busy, TooMuch, Cancelled)
"""The kinds of error that cross the border."""
ANSWER_SECONDS = 5.0
"""Time within which the process of the search tells its counts: no work of others keeps it from that for long."""
STALLED_SECONDS = 30.0
"""Time without progress after which a search is taken to be stuck. Its longest steps take a second or two."""


class Call(NamedTuple):
    """A request to the engine of a direction."""

    number: int
    direction: int
    name: str
    arguments: tuple[Any, ...] = ()


class Reply(NamedTuple):
    """The result of a call, or its error."""

    number: int
    result: Any
    error: Exception | None


class SearchProcess:
    """The process that searches, as the server sees it."""

    def __init__(self, opens: Sequence[Open], *, max_waiting: int, lost: Callable[[], None]) -> None:
        """Start the process and wait until it has loaded all models; `lost` is called if it ends by itself.

        Raises:
            NmtError: a model cannot be loaded.
        """
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, tuple(opens), max_waiting), name="nmt-search")
        self._lost, self._is_closing = lost, False
        self.is_lost = False
        """True if the process has ended by itself."""
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._has_ended = False
        self._calls: dict[int, Future[Any]] = {}
        """Calls that have no reply yet."""
        self._unsent: SimpleQueue[Call | None] = SimpleQueue()
        """Calls that wait to be sent; None is the end."""
        try:
            with _blocked_signals():
                self._process.start()
            theirs.close()
            opened = self._opened()
        except BaseException:  # a signal too: nobody would wait for the models
            self.close()
            raise
        self.engines = [RemoteEngine(self, direction, found) for direction, found in enumerate(opened)]
        threading.Thread(target=self._send, name="nmt-calls", daemon=True).start()
        threading.Thread(target=self._listen, name="nmt-replies", daemon=True).start()

    @property
    def pid(self) -> int:
        """The number of the process."""
        assert self._process.pid is not None
        return self._process.pid

    def close(self) -> None:
        """End the process at once; what is still asked fails."""
        self._is_closing = True
        self._process.kill()
        self._process.join()

    def problem(self) -> str | None:
        """Return why the search does not work, in a few words, or None if it works. Blocks for some seconds at most."""
        if self.is_lost:
            return "its process has ended"
        try:
            counts = [engine.counted() for engine in self.engines]
        except NmtError as error:
            return str(error)
        if any(one.failures_in_a_row for one in counts):
            return "it has failed and has not found a translation since"
        stalled = max(one.stalled for one in counts)
        return f"it has not gone on for {stalled:.0f} seconds" if stalled > STALLED_SECONDS else None

    def end_when_stuck(self) -> None:
        """From now on, end the process if its search gets stuck, so that no request waits for ever."""
        threading.Thread(target=self._end_when_stuck, name="nmt-stuck", daemon=True).start()

    def _end_when_stuck(self) -> None:
        since = monotonic()
        while not self._is_closing and not self.is_lost:
            problem = self.problem()
            if problem is None:
                since = monotonic()
            elif monotonic() - since > STALLED_SECONDS:
                log(f"error: the search does not work ({problem}), so its process is ended")
                self._process.kill()
                return
            sleep(1)

    def call(self, direction: int, name: str, *arguments: Any) -> tuple[int, Future[Any]]:
        """Ask without waiting; return the number of the call and where its result will be."""
        number, future = next(self._numbers), Future[Any]()
        with self._lock:
            if self._has_ended:
                future.set_exception(_gone())
            else:
                self._calls[number] = future
                self._unsent.put(Call(number, direction, name, arguments))
        return number, future

    def _send(self) -> None:
        """Send calls until the end. A process that reads no more holds up this thread alone."""
        while (call := self._unsent.get()) is not None:
            try:
                self._connection.send(call)
            except OSError:  # the other end is closed, so `_listen` fails all calls
                return
            except Exception as error:  # nothing of it was sent, and others' calls go on
                log(f"error: a call cannot be sent: {place_of(error)}")
                self._settle(Reply(call.number, None, NmtError("the request cannot be given to the search")))

    def _opened(self) -> list[Abilities]:
        try:
            reply = self._connection.recv()
        except (EOFError, OSError):
            self._process.join(1)  # or it would seem to have been killed here
            raise NmtError(f"the process of the search ended with {self._process.exitcode}") from None
        if reply.error is not None:
            raise reply.error
        found: list[Abilities] = reply.result
        return found

    def _listen(self) -> None:
        try:
            while True:
                for reply in self._connection.recv():
                    self._settle(reply)
        except (EOFError, OSError):
            self._process.join(1)  # or it would seem to have been killed here
        except Exception as error:
            log(f"error: a reply cannot be read: {place_of(error)}")
        self._process.kill()
        self._process.join()
        self._end()

    def _settle(self, reply: Reply) -> None:
        """Give a call its result. There is one reply for each call; another one would find nobody."""
        future = self._calls.pop(reply.number, None)
        if future is None:
            log(f"error: a second reply to call {reply.number} was thrown away")
        elif reply.error is None:
            future.set_result(reply.result)
        else:
            future.set_exception(reply.error)

    def _end(self) -> None:
        """Fail all calls, and have the server end unless it does already."""
        with self._lock:
            self._has_ended = True
            calls, self._calls = self._calls, {}
        self._unsent.put(None)
        for future in calls.values():
            future.set_exception(_gone())
        if not self._is_closing:
            self.is_lost = True
            log(f"error: the process of the search ended with {self._process.exitcode}, so the server ends")
            self._lost()


def _gone() -> NmtError:
    return NmtError("the search has ended")


class RemoteEngine:
    """The engine of a direction in the process that searches."""

    def __init__(self, process: SearchProcess, direction: int, abilities: Abilities) -> None:
        self.abilities = abilities
        """Properties of the model."""
        self._process, self._direction = process, direction

    def translate(
        self, sentences: Sequence[str], wanted: Wanted, cancellation: Cancellation | None = None
    ) -> list[Translated]:
        """Return the translations of each sentence; see `AnyEngine`."""
        number, future = self._process.call(self._direction, "translate", list(sentences), wanted)
        if cancellation is not None:
            cancellation.add(lambda: self._cancel(number, future))
        found: list[Translated] = future.result()
        return found

    def _cancel(self, number: int, future: Future[Any]) -> None:
        if not future.done():
            self._process.call(self._direction, "cancel", number)

    def counted(self) -> EngineCounts:
        """Return the counts as they are now."""
        _, future = self._process.call(self._direction, "counted")
        try:
            found: EngineCounts = future.result(ANSWER_SECONDS)
        except TimeoutError:
            raise NmtError(f"it has not answered for {ANSWER_SECONDS:g} seconds") from None
        return found

    def reload(self) -> None:
        """Translate what comes from now on with the newest checkpoint.

        Raises:
            NmtError: it cannot be loaded, so the model of before goes on.
        """
        _, future = self._process.call(self._direction, "reload")
        self.abilities = future.result()


@contextmanager
def _blocked_signals() -> Iterator[None]:
    """Start a process that no signal for the whole group ends: it answers what is asked until the server has ended."""
    resource_tracker.ensure_running()  # Python starts it with the first process, and unblocks signals then
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# The other process ------------------------------------------------------------------------------------------------


def _work(connection: Connection, opens: Sequence[Open], max_waiting: int) -> None:
    """Load the models and answer calls until nobody is there to ask."""
    from nmt_cli.serve.engine import Engine

    try:
        engines = [Engine(load(), max_waiting=max_waiting) for load in opens]
    except Exception as error:
        connection.send(Reply(0, None, _sendable(error)))
        return
    connection.send(Reply(0, [engine.abilities for engine in engines], None))
    answering = _Answering(connection, engines, opens)
    while True:
        try:
            call = connection.recv()
        except (EOFError, OSError):
            break
        answering.take(call)
    answering.close()


class _Answering:
    """Answers the calls that come."""

    def __init__(self, connection: Connection, engines: Sequence[Engine], opens: Sequence[Open]) -> None:
        self._connection, self._engines, self._opens = connection, engines, opens
        self._sending = threading.Lock()
        self._replies: deque[Reply] = deque()
        """Replies that wait to be sent together: a step of a search may bring several."""
        self._cancellations: dict[int, Cancellation] = {}
        """Cancellations of the requests in work, by the numbers of their calls."""
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="nmt-text")
        self._reloads = ThreadPoolExecutor(1, thread_name_prefix="nmt-reload")
        for engine in engines:
            engine.after_turn, engine.gave_up = self.flush, _end_process

    def close(self) -> None:
        """End all engines."""
        for engine in self._engines:
            engine.close()

    def take(self, call: Call) -> None:
        """Answer a call, or begin to."""
        if call.name == "translate":
            sentences, wanted = call.arguments
            self._cancellations[call.number] = Cancellation()
            if (refusal := self._refusal(call.direction, len(sentences))) is not None:
                self._reply(call.number, None, refusal)
            elif sum(map(len, sentences)) <= SHORT and wanted.glossary is None and not wanted.prefix:
                self._translate(call.number, call.direction, sentences, wanted)
            else:
                self._threads.submit(self._translate, call.number, call.direction, sentences, wanted)
        elif call.name == "cancel":
            if (cancellation := self._cancellations.get(call.arguments[0])) is not None:
                cancellation.set()
            self._reply(call.number, None)
        elif call.name == "counted":
            self._reply(call.number, self._engines[call.direction].counted())
        else:
            self._reloads.submit(self._reload, call)
        self.flush()

    def _refusal(self, direction: int, num_sentences: int) -> NmtError | None:
        """Return why so many sentences are refused, before any work is done for them; None if there is room."""
        try:
            self._engines[direction].check_room(num_sentences)
        except (Busy, TooMuch) as error:
            return error
        return None

    def _translate(self, number: int, direction: int, sentences: Sequence[str], wanted: Wanted) -> None:
        cancellation, answer = self._cancellations[number], partial(self._reply, number)
        try:
            cancellation.check()
            cancellation.add(self._engines[direction].begin(sentences, wanted, answer).cancel)
        except Exception as error:
            answer(None, error)
        self.flush()

    def _reload(self, call: Call) -> None:
        engine = self._engines[call.direction]
        try:
            translator = self._opens[call.direction]()
            translator.translate_window([PROBE.encode()])
            engine.replace(translator)
        except Exception as error:
            self._reply(call.number, None, error)
        else:
            self._reply(call.number, engine.abilities)
        self.flush()

    def _reply(self, number: int, result: Any, error: Exception | None = None) -> None:
        self._cancellations.pop(number, None)
        self._replies.append(Reply(number, result, None if error is None else _sendable(error)))

    def flush(self) -> None:
        """Send all replies."""
        if not self._replies:
            return
        with self._sending, suppress(OSError):  # OSError: nobody is there any more
            self._connection.send([self._replies.popleft() for _ in range(len(self._replies))])


def _end_process() -> None:
    """End this process, whose search has given up, without waiting for its other threads."""
    sys.stderr.flush()
    os._exit(1)


def _sendable(error: Exception) -> Exception:
    """Return an error that the other process can read; of a kind that is not in `ERRORS`, its text alone."""
    if not isinstance(error, NmtError):
        log(f"error: {place_of(error)}")
    return error if type(error) in ERRORS else NmtError(str(error))
