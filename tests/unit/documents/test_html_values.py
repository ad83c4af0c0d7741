"""Attributes of pages whose values have no quotes: where they end, and how their translations are written."""

from __future__ import annotations

import pytest
from document_translators import SPLIT, translator, unchanged, upper

from nmt_cli.documents.document import translate_document


def page(text: str, translate=upper) -> str:
    return translate_document("a.html", text.encode(), translate, SPLIT, target_lang=None).content.decode()


@pytest.mark.parametrize(
    "tag",
    [
        "<a href=/x?u=/title=red>",
        "<a href=x onclick=alert('/title=red')>",
        '<a href=x?a"b/title=red>',
        "<a href=x=`/title=red<b>",
        "<a href==/title=red>",
    ],
)
def test_nothing_within_a_value_without_quotes_is_taken_for_an_attribute(tag: str):
    assert page(f"<p>{tag}one dog</a></p>") == f"<p>{tag}ONE DOG</a></p>"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("red", "title=RED"),
        ("a=b", 'title="A=B"'),
        ("it's", "title=IT&#x27;S"),
        ('a"b', "title=A&quot;B"),
        ("red/", "title=RED/"),
    ],
)
def test_a_translated_value_gets_the_quotes_that_it_needs(before: str, after: str):
    html = pytest.importorskip("lxml.html")
    text = f"<p title={before}>one</p>"
    done = page(text)
    assert done == f"<p {after}>ONE</p>"
    assert html.fromstring(done).get("title") == html.fromstring(text).get("title").upper()
    assert page(text, unchanged) == text


def test_a_translation_of_two_words_gets_quotes_around_the_code_that_has_some():
    two = translator(lambda words: ["SO", *words])
    assert page('<p title=a%(b"c)s>1</p>', two) == '<p title="SO a%(b&quot;c)s">1</p>'
