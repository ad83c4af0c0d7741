"""The time of a document grows with its length, its parts are counted, and the work on it can be ended at any time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from document_translators import SPLIT, backwards, upper
from lines_run import LinesRun
from marks import others_slow

from nmt_cli.documents.document import translate_document, translate_page
from nmt_cli.formats.work import CHECK_INTERVAL, Work

XLIFF = '<xliff version="1.2"><file source-language="en" target-language="de"><body>{}</body></file></xliff>'
UNIT = XLIFF.format("<trans-unit id='1'><source>{}</source></trans-unit>")
CUE, NEXT = "1\n00:00:01,000 --> 00:00:02,000\n", "2\n00:00:02,000 --> 00:00:09,000\n"
MESSAGE = 'msgid "{}"\nmsgstr ""\n'
DOCUMENTS: dict[str, tuple[str, Callable[[int], str]]] = {
    "inline elements in one paragraph": ("html", lambda n: "a<i>b</i>" * n),
    "inline elements among words": ("html", lambda n: "<p>" + "a <i>b.</i> C " * n),
    "paragraphs": ("html", lambda n: "<p>red <i>dog</i>.</p>" * n),
    "paragraphs that are not closed": ("html", lambda n: "<p>red dog" * n),
    "line breaks": ("html", lambda n: "a<br>" * n),
    "line breaks within many elements": ("html", lambda n: "<i>a " * (n // 2) + "<br>b" * n),
    "rules within many elements": ("html", lambda n: "<i>a " * (n // 2) + "<hr>b" * n),
    "ends of nothing within many elements": ("html", lambda n: "<i>a " * (n // 2) + "b</u>" * n),
    "entities": ("html", lambda n: "<p>" + "a&amp;" * n),
    "signs": ("html", lambda n: "<p>" + "a < b & " * n),
    "attributes": ("html", lambda n: f"<p {'a=b ' * n}>a</p>"),
    "attributes to translate": ("html", lambda n: "<img alt='a dog'>" * n),
    "comments": ("html", lambda n: "a<!-- -->" * n),
    "links": ("html", lambda n: "<a>dog</a>" * n),
    "marks": ("html", lambda n: "a<sup>1</sup>" * n),
    "addresses with tags": ("html", lambda n: "<p>" + "http://a.b<wbr>c " * n),
    "placeholders": ("html", lambda n: "<p>" + "a %s. B {b} $c " * n),
    "names": ("html", lambda n: "<p>" + " ".join(f"{{a{i}}} dog" for i in range(n))),
    "braces": ("html", lambda n: "<p>a" + "{" * n + "b" + "}" * n),
    "quoted sentences": ("html", lambda n: "<p>" + '("A b. ' * n),
    "units": ("xlf", lambda n: XLIFF.format("<trans-unit id='1'><source>dog</source></trans-unit>" * n)),
    "codes": ("xlf", lambda n: UNIT.format("a<x id='1'/>" * n)),
    "codes around": ("xlf", lambda n: UNIT.format("a<g id='1'>b</g>" * n)),
    "references": ("xlf", lambda n: UNIT.format("a&amp;\n" * n)),
    "attributes of a unit": ("xlf", lambda n: XLIFF.format("<x " + " ".join(f"a{i}=''" for i in range(4 * n)) + "/>")),
    "messages": ("po", lambda n: MESSAGE.format("dog") * n),
    "words of a message": ("po", lambda n: MESSAGE.format("a dog. " * n)),
    "lines of a message": ("po", lambda n: 'msgid ""\n' + '"a\\n"\n' * n + 'msgstr ""\n'),
    "escapes": ("po", lambda n: MESSAGE.format('a\\"' * n)),
    "columns": ("po", lambda n: MESSAGE.format("a   " * n)),
    "flags": ("po", lambda n: "#, fuzzy\n" * n + MESSAGE.format("a")),
    "forms": ("po", lambda n: 'msgid "a"\nmsgid_plural "b"\n' + "".join(f'msgstr[{i}] ""\n' for i in range(n))),
    "cues": ("srt", lambda n: (CUE + "a dog\n\n") * n),
    "lines of a cue": ("srt", lambda n: CUE + "a\n" * n),
    "tags of a cue": ("srt", lambda n: CUE + "<i>a</i>" * n),
    "sentences over two cues": ("srt", lambda n: f"{CUE}{'a b ' * n}\n\n{NEXT}{'a b ' * n}\n"),
    "cues of VTT": ("vtt", lambda n: "WEBVTT\n\n" + "00:01.000 --> 00:02.000\na &amp; b\n\n" * n),
}  # fmt: skip


class Stopped(Exception):
    """Nobody waits any more."""


def translate(kind: str, text: str, work: Work | None = None, translator: Callable = upper) -> None:
    translate_document(f"a.{kind}", text.encode(), translator, SPLIT, target_lang="de", work=work)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_time_of_a_document_grows_with_its_length(name: str):
    kind, text = DOCUMENTS[name]
    translate(kind, text(3))  # what is made once
    short, long = (LinesRun().of(lambda n=n: translate(kind, text(n))) for n in (200, 400))
    assert long <= 2.3 * short


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("share", [0.1, *others_slow(0.5, 0.9)])
def test_work_that_may_not_go_on_ends_at_once(name: str, share: float):
    kind, text = DOCUMENTS[name]
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1

    translate(kind, text(900), Work(look))
    last, looks = max(1, int(looks * share)), 0

    def stop() -> None:
        look()
        if looks == last:
            raise Stopped

    with pytest.raises(Stopped):
        translate(kind, text(900), Work(stop))
    assert looks == last


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_parts_of_a_document_are_counted_before_it_is_translated(name: str):
    kind, text = DOCUMENTS[name]
    if name in ("flags", "ends of nothing within many elements"):
        return  # of which nothing is kept
    num_parts = 0

    def grow(num: int) -> None:
        nonlocal num_parts
        num_parts += num
        if num_parts > 3 * CHECK_INTERVAL:
            raise Stopped

    with pytest.raises(Stopped):
        translate(kind, text(40_000), Work(grow=grow), lambda lines: pytest.fail("it is translated"))
    assert num_parts < 10 * CHECK_INTERVAL


def test_sentences_are_the_same_where_a_long_text_is_split_in_parts(monkeypatch: pytest.MonkeyPatch):
    text = (
        "<p>"
        + "A red dog sees it. The man goes out! " * 50
        + "one two three " * 40
        + "A dog (it is red). No? Yes. " * 9
    )
    whole = translate_page(text, backwards, SPLIT, target_lang="de")
    for length in (7, 50, 333, 2_000):
        monkeypatch.setattr("nmt_cli.documents.sentences._PART_CHARACTERS", length)
        assert translate_page(text, backwards, SPLIT, target_lang="de") == whole
