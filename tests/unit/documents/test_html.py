"""Pages: what is translated, what stays, and what is refused."""

from __future__ import annotations

import re

import pytest
from document_translators import SPLIT, backwards, translator, unchanged, upper

from nmt_cli.documents.document import translate_document
from nmt_cli.system.errors import InputError
from nmt_cli.text.unit_alignment import Alignment
from nmt_cli.translation.results import Translation


def page(text: str, translate=upper, target_lang: str | None = None, name: str = "a.html") -> str:
    return translate_document(name, text.encode(), translate, SPLIT, target_lang=target_lang).content.decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<p>one &amp; two</p>", "<p>ONE &amp; TWO</p>"),
        ("<p>five &lt; six&nbsp;</p>\r\n", "<p>FIVE &lt; SIX&nbsp;</p>\r\n"),
        ("<p>a <b>big</b>, red dog</p>", "<p>A <b>BIG</b>, RED DOG</p>"),
        ("<p>run <code>foo &amp;()</code> now</p>", "<p>RUN <code>foo &amp;()</code> NOW</p>"),
        ("<pre>as it is</pre><script>var a = '<p>no</p>';</script>", None),
        ("<p translate='no'>as <b>it</b> is</p><style>p > a</style>", None),
        ("<p>so <span translate=no>as it is</span> so</p>", "<p>SO <span translate=no>as it is</span> SO</p>"),
        ('<img alt="a &quot;dog&quot;" src="a dog">', '<img alt="A &quot;DOG&quot;" src="a dog">'),
        ("<input placeholder=name value=name>", "<input placeholder=NAME value=name>"),
        ('<p>see <a title="the link" href=x>here</a></p>', '<p>SEE <a title="THE LINK" href=x>HERE</a></p>'),
        ("<p>one<br>two<p>three<!-- note --></p>", "<p>ONE<br>TWO<p>THREE<!-- note --></p>"),
        ("<p>12 + {{ name }}: <a name=x></a></p>", None),
        (f"<p>a &#{'1' * 5_000}; dog</p>", f"<p>A &amp;#{'1' * 5_000}; DOG</p>"),
        (f"<p>a %{'0' * 100_000}é dog</p>", f"<p>A %{'0' * 100_000}É DOG</p>"),
        ("<td>see <code>foo</td><td>bar", "<td>SEE <code>foo</td><td>BAR"),
        ("<p>see <code>foo &amp;() <b>bar", "<p>SEE <code>foo &amp;() <b>bar"),
        ("<p>a <b>b <i>c</b> d</i> e</p>", "<p>A <b>B <i>C</b> D</i> E</p>"),
        ("<p>a <i>b</p><p>c</i> d</p>", "<p>A <i>B</p><p>C</i> D</p>"),
        ("<p translate=no>acme<p>one<p>two", "<p translate=no>acme<p>ONE<p>TWO"),
        ("<p translate=no>acme <b>corp<h2>one</h2>", "<p translate=no>acme <b>corp<h2>ONE</h2>"),
        ("<tr><td class=notranslate>acme<td>one<tr>", "<tr><td class=notranslate>acme<td>ONE<tr>"),
        (
            "<ul><li translate=no>acme<ul><li>corp</ul><li>one</ul>",
            "<ul><li translate=no>acme<ul><li>corp</ul><li>ONE</ul>",
        ),
        ("<dl><dt translate=no>acme<dd>one</dl>", "<dl><dt translate=no>acme<dd>ONE</dl>"),
        ("<p>so <span translate=no>acme<p>one", "<p>SO <span translate=no>acme<p>ONE"),
        ("<div translate=no>acme<p>corp<p>corp</div>one", "<div translate=no>acme<p>corp<p>corp</div>ONE"),
        (
            "<p>it&#39d be &# 8217; good.</p>\n<script>var a = 'one';</script>\n<p title='red car'>one</p>",
            "<p>IT'D BE &amp;# 8217; GOOD.</p>\n<script>var a = 'one';</script>\n<p title='RED CAR'>ONE</p>",
        ),
        ("<p>use &lt;br/&gt; to break</p>", "<p>USE &lt;br/&gt; TO BREAK</p>"),
        ("<h:p>one cat</h:p><h:p>two dogs</h:p>", "<h:p>ONE CAT</h:p><h:p>TWO DOGS</h:p>"),
        (
            "<p><label>address</label><a href=x>joe@x.org</a></p>",
            "<p><label>ADDRESS</label><a href=x>joe@x.org</a></p>",
        ),
        ("<p>so <![foo]>one <![if !IE]>two<![endif]></p>", "<p>SO <![foo]>ONE <![if !IE]>TWO<![endif]></p>"),
        ("<p>so<![) one</p><p>two <![CDATA[ a > b ]]></p>", "<p>SO<![) one</p><p>TWO <![CDATA[ a > b ]]></p>"),
    ],
)
def test_text_is_translated_and_all_else_stays(before: str, after: str | None):
    assert page(before) == (before if after is None else after)


