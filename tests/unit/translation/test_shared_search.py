"""Searches that requests share in a worker: turns, cancelled requests, models that fail or are replaced."""

from __future__ import annotations

import random
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from queue import SimpleQueue

import pytest
from marks import others_slow

from nmt_cli.assembly.trained_translator import open_translator
from nmt_cli.serve import backend as search_module
from nmt_cli.serve.backend import TranslationBackend
from nmt_cli.serve.engine_interface import Busy, Cancellation, RequestTooLarge
from nmt_cli.system.errors import NmtError, PredictionError
from nmt_cli.system.workers import ThreadLauncher
from nmt_cli.text.alignment import hard_alignment
from nmt_cli.translation import shared_search
from nmt_cli.translation.glossary import Glossary
from nmt_cli.translation.pool import TaskCancelled, WorkersDied
from nmt_cli.translation.results import Part
from nmt_cli.translation.sentence_tasks import RequestOptions, SentenceTask
from nmt_cli.translation.shared_search import Job, SearchScheduler, SharedSearch, kind_of
from nmt_cli.translation.step_model import TrainedModels

ONE = RequestOptions()


@pytest.fixture(scope="module")
def translator(model):
    return open_translator([model], threads=1)


def opened(translator, max_waiting=1000, on_failure=lambda: None):
    """A search with one worker, which is a thread of the test."""
    work = SharedSearch([translator], lambda other: SharedSearch([other], None))
    return TranslationBackend(
        ThreadLauncher(lambda: work, max_workers=1), 1, workers=1, max_waiting=max_waiting, on_failure=on_failure
    )


@pytest.fixture
def search(translator):
    with closing(opened(translator)) as found:
        yield found


@pytest.fixture
def engine(search):
    return search.engines[0]


class Held:
    """A translator whose first search waits to be let go. It remembers what each search was given."""

    def __init__(self, translator):
        self.searches, self.started, self.go_on = [], threading.Event(), threading.Event()
        self.entered = []
        """The groups of sentences that have entered searches, in order."""
        original = type(translator).search_by_steps

        def search(own, parts, observe=None, more=None, **kind):
            def noted(room):
                return self._noted(own, more(room))

            self.searches.append(parts)
            self._noted(own, parts)
            self.started.set()
            assert self.go_on.wait(30)
            yield from original(own, parts, observe, more and noted, **kind)

        self.patched = search

    def _noted(self, translator, parts):
        if parts:
            self.entered.append([translator.tokenizers[0].decode(part.ids) for part in parts])
        return parts


@pytest.fixture
def held(engine, translator, monkeypatch):
    holding = Held(translator)
    monkeypatch.setattr(type(translator), "search_by_steps", holding.patched)
    yield holding
    holding.go_on.set()


def wait_for(holds):
    while not holds():
        time.sleep(0.001)


def texts(found):
    return [one.translations[0].text for one in found]


@pytest.mark.slow
def test_who_asks_alone_and_who_asks_among_others_get_the_same(engine, translator, corpus):
    lines = (corpus / "test.en").read_text().splitlines()
    alone = [found.translations[0] for found in translator.translate(lines)]
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda start: engine.translate(lines[start::10], ONE), range(10)))
    for start, answer in enumerate(answers):
        assert texts(answer) == [one.text for one in alone[start::10]]
    assert engine.counts().batches < len(lines)


def test_lines_in_capitals_are_adapted_where_the_translator_adapts(model):
    adapting = open_translator([model], threads=1, normalize_input=True)
    with closing(opened(adapting)) as search:
        (engine,) = search.engines
        usual, shouted = (texts(engine.translate([line], ONE)) for line in ("Where is the car?", "WHERE IS THE CAR?"))
    assert shouted == [usual[0].upper()]
    assert shouted[0].isupper()


def test_numbers_are_kept_for_whoever_asks(model, corpus):
    """Sentences without numbers share their searches as ever; those with numbers have their own."""
    lines = [*(corpus / "dev.en").read_text().splitlines()[:20], "The house 4711 is small.", "B12 is red."]
    translator = open_translator([model], threads=1, normalize_input=True)
    with closing(opened(translator)) as search:
        (engine,) = search.engines
        alone = [texts(engine.translate([line], ONE)) for line in lines]
        together = engine.translate(lines, ONE)
    assert [[text] for text in texts(together)] == alone
    assert texts(together) == texts(list(translator.translate(lines)))
    assert [text.count(number) for text, number in zip(texts(together)[-2:], ("4711", "B12"), strict=True)] == [1, 1]


