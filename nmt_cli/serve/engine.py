"""The search behind the server: sentences of all clients share batches, and nobody waits for another's book.

A thread of its own owns the search of one direction. It takes sentences of one padded length at a time, from the
requests in turn, so that a batch is full where many ask at once. The search pauses with each sentence that is done.
Beside a batch that is mostly of one request, those of others begin at once and take turns with it, so nobody waits for
a book. In fp32 the translation of a sentence does not depend
on the others in its batch (docs/adr/0028), so neither does an answer depend on who else is asking.
"""

from __future__ import annotations

import threading
import traceback
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic

from nmt_cli.console import log
from nmt_cli.errors import InputError, ModelError, NmtError
from nmt_cli.translation.glossary import Glossary, TermFinder
from nmt_cli.translation.results import Translated
from nmt_cli.translation.step_model import padded_width
from nmt_cli.translation.translator import Translator

MAX_LIVE = 4
"""Batches that may take turns."""
MIN_OF_ONE = 8
"""Sentences of one request in a batch from which on others are not made to wait for it."""
MAX_RETRY_SECONDS = 60


def place_of(error: BaseException) -> str:
    """Return what an error is and where it was raised, without its message, which may hold text of a user."""
    frames = traceback.extract_tb(error.__traceback__)
    shown = str(error) if isinstance(error, ModelError) else type(error).__name__
    return f"{shown} at {frames[-1].filename}:{frames[-1].lineno}" if frames else shown


class Busy(NmtError):  # noqa: N818 (nothing is wrong)
    """More sentences wait than the server takes on."""

    def __init__(self, retry_after: int) -> None:
        super().__init__("the server is busy; try again in a moment")
        self.retry_after = retry_after


class TooMuch(NmtError):  # noqa: N818 (nothing is wrong)
    """A request has more sentences than may ever wait."""


class Cancelled(NmtError):  # noqa: N818 (nothing is wrong)
    """Nobody waits for the answer any more."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Request for each sentence: how many translations, and what else is needed of them."""

    n_best: int = 1
    with_alignment: bool = False
    prefix: str = ""
    """Beginning that each translation must have."""
    with_confidence: bool = False
    terms: TermFinder | None = None
    """Terms that each translation must say."""


class Cancellation:
    """Tells the engine that nobody waits for an answer any more."""

    def __init__(self) -> None:
        self.is_set = False
        self._jobs: list[tuple[Engine, _Job]] = []

    def add(self, engine: Engine, job: _Job) -> None:
        self._jobs.append((engine, job))
        if self.is_set:
            engine.cancel(job)

    def set(self) -> None:
        """Take the sentences that still wait out of the queues."""
        self.is_set = True
        for engine, job in self._jobs:
            engine.cancel(job)


_Bucket = tuple[int, Wanted, int]
"""Padded length, what is wanted, and which translator: what the sentences of a batch have in common."""


@dataclass(slots=True, eq=False)
class _Job:
    """The sentences of one request."""

    translator: Translator
    sentences: list[bytes]
    waiting: dict[_Bucket, deque[int]]
    results: list[Translated | None]
    missing: int
    error: Exception | None = None
    done: threading.Event = field(default_factory=threading.Event)

    def fail(self, error: Exception) -> int:
        """End with an error, and return how many sentences wait no more."""
        left = sum(map(len, self.waiting.values()))
        self.waiting.clear()
        self.error = error
        self.done.set()
        return left


@dataclass(slots=True)
class EngineCounts:
    """Counts of the work of an engine."""

    sentences: int = 0
    batches: int = 0
    seconds: float = 0.0
    """Time spent in the search."""
    failures: int = 0
    """Unexpected errors of the search, each of which has failed the requests in work."""


