"""The interface of an engine, which translates sentences in one direction: errors, cancelling and counts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from nmt_cli.system.errors import NmtError
from nmt_cli.translation.pool import TaskCancelled
from nmt_cli.translation.results import TranslatedLine
from nmt_cli.translation.sentence_tasks import Capabilities, RequestOptions, SearchStatistics


class Busy(NmtError):  # noqa: N818 (nothing is wrong)
    """The server has too much to do for this request; it may be sent again after `retry_after` seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__("the server is busy; try again in a moment")
        self.retry_after = retry_after


class RequestTooLarge(NmtError):  # noqa: N818 (nothing is wrong)
    """A request has more sentences or parts than the server accepts in one request."""


class Cancellation:
    """Tells engines that nobody waits for an answer any more."""

    def __init__(self) -> None:
        self.is_set = False
        self._lock = threading.Lock()
        self._cancels: list[Callable[[], None]] = []

    def add(self, cancel: Callable[[], None]) -> None:
        """Have `cancel` called as soon as nobody waits any more; if that is so already, at once."""
        with self._lock:
            self._cancels.append(cancel)
            is_late = self.is_set
        if is_late:
            cancel()

    def check(self) -> None:
        """Raise `TaskCancelled` if nobody waits any more."""
        if self.is_set:
            raise TaskCancelled("nobody waits for the answer")

    def set(self) -> None:
        """Note that nobody waits any more, and call the functions that were added, which cancel the sentences that
        wait."""
        with self._lock:
            self.is_set = True
            cancels = tuple(self._cancels)
        for cancel in cancels:
            cancel()


class Counts(NamedTuple):
    """Counts of the work of an engine."""

    sentences: int = 0
    batches: int = 0
    """Groups of sentences that have entered a search together."""
    seconds: float = 0.0
    """Time that workers have spent in the search."""
    failures: int = 0
    """Workers that have died."""
    waiting: int = 0
    """Sentences that no worker has begun."""

    def plus(self, search_statistics: SearchStatistics) -> Counts:
        """Return the counts with the work that `search_statistics` describes added."""
        sentences, batches = self.sentences + search_statistics.sentences, self.batches + search_statistics.batches
        return self._replace(sentences=sentences, batches=batches, seconds=self.seconds + search_statistics.seconds)


class AnyEngine(Protocol):
    """Translates sentences in one direction. Its methods may be called from any thread."""

    @property
    def capabilities(self) -> Capabilities:
        """Properties of the model."""
        ...

    def translate(
        self, sentences: Sequence[str], wanted: RequestOptions, cancellation: Cancellation | None = None
    ) -> list[TranslatedLine]:
        """Return the translations of each sentence, as soon as all are there.

        Raises:
            RequestTooLarge: the request alone has more sentences than may wait.
            Busy: too many sentences wait already; nothing of this request was accepted.
            TaskCancelled: the caller has said that nobody waits.
            WorkersDied: workers have died while they translated a sentence.
            InputError: a glossary is given, but the model has no attention.
            NmtError: the model failed.
        """
        ...

    def counts(self) -> Counts:
        """Return the counts as they are now."""
        ...