@pytest.mark.parametrize("line", ["The house 4711 is small.", "The house is 😀 small, and 😀 the car."])
def test_a_sentence_does_not_enter_a_search_that_cannot_do_what_it_needs(model, monkeypatch, line):
    """A number needs a search that must say it, and an emoji one that keeps its attention."""
    translator = open_translator([model], threads=1, normalize_input=True)
    with closing(opened(translator)) as search:
        (engine,), holding = search.engines, Held(translator)
        monkeypatch.setattr(type(translator), "search_by_steps", holding.patched)
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(engine.translate, ["The house is small."], ONE)
            assert holding.started.wait(30)
            second = pool.submit(engine.translate, [line], ONE)
            wait_for(lambda: engine.counts().waiting == 1)
            holding.go_on.set()
            assert texts(second.result()) == texts(translator.translate([line]))
            assert texts(first.result()) == texts(translator.translate(["The house is small."]))


def test_sentences_enter_the_search_that_runs(engine, held):
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(engine.translate, ["the car"], ONE)
        held.started.wait(10)
        others = [pool.submit(engine.translate, [word], ONE) for word in ("the cat", "the dog", "the sun")]
        wait_for(lambda: engine.counts().waiting == 3)
        held.go_on.set()
        assert all(one.result(30) for one in (first, *others))
    assert len(held.searches) == 1
    # One that reaches the worker a moment later enters a step later.
    assert held.entered[0] == ["the car"]
    assert sorted(one for group in held.entered[1:] for one in group) == ["the cat", "the dog", "the sun"]


@pytest.mark.parametrize("at_once", others_slow(20, 2))
def test_newcomers_get_what_they_would_get_alone(translator, held, corpus, at_once):
    """Requests come at any time, from some with one sentence to some with many."""
    held.go_on.set()
    lines = (corpus / "test.en").read_text().splitlines()[:40]
    alone = {line: found.translations[0] for line, found in zip(lines, translator.translate(lines), strict=True)}
    options = translator.options.model_copy(update={"batch_tokens": at_once * 16 * translator.options.beam_size})
    search = opened(replace(translator, options=options))
    (engine,) = search.engines
    held.entered.clear()
    held.searches.clear()
    rng = random.Random(at_once)
    requests = [rng.sample(lines, rng.choice([1, 1, 1, 2, 5, 20])) for _ in range(25)]

    def ask(request):
        time.sleep(rng.random() / 20)
        return engine.translate(request, ONE)

    with ThreadPoolExecutor(12) as pool:
        for request, answer in zip(requests, pool.map(ask, requests), strict=True):
            for line, found in zip(request, answer, strict=True):
                assert found.source == line
                assert found.translations[0].text == alone[line].text
                assert found.translations[0].score == pytest.approx(alone[line].score, abs=1e-4)
    search.close()
    assert len(held.entered) > len(held.searches)


def test_a_short_request_does_not_wait_for_a_book(engine, held):
    with ThreadPoolExecutor(2) as pool:
        long = pool.submit(engine.translate, ["the cat sees the dog"] * 600, ONE)
        held.started.wait(10)
        short = pool.submit(engine.translate, ["the car"], ONE)
        wait_for(lambda: engine.counts().waiting > 0)
        held.go_on.set()
        short.result(30)
        assert not long.done()
        assert ["the car"] in held.entered
        assert len(long.result(30)) == 600


def test_requests_of_like_size_share_a_search(engine, held):
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(engine.translate, ["the car"] * 2, ONE)
        held.started.wait(10)
        others = [pool.submit(engine.translate, [word] * 9, ONE) for word in ("the cat", "the dog", "the sun")]
        wait_for(lambda: engine.counts().waiting == 27)
        held.go_on.set()
        assert all(one.result(30) for one in (first, *others))
    assert len(held.searches) == 2
    # One that reaches the worker a moment later enters a step later.
    assert [len(held.entered[0]), sum(map(len, held.entered[1:]))] == [2, 27]


