"""The places of tags among the words of a translation, by the attention."""

from __future__ import annotations

import itertools
import random
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from marks import some_or_all

from nmt_cli.normalization.normalizer import Normalizer
from nmt_cli.normalization.placeholders import Placeholders
from nmt_cli.normalization.placing import AlignedWords, marks_of
from nmt_cli.normalization.tags import TaggedLine, Tags, has_unpaired_tag
from nmt_cli.text.edits import Change, Edits, word_spans
from nmt_cli.text.translation import Translation
from nmt_cli.text.unit_alignment import Alignment

STEPS = Normalizer([Tags(), Placeholders()])
CROSSED = [[0.9, 0.1, 0.0, 0.0], [0.1, 0.1, 0.7, 0.1], [0.1, 0.8, 0.1, 0.0], [0.0, 0.0, 0.1, 0.9]]


def aligned(source: str, target: str, weights) -> Alignment:
    matrix = np.array(weights, dtype=float).reshape(len(word_spans(target)), len(word_spans(source)))
    return Alignment(tuple(word_spans(source)), tuple(word_spans(target)), np.pad(matrix, ((0, 0), (0, 1))))


def restore(line: str, translation: str, weights) -> str:
    read = STEPS.read(line)
    found = Translation(read.text, translation, alignment=aligned(read.text, translation, weights))
    return STEPS.undo(read, found).text


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("the <b>red</b> car sleeps", "la voiture <b>rouge</b> dort"),
        ("<p>the red car sleeps</p>", "<p>la voiture rouge dort</p>"),
        ("the <b>red car</b> sleeps", "la <b>voiture rouge</b> dort"),
        ("the <a href='x y'><b>red</b></a> car sleeps", "la voiture <a href='x y'><b>rouge</b></a> dort"),
        ("the red car <br/> sleeps", "la voiture rouge <br/> dort"),
        ("the red car sleeps <br/>", "la voiture rouge dort <br/>"),
        ("the </i> red car sleeps", "la </i> voiture rouge dort"),
        ("the red car sleeps", "la voiture rouge dort"),
        ("the <color=#F00>red</color> car sleeps", "la voiture <color=#F00>rouge</color> dort"),
        ("the [b]red[/b] car sleeps", "la voiture [b]rouge[/b] dort"),
    ],
)
def test_tags_stand_around_what_looks_at_what_they_enclosed(line: str, expected: str):
    assert STEPS.read(line).text == "the red car sleeps"
    assert restore(line, "la voiture rouge dort", CROSSED) == expected


@pytest.mark.parametrize(
    ("line", "said", "aligned_to", "expected"),
    [
        ("My <b>red</b> house.", "Ma maison rouge.", [0, 2, 1], "Ma maison <b>rouge</b>."),
        ("My <b>car</b>?", "Ma voiture ?", [0, 1, 1], "Ma <b>voiture</b> ?"),
        ("See <b>(the car)</b>.", "Vois (la voiture).", [0, 1, 2], "Vois <b>(la voiture)</b>."),
        ("See (<b>the car</b>).", "La voiture (vois).", [1, 2, 0], "<b>La voiture</b> (vois)."),
        ("<b>Where is it?</b> Here.", "¿Dónde está? Aquí.", [0, 1, 3], "<b>¿Dónde está?</b> Aquí."),
    ],
)
def test_a_mark_outside_of_a_tag_stays_outside(line, said, aligned_to, expected):
    num_words = len(STEPS.read(line).text.split())
    assert restore(line, said, np.eye(num_words)[aligned_to]) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("the <b>red car", True),
        ("the red</b> car", True),
        ("the <b><i>red</b> car</i>", False),
        ("the <b>red</b> <b>car", True),
        ("the <b>red</i> car", True),
        ("the <B>red</B> car", False),
        ("the red<br>car<hr class='x'>", False),
        ("the </br> red car", False),
        ("the <x id='1'/> red car", False),
        ("if a < b and c > d", False),
    ],
)
def test_a_tag_without_a_partner_is_found(line: str, expected: bool):
    assert has_unpaired_tag(STEPS.read(line)) == expected


