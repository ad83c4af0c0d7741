"""Pages: where values without quotes end, how they are written, and which elements are translated."""

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


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "<html translate=no><body><p>menu</p><main translate=yes><p>one dog</p></main><p>two</p></body></html>",
            "<html translate=no><body><p>menu</p><main translate=yes><p>ONE DOG</p></main><p>two</p></body></html>",
        ),
        (
            "<div class=notranslate>a <b translate>one <i>dog</i></b> <i>c</i><p title=x>d</p></div><p>two</p>",
            "<div class=notranslate>a <b translate>ONE <i>DOG</i></b> <i>c</i><p title=x>d</p></div><p>TWO</p>",
        ),
        (
            "<div translate=no><p translate=yes title=x>one<p>menu</div>two",
            "<div translate=no><p translate=yes title=X>ONE<p>menu</div>TWO",
        ),
        (
            "<div translate=no><div translate=yes>one<p translate=no>a <b translate=yes>dog</b> b</div>c</div>two",
            "<div translate=no><div translate=yes>ONE<p translate=no>a <b translate=yes>DOG</b> b</div>c</div>TWO",
        ),
        (
            "<div translate=no><p translate=yes>see <span translate=no>acme</span> now</div>two",
            "<div translate=no><p translate=yes>SEE <span translate=no>acme</span> NOW</div>TWO",
        ),
        ("<div translate=no>a<section translate=yes>one", "<div translate=no>a<section translate=yes>ONE"),
        (
            "<div translate=no>a<p translate=yes>one <b>dog</div>b",
            "<div translate=no>a<p translate=yes>ONE <b>DOG</div>B",
        ),
        ("<pre>a <b translate=yes>b</b></pre>", "<pre>a <b translate=yes>b</b></pre>"),
    ],
)
def test_the_nearest_element_says_if_text_is_translated(before: str, after: str):
    assert page(before) == after
    assert page(before, unchanged) == before


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('<textarea placeholder="a" aria-label=b>c</textarea>', '<textarea placeholder="A" aria-label=B>c</textarea>'),
        ("<pre title=a>b <b title=c>d</b></pre>", "<pre title=A>b <b title=c>d</b></pre>"),
        ("<code title='a b'>c</code>", "<code title='A B'>c</code>"),
        ("<p>use <kbd title=a>b <i>c</i></kbd> now", "<p>USE <kbd title=A>b <i>c</i></kbd> NOW"),
        ("<p>a<svg aria-label=b></svg>", "<p>A<svg aria-label=B></svg>"),
        ("<p>a<code title=b translate=no>c</code>", "<p>A<code title=b translate=no>c</code>"),
        ("<style title=a>b</style><p>c", "<style title=a>b</style><p>C"),
    ],
)
def test_attributes_are_translated_where_the_content_of_their_element_stays(before: str, after: str):
    assert page(before) == after
    assert page(before, unchanged) == before


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("<html lang=fr><body lang=de><p>a", "<html lang=fr><body lang=de><p>A", ""),
        (
            "<p>a<p lang=fr title=b>c\n<p>d<p xml:lang='fr-CA'>e",
            "<p>A<p lang=fr title=b>c\n<p>D<p xml:lang='fr-CA'>e",
            "1 and 1 other",
        ),
        ("<p lang=EN-gb>a<p lang=eng>b<p lang=''>c", "<p lang=EN-gb>A<p lang=eng>B<p lang=''>C", ""),
        ("<p>see <i lang=la>a <b lang=en>b</b></i> now", "<p>SEE <i lang=la>a <b lang=en>b</b></i> NOW", "1"),
        (
            "<div lang=fr>a<p lang=en title=b>c<p translate=yes>d</div>e",
            "<div lang=fr>a<p lang=en title=B>C<p translate=yes>d</div>E",
            "1",
        ),
        ("<div lang=fr translate=no>a<p lang=en>b</div>", "<div lang=fr translate=no>a<p lang=en>b</div>", ""),
        (
            "<div lang=fr>\n<p lang=en>a<b lang=de>b</b></div>",
            "<div lang=fr>\n<p lang=en>A<b lang=de>b</b></div>",
            "1 and 1 other",
        ),
        ("<p>a<img lang=fr alt=b>", "<p>A<img lang=fr alt=b>", "1"),
    ],
)
def test_text_in_another_language_than_the_source_stays_and_is_counted(before: str, after: str, lines: str):
    done = translate_document("a.html", before.encode(), upper, SPLIT, target_lang=None, source_lang="en-US")
    assert done.content.decode() == after
    note = f"line {lines}, left as it is: declares another language than en-US"
    assert done.counts.notes == [note] * bool(lines)


@pytest.mark.parametrize("sign", ["|", "/", "&gt;", "·", ",", "-", "<b>|</b>", "::", ""])
def test_links_that_a_sign_parts_keep_their_own_words(sign: str):
    before = f"<p>[<a href=1>the red car</a>{sign}<i><a href=2>the house</a></i>]</p>"
    assert page(before) == f"<p>[<a href=1>THE RED CAR</a>{sign}<i><a href=2>THE HOUSE</a></i>]</p>"
    assert page(before, unchanged) == before
