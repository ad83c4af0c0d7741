"""The engine: batches that requests share, turns, cancelled requests, models that fail or are replaced."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from nmt_cli.commands.loading import open_translator
from nmt_cli.errors import NmtError, PredictionError
from nmt_cli.serve.engine import Busy, Cancellation, Cancelled, Engine, TooMuch, Wanted, _Batch
from nmt_cli.translation.glossary import Glossary

ONE = Wanted()


@pytest.fixture(scope="module")
def translator(model):
    return open_translator([model], threads=1)


@pytest.fixture
def engine(translator):
    opened = Engine(translator, max_waiting=1000)
    yield opened
    opened.close()


class Held:
    """A translator that waits to be let go, and remembers what it was given."""

    def __init__(self, engine, translator):
        self.windows, self.started, self.go_on = [], threading.Event(), threading.Event()
        original = type(translator).in_steps

        def in_steps(own, lines, *rest, **named):
            self.windows.append([line.decode() for line in lines])
            self.started.set()
            assert self.go_on.wait(30)
            return (yield from original(own, lines, *rest, **named))

        self.patched = in_steps


@pytest.fixture
def held(engine, translator, monkeypatch):
    holding = Held(engine, translator)
    monkeypatch.setattr(type(translator), "in_steps", holding.patched)
    yield holding
    holding.go_on.set()


def texts(found):
    return [one.translations[0].text for one in found]


def test_who_asks_alone_and_who_asks_among_others_get_the_same(engine, translator, corpus):
    lines = (corpus / "test.en").read_text().splitlines()
    alone = [found.translations[0] for found in translator.translate(lines)]
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda start: engine.translate(lines[start::10], ONE), range(10)))
    for start, answer in enumerate(answers):
        assert texts(answer) == [one.text for one in alone[start::10]]
    assert engine.counts.batches < len(lines)


def test_lines_in_capitals_are_adapted_where_the_translator_adapts(model):
    adapting = open_translator([model], threads=1, adapt_writing=True)
    opened = Engine(adapting, max_waiting=10)
    usual, shouted = (texts(opened.translate([line], ONE)) for line in ("Where is the car?", "WHERE IS THE CAR?"))
    opened.close()
    assert shouted == [usual[0].upper()]
    assert shouted[0].isupper()


def test_sentences_of_several_requests_share_a_batch(engine, held):
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(engine.translate, ["the car"], ONE)
        held.started.wait(10)
        others = [pool.submit(engine.translate, [word], ONE) for word in ("the cat", "the dog", "the sun")]
        while engine.num_waiting < 3:
            pass
        held.go_on.set()
        assert all(one.result(30) for one in (first, *others))
    assert sorted(held.windows[1]) == ["the cat", "the dog", "the sun"]


def test_a_short_request_does_not_wait_for_a_book(engine, held):
    with ThreadPoolExecutor(2) as pool:
        long = pool.submit(engine.translate, ["the cat sees the dog"] * 100, ONE)
        held.started.wait(10)
        short = pool.submit(engine.translate, ["the car"], ONE)
        while not engine.num_waiting:
            pass
        held.go_on.set()
        short.result(30)
        assert held.windows[1] == ["the car"]
        assert len(long.result(120)) == 100


def test_requests_of_equal_size_wait_for_the_batch_and_share_the_next(engine, held):
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(engine.translate, ["the car"] * 2, ONE)
        held.started.wait(10)
        others = [pool.submit(engine.translate, [word] * 9, ONE) for word in ("the cat", "the dog", "the sun")]
        while engine.num_waiting < 27:
            pass
        held.go_on.set()
        assert all(one.result(30) for one in (first, *others))
    assert [len(window) for window in held.windows] == [2, 27]


def test_a_request_that_nobody_waits_for_leaves_the_queue(engine, held):
    cancellation = Cancellation()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(engine.translate, ["the car"], ONE)
        held.started.wait(10)
        gone = pool.submit(engine.translate, ["the cat"] * 500, ONE, cancellation)
        while engine.num_waiting < 500:
            pass
        cancellation.set()
        with pytest.raises(Cancelled):
            gone.result(10)
        held.go_on.set()
        assert first.result(30)
    assert engine.num_waiting == 0
    assert not any("the cat" in window for window in held.windows)


def test_more_than_may_wait_is_told_to_come_back(engine, held):
    with ThreadPoolExecutor(3) as pool:
        pool.submit(engine.translate, ["the car"], ONE)
        held.started.wait(10)
        pool.submit(engine.translate, ["the cat"] * 600, ONE)
        while engine.num_waiting < 600:
            pass
        with pytest.raises(Busy) as busy:
            engine.translate(["the dog"] * 401, ONE)
        held.go_on.set()
    assert 1 <= busy.value.retry_after <= 60


def test_more_than_may_ever_wait_is_refused(engine):
    with pytest.raises(TooMuch, match="1,001 sentences are more than 1,000; send them in parts"):
        engine.translate(["the car"] * 1001, ONE)


def test_a_sentence_that_fails_does_not_spoil_the_answers_of_others(engine, translator, monkeypatch):
    original = type(translator).in_steps

    def in_steps(own, lines, *rest, **named):
        if b"bad car" in lines:
            raise PredictionError("no numbers")
        return (yield from original(own, lines, *rest, **named))

    monkeypatch.setattr(type(translator), "in_steps", in_steps)
    with ThreadPoolExecutor(8) as pool:
        good = [pool.submit(engine.translate, ["old car"], ONE) for _ in range(6)]
        bad = pool.submit(engine.translate, ["bad car"], ONE)
        with pytest.raises(PredictionError, match="no numbers"):
            bad.result(30)
        assert len({texts(one.result(30))[0] for one in good}) == 1


def test_a_request_ends_with_the_model_that_it_began_with(engine, held, model):
    other = open_translator([model], threads=1, beam_size=1)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(engine.translate, ["the car", "the cat sees the dog and the house is red"], ONE)
        held.started.wait(10)
        engine.replace(other)
        held.go_on.set()
        assert len(first.result(30)) == 2
    assert engine.translator is other
    assert texts(engine.translate(["the car"], ONE)) == texts(other.translate(["the car"]))


def test_alternatives_are_those_of_the_beam(engine, model):
    found = engine.translate(["the car is red"], Wanted(n_best=3))[0].translations
    expected = next(iter(open_translator([model], threads=1, n_best=3).translate(["the car is red"]))).translations
    assert [one.text for one in found] == [one.text for one in expected]


@pytest.mark.parametrize("place", ["_batch_of", "_leader", "_run_each"])
def test_after_an_unexpected_error_the_engine_goes_on(engine, monkeypatch, capsys, place):
    """What was in work fails; nobody waits for ever, and later requests are answered."""

    def broken(*args):
        monkeypatch.undo()
        raise RuntimeError("a secret text")

    if place == "_run_each":
        monkeypatch.setattr(_Batch, "advance", lambda self: setattr(self, "error", ValueError()) or True)
    monkeypatch.setattr(engine, place, broken)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(engine.translate, ["the car"] * count, ONE) for count in (1, 3)]
        failed = [one.exception(30) for one in waiting]
    assert any(isinstance(error, NmtError) and str(error) == "the search failed" for error in failed)
    assert engine.counts.failures == 1
    assert engine.num_waiting == 0
    told = capsys.readouterr().err
    assert "the search failed, and goes on without the requests that it had: RuntimeError at " in told
    assert "secret" not in told
    assert texts(engine.translate(["the car"], ONE))


def test_confidence_and_terms_come_only_where_they_are_wanted(model, corpus):
    """Requests of different kinds do not share a batch."""
    engine = Engine(open_translator([model], threads=1, confidence=True), max_waiting=1000)
    terms = engine.finder(Glossary.of_lines("glossary", [b"car\tbagnole"]))
    with ThreadPoolExecutor(3) as pool:
        wanted = [ONE, Wanted(with_confidence=True), Wanted(terms=terms)]
        plain, sure, termed = pool.map(lambda one: engine.translate(["the car"] * 3, one), wanted)
    engine.close()
    assert {one.translations[0].confidence for one in (*plain, *termed)} == {None}
    assert all(0.0 <= one.translations[0].confidence <= 1.0 for one in sure)
    assert all("bagnole" in text for text in texts(termed))
    assert texts(plain) == texts(sure)
    assert "bagnole" not in texts(plain)[0]