def test_symbols_of_the_tokenizer_are_no_tags():
    steps = Normalizer([Tags(symbols={"<BT>"})])
    assert steps.read("<BT> the <b>red</b> car").text == "<BT> the red car"
    assert STEPS.read("<BT> the red car").text == "the red car"


@pytest.mark.parametrize(
    ("line", "aligned_to", "expected"),
    [
        ("<a>one two</a> <b>three</b>", [0, 2, 1, 1], "v <b>w</b> <a>x y</a>"),
        ("<a>one</a> <b>two</b>", [0, 1, 0], "<a>v</a> <b>w</b> x"),
        ("<i>one <a>two</a></i> <b>three</b>", [0, 0, 2, 1], "v w <b>x</b> <i><a>y</a></i>"),
        ("<a>one</a> <b>two</b>", [0, 0, 0], "<a>v w</a> <b>x</b>"),
        ("<a>one</a> <b>two</b>", [0], "<a>v</a> <b></b>"),
        ("<b>one <i>two</b> three</i>", [0, 1, 2], "<b>v w</b> <i>x</i>"),
    ],
)
def test_elements_side_by_side_stay_so_and_each_takes_a_word(line: str, aligned_to: list[int], expected: str):
    num_words = len(STEPS.read(line).text.split())
    found = restore(line, " ".join("vwxyz"[: len(aligned_to)]), np.eye(num_words)[aligned_to])
    assert found == expected or found == line.replace("one", "v").replace("two", "w").replace("three", "x")


def spans_of(pieces: list[str]):
    ends = [*itertools.accumulate(map(len, pieces))]
    return tuple((end - len(one), end - len(one) + len(one.strip())) for one, end in zip(pieces, ends, strict=True))


@pytest.mark.parametrize(
    ("line", "source", "target", "looks", "expected"),
    [
        (
            "我喜欢<b>红色</b>的<a href='#x'>车</a>。", ["我", "喜欢", "红色", "的", "车", "。"],
            ["I ", "like ", "the ", "red ", "car", "."], [0, 1, 3, 2, 4, 5],
            "I like the <b>red</b> <a href='#x'>car</a>.",
        ),
        (
            "I like the <b>red</b> <a>car</a>, see.", ["I ", "like ", "the ", "red ", "car", ", ", "see", "."],
            ["我", "喜欢", "红色", "的", "车", "，", "看", "。"], [0, 1, 3, 2, 4, 5, 6, 7],
            "我喜欢<b>红色</b>的<a>车</a>，看。",
        ),
        ("我喜欢<b>红</b>色的车。", ["我", "喜欢", "红色", "的", "车", "。"],
         ["I ", "like ", "the ", "red ", "car", "."], [0, 1, 3, 2, 4, 5], "I like the <b>red</b> car."),
        ("ฉันมี<b>รถ</b>แดง", ["ฉัน", "มี", "รถ", "แดง"], ["I ", "have ", "a ", "red ", "car"], [0, 1, 1, 3, 2],
         "I have a red <b>car</b>"),
        ("A <b>red</b> car", ["A ", "red ", "car"], ["赤い", "車"], [1, 2], "<b>赤い</b>車"),
        ("A red<br/> car", ["A ", "red ", "car"], ["赤い", "車"], [1, 2], "赤い<br/>車"),
    ],
)  # fmt: skip
def test_tags_keep_their_text_where_words_have_no_blanks(line, source, target, looks, expected):
    read = STEPS.read(line)
    said = "".join(target)
    assert read.text == "".join(source)
    found = Translation(read.text, said, alignment=Alignment(spans_of(source), spans_of(target), None, tuple(looks)))
    assert STEPS.undo(read, found).text.replace("<br/> ", "<br/>") == expected


