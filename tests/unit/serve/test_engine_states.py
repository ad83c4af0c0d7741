"""Random sequences of begin, refuse, cancel, fail and close against the engine, compared with a model of it.

The test speaks to the interface alone: `begin` gives a request or refuses, a request is answered once and can be
cancelled, `num_waiting` counts the sentences that wait, and `close` leaves nothing unanswered. The search is a stand-in
that can be held, so that the model knows exactly what waits.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from nmt_cli.config.decoding import DecodingOptions
from nmt_cli.serve import engine as engine_module
from nmt_cli.serve.asking import Busy, Cancelled, TooMuch, Wanted
from nmt_cli.serve.engine import Engine
from nmt_cli.translation.results import Counts, Part, Translated, Translation

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
    models: object = None
    estimator: object = None
    max_weights: int = 0

    def by_parts(self, lines, prefixes=None):
        texts = [line.decode() for line in lines]
        found = [""] * len(texts)
        for number in (0, 1):
            if number:
                self.gate.between_steps()
            wanted = [line for line, text in enumerate(texts) if number == 0 or text.endswith("twice")]
            translated = yield [Part(line, line, number, tuple(texts[line].encode()), ()) for line in wanted]
            for part, translations in translated:
                found[part.line] += translations[0].text
        return [Translated(text, (Translation(one, 0.0, 0.0),)) for text, one in zip(texts, found, strict=True)]

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
        self.texts, self.answers = texts, []
        self.is_cancelled, self.may_fail = False, False
        self._answered = threading.Event()
        self._request = engine.begin(texts, Wanted(), self._take)

    def _take(self, found, error):
        self.answers.append((found, error))
        self._answered.set()

    def cancel(self):
        self.is_cancelled = True
        self._request.cancel()

    def wait(self):
        assert self._answered.wait(SECONDS), "no answer"
        self.check()

    def check(self):
        """It is answered once, with what it asked for or with an error that had a reason."""
        [(found, error)] = self.answers
        if error is None:
            assert [one.translations[0].text for one in found] == translated(self.texts)
        elif isinstance(error, Cancelled):
            assert self.is_cancelled
        elif isinstance(error, Busy):  # in the second step, or at the end
            assert self.may_fail or any(text.endswith("twice") for text in self.texts)
        else:
            assert str(error) == "the search failed"
            assert self.may_fail


TEXTS = st.lists(st.sampled_from(["a", "a cat", "a " * 40, "a dog twice"]), min_size=0, max_size=MAX_WAITING)


class Requests(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.gate = Gate()
        self.engine = Engine(Backwards(self.gate), max_waiting=MAX_WAITING)
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
            if texts:
                assert not asked.answers
                self.waiting.append(asked)
            else:
                asked.check()

    @precondition(lambda self: not self.is_held and not self.is_closed)
    @rule(texts=TEXTS)
    def begin_while_free(self, texts):
        self.begin(texts).wait()

    @rule(more=st.integers(1, 30))
    def begin_too_many(self, more):
        with pytest.raises(TooMuch):
            self.begin(["a"] * (MAX_WAITING + more))

    @precondition(lambda self: self.is_closed)
    @rule(texts=TEXTS)
    def begin_when_closed(self, texts):
        with pytest.raises(Busy):
            self.begin(texts)

    @rule(number=st.integers(1, 1000), times=st.integers(1, 2))
    def cancel(self, number, times):
        """Cancel any request: one that waits, that is searched, that was cancelled, or that is answered."""
        if not self.asked:
            return
        asked = self.asked[-(number % len(self.asked))]
        before = list(asked.answers)
        for _ in range(times):
            asked.cancel()
        assert asked.answers[: len(before)] == before
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
            asked.may_fail = fails
            if leaves:
                asked.cancel()
            asked.wait()

        with ThreadPoolExecutor(len(requests)) as pool:
            list(pool.map(ask, *zip(*requests, strict=True)))
        self.gate.fails_next = False
        until = time.monotonic() + SECONDS
        while self.engine.counted().failures_in_a_row:
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
            asked.may_fail = asked.may_fail or not asked.answers
        closing = threading.Thread(target=self.engine.close)
        closing.start()
        self.gate.open()
        closing.join(SECONDS)
        assert not closing.is_alive()
        self.is_closed = True
        self._finish()

    def _finish(self):
        for asked in self.asked:
            asked.wait()
        self.is_held = False
        self.waiting.clear()

    @invariant()
    def what_waits_is_known(self):
        assert self.engine.counted().waiting == sum(len(one.texts) for one in self.waiting)

    def teardown(self):
        if not self.is_closed:
            self.close()


@pytest.mark.parametrize("sequences", [150, pytest.param(2000, marks=pytest.mark.slow)])
def test_a_request_is_answered_once_whatever_happens_to_it_and_to_others(monkeypatch, capsys, sequences):
    monkeypatch.setattr(engine_module, "FIRST_PAUSE", 0.001)
    run_state_machine_as_test(
        Requests,
        settings=settings(
            max_examples=sequences, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_a_request_that_is_cancelled_between_two_steps_does_not_wait_again():
    gate = Gate()
    engine = Engine(Backwards(gate), max_waiting=MAX_WAITING)
    asked = []

    def leave():
        gate.close()
        asked[0].cancel()

    gate.between_steps = leave
    asked.append(Asked(engine, ["a dog twice"]))
    asked[0].wait()
    assert [type(error) for _, error in asked[0].answers] == [Cancelled]
    engine.close()
    assert engine.counted().waiting == 0
    assert engine.counts.sentences == 1
