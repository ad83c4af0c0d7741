"""HTML: which elements stand within a sentence, which part it, and which attributes are text."""

from __future__ import annotations

import re

import pytest
from document_translators import SPLIT, backwards, upper

from nmt_cli.documents.document import translate_page


def lines_of(text: str, translate=upper) -> tuple[list[str], str]:
    """Return what the model sees of a page, and the page with it translated."""
    seen: list[str] = []

    def noting(lines):
        seen.extend(lines)
        return translate(lines)

    return seen, translate_page(text, noting, SPLIT, target_lang=None)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("see <ruby>red<rp>(</rp><rt>boat</rt><rp>)</rp></ruby> now", "see red now"),
        ("see <ruby>red<rt>boat<rt>ship</ruby> now", "see red now"),
        ("see <ruby><rb>red</rb><rtc><rt>boat</rtc></ruby> now", "see red now"),
        ("press <button>open</button> now", "press open now"),
        ("it is <meter value=1>half full</meter> now", "it is half full now"),
        ("a <my-tag x=y>red</my-tag> car", "a red car"),
        ("a red<script>var a = 'blue';</script> car", "a red car"),
        ("a red <style>p { color: blue }</style>car", "a red car"),
        ("a <picture><source srcset=x><img src=y></picture>red car", None),
        ("a <custom-icon></custom-icon> red car", "a red car"),
        ("a <slot name=x>red</slot> car", "a red car"),
        ("a <color=#F00>red</color> car", "a red car"),
        ("a <foo>red</foo> <blink>car</blink>", "a red car"),
        ("a <fb:like>red</fb:like> car", "a red car"),
        ("a <a href=x><b>red</a></b> car", "a red car"),
        ("a <b><i>red car</b></i> now", "a red car now"),
    ],
)
def test_a_sentence_goes_across_phrasing_content(text: str, line: str | None):
    seen, page = lines_of(f"<p>{text}</p>")
    assert [" ".join(one.split()) for one in seen] == ([line] if line else seen)
    tags = re.compile(r"<rt>.*?(?=<rt>|</ruby>|</rtc>)|<script>.*?</script>|<style>.*?</style>|<[^<>]*>", re.S)
    assert tags.findall(page) == tags.findall(f"<p>{text}</p>")
    _, page = lines_of(f"<p>{text}</p>", backwards)
    assert sorted(tags.findall(page)) == sorted(tags.findall(f"<p>{text}</p>"))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("<a>Books</a>\n<a>Keys</a>\n<a>Flowers</a>", ["Books", "Keys", "Flowers"]),
        ("<a>Books</a> <a>Old keys</a>", ["Books", "Old keys"]),
        ("<b><a>Books</a></b> <b><a>Keys</a></b>", ["Books", "Keys"]),
        ("<a>Books</a> | <a>Keys</a>&nbsp;· <a>2 flowers</a>", ["Books", "Keys", "2 flowers"]),
        ("<a>books</a> <a>keys</a> <a>flowers</a>", ["books", "keys", "flowers"]),
        ("<button>Open it</button>\n<button>Close it</button>", ["Open it", "Close it"]),
        ("<my-tab>One</my-tab><my-tab>Two</my-tab>", ["One", "Two"]),
        ("<a>Красная</a> <a>Книга</a>", ["Красная", "Книга"]),
        ("<a>One dog</a> <a>has two</a>", ["One dog has two"]),
        ("<a>One</a>, <a>Two</a>", ["One, Two"]),
        ("see <a>One</a> <a>Two</a>", ["see One Two"]),
        ("<a>One</a> <a>Two</a> here", ["One Two here"]),
        ("<a>One</a> <b>Two</b>", ["One Two"]),
    ],
)
def test_links_of_a_menu_are_texts_of_their_own(text: str, lines: list[str]):
    seen, page = lines_of(f"<p>{text}</p>")
    assert seen == lines
    assert page.lower() == f"<p>{text}</p>".lower()


@pytest.mark.parametrize(
    "text",
    [
        "<a aria-label='{}'>x</a>", "<meta name=description content='{}'>", "<META CONTENT='{}' NAME=Description>",
        "<meta property='og:title' content='{}'>", "<input type=submit value='{}'>", "<input value='{}' type=RESET>",
        "<select><optgroup label='{}'></select>", "<option label='{}' value=x>", "<img alt='{}'>",
        "<input placeholder='{}' value=x>", "<track label='{}'>", "<th abbr='{}'>", "<p aria-description='{}'>",
    ],
)  # fmt: skip
def test_attributes_that_people_read_are_translated(text: str):
    assert lines_of(text.format("a dog"))[1] == text.format("A DOG").replace(">x<", ">X<")


@pytest.mark.parametrize(
    "text",
    [
        "<meta name=viewport content='width is x'>", "<meta property='og:url' content='a b'>", "<input value='a dog'>",
        "<input type=text value='a dog'>", "<a label='a dog'></a>", "<p value='a dog'>", "<a data-title='a dog'></a>",
        "<meta http-equiv=refresh content='a dog'>", "<button value='a dog'></button>",
    ],
)  # fmt: skip
def test_other_attributes_stay(text: str):
    assert lines_of(text) == ([], text)


@pytest.mark.parametrize("comment", ["<!-->", "<!--->", "<!---->", "<!-- a --!>", "<!-- <!-- a -->", "<!--a--b-->"])
def test_comments_end_as_the_standard_says(comment: str):
    assert lines_of(f"<p>a {comment}dog</p><p>b</p>") == (["a dog", "b"], f"<p>A {comment}DOG</p><p>B</p>")
