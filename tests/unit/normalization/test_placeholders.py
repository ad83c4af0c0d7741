"""Placeholders: how they are read, and that they stand in translations as often as in their lines."""

from __future__ import annotations

import codecs
import random
from collections import Counter
from pathlib import Path

import pytest
from marks import some_or_all
from test_tags import aligned

from nmt_cli.demo import phrasebook
from nmt_cli.normalization.code_finder import CodeFinder, find_used_conventions
from nmt_cli.normalization.conventions import (
    AMBIGUOUS_CONVENTIONS,
    BRACE_CONVENTIONS,
    FLAGGED_CONVENTIONS,
    UNAMBIGUOUS_CONVENTIONS,
)
from nmt_cli.normalization.normalizer import Normalizer
from nmt_cli.normalization.placeholders import Placeholders
from nmt_cli.normalization.tags import Tags
from nmt_cli.text.line import CodeKind, Line
from nmt_cli.text.translation import Translation
from nmt_cli.text.unit_alignment import Alignment

LINES = [pair.source for pair in phrasebook.generate(seed=3, num_train=600, num_dev=1, num_test=1).train]
STEPS = Normalizer([Tags(), Placeholders()])
KEPT = [
    example
    for row in (*UNAMBIGUOUS_CONVENTIONS, *BRACE_CONVENTIONS)
    for example in row.examples
    if row.kind is CodeKind.PLACEHOLDER and not example.startswith("__")
]
SEQUENTIAL_DIRECTIVE = ("%s", "%d", "%lld", "%@", "%.2f")


def found_in(text: str) -> list[str]:
    return [text[code.begin : code.end] for code in CodeFinder().codes(text)]


@pytest.mark.parametrize("row", [*UNAMBIGUOUS_CONVENTIONS, *BRACE_CONVENTIONS], ids=lambda row: row.name)
def test_each_convention_of_the_table_is_found_in_any_text(row):
    assert row.url.startswith(("https://", "docs/"))
    assert row.examples
    for example in row.examples:
        whole = {"[b]": "[b]word[/b]", "[/b]": "[b]word[/b]", "[/url]": "[url]word[/url]"}.get(example, example)
        whole = whole + "word[/url]" if whole.startswith("[url=") else whole
        begins_a_line = row.pattern.startswith(r"(?<![^\n])")
        text = f"the hen\n{whole}" if begins_a_line else f"the hen {whole} here"
        assert "".join(found_in(text)) == whole.replace("word", ""), example


def test_the_page_of_the_documentation_lists_the_whole_table():
    page = (Path(__file__).parents[3] / "docs" / "reference" / "placeholders.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    for one in (*UNAMBIGUOUS_CONVENTIONS, *BRACE_CONVENTIONS, *AMBIGUOUS_CONVENTIONS, *FLAGGED_CONVENTIONS):
        assert any(
            row.startswith(f"| {one.name} |")
            and all(example.replace("|", "\\|") in row for example in (*one.examples, *one.flags))
            and (one.url in row or not one.url.startswith("https:"))
            for row in rows
        ), one.name


@pytest.mark.parametrize("row", AMBIGUOUS_CONVENTIONS, ids=lambda row: row.name)
def test_an_ambiguous_convention_is_found_only_where_a_text_has_it_often(row):
    for example in row.examples:
        text = f"the hen {example}" + "ed here" * (row.kind is CodeKind.ACCELERATOR)
        assert found_in(text) == []
        assert find_used_conventions([text]) == frozenset()
        habits = find_used_conventions([text, text])
        assert row.name in habits
        codes = [text[code.begin : code.end] for code in CodeFinder(habits=habits).codes(text)]
        assert codes == [example]


@pytest.mark.parametrize("row", FLAGGED_CONVENTIONS, ids=lambda row: row.name)
def test_a_convention_of_a_flag_is_found_in_messages_with_it(row):
    for flag in row.flags:
        for example in row.examples:
            text = f"the hen {example} here"
            assert example in [text[code.begin : code.end] for code in CodeFinder.of_flags({flag, "fuzzy"}).codes(text)]


@pytest.mark.parametrize(
    "text",
    [
        "50 % of it, 5 %, 100% sure and R&D, AT&T, Q&A",
        "it costs $5 or US$ 7 at 10:30: yes, see a/b and [note] and (c)",
        "3 < 4 and 5 > 2, x*y*z is 2*3*4, a_b_ and _my file; x -> y",
        "we say `a' and `b' or ``c'', :) and :D",
        r"in C:\new\tables or \newline \alpha",
        "tom@home, e.g. @ 5 pm! well-known: yes",
    ],
)
def test_ordinary_text_has_no_codes(text):
    assert found_in(text) == []


def test_what_stands_in_a_link_is_text():
    text = "The [red car](docs/car.md) is in the [url=https://example.org/x]big house[/url], `x.y()`."
    assert found_in(text) == ["[", "](docs/car.md)", "[url=https://example.org/x]", "[/url]", "`x.y()`"]


def line_with_placeholders(chance: random.Random) -> str:
    words = chance.choice(LINES).split()
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(words))
        code = chance.choice(KEPT)
        words[place] = chance.choice([code, f"({code})", f"{code},", f"<b>{code}</b>", words[place] + " " + code])
    return " ".join(words)


def lines(seed: int, num: int):
    chance = random.Random(seed)
    return [line_with_placeholders(chance) for _ in range(num)]


