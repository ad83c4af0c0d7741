"""The engine: searches that requests share, turns, cancelled requests, models that fail or are replaced."""

from __future__ import annotations

import random
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from marks import others_slow

from nmt_cli.assembly.trained_translator import open_translator
from nmt_cli.serve import engine as engine_module
from nmt_cli.serve.asking import Busy, Cancellation, Cancelled, TooMuch, Wanted
from nmt_cli.serve.engine import Engine
from nmt_cli.serve.waiting import Job, Waiting
from nmt_cli.system.errors import NmtError, PredictionError
from nmt_cli.text.alignment import hard_links
from nmt_cli.translation.glossary import Glossary
from nmt_cli.translation.results import Part

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
    assert engine.counts.batches < len(lines)


def test_lines_in_capitals_are_adapted_where_the_translator_adapts(model):
    adapting = open_translator([model], threads=1, normalize_input=True)
    opened = Engine(adapting, max_waiting=10)
    usual, shouted = (texts(opened.translate([line], ONE)) for line in ("Where is the car?", "WHERE IS THE CAR?"))
    opened.close()
    assert shouted == [usual[0].upper()]
    assert shouted[0].isupper()


def test_numbers_are_kept_for_whoever_asks(model, corpus):
    """Sentences without numbers share their searches as ever; those with numbers have their own."""
    lines = [*(corpus / "dev.en").read_text().splitlines()[:20], "The house 4711 is small.", "B12 is red."]
    translator = open_translator([model], threads=1, normalize_input=True)
    engine = Engine(translator, max_waiting=100)
    try:
        alone = [texts(engine.translate([line], ONE)) for line in lines]
        together = engine.translate(lines, ONE)
    finally:
        engine.close()
    assert [[text] for text in texts(together)] == alone
    assert texts(together) == texts(list(translator.translate(lines)))
    assert [text.count(number) for text, number in zip(texts(together)[-2:], ("4711", "B12"), strict=True)] == [1, 1]


@pytest.mark.parametrize("line", ["The house 4711 is small.", "The house is 😀 small, and 😀 the car."])
def test_a_sentence_does_not_enter_a_search_that_cannot_do_what_it_needs(model, monkeypatch, line):
    """A number needs a search that must say it, and an emoji one that keeps its attention."""
    translator = open_translator([model], threads=1, normalize_input=True)
    engine, holding = Engine(translator, max_waiting=100), Held(translator)
    monkeypatch.setattr(type(translator), "search_by_steps", holding.patched)
    try:
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(engine.translate, ["The house is small."], ONE)
            assert holding.started.wait(30)
            second = pool.submit(engine.translate, [line], ONE)
            wait_for(lambda: engine.num_waiting == 1)
            holding.go_on.set()
            assert texts(second.result()) == texts(translator.translate([line]))
            assert texts(first.result()) == texts(translator.translate(["The house is small."]))
    finally:
        holding.go_on.set()
        engine.close()


def test_sentences_enter_the_search_that_runs(engine, held):
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(engine.translate, ["the car"], ONE)
        held.started.wait(10)
        others = [pool.submit(engine.translate, [word], ONE) for word in ("the cat", "the dog", "the sun")]
        wait_for(lambda: engine.num_waiting == 3)
        held.go_on.set()
        assert all(one.result(30) for one in (first, *others))
    assert len(held.searches) == 1
    assert [sorted(group) for group in held.entered] == [["the car"], ["the cat", "the dog", "the sun"]]


@pytest.mark.parametrize("at_once", others_slow(20, 2))
def test_newcomers_get_what_they_would_get_alone(translator, held, corpus, at_once):
    """Requests come at any time, from some with one sentence to some with many."""
    held.go_on.set()
    lines = (corpus / "test.en").read_text().splitlines()[:40]
    alone = {line: found.translations[0] for line, found in zip(lines, translator.translate(lines), strict=True)}
    held.entered.clear()
    held.searches.clear()
    options = translator.options.model_copy(update={"batch_tokens": at_once * 16 * translator.options.beam_size})
    opened = Engine(replace(translator, options=options), max_waiting=1000)
    rng = random.Random(at_once)
    requests = [rng.sample(lines, rng.choice([1, 1, 1, 2, 5, 20])) for _ in range(25)]

    def ask(request):
        time.sleep(rng.random() / 20)
        return opened.translate(request, ONE)

    with ThreadPoolExecutor(12) as pool:
        for request, answer in zip(requests, pool.map(ask, requests), strict=True):
            for line, found in zip(request, answer, strict=True):
                assert found.source == line
                assert found.translations[0].text == alone[line].text
                assert found.translations[0].score == pytest.approx(alone[line].score, abs=1e-4)
    opened.close()
    assert len(held.entered) > len(held.searches)