@pytest.mark.parametrize(
    "text",
    [
        "<p>let <math><mi>x</mi></math> be <svg><path/></svg> one</p>",
        "<p>he lives in <st1:place>london</st1:place> with tom</p>",
        "<p>use &lt;br/&gt; to break</p>",
        "<p>one<o:p></o:p> two</p>",
    ],
)
def test_a_sentence_goes_across_elements_that_stand_within_it(text: str):
    seen: list[str] = []

    def translate(lines):
        seen.extend(lines)
        return unchanged(lines)

    assert page(text, translate) == text
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("<p>see <a href=x><b>https://</b>m.s/<i>x/y</i></a> now</p>", "<a href=x><b>https://</b>m.s/<i>x/y</i></a>"),
        ("<p>to joe@<wbr>example.org and joe@<wbr>example.org now</p>", "joe@<wbr>example.org"),
        ("<p>to <b>joe@</b>example.<i>org</i> now</p>", "<b>joe@</b>example.<i>org</i>"),
        ("<p>see https://a.b/?c=1&amp;<wbr>d=2 now</p>", "https://a.b/?c=1&amp;<wbr>d=2"),
    ],
)
def test_an_address_in_several_parts_is_one_placeholder(text: str, address: str):
    lower = translator(lambda words: [word.replace("now", "NOW") for word in words])
    swapped = translator(lambda words: ["NEW", *words[1:]])
    for translate in (lower, swapped, translator(lambda _: [])):
        assert page(text, translate).count(address) == text.count(address)
    assert page(text, lower) == text.replace("now", "NOW")


def test_the_parts_of_an_address_among_other_text_are_not_lost():
    text = "<p><b>see joe@</b>example.org or <i>tom</i> now</p>"
    assert "joe@example.org" in re.sub("<[^<>]*>", "", page(text, translator(lambda words: [*words[:-1], "NOW"])))


def test_hard_links_place_tags_where_there_are_no_weights():
    def translate(lines):
        spans = ((0, 1), (2, 3), (4, 5), (6, 7))
        alignment = Alignment(spans, spans, None, (3, 2, 1, 0))
        return [Translation("D C B A", 0.0, 0.0, alignment=alignment) for _ in lines]

    assert page("<p>a <b>b</b> c d</p>", translate) == "<p>D C <b>B</b> A</p>"


@pytest.mark.parametrize("part", ["<!-- x -->", "<wbr>"])
def test_an_address_in_angle_brackets_stands_once(part: str):
    twice = translator(lambda _: ["schreib", "Joe", "<joe@x.org>", "joe@x.org", "jetzt"])
    new = page(f"<p>mail Joe &lt;joe@{part}x.org&gt; now</p>", twice)
    assert new.count(part) == new.count("x.org") == 1
    assert "jetzt" in new