@pytest.mark.parametrize("rare", [["the cat sees the dog and " * 18], ["the cat sees the dog and " * 18] * 9])
def test_a_length_that_few_ask_for_is_served_beside_one_that_many_ask_for(engine, monkeypatch, rare):
    """The search that runs takes newcomers for ever, if nobody tells it to end."""
    monkeypatch.setattr(shared_search, "MAX_SEARCHES", 1 if len(rare) == 1 else 2)
    monkeypatch.setattr(shared_search, "MAX_SECONDS", 0.2)
    asked = threading.Event()
    until = time.monotonic() + 20
    answered = []

    def ask(short):
        while time.monotonic() < until and not answered:
            engine.translate([short] * (len(rare) if len(rare) > 1 else 1), ONE)
            asked.set()

    with ThreadPoolExecutor(9) as pool:
        crowd = [pool.submit(ask, short) for short in ("the car", "the cat", "the dog", "the sun") * 2]
        asked.wait(10)
        engine.translate(rare, ONE)
        answered.append(time.monotonic())
        assert all(one.result(30) is None for one in crowd)
    assert answered[0] < until


def test_few_newcomers_wait_some_steps_for_others(engine, translator, monkeypatch):
    """One newcomer beside 20 sentences waits for six steps, eleven newcomers for none."""
    given, asked, steps = [], threading.Semaphore(0), SimpleQueue()
    original = type(translator).search_by_steps

    def search(own, parts, observe=None, more=None, **kind):
        parts, searches = list(parts), more.func.__self__
        given.append(len(parts))
        for _ in range(9):
            asked.release()
            waiting = steps.get(timeout=30)
            while sum(map(len, searches._waiting.values())) < waiting:
                yield None  # so that the worker hears of them
            came = more(100)
            given.append(len(came))
            parts += came
        yield from original(own, parts, **kind)

    monkeypatch.setattr(type(translator), "search_by_steps", search)
    with ThreadPoolExecutor(8) as pool:

        def come(*counts):
            assert asked.acquire(timeout=30)
            found = [pool.submit(engine.translate, ["the car"] * count, ONE) for count in counts]
            steps.put(sum(counts))
            return found

        jobs = [pool.submit(engine.translate, ["the car"] * 5, ONE)]
        jobs += come(5, 5, 5)
        jobs += come(1)
        for _ in range(6):
            assert asked.acquire(timeout=30)
            steps.put(1)
        jobs += come(6, 5)
        assert all(job.result(30) for job in jobs)
    assert given == [5, 15, 0, 0, 0, 0, 0, 0, 1, 11]


def test_a_request_that_nobody_waits_for_leaves_the_queue(engine, held):
    cancellation = Cancellation()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(engine.translate, ["the car"], ONE)
        held.started.wait(10)
        gone = pool.submit(engine.translate, ["the cat"] * 500, ONE, cancellation)
        wait_for(lambda: engine.counts().waiting == 500)
        cancellation.set()
        with pytest.raises(TaskCancelled):
            gone.result(10)
        held.go_on.set()
        assert first.result(30)
    assert engine.counts().waiting == 0
    assert held.entered == [["the car"]]


@pytest.fixture
def endless(translator, monkeypatch):
    """The search of long sentences goes on, step by step, until it is told to find something."""
    find, ended, begun = threading.Event(), threading.Event(), threading.Event()
    original = type(translator).search_by_steps

    def search(own, parts, observe=None, more=None, **kind):
        try:
            while len(parts[0].ids) > 64 and not find.wait(0.001):
                begun.set()
                yield None
            yield from original(own, parts, observe, more, **kind)
        finally:
            ended.set()

    monkeypatch.setattr(type(translator), "search_by_steps", search)
    yield find, begun, ended
    find.set()


LONG = "the cat sees the dog and " * 18


def test_a_short_request_does_not_wait_until_a_long_sentence_is_done(engine, endless):
    find, begun, _ = endless
    with ThreadPoolExecutor(2) as pool:
        long = pool.submit(engine.translate, [LONG], ONE)
        assert begun.wait(30)
        assert pool.submit(engine.translate, ["the car"], ONE).result(30)
        assert not long.done()
        find.set()
        assert long.result(30)


def test_a_search_whose_answer_nobody_waits_for_ends(engine, endless):
    _, begun, ended = endless
    cancellation = Cancellation()
    with ThreadPoolExecutor(2) as pool:
        gone = pool.submit(engine.translate, [LONG], ONE, cancellation)
        assert begun.wait(30)
        ended.clear()
        cancellation.set()
        with pytest.raises(TaskCancelled):
            gone.result(10)
        assert ended.wait(30)
        assert engine.translate(["the car"], ONE)