def test_a_short_request_does_not_wait_for_a_book(engine, held):
    with ThreadPoolExecutor(2) as pool:
        long = pool.submit(engine.translate, ["the cat sees the dog"] * 600, ONE)
        held.started.wait(10)
        short = pool.submit(engine.translate, ["the car"], ONE)
        wait_for(lambda: engine.num_waiting > 0)
        held.go_on.set()
        short.result(30)
        assert not long.done()
        assert held.entered[1] == ["the car"]
        assert len(long.result(120)) == 600


def test_requests_of_like_size_share_a_search(engine, held):
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(engine.translate, ["the car"] * 2, ONE)
        held.started.wait(10)
        others = [pool.submit(engine.translate, [word] * 9, ONE) for word in ("the cat", "the dog", "the sun")]
        wait_for(lambda: engine.num_waiting == 27)
        held.go_on.set()
        assert all(one.result(30) for one in (first, *others))
    assert [len(group) for group in held.entered] == [2, 27]


@pytest.mark.parametrize("rare", [["the cat sees the dog and " * 18], ["the cat sees the dog and " * 18] * 9])
def test_a_length_that_few_ask_for_is_served_beside_one_that_many_ask_for(engine, monkeypatch, rare):
    """The search that runs takes newcomers for ever, if nobody tells it to end."""
    monkeypatch.setattr(engine_module, "MAX_LIVE", 1 if len(rare) == 1 else 2)
    monkeypatch.setattr(engine_module, "MAX_SECONDS", 0.2)
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
    given, asked, go_on = [], threading.Semaphore(0), threading.Semaphore(0)
    original = type(translator).search_by_steps

    def search(own, parts, observe=None, more=None, **kind):
        parts = list(parts)
        given.append(len(parts))
        for _ in range(9):
            asked.release()
            assert go_on.acquire(timeout=30)
            came = more(100)
            given.append(len(came))
            parts += came
        yield from original(own, parts, **kind)

    monkeypatch.setattr(type(translator), "search_by_steps", search)
    with ThreadPoolExecutor(8) as pool:

        def come(*counts):
            assert asked.acquire(timeout=30)
            found = [pool.submit(engine.translate, ["the car"] * count, ONE) for count in counts]
            wait_for(lambda: engine.num_waiting == sum(counts))
            return found

        def step():
            go_on.release()

        jobs = [pool.submit(engine.translate, ["the car"] * 5, ONE)]
        jobs += come(5, 5, 5)
        step()
        jobs += come(1)
        step()
        for _ in range(6):
            assert asked.acquire(timeout=30)
            step()
        jobs += come(6, 5)
        step()
        assert all(job.result(30) for job in jobs)
    assert given == [5, 15, 0, 0, 0, 0, 0, 0, 1, 11]


def test_a_request_that_nobody_waits_for_leaves_the_queue(engine, held):
    cancellation = Cancellation()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(engine.translate, ["the car"], ONE)
        held.started.wait(10)
        gone = pool.submit(engine.translate, ["the cat"] * 500, ONE, cancellation)
        wait_for(lambda: engine.num_waiting == 500)
        cancellation.set()
        with pytest.raises(Cancelled):
            gone.result(10)
        held.go_on.set()
        assert first.result(30)
    assert engine.num_waiting == 0
    assert held.entered == [["the car"]]


@pytest.fixture
def endless(translator, monkeypatch):
    """The search of long sentences goes on, step by step, until it is told to find something."""
    find, ended = threading.Event(), threading.Event()
    original = type(translator).search_by_steps

    def search(own, parts, observe=None, more=None, **kind):
        try:
            while len(parts[0].ids) > 64 and not find.wait(0.001):
                yield None
            yield from original(own, parts, observe, more, **kind)
        finally:
            ended.set()

    monkeypatch.setattr(type(translator), "search_by_steps", search)
    yield find, ended
    find.set()


LONG = "the cat sees the dog and " * 18