@pytest.mark.parametrize("name", ["日本", "日本/東京", "中国_(1)"])
def test_an_address_may_have_names_in_other_scripts(name: str):
    address = f"https://ja.wikipedia.org/wiki/{name}"
    lost = translator(lambda _: ["SIEHE", "https://ja.wikipedia.org/wiki/", "MEHR"])
    assert address in page(f"<p>see {address} for more</p>", lost)


def test_percent_before_the_ending_of_a_word_stays():
    solution = translator(lambda _: ["EINE", "50%ige", "LÖSUNG"])
    assert page("<p>a solution of one half</p>", solution) == "<p>EINE 50%ige LÖSUNG</p>"


def test_a_sign_of_percent_may_come_in():
    percent = translator(lambda words: ["30", "%", "DES", "CHIENS", "ET", "5", "$US"])
    assert page("<p>thirty percent of the dogs and five dollars</p>", percent) == "<p>30 % DES CHIENS ET 5 $US</p>"


def test_a_byte_order_mark_before_text_is_no_part_of_it():
    seen: list[str] = []

    def translate(lines):
        seen.extend(lines)
        return upper(lines)

    assert page("\ufeff<b>a</b> dog", translate) == "\ufeff<b>A</b> DOG"
    assert seen == ["a dog"]


def test_tags_go_where_the_attention_lies():
    assert page("<p>the <b>red</b> car <i>sleeps</i>.</p>", backwards) == "<p><i>SLEEPS</i>. CAR <b>RED</b> THE</p>"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<a href=x>stand around</a> <a href=y>barrels</a>", "<a href=x>STAND</a> <a href=y>BARRELS</a> AROUND"),
        ("<b>stand</b><i>up</i> around barrels", "<b><i>STANDUP</i></b> BARRELS AROUND"),
        ("stand <a href=x><img src=y></a> around barrels", "STAND <a href=x><img src=y></a> BARRELS AROUND"),
        ("stand <a href=x>around <img src=y></a> barrels", "STAND BARRELS <a href=x>AROUND <img src=y></a>"),
    ],
)
def test_links_side_by_side_stay_so_and_a_picture_stays_in_its_link(before: str, after: str):
    last_word_first = translator(
        lambda words: [word.upper() for word in (words[0], words[-1], *words[1:-1])],
        lambda n: [0, n - 1, *range(1, n - 1)],
    )
    assert page(f"<p>{before}</p>", last_word_first) == f"<p>{after}</p>"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("<nav><a>One dog</a><a>Two dogs</a></nav>", ["One dog", "Two dogs"]),
        ("<b><a>One <i>dog</i></a></b><!-- \n --><b><a>Two dogs</a></b>", ["One dog", "Two dogs"]),
        ("<label>One dog</label><label>Two dogs</label>", ["One dog", "Two dogs"]),
        ("<button>One dog</button><button>Two dogs</button>", ["One dog", "Two dogs"]),
        ("<select><option>One dog<option>Two dogs</select>", ["One dog", "Two dogs"]),
        ("<a>One dog</a>|<a>Two dogs</a>", ["One dog", "Two dogs"]),
        ("<a>One dog</a>&gt;<b>/</b>&#183;<!-- x --><i><a>Two dogs</a></i>", ["One dog", "Two dogs"]),
        ("<b><a>One dog</a></b>,<b><a>1</a>-<a>Two dogs</a></b>", ["One dog", "Two dogs"]),
        ("<label>One dog</label>:<label>Two dogs</label> here", ["One dog", "Two dogs here"]),
        ("<a>One dog</a>, <a>two dogs</a>", ["One dog, two dogs"]),
        ("<a>One dog</a>&nbsp;|&nbsp;<a>two dogs</a>", ["One dog | two dogs"]),
        ("<a>One dog</a>|<i>two dogs</i>", ["One dog|two dogs"]),
        ("see <a>joe</a>@<a>example.org</a>", ["see joe@example.org"]),
        ("<a>One dog</a> <a>has two</a>", ["One dog has two"]),
        ("<a>One dog</a>s<a> here</a>", ["One dogs here"]),
        ("One dog<a>[1]</a><a>[2]</a> here", ["One dog[1][2] here"]),
        ("<a><img></a><a>One</a> dog", ["One dog"]),
        ("<span>T</span><b>wo</b><i> do</i><a>gs</a>", ["Two dogs"]),
    ],
)
def test_links_that_touch_are_labels_of_their_own_but_parts_of_a_word_are_one(text: str, lines: list[str]):
    seen: list[str] = []

    def translate(some):
        seen.extend(some)
        return upper(some)

    tags = re.compile("<[^>]*>")
    assert sorted(tags.findall(page(text, translate))) == sorted(tags.findall(text))
    assert sorted(seen) == sorted(lines)