@some_or_all(500)
def test_wherever_pieces_end_no_tag_of_a_text_without_blanks_is_left_around_nothing(num: int):
    """Random pieces, alignments and tags: each tag comes back once, and around characters if there are enough."""
    chance = random.Random(7)
    for _ in range(num):
        source = ["".join(chance.choices("我喜欢红色的车他们有房子。", k=chance.randint(1, 3))) for _ in range(6)]
        target = ["".join(chance.choices("日本語のテキストです。", k=chance.randint(1, 3))) for _ in range(6)]
        text = "".join(source)
        first, last = sorted(chance.sample(range(len(text) + 1), 2))
        if not any(map(str.isalnum, text[first:last])):
            continue
        read = STEPS.read(f"{text[:first]}<b>{text[first:last]}</b>{text[last:]}")
        looks = tuple(chance.randrange(-1, 6) for _ in target)
        alignment = Alignment(spans_of(source), spans_of(target), None, looks)
        back = STEPS.undo(read, Translation(text, "".join(target), alignment=alignment)).text
        assert re.fullmatch("[^<]*<b>[^<]+</b>[^<]*", back), (read.raw, back)
        assert back.replace("<b>", "").replace("</b>", "") == "".join(target)


# Trees ------------------------------------------------------------------------------------------------------------


@st.composite
def trees(draw: st.DrawFn, depth: int = 3) -> str:
    parts = []
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["word", "alone", "around"]))
        if kind == "around" and depth:
            name = draw(st.sampled_from(["b", "i", "p"]))
            parts.append(f"<{name}>{draw(trees(depth - 1))}</{name}>")
        else:
            parts.append("<br/>" if kind == "alone" else "w")
    return " ".join(parts)


def is_well_formed(line: str) -> bool:
    open_tags: list[str] = []
    for closing, name, alone in re.findall(r"<(/?)(\w+)(/?)>", line):
        if closing:
            if not open_tags or open_tags.pop() != name:
                return False
        elif not alone:
            open_tags.append(name)
    return not open_tags


@given(trees(), st.integers(0, 6), st.integers(0, 2**32 - 1))
def test_well_formed_markup_stays_well_formed(line: str, num_target: int, seed: int):
    num_source = len(STEPS.read(line).text.split())
    weights = np.random.default_rng(seed).random((num_target, num_source))
    found = restore(line, " ".join(["w"] * num_target), weights)
    assert is_well_formed(found), found
    assert sorted(re.findall(r"<[^>]*>", found)) == sorted(re.findall(r"<[^>]*>", line))
    assert re.sub(r"<[^>]*>", "", found.replace("<br/>", " ")).split() == ["w"] * num_target


@given(
    st.lists(st.sampled_from(["<b>", "</b>", "<i>", "</i>", "<br/>", "a", "b", " "]), max_size=12), st.integers(0, 4)
)
def test_every_tag_comes_back_exactly_once(parts: list[str], num_target: int):
    line = "".join(parts)
    num_source = len(STEPS.read(line).text.split())
    weights = np.random.default_rng(len(line)).random((num_target, num_source))
    found = restore(line, " ".join(["w"] * num_target), weights)
    assert sorted(re.findall(r"<[^>]*>", found)) == sorted(re.findall(r"<[^>]*>", line))
    assert re.sub(r"<[^>]*>", "", found.replace("<br/>", " ")).split() == ["w"] * num_target


def tags_and_words(line: str):
    """The tags of a line as they stand among the words that are read, and the number of these."""
    read = STEPS.read(line)
    if not read.undo_records:
        return [], len(read.text.split())
    spans = tuple(word_spans(read.text))
    reading = TaggedLine.of(read.undo_records[0].edits, read.undo_records[0].data, Alignment(spans, spans, None, ()))
    return list(reading.tags), len(spans)


def placed_tags(num_target: int, tags, aligned_to) -> str:
    words = " ".join(f"w{row}" for row in range(num_target))
    marks = marks_of(AlignedWords(words, word_spans(words), aligned_to), tags)
    return Edits.of(words, [Change(mark.place, mark.place, mark.text) for mark in marks]).new


