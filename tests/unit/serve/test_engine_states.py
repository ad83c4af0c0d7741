"""Random sequences of begin, refuse, cancel, fail and close against the engine, compared with a model of it.

The test speaks to the interface alone: `begin` gives a request or refuses, a request is answered once and can be
cancelled, `counted` tells the sentences that wait, and `close` leaves nothing unanswered. The search is a stand-in that
can be held, so that the model knows exactly what waits.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from nmt_cli.config.decoding import DecodingOptions
from nmt_cli.serve import backend as search_module
from nmt_cli.serve.backend import TranslationBackend
from nmt_cli.serve.engine_interface import Busy, RequestTooLarge
from nmt_cli.system.errors import NmtError
from nmt_cli.system.workers import ThreadLauncher
from nmt_cli.translation.pool import TaskCancelled
from nmt_cli.translation.results import Counts, Part, TranslatedLine, Translation
from nmt_cli.translation.sentence_tasks import RequestOptions
from nmt_cli.translation.shared_search import SharedSearch

MAX_WAITING = 12
SECONDS = 60


class Gate:
    """Holds the search before its next sentence."""

    def __init__(self):
        self._open, self.has_stopped_one = threading.Event(), threading.Event()
        self._open.set()
        self.fails_next = False
        self.between_steps = lambda: None

    def close(self):
        self.has_stopped_one.clear()
        self._open.clear()

    def open(self):
        self._open.set()

    def let_through(self):
        if not self._open.is_set():
            self.has_stopped_one.set()
        assert self._open.wait(SECONDS)


@dataclass
class Backwards:
    """A translator that reverses words. A line that ends in `twice` is translated in two steps."""

    gate: Gate
    options: DecodingOptions = field(default_factory=DecodingOptions)
    counts: Counts = field(default_factory=Counts)
    models: object = field(default_factory=lambda: SimpleNamespace(has_attention=False))
    estimator: object = None
    max_weights: int = 0

    def translation_steps(self, lines, prefixes=None):
        texts = [line.decode() for line in lines]
        found = [""] * len(texts)
        for number in (0, 1):
            if number:
                self.gate.between_steps()
            wanted = [line for line, text in enumerate(texts) if number == 0 or text.endswith("twice")]
            translated = yield [Part(line, line, number, tuple(texts[line].encode()), ()) for line in wanted]
            for part, translations in translated:
                found[part.line] += translations[0].text
        return [TranslatedLine(text, (Translation(one, 0.0, 0.0),)) for text, one in zip(texts, found, strict=True)]

    def at_once(self, width):
        if self.gate.fails_next:
            self.gate.fails_next = False
            raise RuntimeError("no search can begin")
        return 3

    def search_by_steps(self, parts, more=None, at_once=None):
        waiting = list(parts)
        while waiting:
            self.gate.let_through()
            yield None
            yield waiting.pop(0), []
            waiting += more(at_once - len(waiting)) if more else []

    def finish(self, part, hypotheses):
        return part, [Translation(bytes(part.ids).decode()[::-1], 0.0, 0.0)]


def translated(texts):
    return [text[::-1] * (1 + text.endswith("twice")) for text in texts]


class Asked:
    """A request as the client sees it, and what may come of it."""

    def __init__(self, engine, texts):
        self.texts, self.is_cancelled, self.may_fail = texts, False, False
        self._request = engine.begin(texts, RequestOptions())

    def cancel(self):
        self.is_cancelled = True
        self._request.cancel()

    @property
    def waits(self):
        try:
            self._request.result(0)
        except TimeoutError:
            return True
        except TaskCancelled:
            pass
        return False

    def check(self):
        """It is answered, with what it asked for or with an error that had a reason."""
        try:
            assert [one.translations[0].text for one in self._request.result(SECONDS)] == translated(self.texts)
        except TaskCancelled:
            assert self.is_cancelled or self.may_fail


TEXTS = st.lists(st.sampled_from(["a", "a cat", "a " * 40, "a dog twice"]), min_size=0, max_size=MAX_WAITING)


def opened(gate):
    """A search with one worker, which is a thread."""
    work = SharedSearch([Backwards(gate)], lambda _: None)
    launcher = ThreadLauncher(partial(lambda work: work, work), max_workers=1)
    return TranslationBackend(launcher, 1, workers=2, max_waiting=MAX_WAITING, on_failure=lambda: None)


class Requests(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.gate = Gate()
        self.search = opened(self.gate)
        (self.engine,) = self.search.engines
        self.asked: list[Asked] = []
        self.waiting: list[Asked] = []
        """Requests that wait while the search is held."""
        self.is_held = self.is_closed = False

    def begin(self, texts):
        asked = Asked(self.engine, texts)
        self.asked.append(asked)
        return asked

    @precondition(lambda self: not self.is_held and not self.is_closed)
    @rule()
    def hold(self):
        """Stop the worker amid a search of its only task: a request that was cancelled is searched to its next step."""
        # A worker may still be about to die at a task that was cancelled, and the next one would be probed first.
        self.begin(["a"]).check()
        until = time.monotonic() + SECONDS
        while any(self.search._pools[-1].status()[1:3]):
            assert time.monotonic() < until, "the worker still has tasks"
        self.gate.close()
        self.begin(["held"])
        assert self.gate.has_stopped_one.wait(SECONDS)
        self.is_held = True

    @precondition(lambda self: self.is_held)
    @rule(texts=TEXTS)
    def begin_while_held(self, texts):
        num_waiting = sum(len(one.texts) for one in self.waiting)
        if num_waiting + len(texts) > MAX_WAITING:
            with pytest.raises(Busy):
                self.begin(texts)
        else:
            asked = self.begin(texts)
            assert asked.waits == bool(texts)
            if texts:
                self.waiting.append(asked)

    @precondition(lambda self: not self.is_held and not self.is_closed)
    @rule(texts=TEXTS)
    def begin_while_free(self, texts):
        self.begin(texts).check()

    @rule(more=st.integers(1, 30))
    def begin_too_many(self, more):
        with pytest.raises(RequestTooLarge):
            self.begin(["a"] * (MAX_WAITING + more))

    @precondition(lambda self: self.is_closed)
    @rule(texts=TEXTS)
    def begin_when_closed(self, texts):
        if texts:
            with pytest.raises(NmtError):
                self.begin(texts)

    @rule(number=st.integers(1, 1000), times=st.integers(1, 2))
    def cancel(self, number, times):
        """Cancel any request: one that waits, that is searched, that was cancelled, or that is answered."""
        if not self.asked:
            return
        asked = self.asked[-(number % len(self.asked))]
        was_cancelled, waited = asked.is_cancelled, asked.waits
        for _ in range(times):
            asked.cancel()
        asked.is_cancelled = was_cancelled or waited
        asked.check()
        if asked in self.waiting:
            self.waiting.remove(asked)

    @precondition(lambda self: not self.is_held and not self.is_closed)
    @rule(requests=st.lists(st.tuples(TEXTS, st.booleans()), min_size=1, max_size=4), fails=st.booleans())
    def race(self, requests, fails):
        """Several clients at once, some of whom leave; perhaps the search fails too."""
        self.gate.fails_next = fails

        def ask(texts, leaves):
            try:
                asked = self.begin(texts)
            except Busy:
                return
            if leaves:
                asked.cancel()
            asked.check()

        with ThreadPoolExecutor(len(requests)) as pool:
            list(pool.map(ask, *zip(*requests, strict=True)))
        self.gate.fails_next = False
        until = time.monotonic() + SECONDS
        while self.search.worker_failures()[1]:
            assert time.monotonic() < until, "the search has not recovered"

    @precondition(lambda self: self.is_held)
    @rule()
    def let_go(self):
        self.gate.open()
        self._finish()

    @precondition(lambda self: not self.is_closed)
    @rule()
    def close(self):
        for asked in self.asked:
            asked.may_fail = asked.waits
        closing = threading.Thread(target=self.search.close)
        closing.start()
        self.gate.open()
        closing.join(SECONDS)
        assert not closing.is_alive()
        self.is_closed = True
        self._finish()

    def _finish(self):
        for asked in self.asked:
            asked.check()
        self.is_held = False
        self.waiting.clear()

    @invariant()
    def what_waits_is_known(self):
        until = time.monotonic() + SECONDS
        while (waiting := self.engine.counts().waiting) != sum(len(one.texts) for one in self.waiting):
            assert time.monotonic() < until, waiting  # a worker says a moment later what it has begun

    def teardown(self):
        if not self.is_closed:
            self.close()


@pytest.mark.parametrize("sequences", [60, pytest.param(2000, marks=pytest.mark.slow)])
def test_a_request_is_answered_once_whatever_happens_to_it_and_to_others(monkeypatch, capsys, sequences):
    monkeypatch.setattr(search_module, "RESTART_DELAYS", (0.0, 0.001, 0.001, 0.001))
    run_state_machine_as_test(
        Requests,
        settings=settings(
            max_examples=sequences, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_a_request_that_is_cancelled_between_two_steps_does_not_wait_again():
    gate = Gate()
    with closing(opened(gate)) as search:
        (engine,) = search.engines
        cancelled = threading.Event()

        def leave():
            asked[0].cancel()
            cancelled.set()

        gate.between_steps = leave
        asked = [Asked(engine, ["a dog twice"])]
        asked[0].check()
        assert cancelled.wait(SECONDS)
        gate.between_steps = lambda: None
        Asked(engine, ["a cat"]).check()
        assert engine.counts()[::4] == (1, 0)  # sentences of requests that were answered, and those that wait