def test_more_than_may_wait_is_told_to_come_back(engine, held):
    with ThreadPoolExecutor(3) as pool:
        pool.submit(engine.translate, ["the car"], ONE)
        held.started.wait(10)
        pool.submit(engine.translate, ["the cat"] * 600, ONE)
        wait_for(lambda: engine.counts().waiting == 600)
        with pytest.raises(Busy) as busy:
            engine.translate(["the dog"] * 401, ONE)
        held.go_on.set()
    assert 1 <= busy.value.retry_after <= 60


def test_more_than_may_ever_wait_is_refused(engine):
    with pytest.raises(RequestTooLarge, match="1,001 sentences are more than 1,000; send them in parts"):
        engine.translate(["the car"] * 1001, ONE)


def test_a_sentence_that_fails_does_not_spoil_the_answers_of_others(engine, translator, monkeypatch):
    original = type(translator).start

    def start(own, parts, copies=1):
        if any(own.tokenizers[0].decode(part.ids) == "bad car" for part in parts):
            raise PredictionError("no numbers")
        return original(own, parts, copies)

    monkeypatch.setattr(type(translator), "start", start)
    with ThreadPoolExecutor(8) as pool:
        good = [pool.submit(engine.translate, ["old car"], ONE) for _ in range(6)]
        bad = pool.submit(engine.translate, ["bad car"], ONE)
        with pytest.raises(PredictionError, match="no numbers"):
            bad.result(30)
        assert len({texts(one.result(30))[0] for one in good}) == 1


def test_a_request_ends_with_the_model_that_it_began_with(search, engine, translator, held, model):
    """Also the tasks of it that no worker had been given when the model was replaced."""
    other, lines = open_translator([model], threads=1, beam_size=1), [f"the car {number}" for number in range(400)]
    held.go_on.set()
    expected = [found.translations[0].score for found in translator.translate(lines)]
    held.go_on.clear()
    held.started.clear()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(engine.translate, lines, ONE)
        assert held.started.wait(30)
        reloading = pool.submit(search.reload, other)
        held.go_on.set()
        reloading.result(60)
        assert [one.translations[0].score for one in first.result(60)] == pytest.approx(expected, abs=1e-4)
    found = [one.translations[0].score for one in engine.translate(lines, ONE)]
    assert found == pytest.approx([one.translations[0].score for one in other.translate(lines)], abs=1e-4)
    assert found != pytest.approx(expected, abs=1e-4)


def test_alternatives_are_those_of_the_beam(engine, model):
    found = engine.translate(["the car is red"], RequestOptions(n_best=3))[0].translations
    expected = next(iter(open_translator([model], threads=1, n_best=3).translate(["the car is red"]))).translations
    assert [one.text for one in found] == [one.text for one in expected]


@pytest.mark.parametrize("place", ["_begin_turns", "_may_begin", "_take_new_parts"])
def test_an_unexpected_error_costs_nobody_an_answer(search, engine, monkeypatch, capsys, place):
    """The worker ends, and another one does what it had to do. Requests failed, and all later ones waited for ever."""

    def broken(*args):
        monkeypatch.undo()
        raise RuntimeError("a secret text")

    monkeypatch.setattr(SearchScheduler, place, broken)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(engine.translate, ["the car"] * count, ONE) for count in (1, 3)]
        assert [len(one.result(60)) for one in waiting] == [1, 3]
    assert (engine.counts().failures, engine.counts().waiting) == (1, 0)
    told = capsys.readouterr().err
    assert "error: the translation failed: RuntimeError at " in told
    assert "secret" not in told
    wait_for(lambda: search.problem() is None)


def test_a_worker_whose_device_is_broken_ends(search, engine, translator, monkeypatch):
    original, ends = type(translator).start, []

    def start(own, parts, copies=1):
        if len(ends) < 2:  # in a search, and then with the sentence alone
            ends.append(parts)
            raise RuntimeError("CUDA error: device-side assert triggered")
        return original(own, parts, copies)

    monkeypatch.setattr(type(translator), "start", start)
    assert len(texts(engine.translate(["the car"], ONE))) == 1
    assert engine.counts().failures == 1
    wait_for(lambda: search.problem() is None)


