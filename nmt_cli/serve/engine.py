"""The search behind the server: sentences of all clients are searched together, and nobody waits for another's book.

Whoever asks makes pieces of the sentences. One thread owns the searches of a direction, and makes text of what they
find. The text of large requests is made in a thread of its own, so that nobody waits for it. A search takes sentences
of like length, from requests of like size in turn, and takes more of them while it runs, so that it is full where many
ask at once. Several searches take turns, and each has as much time as it has requests. So what is short begins at once
beside a book. In fp32 the translation of a sentence does not depend on the others in its search (docs/adr/0028), so
neither does an answer depend on who else is asking.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import cast

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
from nmt_cli.serve.measurement import Measurement
from nmt_cli.serve.waiting import SMALL, Job, Kind, Waiting
from nmt_cli.system.console import log
from nmt_cli.system.errors import InputError, NmtError
from nmt_cli.translation.glossary import Glossary
from nmt_cli.translation.long_lines import PartTranslations
from nmt_cli.translation.results import Counts, Part, Translated
from nmt_cli.translation.terms import TermFinder
from nmt_cli.translation.translator import PartByPart, Translator

MAX_LIVE = 4
"""Searches that may take turns. The last place is kept for small requests."""
GATHER_STEPS = 6
"""Most steps for which newcomers wait until they are half as many as those in the search. Few rows cost much."""
MAX_SECONDS = 2.0
"""Time after which a search takes no more newcomers if others wait for its end."""
MAX_RETRY_SECONDS = 60
MAX_FAILURES = 5
"""Unexpected errors of the search in a row after which the engine gives up."""
FIRST_PAUSE = 1.0
"""Seconds between the first unexpected error and the next try. Each further pause is twice as long."""
MAX_WEIGHTS = 1_000_000
"""Word pairs of a sentence beyond which an answer has hard links only: its weights take 8 MB at most."""
AT_ONCE = 16
"""Sentences whose text the thread of the searches makes itself."""
Answer = Callable[[list[Translated], Exception | None], None]
"""Takes the translations of all sentences, or an error."""


def settle(future: Future[list[Translated]], result: list[Translated], error: Exception | None) -> None:
    """Give a future its result, or an error."""
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class Request:
    """The translation of some sentences for a client.

    It is answered exactly once: with its translations, with an error, or as cancelled.
    """

    def __init__(
        self, engine: Engine, translator: Translator, wanted: Wanted, steps: PartByPart, answer: Answer
    ) -> None:
        self._engine, self._translator, self._wanted = engine, translator, wanted
        self._steps, self._answer = steps, answer
        self._lock = threading.Lock()
        """Is taken before the lock of the engine where both are needed."""
        self._is_answered = False
        self._job: Job | None = None
        """The sentences that the engine has accepted last."""

    def begin(self) -> None:
        """Hand over the first sentences."""
        self._go_on(lambda: next(self._steps))

    def cancel(self) -> None:
        """Answer the request as cancelled, if it is not answered yet. Any thread may call this, any number of times."""
        self._settle([], Cancelled("nobody waits for the answer"))

    def _go_on(self, step: Callable[[], Sequence[Part]]) -> None:
        """Hand over the sentences of the next step, or answer after the last step."""
        try:
            parts = step()
            while not parts:
                parts = self._steps.send([])
            job = Job.of(self._translator, self._wanted, list(parts))
            job.ended = self._ended
            with self._lock:
                if not self._is_answered:
                    self._engine.take_on(job)
                    self._job = job
        except StopIteration as end:
            self._settle(cast(list[Translated], end.value), None)
        except Exception as error:
            self._settle([], error)

    def _ended(self, job: Job) -> None:
        if job.error is not None:
            self._settle([], job.error)
        else:
            self._go_on(lambda: self._steps.send(job.found))

    def _settle(self, result: list[Translated], error: Exception | None) -> None:
        with self._lock:
            if self._is_answered:
                return
            self._is_answered = True
            job, self._job = self._job, None
        if job is not None:
            self._engine.withdraw(job)
        self._answer(result, error)


class Engine:
    """Translates the sentences of many requests at once with one translator."""

    def __init__(self, translator: Translator, *, max_waiting: int) -> None:
        self.counts = EngineCounts()
        self.after_turn: Callable[[], None] = lambda: None
        """Is called by the engine's own threads after each turn, in which they may have answered requests."""
        self.gave_up: Callable[[], None] = lambda: None
        """Is called once if the search keeps failing. The engine refuses all requests from then on."""
        self._translator = translator
        self._max_waiting = max_waiting
        self._waiting = Waiting()
        self._at_work: set[Job] = set()
        """Jobs that have been accepted and have not ended."""
        self._unmeasured: list[Job] = []
        """Requests that are translated, and whose confidence is still to be measured."""
        self._live: list[_Search | Measurement] = []
        """Searches and measurements that take turns."""
        self._changed = threading.Condition()
        self._closed = False
        self._failures_in_a_row = 0
        self._progress = monotonic()
        """Time at which the search last began, went a step further, or found a translation."""
        self._texts = ThreadPoolExecutor(1, thread_name_prefix="nmt-text")
        self._thread = threading.Thread(target=self._run, name="nmt-engine", daemon=True)
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
    def abilities(self) -> Abilities:
        """Properties of the model."""
        return Abilities(self._translator.models.has_attention, self._translator.estimator is not None)

    def counted(self) -> EngineCounts:
        """Return the counts as they are now."""
        with self._changed:
            waiting, is_idle = self.num_waiting, not self._at_work
        stalled = 0.0 if is_idle else monotonic() - self._progress
        return replace(self.counts, waiting=waiting, failures_in_a_row=self._failures_in_a_row, stalled=stalled)

    def replace(self, translator: Translator) -> None:
        """Translate with another translator what comes from now on; requests end with the one that they began with."""
        self._translator = translator

    def close(self) -> None:
        """End the thread after its batch. What still waits fails."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
        self._texts.shutdown()

    def translate(
        self, sentences: Sequence[str], wanted: Wanted, cancellation: Cancellation | None = None
    ) -> list[Translated]:
        """Return the translations of each sentence; see `AnyEngine`."""
        future: Future[list[Translated]] = Future()
        request = self.begin(sentences, wanted, partial(settle, future))
        if cancellation is not None:
            cancellation.add(request.cancel)
        return future.result()

    def begin(self, sentences: Sequence[str], wanted: Wanted, answer: Answer) -> Request:
        """Begin the translation of some sentences. `answer` gets it or an error once, perhaps in another thread.

        Raises:
            TooMuch, Busy: there is no room, so no request exists.
            InputError: the model cannot do with the glossary, so no request exists.
        """
        with self._changed:
            self.check_room(len(sentences))
        translator = self._translator
        options = translator.options.model_copy(
            update={"n_best": min(wanted.n_best, translator.options.beam_size), "with_alignment": wanted.with_alignment}
        )
        if wanted.glossary is not None:
            translator = _with_glossary(translator, wanted.glossary)
            wanted = replace(wanted, glossary=None, terms=translator.terms)
        estimator = translator.estimator if wanted.with_confidence else None
        own = replace(translator, options=options, estimator=estimator, counts=Counts(), max_weights=MAX_WEIGHTS)
        lines = [sentence.encode("utf-8", errors="surrogatepass") for sentence in sentences]
        prefixes = [wanted.prefix] * len(lines) if wanted.prefix else None
        request = Request(self, own, wanted, own.by_parts(lines, prefixes), answer)
        request.begin()
        return request

    def check_room(self, num_sentences: int) -> None:
        """Raise `TooMuch` or `Busy` if so many sentences cannot wait now."""
        if num_sentences > self._max_waiting:
            raise TooMuch(f"{num_sentences:,} sentences are more than {self._max_waiting:,}; send them in parts")
        if self._closed:
            raise Busy(1)
        num_waiting = self.num_waiting
        if num_waiting + num_sentences > self._max_waiting:
            raise Busy(self._seconds_to_wait(num_waiting))

    def take_on(self, job: Job) -> None:
        """Let the sentences of a job wait for a search.

        Raises:
            TooMuch, Busy: there is no room, so the engine does not know the job.
        """
        with self._changed:
            self.check_room(job.missing)
            if not self._at_work:
                self._progress = monotonic()
            self._at_work.add(job)
            self._waiting.add(job)
            self._changed.notify_all()

    def withdraw(self, job: Job) -> bool:
        """Forget a job; return False if it has ended already."""
        with self._changed:
            if job.has_ended:
                return False
            self._waiting.remove(job)
            self._at_work.discard(job)
            job.has_ended = True
            return True

    def end(self, job: Job, error: Exception | None = None) -> None:
        """End a job with its translations or an error, if it has not ended yet."""
        if not self.withdraw(job):
            return
        job.error = error
        if len(job.found) > AT_ONCE:
            self._texts.submit(self._make_text, job)
        else:
            job.ended(job)

    def _make_text(self, job: Job) -> None:
        job.ended(job)
        self.after_turn()

    def _seconds_to_wait(self, num_waiting: int) -> int:
        """Return after how many seconds it is worth asking again."""
        if not self.counts.seconds:
            return 1
        speed = self.counts.sentences / self.counts.seconds
        return max(1, min(MAX_RETRY_SECONDS, round(num_waiting / speed / 2)))

    # The thread of the search ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._work()
        finally:
            if not self._closed:
                self._closed = True
                self._fail_all(NmtError("the search failed"))
                self.after_turn()
                self.gave_up()

    def _work(self) -> None:
        """Search until the engine is closed, or until too many unexpected errors have followed one another.

        After each such error the requests in work fail. After a pause a request of the engine's own shows whether the
        search works again.
        """
        while True:
            try:
                self._search()
                return
            except Exception as error:
                self.counts.failures += 1
                self._failures_in_a_row += 1
                log(f"the search failed, and so did the requests that it had: {place_of(error)}")
            self._fail_all(NmtError("the search failed"))
            self.after_turn()
            if self._failures_in_a_row == MAX_FAILURES:
                log(f"the search failed {MAX_FAILURES} times in a row, so it ends")
                return
            with self._changed:
                if self._changed.wait_for(lambda: self._closed, FIRST_PAUSE * 2 ** (self._failures_in_a_row - 1)):
                    continue
            with suppress(Busy):  # others' requests show it too
                self.begin([PROBE], Wanted(), lambda *_: None)

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
            self._progress = monotonic()
            spent = self._progress - began
            turn.seconds += spent / num_requests
            self.counts.seconds += spent
            self.after_turn()
        self._fail_all(Busy(1))
        self.after_turn()

    def _fail_all(self, error: Exception) -> None:
        """End all jobs with an error. The queue is made anew, because an unexpected error may have left it wrong."""
        with self._changed:
            jobs, self._waiting = tuple(self._at_work), Waiting()
            self._live.clear()
            self._unmeasured.clear()
        for job in jobs:
            self.end(job, error)

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
        self._progress, self._failures_in_a_row = monotonic(), 0
        job.found.append(found)
        job.missing -= 1
        if job.missing or job.has_ended:
            return
        if job.translator.estimator is None:
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
        more = None if kind.has_constraints else self._more
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
        if self.members and all(job.has_ended for job, _ in self.members.values()):
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
            if job.has_ended:
                continue
            try:
                for _, hypotheses in job.translator.search([part]):
                    self._engine.answer(job, job.translator.finish(part, hypotheses))
            except Exception as error:
                self._engine.end(job, error)


def _with_glossary(translator: Translator, glossary: Glossary) -> Translator:
    """Return a translator with the terms of a glossary.

    Raises:
        InputError: the model cannot spell a translation, or has no attention to place the terms.
    """
    if not translator.models.has_attention:
        raise InputError("this model has no attention, so glossary is not possible")
    terms = TermFinder(translator.tokenizers, glossary)
    return replace(translator, normalizer=translator.normalizer.with_glossary(glossary), terms=terms)
