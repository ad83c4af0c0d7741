"""Requests, and their sentences that no search has taken yet. Whoever uses the queue holds the lock of its engine."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from nmt_cli.serve.asking import Wanted
from nmt_cli.translation.long_lines import PartTranslations
from nmt_cli.translation.results import Part
from nmt_cli.translation.rows import padded_width
from nmt_cli.translation.translator import Translator

SMALL = 1
"""Size of small requests, whose sentences of several lengths are searched together."""
MIN_WIDTH = 64
"""The most positions of a source in the search of the shortest sentences of small requests, which most share."""


class Kind(NamedTuple):
    """Properties that all sentences of a search share."""

    width: int
    """The most positions of a source. For small requests that is 64, 128, 256, and so on."""
    size: int
    """Size of the request: 1 below 8 sentences, 2 below 64, 3 below 512, and so on."""
    wanted: Wanted
    models: int
    """Identity of the models: those that a request began with are not replaced."""
    has_constraints: bool
    """True if the search may not generate what it likes, as where a sentence has a number to keep."""
    has_weights: bool
    """True if the search records its weights, as where a sentence has brackets that the model does not know."""

    @property
    def usual_width(self) -> int:
        """About the width that most sentences have of their own."""
        return self.width // 2 if self.size == SMALL else self.width


@dataclass(slots=True, eq=False)
class Job:
    """The sentences of a request; one that is too long for the model counts as several."""

    translator: Translator
    missing: int
    """Sentences that are not translated yet."""
    waiting: dict[Kind, deque[Part]] = field(default_factory=dict)
    found: list[PartTranslations] = field(default_factory=list)
    error: Exception | None = None
    has_ended: bool = False
    ended: Callable[[Job], None] = lambda _: None
    """Is called once, when all is translated or has failed. It is not called for a job that was withdrawn."""

    @classmethod
    def of(cls, translator: Translator, wanted: Wanted, parts: list[Part]) -> Job:
        """Return a request with all its sentences waiting."""
        job = cls(translator, len(parts))
        size = (len(parts).bit_length() + 2) // 3
        for part in parts:
            width = padded_width(part.ids)
            shared = _shared_width(width) if size == SMALL else width
            is_bound = wanted.has_constraints or part.constraints is not None
            kind = Kind(shared, size, wanted, id(translator.models), is_bound, part.needs_weights)
            job.waiting.setdefault(kind, deque()).append(part)
        return job


class Waiting:
    """The sentences that wait. Those of one kind come from the requests in turn."""

    def __init__(self) -> None:
        self._jobs: dict[Kind, deque[Job]] = {}
        """Requests with sentences of each kind, the kind that has waited longest first."""

    @property
    def num_sentences(self) -> int:
        """Sentences of all requests. The number is computed each time, so that it cannot go wrong."""
        return sum(map(self.count, self._jobs))

    def __iter__(self) -> Iterator[Kind]:
        """Iterate over the kinds that have sentences, the one that has waited longest first."""
        return iter(tuple(self._jobs))

    def add(self, job: Job) -> None:
        """Let the sentences of a request wait."""
        for kind in job.waiting:
            self._jobs.setdefault(kind, deque()).append(job)

    def remove(self, job: Job) -> None:
        """Forget the sentences of a request that still wait, if there are any."""
        for kind in job.waiting:
            left = deque(other for other in self._jobs.get(kind, ()) if other is not job)
            if left:
                self._jobs[kind] = left
            else:
                self._jobs.pop(kind, None)
        job.waiting.clear()

    def first(self, kind: Kind) -> Job:
        """Return the request that has the next turn."""
        return self._jobs[kind][0]

    def take(self, kind: Kind, most: int) -> list[tuple[Job, Part]]:
        """Take sentences of one kind, one from each request in turn."""
        jobs = self._jobs.get(kind, deque())
        taken: list[tuple[Job, Part]] = []
        while jobs and len(taken) < most:
            job = jobs.popleft()
            taken.append((job, job.waiting[kind].popleft()))
            if job.waiting[kind]:
                jobs.append(job)
            else:
                del job.waiting[kind]
        if kind in self._jobs and not jobs:
            del self._jobs[kind]
        return taken

    def count(self, kind: Kind) -> int:
        """Return how many sentences of one kind wait."""
        return sum(len(job.waiting[kind]) for job in self._jobs.get(kind, ()))

    def put_last(self, kind: Kind) -> None:
        """Let the other kinds go first."""
        if kind in self._jobs:
            self._jobs[kind] = self._jobs.pop(kind)

    def has_another(self, kind: Kind, than: Kind) -> bool:
        """Return whether a request waits with one kind of sentence and not with another."""
        return any(than not in job.waiting for job in self._jobs.get(kind, ()))


def _shared_width(width: int) -> int:
    """Return the first of 64, 128, 256, and so on that is not below a width."""
    shared = MIN_WIDTH
    while shared < width:
        shared *= 2
    return shared