def said_of(line: Line, *, loses: random.Random | None = None) -> list[str]:
    """The words of an enciphered translation, which says the placeholders or not."""
    locked = line.codes or ()
    words, place = [], 0
    for word in line.text.split():
        begin = line.text.index(word, place)
        place = begin + len(word)
        own = [code for code in locked if code.kind is CodeKind.PLACEHOLDER and begin <= code.begin < place]
        if own and loses is not None and loses.random() < 0.5:
            words.append("zz")
        elif own:
            words.append(word)
        else:
            words.append(codecs.encode(word, "rot13"))
    return words


def counts(text: str) -> Counter[str]:
    return Counter(found_in(text))


@some_or_all(2_000)
def test_a_translation_that_says_the_placeholders_has_them_byte_for_byte(num):
    for text in lines(1, num):
        line = STEPS.read(text)
        said = " ".join(said_of(line))
        back = STEPS.undo(
            line, Translation(line.text, said, alignment=aligned(line.text, said, range(len(said.split()))))
        )
        last, expected = 0, ""
        for code in CodeFinder().codes(text):
            expected += codecs.encode(text[last : code.begin], "rot13") + text[code.begin : code.end]
            last = code.end
        assert back.text == expected + codecs.encode(text[last:], "rot13")


@pytest.mark.parametrize("turned", [False, True])
@some_or_all(2_000)
def test_each_placeholder_comes_back_as_often_as_it_stood_there(turned, num):
    chance = random.Random(2)
    for text in lines(2, num):
        line = STEPS.read(text)
        words = said_of(line, loses=chance)
        order = [*range(len(words))][:: -1 if turned else 1]
        if chance.random() < 0.3:
            order = [chance.randrange(len(words)) for _ in range(chance.randint(1, len(words)))]
        said = " ".join(words[number] for number in order)
        back = STEPS.undo(line, Translation(line.text, said, alignment=aligned(line.text, said, order)))
        assert counts(back.text) == counts(text), (text, said, back.text)
        by_order = [code for code in found_in(back.text) if code in SEQUENTIAL_DIRECTIVE]
        if len(set(by_order)) > 1:
            assert by_order == [code for code in found_in(text) if code in SEQUENTIAL_DIRECTIVE]


@some_or_all(500)
def test_a_prefix_that_has_a_placeholder_does_not_get_it_again(num):
    chance = random.Random(3)
    for text in lines(3, num):
        line = STEPS.read(text)
        if any(code.kind is not CodeKind.PLACEHOLDER for code in CodeFinder().codes(text)):
            continue
        words = said_of(line, loses=chance)
        said = " ".join(words)
        begun = len(" ".join(words[: chance.randrange(len(words) + 1)]))
        found = Translation(line.text, said, alignment=aligned(line.text, said, range(len(words))), prefix_length=begun)
        back = STEPS.undo(line, found)
        assert back.text.startswith(said[:begun])


def test_a_placeholder_stands_beside_characters_where_words_have_no_blanks():
    line = STEPS.read("I see %s here.")
    source, target = ["I ", "see ", "%s ", "here."], ["我", "在", "这里", "看到", "。"]

    def spans(pieces):
        ends = [sum(map(len, pieces[: number + 1])) for number in range(len(pieces))]
        return tuple((end - len(one), end - len(one) + len(one.strip())) for one, end in zip(pieces, ends, strict=True))

    found = Translation(
        line.text, "我在这里看到。", alignment=Alignment(spans(source), spans(target), None, (0, 3, 3, 1, 2))
    )
    back = STEPS.undo(line, found)
    assert back.text in ("我在这里看到%s。", "我在这里%s看到。")


def test_a_placeholder_takes_the_place_of_no_number():
    line = STEPS.read("12 __NAME__")
    found = Translation(line.text, "rien 12", alignment=aligned(line.text, "rien 12", [1, 1]))
    assert STEPS.undo(line, found).text == "__NAME__ 12"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("[X0X]Where is the [X12X]red[X16X] car[X21X]?", "Where is the red car?"),
        ("{0}Their doctor%{b} is rich.", "Their doctor is rich."),
        ("Their <b>doctor</b>{{x}} is rich, «{0}Their» doctor too.", "Their doctor is rich, «Their» doctor too."),
        ("It is {n}px or {n}Hz; {name}님이, 打开{0}文件, file{n}.txt", None),
        ("a{x}b, {name}'s, {n}-fold, user {name}, ({name})", None),
    ],
)
def test_a_word_that_a_placeholder_touches_is_translated(text, read):
    line = Normalizer([Tags()]).read(text)
    assert line.text == (read or text)
    kept = Translation(line.text, line.text, alignment=aligned(line.text, line.text, range(len(line.text.split()))))
    assert Normalizer([Tags()]).undo(line, kept).text == text


def test_directives_that_touch_words_keep_their_order():
    assert Tags().read(Line.of("cars%s and cars%d")).text == "cars%s and cars%d"


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("%sWhere is the %1$sred%2$s car?", ["%s", "%1$s", "%2$s"]),
        ("%@their house, %(a)sTheir, %1Their, %2Le, %5L'auto", ["%@", "%(a)s", "%1", "%2", "%5"]),
        ("The house is big.%nTheir house, %dTHE", ["%n", "%d"]),
        ("5 %discount, 100 %sure, 100 %Sure, 50 %iger, 5 %iPhone, %count, %20the, 10%surely", []),
    ],
)
def test_a_directive_that_touches_letters_is_told_from_a_percentage(text, codes):
    assert found_in(text) == codes
