"""The search behind the server: sentences of all clients are searched together, and nobody waits for another's book.

The thread of a request makes pieces of its sentences, and text of their translations. One thread owns the searches of a
direction. A search takes sentences of like length, from requests of like size in turn, and takes more of them while it
runs, so that it is full where many ask at once. Several searches take turns, and each has as much time as it has
requests. So what is short begins at once beside a book. In fp32 the translation of a sentence does not depend on the
others in its search (docs/adr/0028), so neither does an answer depend on who else is asking.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import monotonic

from nmt_cli.console import log
from nmt_cli.errors import InputError, ModelError, NmtError
from nmt_cli.serve.measurement import Measurement
from nmt_cli.serve.waiting import SMALL, Job, Kind, Waiting, Wanted
from nmt_cli.translation.glossary import Glossary, TermFinder
from nmt_cli.translation.results import Counts, Part, Translated
from nmt_cli.translation.splitting import PartTranslations
from nmt_cli.translation.translator import Translator

MAX_LIVE = 4
"""Searches that may take turns. The last place is kept for small requests."""
GATHER_STEPS = 6
"""Newcomers enter a search when they are half as many as the sentences in it. Fewer would cost slow steps of few rows.
So they wait for more, but at most this number of steps."""
MAX_SECONDS = 2.0
"""Time after which a search takes no more newcomers if others wait for its end."""
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


class Cancellation:
    """Tells the engine that nobody waits for an answer any more."""

    def __init__(self) -> None:
        self.is_set = False
        self._jobs: list[tuple[Engine, Job]] = []

    def add(self, engine: Engine, job: Job) -> None:
        self._jobs.append((engine, job))
        if self.is_set:
            engine.cancel(job)

    def set(self) -> None:
        """Take the sentences that still wait out of the queues."""
        self.is_set = True
        for engine, job in self._jobs:
            engine.cancel(job)


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


class Engine:
    """Translates the sentences of many requests at once with one translator."""

    def __init__(self, translator: Translator, *, max_waiting: int) -> None:
        self.counts = EngineCounts()
        self._translator = translator
        self._max_waiting = max_waiting
        self._waiting = Waiting()
        self._at_work: set[Job] = set()
        """Requests that are not answered yet."""
        self._unmeasured: list[Job] = []
        """Requests that are translated, and whose confidence is still to be measured."""
        self._live: list[_Search | Measurement] = []
        """Searches and measurements that take turns."""
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="nmt-engine", daemon=True)
        self._thread.start()

    @property
    def num_waiting(self) -> int:
        """Sentences that no search has taken yet."""
        return self._waiting.num_sentences

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
        translator = self._translator
        options = translator.options.model_copy(
            update={"n_best": min(wanted.n_best, translator.options.beam_size), "with_alignment": wanted.with_alignment}
        )
        doubts = translator.doubts if wanted.with_confidence else None
        own = replace(translator, options=options, doubts=doubts, terms=wanted.terms, counts=Counts())
        lines = [sentence.encode("utf-8", errors="replace") for sentence in sentences]

        def translate(parts: Sequence[Part]) -> list[PartTranslations]:
            return self._translated(Job.of(own, wanted, list(parts)), cancellation)

        return own.translate_by(translate, lines, [wanted.prefix] * len(lines) if wanted.prefix else None)

    def _translated(self, job: Job, cancellation: Cancellation | None) -> list[PartTranslations]:
        """Return the translations of a request when all are there."""
        if not job.missing:
            return []
        if job.missing > self._max_waiting:
            raise TooMuch(f"{job.missing:,} sentences are more than {self._max_waiting:,}; send them in parts")
        with self._changed:
            if self._closed:
                raise Busy(1)
            if self.num_waiting + job.missing > self._max_waiting:
                raise Busy(self._seconds_to_wait())
            self._at_work.add(job)
            self._waiting.add(job)
            self._changed.notify_all()
        if cancellation is not None:
            cancellation.add(self, job)
        job.done.wait()
        if job.error is not None:
            raise job.error
        return job.found

    def cancel(self, job: Job) -> None:
        """Take the sentences of a job that still wait out of the queue."""
        self.end(job, Cancelled("nobody waits for the answer"))

    def end(self, job: Job, error: Exception | None = None) -> None:
        """Let a request go, with its translations or an error, if it has not gone yet."""
        with self._changed:
            if job.done.is_set():
                return
            self._waiting.remove(job)
            self._at_work.discard(job)
            job.error = error
            job.done.set()

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
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._live or self._unmeasured or self.num_waiting)
                if self._closed:
                    break
                self._begin()
            turn = min(self._live, key=lambda one: one.seconds)
            num_requests = turn.num_requests
            began = monotonic()
            if turn.advance():
                self._live.remove(turn)
                if isinstance(turn, _Search):
                    with self._changed:
                        self._waiting.put_last(turn.kind)
            spent = monotonic() - began
            turn.seconds += spent / num_requests
            self.counts.seconds += spent
        self._fail_all(Busy(1))

    def _fail_all(self, error: Exception) -> None:
        """End all requests that are not answered."""
        for job in tuple(self._at_work):
            self.end(job, error)
        self._live.clear()
        self._unmeasured.clear()

    def _begin(self) -> None:
        """Begin what has a place."""
        # They have had the time of the others, who would else stand still until they have.
        seconds = min((one.seconds for one in self._live), default=0.0)
        if self._unmeasured and not any(isinstance(one, Measurement) for one in self._live):
            models = self._unmeasured[0].translator.models
            same = [job for job in self._unmeasured if job.translator.models is models]
            self._unmeasured = [job for job in self._unmeasured if job.translator.models is not models]
            self._live.append(Measurement(same, seconds, self.end))
        for kind in self._waiting:
            if self._may_begin(kind):
                self._live.append(_Search(self, kind, self._waiting.first(kind).translator, seconds))

    def _searches(self) -> list[_Search]:
        return [one for one in self._live if isinstance(one, _Search)]

    def _may_begin(self, kind: Kind) -> bool:
        """Return whether a kind of sentence has a place: large requests of one size have one place for all lengths."""
        searches = self._searches()
        same = [one for one in searches if one.kind.size == kind.size]
        if kind.size != SMALL:
            return len(searches) < MAX_LIVE - 1 and not same
        return len(searches) < MAX_LIVE and all(one.kind != kind for one in same)

    def _must_end(self, search: _Search) -> bool:
        """Return whether another request has waited long enough for the place of a search."""
        if monotonic() - search.began < MAX_SECONDS:
            return False
        live = [one.kind for one in self._searches()]
        sizes = {kind.size for kind in live}
        return any(
            kind not in live and (kind.size in (SMALL, search.kind.size) or kind.size not in sizes)
            for kind in self._waiting
            if self._waiting.has_another(kind, search.kind)
        )

    def newcomers(self, search: _Search, room: int) -> list[tuple[Job, Part]]:
        """Return sentences that are to enter a search now."""
        with self._changed:
            num_waiting = min(room, self._waiting.count(search.kind))
            is_worth_it = 2 * num_waiting >= len(search.members) or search.steps_alone >= GATHER_STEPS
            if not num_waiting or not is_worth_it or self._must_end(search):
                return []
            taken = self._waiting.take(search.kind, room)
            self.counts.sentences += len(taken)
            self.counts.batches += 1
            return taken

    def answer(self, job: Job, found: PartTranslations) -> None:
        """Give a request the translations of a sentence."""
        job.found.append(found)
        job.missing -= 1
        if job.missing or job.done.is_set():
            return
        if job.translator.doubts is None:
            self.end(job)
        else:
            self._unmeasured.append(job)


class _Search:
    """A search of sentences of one kind, as far as it has come."""

    def __init__(self, engine: Engine, kind: Kind, translator: Translator, seconds: float) -> None:
        self.kind, self.began = kind, monotonic()
        self.seconds = seconds
        """Time that its turns have taken, for each request in it."""
        self.members: dict[int, tuple[Job, Part]] = {}
        """The sentences in it, by the identity of their parts."""
        self.steps_alone = 0
        """Steps since newcomers have entered."""
        self._engine = engine
        at_once = translator.at_once(kind.usual_width)
        first = self._more(at_once)
        more = None if kind.wanted.has_constraints else self._more
        self._steps = translator.search_by_steps(first, more=more, at_once=at_once)

    @property
    def num_requests(self) -> int:
        """Requests that have sentences in it; 1 at its end."""
        return max(1, len({id(job) for job, _ in self.members.values()}))

    def _more(self, room: int) -> list[Part]:
        taken = self._engine.newcomers(self, room)
        self.steps_alone = 0 if taken else self.steps_alone + 1
        self.members.update((id(part), (job, part)) for job, part in taken)
        return [part for _, part in taken]

    def advance(self) -> bool:
        """Search a step further, and return True at the end. A search whose answers nobody waits for ends at once."""
        if self.members and all(job.done.is_set() for job, _ in self.members.values()):
            self._steps = iter(())  # so that its memory is free at once
            return True
        try:
            found = next(self._steps)
            if found is None:
                return False
            part, hypotheses = found
            job, _ = self.members[id(part)]
            self._engine.answer(job, job.translator.finish(part, hypotheses))
            del self.members[id(part)]
        except StopIteration:
            return True
        except Exception:
            self._search_each()
            return True
        return False

    def _search_each(self) -> None:
        """Search each sentence alone, so that the one that fails does not spoil the others' answers."""
        for job, part in self.members.values():
            if job.done.is_set():
                continue
            try:
                for _, hypotheses in job.translator.search([part]):
                    self._engine.answer(job, job.translator.finish(part, hypotheses))
            except Exception as error:
                self._engine.end(job, error)
