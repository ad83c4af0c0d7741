"""The translation behind the server: the sentences of all requests in one pool of workers.

A request is refused or accepted as a whole. The sentences of an accepted request are divided into tasks, and for each
task the pool returns a ticket, by which to wait for the result. Each ticket is settled once: with translations, with
an error, or as cancelled. This module runs in the process that speaks HTTP, and needs no torch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic, sleep
from typing import Any

from nmt_cli.serve.engine_interface import Busy, Cancellation, Counts, RequestTooLarge
from nmt_cli.system.console import log
from nmt_cli.system.errors import NmtError
from nmt_cli.system.workers import ReloadableLauncher
from nmt_cli.translation.pool import Pool, TaskCancelled, Ticket
from nmt_cli.translation.results import TranslatedLine
from nmt_cli.translation.sentence_tasks import (
    PREFETCH_COUNTS,
    PROBE,
    Capabilities,
    RequestOptions,
    SentenceResult,
    SentenceTask,
    tasks_of,
)

RESTART_DELAYS = (0.0, 1.0, 2.0, 4.0)
"""Seconds to wait before workers are started again after the first failure in a row, the second, and so on. After one
more failure the server ends."""
MAX_RETRY_SECONDS = 60
ANSWER_SECONDS = 5.0
"""Seconds within which each worker must report its state; no work delays that for long."""
STALLED_SECONDS = 30.0
"""Seconds without progress after which a search counts as stuck. Its longest steps take a second or two."""


class TranslationBackend:
    """The worker processes of the server, and an `Engine` for each direction (source and target language)."""

    def __init__(
        self,
        launcher: ReloadableLauncher,
        directions: int,
        *,
        workers: int,
        max_waiting: int,
        on_failure: Callable[[], None],
    ) -> None:
        """Start the first worker, and wait until it has loaded all models and translated a word in each direction.

        Args:
            launcher: starts the workers.
            directions: number of directions that the workers translate.
            workers: largest number of workers.
            max_waiting: number of sentences of each direction that may wait for a worker.
            on_failure: called if the workers keep dying.

        Raises:
            NmtError: a model cannot be loaded, or does not translate.
        """
        self.workers, self.max_waiting = workers, max_waiting
        self.has_failed = False
        """True if the workers keep dying, or if their search got stuck while the server was ending."""
        self._on_failure, self._is_closing = on_failure, False
        self._launcher = launcher
        self._pools: list[Pool] = []
        """Pools of workers: the last one takes new requests; the others have models that were replaced, and only
        finish the requests that they have."""
        self._past_deaths = 0
        """Number of workers that died in pools which have ended."""
        self._reload_lock, self._pools_lock = threading.Lock(), threading.Lock()
        try:
            pool, capabilities = self._open_pool(directions)
        except BaseException:  # a signal too: nobody would wait for the models
            self.close()
            raise
        self._pools.append(pool)
        self.engines = [Engine(self, direction, own) for direction, own in enumerate(capabilities)]

    def submit(self, tasks: Sequence[SentenceTask]) -> list[Ticket]:
        """Queue the tasks of a request for the newest models, and return a ticket for each, by which to wait for it."""
        with self._pools_lock:
            return [self._pools[-1].submit(task, priority=task.size) for task in tasks]

    def reload(self, model_index: Any) -> None:
        """Load the newest checkpoint of a model for all requests from now on; earlier ones end with the old model.

        `model_index` tells the launcher which model to load (`ReloadableLauncher.reload`).

        Raises:
            NmtError: the model cannot be loaded, or does not translate, so the old one stays in use.
        """
        with self._reload_lock:
            # Its workers that there are do the rest, because new ones would have the new weights.
            self._pools[-1].limit_workers(1)
            try:
                self._launcher.reload(model_index)
                pool, capabilities = self._open_pool(len(self.engines))
            except BaseException:
                self._pools[-1].limit_workers(self.workers)
                raise
            for engine, found in zip(self.engines, capabilities, strict=True):
                engine.capabilities = found
            with self._pools_lock:
                old = self._pools[-1]
                self._pools.append(pool)
        threading.Thread(target=self._end, args=(old,), name="nmt-old-models", daemon=True).start()

    def _end(self, pool: Pool) -> None:
        pool.end(drain=True)
        with self._pools_lock:
            self._past_deaths += pool.status().deaths
            self._pools.remove(pool)

    def _open_pool(self, directions: int) -> tuple[Pool, list[Capabilities]]:
        """Return a new pool and the capabilities of each direction, once its first worker has translated a word in each
        direction."""
        probe = SentenceTask(0, (PROBE,), places=(0,))
        pool = Pool(
            self._launcher, workers=self.workers, prefetch_counts=PREFETCH_COUNTS, probe=probe,
            restart_delays=RESTART_DELAYS, on_failure=lambda error: self._on_pool_failure(pool, error),
        )  # fmt: skip
        try:
            tickets = [pool.submit(SentenceTask(number, (PROBE,), places=(0,))) for number in range(directions)]
            return pool, [ticket.result().capabilities for ticket in tickets]
        except BaseException:
            pool.end()
            raise

    def _on_pool_failure(self, pool: Pool, error: NmtError) -> None:
        """Have the server end if the pool that has given up is the one that takes new requests."""
        if self._pools and pool is self._pools[-1] and not self._is_closing:
            self.has_failed = True
            self._on_failure()
            log(f"error: translation has stopped working, so the server ends; restart it: {error}")

    def worker_failures(self) -> tuple[int, int]:
        """Return how many workers have died in all, and how many since a worker last finished a task."""
        with self._pools_lock:
            status = [pool.status() for pool in self._pools]
            return self._past_deaths + sum(one.deaths for one in status), status[-1].failures_in_a_row

    def problem(self) -> str | None:
        """Return why the search does not work, in a few words, or None if it works. Blocks for some seconds at most."""
        try:
            stalled = max((told or 0.0 for told in self._pools[-1].states(ANSWER_SECONDS)), default=0.0)
        except (NmtError, TimeoutError) as error:
            return str(error)
        until = monotonic() + ANSWER_SECONDS
        while self.worker_failures()[1]:  # a new worker is asked for a translation
            if monotonic() > until:
                return "it has failed and has not translated anything since"
            sleep(0.05)
        return f"it has not gone on for {stalled:.0f} seconds" if stalled > STALLED_SECONDS else None

    def end_when_stuck(self) -> None:
        """From now on, end the workers if the search gets stuck, so that no request waits for ever."""
        threading.Thread(target=self._end_when_stuck, name="nmt-stuck", daemon=True).start()

    def _end_when_stuck(self) -> None:
        since = monotonic()
        while not self._is_closing and not self.has_failed:
            problem = self.problem()
            if problem is None:
                since = monotonic()
            elif monotonic() - since > STALLED_SECONDS:
                self.has_failed = True
                self._end_pools()
                log(f"error: translation has stopped working ({problem}), so the server ends; restart it")
                return
            sleep(1)

    def _end_pools(self) -> None:
        for pool in tuple(self._pools):
            pool.end()

    def close(self) -> None:
        """End all workers at once; tasks that are not done are cancelled."""
        self._is_closing = True
        self._launcher.give_up()
        self._end_pools()
        self._launcher.close()


class Engine:
    """Translates the sentences of many requests in one direction."""

    def __init__(self, backend: TranslationBackend, direction: int, capabilities: Capabilities) -> None:
        self.capabilities = capabilities
        """Features that the model supports: word alignment and confidence."""
        self._backend, self._direction = backend, direction
        self._lock = threading.Lock()
        self._sentences: dict[Ticket, int] = {}
        """Number of sentences of each ticket that is not settled (translated, failed or cancelled) yet."""
        self._counts = Counts()

    def translate(
        self, sentences: Sequence[str], options: RequestOptions, cancellation: Cancellation | None = None
    ) -> list[TranslatedLine]:
        """Return the translations of each sentence when all are done; see `AnyEngine.translate`."""
        request = self.begin(sentences, options)
        if cancellation is not None:
            cancellation.add(request.cancel)
        return request.result()

    def begin(self, sentences: Sequence[str], options: RequestOptions) -> TranslationFuture:
        """Queue sentences for translation, and return at once a future for their translations.

        Raises:
            RequestTooLarge: there are more sentences than may ever wait.
            Busy: too many sentences wait already; nothing of this request was accepted.
        """
        most = self._backend.max_waiting
        if len(sentences) > most:
            raise RequestTooLarge(f"{len(sentences):,} sentences are more than {most:,}; send them in parts")
        with self._lock:
            num_waiting = self._num_waiting()
            if num_waiting + len(sentences) > most:
                raise Busy(self._seconds_to_wait(num_waiting))
            tasks = tasks_of(self._direction, sentences, options, self._backend.workers)
            tickets = self._backend.submit(tasks)
            self._sentences |= {ticket: len(task.sentences) for ticket, task in zip(tickets, tasks, strict=True)}
        for ticket in tickets:
            ticket.on_settled(self._on_settled)
        return TranslationFuture([task.places for task in tasks], tickets)

    def counts(self) -> Counts:
        """Return the totals since the server started, and the number of sentences that wait now."""
        deaths, _ = self._backend.worker_failures()
        with self._lock:
            return self._counts._replace(failures=deaths, waiting=self._num_waiting())

    def _num_waiting(self) -> int:
        return sum(number for ticket, number in self._sentences.items() if not (ticket.has_begun or ticket.is_settled))

    def _on_settled(self, ticket: Ticket) -> None:
        with self._lock:
            self._sentences.pop(ticket, None)
            with suppress(Exception):  # what failed or was cancelled is not counted
                self._counts = self._counts.plus(ticket.result(0).search_statistics)

    def _seconds_to_wait(self, num_waiting: int) -> int:
        """Return the seconds after which to ask again: until about half of the waiting sentences will be translated."""
        if not self._counts.seconds:
            return 1
        speed = self._counts.sentences / self._counts.seconds * self._backend.workers
        return max(1, min(MAX_RETRY_SECONDS, round(num_waiting / speed / 2)))


class TranslationFuture:
    """The translations of a request's sentences, which may not be done yet."""

    def __init__(self, places: Sequence[Sequence[int]], tickets: Sequence[Ticket]) -> None:
        self._places, self._tickets = places, tickets

    def result(self, timeout: float | None = None) -> list[TranslatedLine]:
        """Wait for the translations of all sentences, and return them in the order of the sentences.

        Args:
            timeout: seconds to wait for each ticket; None to wait without a limit.

        Raises:
            TaskCancelled: the request was cancelled.
            NmtError: the translation has failed.
            TimeoutError: some sentences are not translated yet.
        """
        translated: dict[int, TranslatedLine] = {}
        try:
            for places, ticket in zip(self._places, self._tickets, strict=True):
                found: SentenceResult = ticket.result(timeout)
                translated.update(zip(places, found.translated, strict=True))
        except (NmtError, TaskCancelled):
            self.cancel()  # nobody waits for the rest
            raise
        return [translated[place] for place in range(len(translated))]

    def cancel(self) -> None:
        """Cancel the sentences that are not translated yet. Any thread may call this, any number of times."""
        for ticket in self._tickets:
            ticket.cancel()