def test_a_short_request_does_not_wait_until_a_long_sentence_is_done(engine, endless):
    find, _ = endless
    with ThreadPoolExecutor(2) as pool:
        long = pool.submit(engine.translate, [LONG], ONE)
        assert pool.submit(engine.translate, ["the car"], ONE).result(30)
        assert not long.done()
        find.set()
        assert long.result(30)


def test_a_search_whose_answer_nobody_waits_for_ends(engine, endless):
    _, ended = endless
    cancellation = Cancellation()
    with ThreadPoolExecutor(2) as pool:
        gone = pool.submit(engine.translate, [LONG], ONE, cancellation)
        wait_for(lambda: engine.counts.sentences == 1)
        cancellation.set()
        with pytest.raises(Cancelled):
            gone.result(10)
        assert ended.wait(30)
        assert engine.translate(["the car"], ONE)


def test_more_than_may_wait_is_told_to_come_back(engine, held):
    with ThreadPoolExecutor(3) as pool:
        pool.submit(engine.translate, ["the car"], ONE)
        held.started.wait(10)
        pool.submit(engine.translate, ["the cat"] * 600, ONE)
        wait_for(lambda: engine.num_waiting == 600)
        with pytest.raises(Busy) as busy:
            engine.translate(["the dog"] * 401, ONE)
        held.go_on.set()
    assert 1 <= busy.value.retry_after <= 60


def test_more_than_may_ever_wait_is_refused(engine):
    with pytest.raises(TooMuch, match="1,001 sentences are more than 1,000; send them in parts"):
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


@pytest.mark.parametrize("place", ["_begin", "_may_begin", "newcomers"])
def test_after_an_unexpected_error_the_engine_goes_on(engine, monkeypatch, capsys, place):
    """Requests in work fail; nobody waits for ever, and later requests are answered."""

    def broken(*args):
        monkeypatch.undo()
        monkeypatch.setattr(engine_module, "FIRST_PAUSE", 0.001)
        raise RuntimeError("a secret text")

    monkeypatch.setattr(engine, place, broken)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(engine.translate, ["the car"] * count, ONE) for count in (1, 3)]
        failed = [one.exception(30) for one in waiting]
    assert any(isinstance(error, NmtError) and str(error) == "the search failed" for error in failed)
    assert engine.counts.failures == 1
    assert engine.num_waiting == 0
    told = capsys.readouterr().err
    assert "the search failed, and so did the requests that it had: RuntimeError at " in told
    assert "secret" not in told
    assert texts(engine.translate(["the car"], ONE))
    assert engine.counted().failures_in_a_row == 0


def test_after_an_error_the_search_tries_by_itself_whether_it_works(engine, monkeypatch):
    """Fails if a server that nobody asks stays out of order."""
    monkeypatch.setattr(engine_module, "FIRST_PAUSE", 0.001)
    errors = [RuntimeError("first"), RuntimeError("second")]
    begin = engine._begin

    def broken():
        if errors:
            raise errors.pop(0)
        begin()

    monkeypatch.setattr(engine, "_begin", broken)
    with pytest.raises(NmtError, match="the search failed"):
        engine.translate(["the car"], ONE)
    wait_for(lambda: engine.counted().failures == 2 and not engine.counted().failures_in_a_row)
    assert engine.counts.sentences == 1


def test_an_engine_whose_search_keeps_failing_pauses_longer_each_time_and_gives_up(translator, monkeypatch, capsys):
    """Without the end, one lasting error filled the disk with lines of the log, and requests waited for ever."""
    pauses, ended = [], threading.Event()
    engine = Engine(translator, max_waiting=10)
    engine.gave_up = ended.set
    wait_for_change = engine._changed.wait_for

    def recorded(holds, timeout=None):
        if timeout is not None:
            pauses.append(timeout)
            return False
        return wait_for_change(holds)

    def broken():
        raise RuntimeError("a secret text")

    monkeypatch.setattr(engine._changed, "wait_for", recorded)
    monkeypatch.setattr(engine, "_begin", broken)
    with pytest.raises(NmtError, match="the search failed"):
        engine.translate(["the car"], ONE)
    assert ended.wait(30)
    assert pauses == [1, 2, 4, 8]
    with pytest.raises(Busy):
        engine.translate(["the car"], ONE)
    engine.close()
    told = capsys.readouterr().err
    assert told.count("the search failed, and so did the requests") == 5
    assert "the search failed 5 times in a row, so it ends" in told


