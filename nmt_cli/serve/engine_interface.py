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
    """Stops the work for a request when nobody waits for its answer any more."""

    def __init__(self) -> None:
        self.is_set = False
        self._lock = threading.Lock()
        self._cancels: list[Callable[[], None]] = []

    def add(self, cancel: Callable[[], None]) -> None:
        """Register `cancel`, a function that `set` will call; if `set` has been called already, call it at once."""
        with self._lock:
            self._cancels.append(cancel)
            is_late = self.is_set
        if is_late:
            cancel()

    def check(self) -> None:
        """Raise `TaskCancelled` if nobody waits for the answer any more, that is, after `set` was called."""
        if self.is_set:
            raise TaskCancelled("nobody waits for the answer")

    def set(self) -> None:
        """Cancel the work, because nobody waits for the answer: call all functions that were registered by `add`."""
        with self._lock:
            self.is_set = True
            cancels = tuple(self._cancels)
        for cancel in cancels:
            cancel()


class Counts(NamedTuple):
    """Totals of an engine's work since the server started, and the number of sentences that wait now."""

    sentences: int = 0
    batches: int = 0
    """Groups of sentences that have entered a search together."""
    seconds: float = 0.0
    """Time that workers have spent in the search."""
    failures: int = 0
    """Worker processes that have died, whatever direction they were translating."""
    waiting: int = 0
    """Accepted sentences that no worker has begun yet."""

    def plus(self, search_statistics: SearchStatistics) -> Counts:
        """Return new totals, with the sentences, batches and seconds of `search_statistics` added."""
        sentences, batches = self.sentences + search_statistics.sentences, self.batches + search_statistics.batches
        return self._replace(sentences=sentences, batches=batches, seconds=self.seconds + search_statistics.seconds)


class AnyEngine(Protocol):
    """Translates sentences in one direction. Its methods may be called from any thread."""

    @property
    def capabilities(self) -> Capabilities:
        """Features that the model supports: word alignment and confidence."""
        ...

    def translate(
        self, sentences: Sequence[str], options: RequestOptions, cancellation: Cancellation | None = None
    ) -> list[TranslatedLine]:
        """Wait until all sentences are translated, and return the translations of each, in the given order.

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
        """Return the totals since the server started, and the number of sentences that wait now."""
        ...