@pytest.mark.parametrize("translate", [upper, backwards])
@pytest.mark.parametrize(
    "code", ["<code>foo</code>", "<code>a</code>", "<code>a b  c</code>", "<kbd>%s</kbd>", "<var>foo_bar</var>"]
)
def test_code_is_not_taken_for_a_word_of_the_text(code: str, translate):
    text = f"<p>a foo is a {code} and foo_bar as {code} with %s</p>"
    new = page(text, translate)
    assert new.count(code) == 2
    assert len(re.findall("%s", new)) == len(re.findall("%s", text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one red bike<sup>1</sup>.", "BIKE<sup>1</sup>. RED ONE"),
        (
            "one red bike.<sup><a href=x>[1]</a></sup><sup>[2]</sup> Two.",
            "BIKE. RED ONE<sup><a href=x>[1]</a></sup><sup>[2]</sup> TWO.",
        ),
        (
            "one <a href=x>red</a><sup><a href=y>[1]</a></sup> bike",
            "BIKE <a href=x>RED</a><sup><a href=y>[1]</a></sup> ONE",
        ),
        ("one <b>red<sup>*</sup></b> bike", "BIKE <b>RED<sup>*</sup></b> ONE"),
        ("one red<a href=x><sup title=no>1</sup></a> bike", "BIKE RED<a href=x><sup title=NO>1</sup></a> ONE"),
        ("10<sup>-3</sup> m<sup>2</sup> here", "HERE M<sup>2</sup> 10<sup>-3</sup>"),
        ("<sup>1</sup> one bike", "<sup>1</sup> BIKE ONE"),
        ("the 1<sup>st</sup> bike", "BIKE <sup>1ST</sup> THE"),
        ("a <sup>1</sup>/<sub>2</sub> bike", "BIKE <sup><sub>1/2</sub></sup> A"),
        ("a x<sup>2</sup>y bike", "BIKE <sup>X2Y</sup> A"),
    ],
)
def test_the_mark_of_a_footnote_stays_behind_its_word_and_is_not_translated(text: str, expected: str):
    assert page(f"<p>{text}</p>", backwards) == f"<p>{expected}</p>"


def test_sentences_go_to_the_model_one_by_one_and_a_tag_around_several_stays():
    lines: list[str] = []

    def translate(some):
        lines.extend(some)
        return upper(some)

    text = "<p>One dog.  Two <b>cats. Three</b> birds.\n And <i>four.</i></p>"
    assert page(text, translate) == "<p>ONE DOG.  TWO <b>CATS. THREE</b> BIRDS.\n AND <i>FOUR.</i></p>"
    assert sorted(lines) == sorted(["One dog.", "Two", "cats.", "Three", "birds.", "And four."])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('<html lang="en-US"><p>x</p>', '<html lang="de-AT"><p>X</p>'),
        ("<!doctype html>\n<HTML><p>x</p>", '<!doctype html>\n<HTML lang="de-AT"><p>X</p>'),
        ("<html lang=\"\" xml:lang=''><p>x</p>", "<html lang=\"de-AT\" xml:lang='de-AT'><p>X</p>"),
        ("<html lang><p>x</p>", '<html lang="de-AT"><p>X</p>'),
        ('<p lang="en">x</p>', '<p lang="en">X</p>'),
    ],
)
def test_the_language_of_a_page_is_set(before: str, after: str):
    assert page(before, target_lang="de_AT") == after


