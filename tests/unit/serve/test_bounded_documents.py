"""Bounds on the documents in work, and their turns."""

from __future__ import annotations

from threading import Event, Thread

import pytest

from nmt_cli.documents.sentences import splitter
from nmt_cli.serve import document_limits
from nmt_cli.serve.document_limits import TURNS, DocumentLimiter
from nmt_cli.serve.engine_interface import Busy, Cancellation, RequestTooLarge
from nmt_cli.serve.limits import Limits
from nmt_cli.serve.texts import Direction, TaskOptions, text_of_file, translate_file, translate_html, translate_texts
from nmt_cli.translation.pool import TaskCancelled


class Untouched:
    """An engine that nobody may ask."""

    capabilities = None

    def translate(self, *_: object):
        pytest.fail("the engine is asked")


DIRECTION = Direction("en", "fr", Untouched(), splitter("en"))  # type: ignore[arg-type]
MESSAGE = r"^it has more than 5,000 parts \(tags, attributes, .*\); send it in several requests$"
FILES = {
    "a.html": "a<i>b</i>" * 2_000,
    "b.html": "<p " + "a=b " * 4_000 + ">c",
    "c.html": "a&amp;" * 4_000,
    "a.txt": "\n" * 6_000,
    "b.txt": "a b " * 4_000,
    "a.po": 'msgid "a"\nmsgstr ""\n' * 2_000,
    "a.srt": "1\n00:00:01,000 --> 00:00:02,000\na\n\n" * 2_000,
    "a.xlf": "<xliff><file>" + "<x/>" * 4_000 + "</file></xliff>",
}


@pytest.fixture(autouse=True)
def capabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TaskOptions, "sentence_options", lambda *_, **__: None)


@pytest.mark.parametrize("name", FILES)
def test_a_file_with_too_many_parts_is_refused_before_the_engine_is_asked(name: str):
    given = DocumentLimiter(Limits(parts=5_000))
    with pytest.raises(RequestTooLarge, match=MESSAGE):
        translate_file(DIRECTION, name, FILES[name].encode(), TaskOptions(), given, Cancellation())
    with pytest.raises(RequestTooLarge, match=MESSAGE):
        text_of_file(DIRECTION, name, FILES[name].encode(), given, Cancellation())
    given.grow(given.limits.parts_in_flight)  # nothing of it counts any more


@pytest.mark.parametrize("translate", [translate_html, translate_texts])
def test_texts_with_too_many_parts_are_refused_before_the_engine_is_asked(translate):
    given = DocumentLimiter(Limits(parts=5_000))
    with pytest.raises(RequestTooLarge, match=MESSAGE):
        translate(DIRECTION, ["a<br>\n" * 6_000], TaskOptions(), given, Cancellation())


def test_documents_together_have_a_bound_too():
    given = DocumentLimiter(Limits(parts=5_000, parts_in_flight=8_000))
    with given.open_document(Cancellation()) as first, given.open_document(Cancellation()) as second:
        first.work.count(5_000)
        second.work.count(3_000)
        with pytest.raises(Busy):
            second.work.count(1_000)
    with given.open_document(Cancellation()) as third:
        third.work.count(5_000)


@pytest.mark.parametrize(("most", "number"), TURNS)
def test_documents_of_a_size_take_turns_and_smaller_ones_do_not_wait(most: int, number: int):
    given = DocumentLimiter(Limits())
    at_work, has_turn = [given.open_document(Cancellation()) for _ in range(number)], Event()
    running = [one.__enter__() for one in at_work]
    for document in running:
        document.work.count(most // 2)
        document.work.count(most // 2 + 1_000)

    def wait() -> None:
        with given.open_document(Cancellation()) as document:
            document.work.count(most + 1_000)
            has_turn.set()

    with given.open_document(Cancellation()) as smaller:
        smaller.work.count(most)
    waiting = Thread(target=wait)
    waiting.start()
    assert not has_turn.is_set()
    with running[0].translating():  # its turn is free meanwhile
        waiting.join(60)
        assert has_turn.is_set()
    for one in at_work:
        one.__exit__(None, None, None)


def test_a_document_that_waits_for_its_turn_ends_when_its_client_has_left(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(document_limits, "WAIT_SECONDS", 0.001)
    given = DocumentLimiter(Limits())
    given.turns = [(1_000, document_limits.Semaphore(0))]
    left = Cancellation()
    with given.open_document(left) as document:
        left.set()
        with pytest.raises(TaskCancelled):
            document.work.count(2_000)