def numbered(line: str) -> str:
    """The line with a name of its own for each element."""
    numbers, opened = itertools.count(), list[int]()

    def name(tag: re.Match[str]) -> str:
        if tag[1]:
            return f"</t{opened.pop()}>"
        opened.append(next(numbers))
        return f"<t{opened.pop()}/>" if tag[2] else f"<t{opened[-1]}>"

    return re.sub(r"<(/?)\w+(/?)>", name, line)


def contents(line: str) -> dict[str, set[str]]:
    """The words and the elements within each element, and within all."""
    found: dict[str, set[str]] = {"": set()}
    opened = [""]
    for closing, name, alone, word in re.findall(r"<(/?)(\w+)(/?)>|(\w+)", line):
        if closing:
            assert opened.pop() == name
            continue
        for outer in opened:
            found[outer].add(word or name)
        if name:
            found[name] = set()
            opened += [name] * (not alone)
    return found


def worth(name: str, held: list[str], source: dict[str, set[str]]) -> tuple[int, int]:
    """Count the elements directly within an element that have a word among these, and its own words."""
    within = source[name] & source.keys()
    directly = [one for one in within if not any(one in source[between] for between in within)]
    return sum(not source[one].isdisjoint(held) for one in directly), sum(word in source[name] for word in held)


@given(trees(), st.integers(0, 7), st.integers(0, 2**32 - 1))
def test_the_nesting_stays_and_an_element_holds_as_many_of_its_words_as_it_can(line: str, num_target: int, seed: int):
    """But for elements that need a word though none looks at theirs."""
    line = numbered(line)
    columns = itertools.count()
    source = contents(re.sub(r"\bw\b", lambda _: f"s{next(columns)}", line))
    tags, num_source = tags_and_words(line)
    tags = [replace(tag, needs_words=False, cuts_first=False, cuts_last=False) for tag in tags]
    aligned_to = np.random.default_rng(seed).integers(num_source, size=num_target).tolist() if num_source else []
    target = contents(placed_tags(len(aligned_to), tags, aligned_to))
    aims = {f"w{row}": f"s{column}" for row, column in enumerate(aligned_to)}
    assert target.keys() == source.keys()
    for name in source.keys() - {""}:
        assert target[name] & source.keys() == source[name] & source.keys()
        outer = [other for other in source if name in source[other]]
        foreign = set().union(*(source[o] for o in source if o not in {*outer, *source[name], name})) & set(
            aims.values()
        )
        room = [aim for word, aim in aims.items() if all(word in target[other] for other in outer)]
        stretches = [room[i:j] for i, j in itertools.combinations(range(len(room) + 1), 2)]
        best = max((worth(name, one, source) for one in stretches if foreign.isdisjoint(one)), default=(0, 0))
        held = [aim for word, aim in aims.items() if word in target[name]]
        assert foreign.isdisjoint(held)
        assert worth(name, held, source) == best


@given(trees(), st.integers(0, 6), st.integers(0, 2**32 - 1))
def test_tags_that_are_open_already_end_where_they_cross_no_other(line: str, num_target: int, seed: int):
    chance = np.random.default_rng(seed)
    tags, num_source = tags_and_words(line)
    aligned_to = chance.integers(num_source, size=num_target).tolist() if num_source else []
    is_open = [tag.closing is not None and chance.random() < 0.5 for tag in tags]
    opened = [replace(tag, is_open=True) for tag, is_it in zip(tags, is_open, strict=True) if is_it]
    chance.shuffle(opened)
    others = [tag for tag, is_it in zip(tags, is_open, strict=True) if not is_it]
    whole = "".join(tag.text for tag in opened) + placed_tags(num_target, [*opened, *others], aligned_to)
    assert is_well_formed(whole), whole
    assert sorted(re.findall(r"<[^>]*>", whole)) == sorted(re.findall(r"<[^>]*>", line))