def test_characters_that_the_encoding_lacks_become_references():
    data = '<meta charset="iso-8859-1"><p>caf\xe9</p>'.encode("latin-1")
    euro = translator(lambda _: ["é", "€"])
    assert translate_document("a.html", data, euro, SPLIT, target_lang=None).content == (
        b'<meta charset="iso-8859-1"><p>\xe9 &#8364;</p>'
    )


@pytest.mark.parametrize(
    ("label", "codec", "text"),
    [
        ("iso-8859-1", "cp1252", "“don’t”"),
        ("us-ascii", "cp1252", "“don’t”"),
        ("iso-8859-9", "cp1254", "“bir”"),
        ("windows-874", "cp874", "“ก”"),
        ("tis-620", "cp874", "“ก”"),
        ("gb2312", "gb18030", "镕"),
        ("Shift_JIS", "cp932", "あ①"),
        ("x-sjis", "cp932", "あ"),
        ("windows-31j", "cp932", "あ"),
        ("euc-kr", "cp949", "뷁"),
    ],
)
def test_encodings_are_read_as_browsers_read_them(label: str, codec: str, text: str):
    seen: list[str] = []

    def translate(lines):
        seen.extend(lines)
        return unchanged(lines)

    data = f"<meta charset={label}><p>{text}</p>".encode(codec)
    assert translate_document("a.html", data, translate, SPLIT, target_lang=None).content == data
    assert seen == [text]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"<p>one</p>\n<a href='x", "a.html:2: the page ends within a tag or a comment; it is cut off"),
        (b"<p>one</p>\n<!-- x", "a.html:2: the page ends within a tag or a comment; it is cut off"),
        (b"<script>\nvar x", "a.html:1: the page ends within <script>; it is cut off"),
        (
            b"<html>\n<body><div>\n<p>one",
            "a.html:3: the page ends before </div>, which belongs to line 2; it is cut off",
        ),
        (b"\n" + b"<div>" * 1001, "a.html:2: elements are nested more than 1,000 deep; nest them less"),
        (b"<p>\n" * 12_000_000, "a.html:8000001: the document is larger than 32 MB; cut it into parts"),
    ],
)
def test_bad_pages_are_refused_with_their_line(data: bytes, message: str):
    with pytest.raises(InputError) as refusal:
        translate_document("a.html", data, unchanged, SPLIT, target_lang=None)
    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize("end", ["<", "</"])
def test_an_angle_bracket_at_the_end_is_text(end: str):
    assert page(f"<p>one</p>\n<p>a dog {end}") == "<p>ONE</p>\n<p>A DOG " + end.replace("<", "&lt;")
    with pytest.raises(InputError, match=r"a\.html:1: the page ends within <script>"):
        page(f"<script>a {end}")


@pytest.mark.parametrize("part", ["<li>one<p>two<p>three", "<p><a name=one>two", "<a name=one>two <b>three</b>"])
def test_a_thousand_elements_without_end_tags_are_not_deep(part: str):
    text = "<ul>" + part * 1001
    assert page(text, unchanged) == text


@pytest.mark.parametrize("charset", ["utf-7", "hz", "cp037", "unicode_escape"])
def test_bytes_outside_of_translations_stay_whatever_encoding_ascii_declares(charset: str):
    page = f'<meta charset={charset}><p>a+b ~dog</p><a href="http://x/~me?a+b\\c">a</a>'
    done = translate_document("a.html", page.encode(), upper, SPLIT, target_lang=None)
    expected = page.replace("a+b ~dog", "A+B ~DOG").replace(">a<", ">A<")
    assert done.content.decode("ascii").replace("UTF-8", charset) == expected
