"""A worker that searches the sentences of many tasks together, so that no client waits for the book of another.

A search takes sentences of like length, from requests of like size, and takes more of them while it runs, so that it is
full where many ask at once. Several searches take turns, and each gets time in proportion to its tasks. So a short task
begins at once even while a book is translated. In fp32 the translation of a sentence does not depend on the others in
its search (docs/adr/0028), so neither does an answer depend on who else is asking.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

from nmt_cli.system.console import log
from nmt_cli.system.errors import InputError, NmtError, place_of
from nmt_cli.system.memory import is_device_failure
from nmt_cli.system.workers import Inbox, Message
from nmt_cli.translation.glossary import Glossary
from nmt_cli.translation.long_lines import PartTranslations
from nmt_cli.translation.results import Counts, Part, TranslatedLine
from nmt_cli.translation.rows import padded_width
from nmt_cli.translation.sentence_tasks import Capabilities, SearchStatistics, SentenceResult, SentenceTask
from nmt_cli.translation.terms import TermEncoder
from nmt_cli.translation.translator import PartGenerator, Translator

MIN_WIDTH = 64
"""Source positions, padding included, up to which all sentences of small requests share one search. Longer ones have
searches of up to 2, 4, 8 times as many positions, and so on."""
MAX_SEARCHES = 4
"""Most searches that take turns. The last place is kept for small requests."""
GATHER_STEPS = 6
"""Most steps for which new sentences wait until they are half as many as those in the search, as few rows are slow."""
MAX_SECONDS = 2.0
"""Seconds after which a search takes no more sentences if another task waits for its place."""
MAX_WEIGHTS = 1_000_000
"""Most word pairs (source words times target words) of a sentence whose answer has attention weights, 8 MB at most.

