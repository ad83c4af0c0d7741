"""The engines in a process of their own: the same answers and errors, and what happens when a process goes away."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from contextlib import closing
from functools import partial

import numpy as np
import pytest
from marks import others_slow

from nmt_cli.assembly.server import open_served
from nmt_cli.assembly.trained_translator import open_translator
from nmt_cli.serve import engine as engine_module
from nmt_cli.serve import process as process_module
from nmt_cli.serve.asking import Busy, Cancellation, Cancelled, EngineCounts, TooMuch, Wanted
from nmt_cli.serve.process import Reply, SearchProcess
from nmt_cli.system.errors import InputError, Interrupted, NmtError
from nmt_cli.translation.glossary import Glossary

LOADING = {"checkpoint": "best", "device": "cpu", "precision": "fp32", "threads": 1}
LINES = ["the car is red", "the cat sees the dog", "", "Where is the house?"]


def raising(kind):
    errors = {
        "InputError": InputError,
        "RuntimeError": RuntimeError,
        "Interrupted": partial(Interrupted, signal_number=2),
    }
    raise errors[kind]("no such model")


@pytest.fixture(scope="module")
def search(model):
    process = SearchProcess([partial(open_served, model, LOADING)], max_waiting=1000, lost=lambda: None)
    with closing(process):
        yield process


@pytest.fixture
def engine(search):
    return search.engines[0]


def translations(found):
    return [[(one.text, one.score) for one in line.translations] for line in found]


def test_answers_are_those_of_the_translator(engine, model):
    translator = open_translator([model], threads=1, n_best=3, with_alignment=True)
    expected = list(translator.translate(LINES))
    found = engine.translate(LINES, Wanted(n_best=3, with_alignment=True))
    assert [line.source for line in found] == LINES
    assert translations(found) == translations(expected)
    for own, other in zip(found, expected, strict=True):
        weights = own.translations[0].weights
        assert weights is not None
        assert np.array_equal(weights, other.translations[0].weights)
    assert translations(engine.translate(LINES, Wanted())) == [line[:1] for line in translations(expected)]


def test_many_sentences_and_terms_come_back_in_order(engine):
    found = engine.translate(["the car", "the cat"] * 200, Wanted())
    assert translations(found) == translations(found[:2]) * 200
    glossary = Glossary.of_lines("glossary", [b"car\tbagnole"])
    [termed] = engine.translate(["the car"], Wanted(glossary=glossary))
    assert "bagnole" in termed.translations[0].text


def test_counts_and_abilities_are_known(engine):
    before = engine.counted().sentences
    engine.translate(["the car"], Wanted())
    assert (engine.counted().sentences - before, engine.counted().waiting) == (1, 0)
    assert engine.abilities.alignment


def test_errors_come_back_as_they_are(engine):
    with pytest.raises(TooMuch, match="1,001 sentences are more than 1,000; send them in parts"):
        engine.translate(["the car"] * 1001, Wanted())
    cancellation = Cancellation()
    cancellation.set()
    with pytest.raises(Cancelled):
        engine.translate(["the cat sees the dog and " * 18] * 900, Wanted(), cancellation)
    busy = pickle.loads(pickle.dumps(Busy(7)))
    assert (type(busy), busy.retry_after) == (Busy, 7)


@pytest.mark.parametrize("kind", others_slow("Interrupted", "InputError", "RuntimeError"))
def test_a_model_that_cannot_be_loaded_is_told(kind):
    """Fails if an error crosses that the other side cannot read, as `Interrupted` with its second argument."""
    with pytest.raises(NmtError, match=r"^no such model$") as found:
        SearchProcess([partial(raising, kind)], max_waiting=10, lost=lambda: None)
    assert isinstance(found.value, InputError) == (kind == "InputError")


@pytest.mark.slow
def test_a_process_that_ends_before_it_has_loaded_is_told():
    with pytest.raises(NmtError, match=r"^the process of the search ended with 3$"):
        SearchProcess([partial(os._exit, 3)], max_waiting=10, lost=lambda: None)


@pytest.mark.slow
def test_the_model_of_before_goes_on_where_another_cannot_be_loaded(model, tmp_path):
    (tmp_path / "model").symlink_to(model)
    process = SearchProcess([partial(open_served, tmp_path / "model", LOADING)], max_waiting=10, lost=lambda: None)
    with closing(process):
        [engine] = process.engines
        before = translations(engine.translate(LINES, Wanted()))
        (tmp_path / "model").unlink()
        with pytest.raises(NmtError):
            engine.reload()
        assert translations(engine.translate(LINES, Wanted())) == before
        (tmp_path / "model").symlink_to(model)
        engine.reload()
        assert translations(engine.translate(LINES, Wanted())) == before


def test_a_request_that_is_refused_and_cancelled_leaves_the_search_as_it_was(engine, capsys):
    """The late cancel of a refused request ended the thread that hands out replies, and all others waited for ever."""
    number, refused = engine._process.call(0, "translate", ["the car"] * 1001, Wanted())
    for _ in range(2):
        _, cancelled = engine._process.call(0, "cancel", number)
        assert cancelled.result(30) is None
    with pytest.raises(TooMuch):
        refused.result(30)
    assert engine.counted().waiting == 0
    assert translations(engine.translate(["the car"], Wanted()))
    assert "error" not in capsys.readouterr().err


def test_a_call_that_cannot_be_sent_fails_alone(engine):
    """Fails if it ends the thread that sends: all later calls would wait for ever."""
    _, unsent = engine._process.call(0, "translate", [lambda: None], Wanted())
    with pytest.raises(NmtError, match="the request cannot be given to the search"):
        unsent.result(30)
    assert translations(engine.translate(["the car"], Wanted()))


def test_a_second_reply_to_a_call_is_thrown_away(search, engine, capsys):
    search._settle(Reply(10**9, None, None))
    assert "error: a second reply to call 1000000000 was thrown away" in capsys.readouterr().err
    assert translations(engine.translate(["the car"], Wanted()))


def keeps_failing(directory):
    """Return a translator, in a process where no search can begin."""
    engine_module.FIRST_PAUSE = 0.001
    engine_module.Engine._begin = None
    return open_served(directory, LOADING)


def test_a_search_that_keeps_failing_ends_with_an_exit_code_that_a_supervisor_sees(model, capfd):
    lost = threading.Event()
    process = SearchProcess([partial(keeps_failing, model)], max_waiting=10, lost=lost.set)
    with closing(process):
        with pytest.raises(NmtError):
            process.engines[0].translate(["the car"], Wanted())
        assert lost.wait(30)
        assert process.is_lost
        assert process.problem() == "its process has ended"
    assert "error: the process of the search ended with 1, so the server ends" in capfd.readouterr().err


def test_a_process_that_does_not_answer_is_known_and_ended_when_the_server_ends(model, monkeypatch, capsys):
    """It takes no call any more, though its pipe is full, and keeps nobody waiting for ever."""
    monkeypatch.setattr(process_module, "ANSWER_SECONDS", 0.05)
    monkeypatch.setattr(process_module, "STALLED_SECONDS", 0.1)
    monkeypatch.setattr(process_module, "sleep", lambda _: None)
    lost = threading.Event()
    process = SearchProcess([partial(open_served, model, LOADING)], max_waiting=10_000, lost=lost.set)
    with closing(process):
        [engine] = process.engines
        assert engine.translate(["the car"], Wanted())
        os.kill(process.pid, signal.SIGSTOP)
        waiting = [process.call(0, "translate", ["the car " * 1000] * 1000, Wanted())[1] for _ in range(3)]
        assert process.problem() == "it has not answered for 0.05 seconds"
        process.end_when_stuck()
        for one in waiting:
            with pytest.raises(NmtError, match="the search has ended"):
                one.result(30)
        assert lost.wait(30)
    assert "the search does not work (it has not answered for 0.05 seconds)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("counts", "problem"),
    [
        (EngineCounts(), None),
        (EngineCounts(stalled=30.0), None),
        (EngineCounts(stalled=31.0), "it has not gone on for 31 seconds"),
        (EngineCounts(failures=3), None),
        (EngineCounts(failures_in_a_row=1), "it has failed and has not found a translation since"),
    ],
)
def test_a_search_that_does_not_work_is_known(search, monkeypatch, counts, problem):
    monkeypatch.setattr(type(search.engines[0]), "counted", lambda _: counts)
    assert search.problem() == problem


@pytest.mark.slow
def test_a_process_that_goes_away_leaves_nobody_waiting(model, capsys):
    """Signals to the whole group do not end it; seen to end by SIGTERM where these are not blocked."""
    lost = threading.Event()
    process = SearchProcess([partial(open_served, model, LOADING)], max_waiting=10_000, lost=lost.set)
    with closing(process):
        [engine] = process.engines
        for number in (signal.SIGTERM, signal.SIGINT):
            os.kill(process.pid, number)
        assert engine.translate(["the car"], Wanted())
        waiting = threading.Timer(0.3, os.kill, (process.pid, signal.SIGKILL))
        waiting.start()
        with pytest.raises(NmtError, match="the search has ended"):
            engine.translate(["the cat sees the dog and " * 18] * 5000, Wanted())
        assert lost.wait(10)
        with pytest.raises(NmtError, match="the search has ended"):
            engine.translate(["the car"], Wanted())
    assert process.is_lost
    assert "error: the process of the search ended with -9, so the server ends" in capsys.readouterr().err