def test_a_sentence_over_which_every_worker_ends_fails_alone(search, engine, translator, monkeypatch):
    """Seen to go on for ever where the pool was told of a task only after the step in which its worker ended."""
    go_on_with = SearchScheduler._advance_turn

    def broken(own, turn):
        if any(translator.tokenizers[0].decode(part.ids) == "bad car" for _, part in turn.members.values()):
            raise RuntimeError("a secret text")
        go_on_with(own, turn)

    monkeypatch.setattr(SearchScheduler, "_advance_turn", broken)
    with ThreadPoolExecutor(8) as pool:
        good = [pool.submit(engine.translate, ["old car"], ONE) for _ in range(6)]
        bad = pool.submit(engine.translate, ["old car", "bad car"], ONE)
        with pytest.raises(WorkersDied, match=r"^sentence 2: 3 worker processes crashed at it"):
            bad.result(30)
        assert len({texts(one.result(30))[0] for one in good}) == 1
    assert not search.has_failed


def test_after_an_error_the_search_tries_by_itself_whether_it_works(search, engine, monkeypatch):
    """Fails if a server that nobody asks stays out of order: the request has left when the first worker ends."""
    monkeypatch.setattr(search_module, "RESTART_DELAYS", (0.0,) * 4)
    errors, cancellation = [RuntimeError("first"), RuntimeError("second")], Cancellation()
    begin = SearchScheduler._begin_turns

    def broken(own):
        if errors:
            cancellation.set()
            raise errors.pop(0)
        begin(own)

    monkeypatch.setattr(SearchScheduler, "_begin_turns", broken)
    with suppress(TaskCancelled):
        engine.translate(["the car"], ONE, cancellation)
    wait_for(lambda: search.worker_failures() == (2, 0))


def test_a_search_that_keeps_failing_gives_up(translator, monkeypatch, capsys):
    """Without the end, one lasting error filled the disk with lines of the log, and requests waited for ever."""
    monkeypatch.setattr(search_module, "RESTART_DELAYS", (0.0,) * 4)
    ended = threading.Event()

    def broken(_):
        raise RuntimeError("a secret text")

    with closing(opened(translator, on_failure=ended.set)) as search:
        monkeypatch.setattr(SearchScheduler, "_begin_turns", broken)
        with pytest.raises(NmtError):
            search.engines[0].translate(["the car"], ONE)
        assert ended.wait(30)
        assert search.has_failed
        with pytest.raises(NmtError):
            search.engines[0].translate(["the car"], ONE)
    told = capsys.readouterr().err
    assert told.count("error: the translation failed: RuntimeError") == 5
    assert "so the server ends" in told
    assert "secret" not in told