Beyond that it has only the links between words that were made from the weights."""
MAX_GLOSSARIES = 8
"""Most glossaries that are kept encoded in pieces for later tasks. All tasks of a request have the same glossary."""


class SearchKind(NamedTuple):
    """Properties that all sentences of a search share."""

    direction: int
    size: int
    """Class of the request (see `sentence_tasks.SIZES`); 0 for small ones, which share searches by `width`."""
    width: int
    """Source positions with padding. For small requests, a bound instead: 64, 128, 256, and so on."""
    n_best: int
    terms: TermEncoder | None
    has_constraints: bool
    """True if the search has constraints: a prefix, a glossary, or a number that must be kept."""


@dataclass(slots=True, eq=False)
class Job:
    """A task that the worker has begun, and its progress."""

    number: int
    task: SentenceTask
    translator: Translator
    steps: PartGenerator
    num_missing: int = 0
    """Sentences that are not translated yet; one that is too long for the model counts as several."""
    translations: list[PartTranslations] = field(default_factory=list)
    is_over: bool = False


@dataclass(slots=True, eq=False)
class Turn:
    """A search or a measurement of confidence that is under way. It advances by one step at a time."""

    kind: SearchKind | None
    """None for a measurement."""
    direction: int
    seconds: float
    """Seconds that its steps have taken, each divided by the tasks in it. The turn with the fewest seconds is next."""
    began: float
    steps: Generator[None] = field(init=False)
    members: dict[int, tuple[Job, Part]] = field(default_factory=dict)
    """The sentences in it, as the task and the part of each, by `id(part)`."""
    num_skipped_refills: int = 0
    """Number of times in a row that the search had room for new sentences and took none."""

    def jobs(self) -> set[Job]:
        """Return the tasks that have sentences in it."""
        return {job for job, _ in self.members.values()}


class SharedSearch:
    """The task loop of a worker that does `SentenceTask`s, many at once."""

    def __init__(self, translators: Sequence[Translator], reloaded: Callable[[Any], SharedSearch]) -> None:
        """Store a translator for each direction, and a function that returns this loop with a model loaded anew."""
        self._translators, self.reloaded = translators, reloaded

    def __call__(self, inbox: Inbox) -> None:
        """Do the tasks of the inbox until it ends; an unexpected error ends the worker, and another does its tasks."""
        try:
            SearchScheduler(self._translators, inbox).run()
        except Exception as error:
            log(f"error: the translation failed: {place_of(error)}")
            raise SystemExit(1) from None


class SearchScheduler:
    """Schedules the searches of a worker, which take turns."""

    def __init__(self, translators: Sequence[Translator], inbox: Inbox) -> None:
        self._translators, self._inbox = translators, inbox
        self._jobs: dict[int, Job] = {}
        """The tasks that are not done, by their numbers."""
        self._waiting: dict[SearchKind, deque[tuple[Job, Part]]] = {}
        """Sentences that no search has taken yet, the kind that has waited longest first."""
        self._unmeasured: list[Job] = []
        """Tasks whose sentences are all translated, but whose confidence is not measured yet."""
        self._active_turns: list[Turn] = []
        self._search_statistics = [SearchStatistics()] * len(translators)
        self._glossaries: deque[tuple[int, Glossary, Translator]] = deque(maxlen=MAX_GLOSSARIES)
        self._progress = monotonic()
        inbox.state, inbox.is_buffered = self._stalled_seconds, True

    def _stalled_seconds(self) -> float:
        """Return the seconds since the last progress of a task; 0 if there is nothing to do."""
        return monotonic() - self._progress if self._jobs else 0.0

    def run(self) -> None:
        """Do tasks until the inbox ends."""
        while self._receive_tasks():
            self._forget_cancelled()
            self._begin_turns()
            if self._active_turns:
                self._advance_turn(min(self._active_turns, key=lambda turn: turn.seconds))

    def _receive_tasks(self) -> bool:
        """Begin the tasks that have come; with nothing to do, wait for one. Return False if the inbox has ended."""
        if not self._jobs:
            self._close_all(self._active_turns)  # searches that have found all, but have not ended yet
            self._inbox.flush()
        came: list[Message] = []
        while (message := self._inbox.next(block=not self._jobs and not came)) is not None:
            came.append(message)
        self._inbox.flush()  # whoever replaces this worker must know what it was doing
        for message in came:
            self._progress = monotonic()
            self._begin_job(message.number, message.value)
        return not self._inbox.has_ended

    def _begin_job(self, number: int, task: SentenceTask) -> None:
        try:
            translator = self._translator(task)
            lines = [sentence.encode("utf-8", errors="surrogatepass") for sentence in task.sentences]
            prefix = task.options.prefix
            steps = translator.translation_steps(lines, [prefix] * len(lines) if prefix else None)
        except Exception as error:
            self._inbox.send_error(number, _client_error(error))
            return
        self._jobs[number] = job = Job(number, task, translator, steps)
        self._advance(job, partial(next, steps))

    def _translator(self, task: SentenceTask) -> Translator:
        """Return the translator of a task, with the options that the task asks for.

        Raises:
            InputError: the model cannot use the glossary, as it has no attention or cannot spell a translation.
        """
        request, translator = task.options, self._translators[task.direction]
        n_best = min(request.n_best, translator.options.beam_size)
        options = translator.options.model_copy(update={"n_best": n_best, "with_alignment": request.with_alignment})
        if request.glossary is not None:
            translator = self._with_glossary(task.direction, request.glossary)
        estimator = translator.estimator if request.with_confidence else None
        return replace(translator, options=options, estimator=estimator, counts=Counts(), max_weights=MAX_WEIGHTS)

    def _with_glossary(self, direction: int, glossary: Glossary) -> Translator:
        for known, own, translator in self._glossaries:
            if known == direction and own.entries == glossary.entries:
                return translator
        translator = self._translators[direction]
        if not translator.models.has_attention:
            raise InputError("this model has no attention, so glossary is not possible")
        terms = TermEncoder(translator.tokenizers, glossary)
        translator = replace(translator, normalizer=translator.normalizer.with_glossary(glossary), terms=terms)
        self._glossaries.append((direction, glossary, translator))
        return translator

    def _advance(self, job: Job, step: Callable[[], Sequence[Part]]) -> None:
        """Run the next step of a task: its sentences wait for a search; after the last step, the task ends."""
        try:
            parts = step()
            while not parts:
                parts = job.steps.send([])
        except StopIteration as end:
            self._end(job, end.value)
        except Exception as error:
            self._fail(job, error)
        else:
            job.num_missing, job.translations = len(parts), []
            for part in parts:
                self._waiting.setdefault(kind_of(job, part), deque()).append((job, part))

    def _end(self, job: Job, translated: list[TranslatedLine]) -> None:
        direction, translator = job.task.direction, self._translators[job.task.direction]
        capabilities = Capabilities(translator.models.has_attention, translator.estimator is not None)
        search_statistics, self._search_statistics[direction] = self._search_statistics[direction], SearchStatistics()
        if self._close(job):
            self._inbox.send_result(job.number, SentenceResult(translated, capabilities, search_statistics))

    def _fail(self, job: Job, error: Exception | None) -> None:
        """End a task with an error, or with None if it was cancelled."""
        if self._close(job):
            self._inbox.send_error(job.number, error and _client_error(error))

    def _close(self, job: Job) -> bool:
        """Forget a task; return False if it is over already."""
        was_over, job.is_over = job.is_over, True
        self._jobs.pop(job.number, None)
        return not was_over

    def _forget_cancelled(self) -> None:
        gone = [job for job in self._jobs.values() if self._inbox.is_cancelled(job.number)]
        for job in gone:
            self._fail(job, None)
        if gone:
            left = {kind: deque(one for one in own if not one[0].is_over) for kind, own in self._waiting.items()}
            self._waiting = {kind: own for kind, own in left.items() if own}
            self._unmeasured = [job for job in self._unmeasured if not job.is_over]
            # A search whose answers nobody waits for ends at once, so that its memory is free.
            self._close_all([turn for turn in self._active_turns if all(job.is_over for job in turn.jobs())])

    def _close_all(self, turns: Sequence[Turn]) -> None:
        """End the given turns now: they refer to themselves, so their memory would wait for the garbage collector."""
        for turn in tuple(turns):
            turn.steps.close()
            self._active_turns.remove(turn)

    # Turns ----------------------------------------------------------------------------------------------------------

    def _begin_turns(self) -> None:
        """Begin the measurements and searches that wait, as far as there are places for them."""
        # They have had the time of the others, who would else stand still until they have.
        seconds = min((turn.seconds for turn in self._active_turns), default=0.0)
        if self._unmeasured and all(turn.kind is not None for turn in self._active_turns):
            direction = self._unmeasured[0].task.direction
            same = [job for job in self._unmeasured if job.task.direction == direction]
            self._unmeasured = [job for job in self._unmeasured if job.task.direction != direction]
            turn = Turn(None, direction, seconds, monotonic())
            turn.members = {id(part): (job, part) for job in same for part, _ in job.translations}
            turn.steps = self._measurement_steps(same)
            self._active_turns.append(turn)
        for kind in tuple(self._waiting):
            if self._may_begin(kind):
                turn = Turn(kind, kind.direction, seconds, monotonic())
                translator = self._waiting[kind][0][0].translator
                # Most small ones have about half of their width.
                at_once = translator.at_once(kind.width if kind.size else kind.width // 2)
                first = self._take_new_parts(turn, kind, at_once)
                turn.steps = self._search_steps(turn, kind, translator, first, at_once)
                self._active_turns.append(turn)

    def _kinds(self) -> list[SearchKind]:
        return [turn.kind for turn in self._active_turns if turn.kind is not None]

    def _may_begin(self, kind: SearchKind) -> bool:
        """Return whether a search for a kind may begin; large requests of one size have one search at a time."""
        kinds = self._kinds()
        if kind.size:
            return len(kinds) < MAX_SEARCHES - 1 and all(other.size != kind.size for other in kinds)
        return len(kinds) < MAX_SEARCHES and kind not in kinds

    def _must_end(self, turn: Turn) -> bool:
        """Return whether a search must take no more sentences, because another task has waited for its place."""
        if monotonic() - turn.began < MAX_SECONDS:
            return False
        kinds, jobs = self._kinds(), turn.jobs()
        return any(kind not in kinds and own[0][0] not in jobs for kind, own in self._waiting.items())

    def _advance_turn(self, turn: Turn) -> None:
        """Advance a search or a measurement by one step."""
        began, num_tasks = monotonic(), max(1, len(turn.jobs()))
        for _ in turn.steps:
            break
        else:
            self._active_turns.remove(turn)
            if turn.kind in self._waiting:  # the other kinds go first
                self._waiting[turn.kind] = self._waiting.pop(turn.kind)
        self._progress = monotonic()
        turn.seconds += (self._progress - began) / num_tasks
        search_statistics = self._search_statistics[turn.direction]
        self._search_statistics[turn.direction] = search_statistics._replace(
            seconds=search_statistics.seconds + self._progress - began
        )

    def _take_new_parts(self, turn: Turn, kind: SearchKind, room: int) -> list[Part]:
        """Take and return the sentences that enter a search now, at most `room`; none if more should gather first."""
        waiting = self._waiting.get(kind, ())
        number = min(room, len(waiting))
        is_worth_it = 2 * number >= len(turn.members) or turn.num_skipped_refills >= GATHER_STEPS
        if not number or not is_worth_it or self._must_end(turn):
            turn.num_skipped_refills += 1
            return []
        taken = [self._waiting[kind].popleft() for _ in range(number)]
        if not self._waiting[kind]:
            del self._waiting[kind]
        turn.num_skipped_refills = 0
        turn.members.update((id(part), (job, part)) for job, part in taken)
        sentences, batches, seconds = self._search_statistics[kind.direction]
        self._search_statistics[kind.direction] = SearchStatistics(sentences + number, batches + 1, seconds)
        return [part for _, part in taken]

    def _search_steps(
        self, turn: Turn, kind: SearchKind, translator: Translator, first: Sequence[Part], at_once: int
    ) -> Generator[None]:
        """Search sentences of a kind, and yield after each step, so that others can take turns."""
        more = None if kind.has_constraints else partial(self._take_new_parts, turn, kind)
        try:
            for found in translator.search_by_steps(first, more=more, at_once=at_once):
                if found is not None:
                    self._finish_part(turn.members[id(found[0])][0], *found)
                    del turn.members[id(found[0])]
                yield
        except Exception:
            self._search_each(turn)

    def _search_each(self, turn: Turn) -> None:
        """Search each sentence alone, so that the one that fails does not spoil the others' answers."""
        for job, part in turn.members.values():
            try:
                for found in () if job.is_over else job.translator.search([part]):
                    self._finish_part(job, *found)
            except Exception as error:
                if is_device_failure(error):
                    raise  # another worker will do better
                self._fail(job, error)

    def _finish_part(self, job: Job, part: Part, hypotheses: Any) -> None:
        """Add the translations of a sentence to its task; with the last sentence, the task advances."""
        self._progress = monotonic()
        job.translations.append(job.translator.finish(part, hypotheses))
        job.num_missing -= 1
        if job.num_missing or job.is_over:
            return
        if job.translator.estimator is None:
            self._advance(job, partial(job.steps.send, job.translations))
        else:
            self._unmeasured.append(job)

    def _measurement_steps(self, jobs: Sequence[Job]) -> Generator[None]:
        """Measure the confidence of the models in the translations of some tasks, and yield after each batch."""
        try:
            yield from _measure(jobs)
        except Exception:  # one of them fails, perhaps, and does not spoil the others
            for job in jobs:
                try:
                    for _ in _measure([job]):
                        pass
                except Exception as error:
                    self._fail(job, error)
        for job in jobs:
            if not job.is_over:
                self._advance(job, partial(job.steps.send, job.translations))


def _measure(jobs: Sequence[Job]) -> Iterator[None]:
    translator = jobs[0].translator
    assert translator.estimator is not None
    translations = [of_part for job in jobs for of_part in job.translations]
    return translator.estimator.measure(translator.models, translations, translator.options.batch_tokens)


def kind_of(job: Job, part: Part) -> SearchKind:
    """Return the kind of search that a sentence of a task needs."""
    task, width = job.task, padded_width(part.ids)
    if not task.size:
        shared = MIN_WIDTH
        while shared < width:
            shared *= 2
        width = shared
    terms = None if task.options.glossary is None else job.translator.terms
    is_bound = bool(task.options.prefix) or terms is not None or part.constraints is not None
    return SearchKind(task.direction, task.size, width, job.translator.options.n_best, terms, is_bound)


def _client_error(error: Exception) -> NmtError:
    """Return the error for a client: an `NmtError` unchanged; any other is logged, and a general one returned."""
    if isinstance(error, NmtError):
        return error
    log(f"error: {place_of(error)}")
    return NmtError("the translation failed")