class Engine:
    """Translates the sentences of many requests at once with one translator."""

    def __init__(self, translator: Translator, *, max_waiting: int) -> None:
        self.counts = EngineCounts()
        self.num_waiting = 0
        """Sentences that no batch has taken yet."""
        self._translator = translator
        self._max_waiting = max_waiting
        self._jobs: deque[_Job] = deque()
        """Those with sentences that wait; the first has the next turn."""
        self._live: deque[_Batch] = deque()
        """Batches whose searches take turns; the first has the next turn."""
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="nmt-engine", daemon=True)
        self._thread.start()

    @property
    def translator(self) -> Translator:
        """The translator of requests that come now."""
        return self._translator

    @property
    def has_alignment(self) -> bool:
        """True if the model can say where it looked."""
        return self._translator.models.has_attention

    @property
    def has_confidence(self) -> bool:
        """True if the model has a calibration, so that it can tell how sure it is."""
        return self._translator.doubts is not None

    def finder(self, glossary: Glossary) -> TermFinder:
        """Return what finds the terms of a glossary.

        Raises:
            InputError: the model cannot spell a translation, or has no attention to place the terms.
        """
        if not self.has_alignment:
            raise InputError("this model has no attention, so glossary is not possible")
        return TermFinder(glossary, self._translator.tokenizers)

    def replace(self, translator: Translator) -> None:
        """Translate with another translator what comes from now on; requests end with the one that they began with."""
        self._translator = translator

    def close(self) -> None:
        """End the thread after its batch. What still waits fails."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def translate(
        self, sentences: Sequence[str], wanted: Wanted, cancellation: Cancellation | None = None
    ) -> list[Translated]:
        """Return the translations of each sentence, as soon as all are there. May be called from any thread.

        Raises:
            TooMuch: the request alone has more sentences than may wait.
            Busy: too many sentences wait already; nothing of this request was taken on.
            Cancelled: the caller has said that nobody waits.
            NmtError: the model failed.
        """
        job = self._job(sentences, wanted)
        if not job.missing:
            return []
        if job.missing > self._max_waiting:
            raise TooMuch(f"{job.missing:,} sentences are more than {self._max_waiting:,}; send them in parts")
        with self._changed:
            if self._closed:
                raise Busy(1)
            if self.num_waiting + job.missing > self._max_waiting:
                raise Busy(self._seconds_to_wait())
            self.num_waiting += job.missing
            self._jobs.append(job)
            self._changed.notify_all()
        if cancellation is not None:
            cancellation.add(self, job)
        job.done.wait()
        if job.error is not None:
            raise job.error
        return [result for result in job.results if result is not None]

    def cancel(self, job: _Job) -> None:
        """Take the sentences of a job that still wait out of the queue."""
        with self._changed:
            if not job.done.is_set():
                self.num_waiting -= job.fail(Cancelled("nobody waits for the answer"))

    def _job(self, sentences: Sequence[str], wanted: Wanted) -> _Job:
        translator = self._translator
        lines = [sentence.encode("utf-8", errors="replace") for sentence in sentences]
        waiting: dict[_Bucket, deque[int]] = {}
        for number, sentence in enumerate(sentences):
            width = padded_width(translator.tokenizers[0].encode(sentence))
            waiting.setdefault((width, wanted, id(translator)), deque()).append(number)
        return _Job(translator, lines, waiting, [None] * len(lines), len(lines))

    def _seconds_to_wait(self) -> int:
        """Return after how many seconds it is worth asking again."""
        if not self.counts.seconds:
            return 1
        speed = self.counts.sentences / self.counts.seconds
        return max(1, min(MAX_RETRY_SECONDS, round(self.num_waiting / speed / 2)))

    # The thread of the search ---------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Search until the end. An unexpected error fails the requests in work, and later ones are answered."""
        while True:
            try:
                self._search()
                return
            except Exception as error:
                log(f"the search failed, and goes on without the requests that it had: {place_of(error)}")
                self.counts.failures += 1
                self._fail_all(NmtError("the search failed"))

    def _search(self) -> None:
        live = self._live
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self.num_waiting or live)
                if self._closed:
                    break
                if (leader := self._leader(live)) is not None:
                    live.appendleft(self._batch_of(leader))
            began = monotonic()
            batch = live[0]
            is_done = batch.advance()
            if is_done and batch.error is not None:
                self._run_each(batch)
            live.popleft()
            if not is_done:
                live.append(batch)
            self.counts.seconds += monotonic() - began
        self._fail_all(Busy(1))

    def _fail_all(self, error: Exception) -> None:
        """End all requests that are not answered."""
        with self._changed:
            for job in (*self._jobs, *(job for batch in self._live for job, _ in batch.members)):
                if not job.done.is_set():
                    job.fail(error)
            self._jobs.clear()
            self._live.clear()
            self.num_waiting = 0

    def _leader(self, live: Collection[_Batch]) -> _Job | None:
        """Return the request that may begin a batch now: the next in turn, if nothing runs that it should wait for."""
        if not all(batch.is_of_one for batch in live):
            return None
        at_work = {id(batch.members[0][0]) for batch in live}
        for job in self._jobs:
            is_small = sum(map(len, job.waiting.values())) < MIN_OF_ONE
            # The last place is kept for small requests.
            if job.waiting and id(job) not in at_work and len(live) < MAX_LIVE - (not is_small):
                return job
        return None

    def _batch_of(self, first: _Job) -> _Batch:
        """Return sentences of one length, on which the first request decides, and which come from all in turn.

        No other request has more sentences in it than the first: it does not wait for those of a book.
        """
        self._jobs.remove(first)
        self._jobs.appendleft(first)
        bucket = max(first.waiting, key=lambda key: len(first.waiting[key]))
        options = first.translator.options
        room = max(1, options.batch_tokens // (bucket[0] * options.beam_size))
        quota = len(first.waiting[bucket])
        members: list[tuple[_Job, int]] = []
        takers = [job for job in self._jobs if bucket in job.waiting]
        while takers and len(members) < room and quota:
            for job in takers[: room - len(members)]:
                members.append((job, job.waiting[bucket].popleft()))
                if not job.waiting[bucket]:
                    del job.waiting[bucket]
            takers = [job for job in takers if bucket in job.waiting]
            quota -= 1
        self.num_waiting -= len(members)
        self._jobs.rotate(-1)
        self._jobs = deque(job for job in self._jobs if job.waiting)
        self.counts.batches += 1
        self.counts.sentences += len(members)
        return _Batch(members, bucket[1], first.translator)

    def _run_each(self, batch: _Batch) -> None:
        """Translate each sentence of a batch that has failed alone, so that one does not spoil the others' answers."""
        for job, number in batch.members:
            alone = _Batch([(job, number)], batch.wanted, batch.translator)
            while not alone.advance():
                pass
            if alone.error is not None:
                with self._changed:
                    self.num_waiting -= job.fail(alone.error)


class _Batch:
    """Sentences that are searched together, as far as their search has come."""

    def __init__(self, members: list[tuple[_Job, int]], wanted: Wanted, translator: Translator) -> None:
        self.members, self.wanted, self.translator = members, wanted, translator
        self.error: Exception | None = None
        own = sum(job is members[0][0] for job, _ in members)
        self.is_of_one = own >= MIN_OF_ONE and 2 * own > len(members)
        """True if most of it is one large request's. Then others need not wait for its end."""
        options = translator.options.model_copy(
            update={"n_best": min(wanted.n_best, translator.options.beam_size), "with_alignment": wanted.with_alignment}
        )
        lines = [job.sentences[number] for job, number in members]
        doubts = translator.doubts if wanted.with_confidence else None
        self._steps = replace(translator, options=options, doubts=doubts, terms=wanted.terms).in_steps(
            lines, prefixes=[wanted.prefix] * len(lines) if wanted.prefix else None
        )

    def advance(self) -> bool:
        """Search until the next sentence is done; return True at the end, with the answers given or `error` set."""
        try:
            next(self._steps)
        except StopIteration as end:
            for (job, number), translated in zip(self.members, end.value, strict=True):
                job.results[number] = translated
                job.missing -= 1
                if not job.missing:
                    job.done.set()
            return True
        except Exception as error:
            self.error = error
            return True
        return False
