"""The interface of an engine, in this process or another: requests, counts and errors."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from nmt_cli.system.errors import ModelError, NmtError
from nmt_cli.translation.results import Translated

if TYPE_CHECKING:
    from nmt_cli.translation.glossary import Glossary
    from nmt_cli.translation.terms import TermFinder


PROBE = "a"
"""Text whose translation shows that a model or a search works."""


class Busy(NmtError):  # noqa: N818 (nothing is wrong)
    """More sentences wait than the server takes on."""

    def __init__(self, retry_after: int) -> None:
        super().__init__("the server is busy; try again in a moment")
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[type[Busy], tuple[int]]:
        return Busy, (self.retry_after,)


class TooMuch(NmtError):  # noqa: N818 (nothing is wrong)
    """A request has more sentences than may ever wait."""


class Cancelled(NmtError):  # noqa: N818 (nothing is wrong)
    """Nobody waits for the answer any more."""


class Cancellation:
    """Tells engines that nobody waits for an answer any more."""

    def __init__(self) -> None:
        self.is_set = False
        self._lock = threading.Lock()
        self._cancels: list[Callable[[], None]] = []

    def add(self, cancel: Callable[[], None]) -> None:
        """Call `cancel` as soon as nobody waits, which may be now."""
        with self._lock:
            self._cancels.append(cancel)
            is_late = self.is_set
        if is_late:
            cancel()

    def check(self) -> None:
        """Raise `Cancelled` if nobody waits any more."""
        if self.is_set:
            raise Cancelled("nobody waits for the answer")

    def set(self) -> None:
        """Take the sentences that still wait out of the queues."""
        with self._lock:
            self.is_set = True
            cancels = tuple(self._cancels)
        for cancel in cancels:
            cancel()


@dataclass(frozen=True, slots=True)
class Wanted:
    """Request for each sentence: how many translations, and what else is needed of them."""

    n_best: int = 1
    with_alignment: bool = False
    prefix: str = ""
    """Beginning that each translation must have."""
    with_confidence: bool = False
    glossary: Glossary | None = None
    """Terms that each translation must have."""
    terms: TermFinder | None = None
    """Finder of the terms of the glossary; the engine sets it."""

    @property
    def has_constraints(self) -> bool:
        """True if the search may not generate what it likes."""
        return bool(self.prefix) or self.terms is not None


@dataclass(slots=True)
class EngineCounts:
    """Counts of the work of an engine."""

    sentences: int = 0
    batches: int = 0
    """Groups of sentences that have entered a search together."""
    seconds: float = 0.0
    """Time spent in the search."""
    failures: int = 0
    """Unexpected errors of the search, each of which has failed the requests in work."""
    waiting: int = 0
    """Sentences that no search has taken yet."""
    failures_in_a_row: int = 0
    """Unexpected errors of the search since it last found a translation."""
    stalled: float = 0.0
    """Seconds since the search last went a step further; 0 if it has nothing to do."""


class Abilities(NamedTuple):
    """Properties of a model on which the fields of an answer depend."""

    alignment: bool
    """True if it has attention, so that words can be aligned."""
    confidence: bool
    """True if it has a calibration, so that it has confidence."""


class AnyEngine(Protocol):
    """An engine in this process or another. Its methods may be called from any thread."""

    @property
    def abilities(self) -> Abilities:
        """Properties of the model."""
        ...

    def translate(
        self, sentences: Sequence[str], wanted: Wanted, cancellation: Cancellation | None = None
    ) -> list[Translated]:
        """Return the translations of each sentence, as soon as all are there.

        Raises:
            TooMuch: the request alone has more sentences than may wait.
            Busy: too many sentences wait already; nothing of this request was taken on.
            Cancelled: the caller has said that nobody waits.
            InputError: the model cannot do with the glossary.
            NmtError: the model failed.
        """
        ...

    def counted(self) -> EngineCounts:
        """Return the counts as they are now.

        Raises:
            NmtError: the engine does not answer.
        """
        ...


def place_of(error: BaseException) -> str:
    """Return what an error is and where it was raised, without its message, which may hold text of a user."""
    frames = traceback.extract_tb(error.__traceback__)
    shown = str(error) if isinstance(error, ModelError) else type(error).__name__
    return f"{shown} at {frames[-1].filename}:{frames[-1].lineno}" if frames else shown
