"""The search behind the server with processes of its own: the same answers, and what happens when one goes away."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import closing
from functools import partial

import numpy as np
import pytest
from pool_tasks import build_and_die, build_nothing, build_sentences

from nmt_cli.assembly.trained_translator import open_translator
from nmt_cli.experiment import Experiment
from nmt_cli.serve import backend as search_module
from nmt_cli.serve.backend import TranslationBackend
from nmt_cli.serve.engine_interface import Cancellation, RequestTooLarge
from nmt_cli.system.errors import InputError, NmtError
from nmt_cli.system.workers import ZygoteLauncher, import_and_call
from nmt_cli.translation.glossary import Glossary
from nmt_cli.translation.pool import TaskCancelled, WorkersDied
from nmt_cli.translation.sentence_tasks import RequestOptions

LOADING = {"checkpoint": "best", "device": "cpu", "precision": "fp32", "threads": None}
LINES = ["the car is red", "the cat sees the dog", "", "Where is the house?"]
ONE = RequestOptions()
pytestmark = pytest.mark.timeout(120)


def opened(build, on_failure=lambda: None, workers=2, max_waiting=1000, directions=1):
    return TranslationBackend(
        ZygoteLauncher(build), directions, workers=workers, max_waiting=max_waiting, on_failure=on_failure
    )


def of_model(model, *others):
    own = [[Experiment(one)] for one in (model, *others)]
    return partial(import_and_call, "nmt_cli.assembly.served_work", "served_work", own, LOADING)


@pytest.fixture(scope="module")
def served(model):
    with closing(opened(of_model(model))) as search:
        yield search


@pytest.fixture
def spoken(monkeypatch):
    """Workers without a model: each answers in capitals, or does what the sentence says (`pool_tasks.do`)."""
    monkeypatch.setattr(search_module, "RESTART_DELAYS", (0.0,) * 4)
    with closing(opened(build_sentences)) as search:
        yield search


def wait_for(holds):
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


def texts(found):
    return [one.translations[0].text for one in found]


def pids(search):
    return [member.worker.pid for member in search._pools[-1]._members.values()]


def translations(found):
    return [[(one.text, one.score) for one in line.translations] for line in found]


def test_answers_are_those_of_the_translator(served, model):
    (engine,) = served.engines
    translator = open_translator([model], threads=1, n_best=3, with_alignment=True)
    expected = list(translator.translate(LINES))
    found = engine.translate(LINES, RequestOptions(n_best=3, with_alignment=True))
    assert [line.source for line in found] == LINES
    assert translations(found) == translations(expected)
    for own, other in zip(found, expected, strict=True):
        weights = own.translations[0].weights
        assert weights is not None
        assert np.array_equal(weights, other.translations[0].weights)
    assert translations(engine.translate(LINES, ONE)) == [line[:1] for line in translations(expected)]
    assert engine.capabilities.alignment


def test_many_sentences_and_terms_come_back_in_order(served):
    (engine,) = served.engines
    found = engine.translate(["the car", "the cat"] * 200, ONE)
    assert translations(found) == translations(found[:2]) * 200
    glossary = Glossary.of_lines("glossary", [b"car\tbagnole"])
    assert all(
        "bagnole" in text for text in texts(engine.translate(["the car"] * 70, RequestOptions(glossary=glossary)))
    )


@pytest.mark.slow
def test_the_model_of_before_goes_on_where_another_cannot_be_loaded(model, tmp_path):
    (tmp_path / "model").symlink_to(model)
    with closing(opened(of_model(tmp_path / "model", model), directions=2)) as search:
        engine, other = search.engines
        before = translations(engine.translate(LINES, ONE))
        (tmp_path / "model").unlink()
        with pytest.raises(NmtError):
            search.reload(0)
        assert translations(engine.translate(LINES, ONE)) == before
        search.reload(1)  # whatever the other model is like now
        (tmp_path / "model").symlink_to(model)
        search.reload(0)
        assert translations(engine.translate(LINES, ONE)) == before == translations(other.translate(LINES, ONE))
        wait_for(lambda: len(search._pools) == 1)


def test_counts_are_known(spoken):
    (engine,) = spoken.engines
    assert texts(engine.translate(["a", "b", "c"] * 30, ONE)) == ["A", "B", "C"] * 30
    assert engine.counts() == (90, 2, 1.0, 0, 0)  # two tasks, each of which says that it took half a second


def test_more_than_may_wait_is_refused_before_anything_is_accepted(spoken):
    with pytest.raises(RequestTooLarge, match="1,001 sentences are more than 1,000; send them in parts"):
        spoken.engines[0].translate(["a"] * 1001, ONE)
    assert spoken.engines[0].counts().waiting == 0


def test_who_has_left_already_waits_for_nothing(spoken, tmp_path):
    cancellation = Cancellation()
    cancellation.set()
    with pytest.raises(TaskCancelled):
        spoken.engines[0].translate([f"wait:{tmp_path / 'never'}"] * 900, ONE, cancellation)
    wait_for(lambda: spoken.engines[0].counts().waiting == 0)


@pytest.mark.parametrize("build", [build_nothing, build_and_die])
def test_a_model_that_cannot_be_loaded_is_told(build):
    lost = []
    with pytest.raises(NmtError, match=r"there is no such model|crashes, probably") as found:
        opened(build, on_failure=lambda: lost.append(True))
    assert isinstance(found.value, InputError) == (build is build_nothing)
    assert not lost


def test_a_worker_that_is_killed_costs_nobody_an_answer(spoken, tmp_path):
    engine, sentences = spoken.engines[0], ["a"] * 100
    sentences[70] = f"die:{tmp_path / 'died'}"
    assert texts(engine.translate(sentences, ONE)) == ["A"] * 70 + ["DIE"] + ["A"] * 29
    wait_for(lambda: spoken.problem() is None)
    assert engine.counts().failures == 1


def test_what_kills_every_worker_fails_alone_and_is_named(spoken):
    engine, answers = spoken.engines[0], []
    others = [threading.Thread(target=lambda: answers.append(engine.translate(["b"] * 30, ONE))) for _ in range(3)]
    for other in others:
        other.start()
    with pytest.raises(WorkersDied, match=r"^sentence 3: 3 worker processes crashed at it"):
        engine.translate(["a", "a", "kill", "a"], ONE)
    for other in others:
        other.join(60)
    assert [texts(one) for one in answers] == [["B"] * 30] * 3
    assert texts(engine.translate(["c"], ONE)) == ["C"]
    assert not spoken.has_failed


def test_where_all_workers_die_the_server_ends(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(search_module, "RESTART_DELAYS", (0.0,) * 4)
    lost = threading.Event()
    with closing(opened(partial(build_sentences, str(tmp_path / "all die")), on_failure=lost.set)) as search:
        (tmp_path / "all die").touch()
        with pytest.raises(NmtError):
            search.engines[0].translate(["a"], ONE)
        assert lost.wait(60)
        assert search.has_failed
        assert search.problem() is not None
    told = "error: translation has stopped working, so the server ends; restart it: the worker processes crash"
    wait_for(lambda: told in capsys.readouterr().err)


def test_a_worker_that_does_not_answer_is_known_and_ended_when_the_server_ends(spoken, monkeypatch, capsys):
    """It takes no message any more, though its pipe is full, and keeps nobody waiting for ever."""
    engine = spoken.engines[0]
    assert texts(engine.translate(["a"], ONE)) == ["A"]
    assert spoken.problem() is None
    monkeypatch.setattr(search_module, "ANSWER_SECONDS", 0.05)
    monkeypatch.setattr(search_module, "STALLED_SECONDS", 0.1)
    monkeypatch.setattr(search_module, "sleep", lambda _: None)
    for pid in pids(spoken):
        os.kill(pid, signal.SIGSTOP)
    requests = [engine.begin(["a " * 100_000] * 4, ONE) for _ in range(3)]
    assert spoken.problem() == "it has not answered for 0.05 seconds"
    spoken.end_when_stuck()
    for one in requests:
        with pytest.raises((TaskCancelled, NmtError)):
            one.result(60)
    wait_for(lambda: spoken.has_failed)
    told = "translation has stopped working (it has not answered for 0.05 seconds)"
    wait_for(lambda: told in capsys.readouterr().err)


def test_signals_for_the_whole_group_end_no_worker(spoken, tmp_path):
    """Seen to end by SIGTERM where this is not ignored."""
    request = spoken.engines[0].begin([f"wait:{tmp_path / 'go on'}"], ONE)
    wait_for((tmp_path / "go on.begun").exists)
    for pid in (*pids(spoken), spoken._launcher._process.pid):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(pid, number)
    (tmp_path / "go on").touch()
    assert texts(request.result(60)) == ["WAIT"]
    assert spoken.engines[0].counts().failures == 0