def test_a_search_that_stands_still_is_known(search, engine, held, monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(shared_search, "monotonic", lambda: clock[0])
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(engine.translate, ["the car"], ONE)
        assert held.started.wait(30)
        assert search.problem() is None
        clock[0] += 40
        assert search.problem() == "it has not gone on for 40 seconds"
        held.go_on.set()
        assert first.result(30)
    clock[0] += 40
    assert search.problem() is None


@pytest.mark.parametrize(("count", "kind"), [(1001, RequestTooLarge), (601, Busy)])
def test_what_is_refused_costs_no_work_and_leaves_nothing_behind(engine, held, monkeypatch, count, kind):
    """Its sentences are not cut into pieces, and nothing is left that could be cancelled."""
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(engine.translate, ["the car"], ONE)
        assert held.started.wait(30)
        second = pool.submit(engine.translate, ["the cat"] * 400, ONE)
        wait_for(lambda: engine.counts().waiting == 400)
        with monkeypatch.context() as patched:
            patched.setattr("nmt_cli.translation.translator.parts_of", None)
            with pytest.raises(kind):
                engine.begin(["the dog"] * count, ONE)
        assert engine.counts().waiting == 400
        held.go_on.set()
        assert len(first.result(30) + second.result(60)) == 401


def test_confidence_and_terms_come_only_where_they_are_wanted(model, corpus):
    """Those without a glossary are searched together."""
    search = opened(open_translator([model], threads=1, confidence=True))
    (engine,) = search.engines
    glossary = Glossary.of_lines("glossary", [b"car\tbagnole"])
    with ThreadPoolExecutor(3) as pool:
        wanted = [ONE, RequestOptions(with_confidence=True), RequestOptions(glossary=glossary)]
        plain, sure, termed = pool.map(lambda one: engine.translate(["the car"] * 3, one), wanted)
    search.close()
    assert {one.translations[0].confidence for one in (*plain, *termed)} == {None}
    assert all(0.0 <= one.translations[0].confidence <= 1.0 for one in sure)
    assert all("bagnole" in text for text in texts(termed))
    assert texts(plain) == texts(sure)
    assert "bagnole" not in texts(plain)[0]


def test_a_request_whose_confidence_cannot_be_measured_does_not_spoil_that_of_others(model, monkeypatch):
    """The short one is measured first. Seen to fail where it was measured again, without its pieces."""
    original = TrainedModels.forced_predictions

    def forced_predictions(models, sources, *more):
        if sources.ids_BS.shape[1] > 16:
            raise RuntimeError("boom")
        return original(models, sources, *more)

    class Mailbox:
        """An inbox that keeps the answers."""

        def __init__(self):
            self.answers = {}

        def send_result(self, number, result):
            self.answers[number] = result.translated[0].translations[0].confidence

        def send_error(self, number, error):
            self.answers[number] = str(error)

    monkeypatch.setattr(TrainedModels, "forced_predictions", forced_predictions)
    searches = SearchScheduler([open_translator([model], threads=1, confidence=True)], mailbox := Mailbox())
    for number, count in enumerate((12, 1)):
        searches._begin_job(number, SentenceTask(0, ("the car " * count,), RequestOptions(with_confidence=True)))
    while len(searches._unmeasured) < 2:
        searches._begin_turns()
        searches._advance_turn(next(turn for turn in searches._active_turns if turn.kind is not None))
        if searches._active_turns and searches._active_turns[-1].kind is None:
            searches._unmeasured += searches._active_turns.pop().jobs()
    searches._begin_turns()
    while searches._active_turns:
        searches._advance_turn(searches._active_turns[0])
    assert mailbox.answers[0] == "the translation failed"
    assert 0.0 <= mailbox.answers[1] <= 1.0


@pytest.mark.parametrize(
    ("size", "widths"),
    [
        (0, {1: 64, 63: 64, 64: 128, 127: 128, 128: 256}),  # small requests share searches with others
        (1, {1: 16, 20: 32, 70: 80}),  # a large one has enough sentences of each width of its own
    ],
)
def test_sentences_of_small_requests_share_searches_of_few_widths(translator, size, widths):
    job = Job(1, SentenceTask(0, (), size=size), translator, None)
    assert {count: kind_of(job, Part(0, 0, 0, (5,) * count, ())).width for count in widths} == widths


def test_what_is_told_beside_a_translation_needs_no_search_of_its_own(translator):
    """Few clients with alignments would have searches of few rows, which cost much."""

    def kind(wanted: RequestOptions, *, needs_weights: bool = False):
        own = replace(translator, options=translator.options.model_copy(update={"n_best": wanted.n_best}))
        part = Part(0, 0, 0, (5,) * 9, (), needs_weights=needs_weights)
        return kind_of(Job(1, SentenceTask(0, (), wanted), own, None), part)

    assert kind(ONE) == kind(ONE, needs_weights=True)
    assert (
        kind(ONE)
        == kind(RequestOptions(with_alignment=True), needs_weights=True)
        == kind(RequestOptions(with_confidence=True))
    )
    assert len({kind(ONE), kind(RequestOptions(2)), kind(RequestOptions(prefix="the"))}) == 3


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_a_model_in_memory_needs_its_files_no_longer(model, tmp_path, precision):
    """Fails if a part of the weights still lies in the mapped file."""
    shutil.copytree(model, tmp_path / "model")
    translator = open_translator([tmp_path / "model"], threads=1, precision=precision, in_memory=True)
    before = [found.translations for found in translator.translate(["the car is red", "the dog"])]
    for weights in (tmp_path / "model/checkpoints").rglob("model.safetensors"):
        with weights.open("r+b") as file:
            file.write(bytes(weights.stat().st_size))
    assert [found.translations for found in translator.translate(["the car is red", "the dog"])] == before


def test_a_very_long_sentence_has_links_but_no_weights(engine, monkeypatch):
    sentence = "the car is red and the sun is here"
    whole = engine.translate([sentence], RequestOptions(with_alignment=True))[0].translations[0]
    monkeypatch.setattr("nmt_cli.translation.shared_search.MAX_WEIGHTS", 8 * len(whole.text.split()))
    found = engine.translate([sentence], RequestOptions(with_alignment=True))[0].translations[0]
    assert whole.weights is not None
    assert found.weights is None
    assert (found.text, list(found.links or ())) == (whole.text, hard_alignment(whole.weights))