def test_a_search_that_stands_still_is_known(engine, held, monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(engine_module, "monotonic", lambda: clock[0])
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(engine.translate, ["the car"], ONE)
        assert held.started.wait(30)
        clock[0] += 40
        assert engine.counted().stalled == 40
        held.go_on.set()
        assert first.result(30)
    clock[0] += 40
    assert engine.counted().stalled == 0


@pytest.mark.parametrize(("count", "kind"), [(1001, TooMuch), (601, Busy)])
def test_what_is_refused_costs_no_work_and_leaves_nothing_behind(engine, held, monkeypatch, count, kind):
    """Its sentences are not cut into pieces, and nothing is left that could be cancelled."""
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(engine.translate, ["the car"], ONE)
        assert held.started.wait(30)
        second = pool.submit(engine.translate, ["the cat"] * 400, ONE)
        wait_for(lambda: engine.num_waiting == 400)
        answers = []
        with monkeypatch.context() as patched:
            patched.setattr("nmt_cli.translation.translator.parts_of", None)
            with pytest.raises(kind):
                engine.begin(["the dog"] * count, ONE, lambda *answer: answers.append(answer))
        assert engine.num_waiting == 400
        held.go_on.set()
        assert len(first.result(30) + second.result(60)) == 401
    assert answers == []


def test_confidence_and_terms_come_only_where_they_are_wanted(model, corpus):
    """Requests of different kinds do not share a search."""
    engine = Engine(open_translator([model], threads=1, confidence=True), max_waiting=1000)
    glossary = Glossary.of_lines("glossary", [b"car\tbagnole"])
    with ThreadPoolExecutor(3) as pool:
        wanted = [ONE, Wanted(with_confidence=True), Wanted(glossary=glossary)]
        plain, sure, termed = pool.map(lambda one: engine.translate(["the car"] * 3, one), wanted)
    engine.close()
    assert {one.translations[0].confidence for one in (*plain, *termed)} == {None}
    assert all(0.0 <= one.translations[0].confidence <= 1.0 for one in sure)
    assert all("bagnole" in text for text in texts(termed))
    assert texts(plain) == texts(sure)
    assert "bagnole" not in texts(plain)[0]


def job_of(translator, *words):
    parts = [Part(line, line, 0, (5,) * count, ()) for line, count in enumerate(words)]
    return Job.of(translator, ONE, parts)


def test_requests_of_one_kind_take_turns_and_kinds_wait_in_order(translator):
    waiting = Waiting()
    first, second = job_of(translator, 3, 20, 63, 70), job_of(translator, 4)
    waiting.add(first)
    waiting.add(second)
    short, long = waiting
    assert (short.width, long.width, waiting.num_sentences) == (64, 128, 5)
    assert waiting.first(short) is first
    assert (waiting.has_another(short, long), waiting.has_another(long, short)) == (True, False)
    assert [job for job, _ in waiting.take(short, 3)] == [first, second, first]
    assert waiting.count(short) == 1
    waiting.put_last(short)
    assert list(waiting) == [long, short]
    waiting.remove(first)
    assert (list(waiting), waiting.num_sentences, waiting.take(short, 9)) == ([], 0, [])


def test_widths_of_searches_double_for_small_requests(translator):
    widths = {count: next(iter(job_of(translator, count).waiting)).width for count in (1, 63, 64, 127, 128)}
    assert widths == {1: 64, 63: 64, 64: 128, 127: 128, 128: 256}
    large = job_of(translator, *[1, 20, 70] * 3)  # has enough sentences of each width of its own
    assert [kind.width for kind in large.waiting] == [16, 32, 80]


def test_sizes_of_requests_grow_by_eight(translator):
    sizes = {count: next(iter(job_of(translator, *[1] * count).waiting)).size for count in (1, 7, 8, 63, 64, 511, 512)}
    assert sizes == {1: 1, 7: 1, 8: 2, 63: 2, 64: 3, 511: 3, 512: 4}


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
    whole = engine.translate([sentence], Wanted(with_alignment=True))[0].translations[0]
    monkeypatch.setattr("nmt_cli.serve.engine.MAX_WEIGHTS", 8 * len(whole.text.split()))
    found = engine.translate([sentence], Wanted(with_alignment=True))[0].translations[0]
    assert whole.weights is not None
    assert found.weights is None
    assert (found.text, list(found.links or ())) == (whole.text, hard_links(whole.weights))
