"""Tags and placeholders come through a translation."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt_cli.translation.markup import restored_words, strip_tags, tagged_words


def restore(plain, translation, weights):
    """The translation as one text."""
    found = restored_words(plain, translation, weights)
    return translation if found == translation.split() else " ".join(word for word in found if word)


CROSSED = np.array([[0.9, 0.1, 0.0, 0.0], [0.1, 0.1, 0.7, 0.1], [0.1, 0.8, 0.1, 0.0], [0.0, 0.0, 0.1, 0.9]])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("the <b>red</b> car sleeps", "la voiture <b>rouge</b> dort"),
        ("<p>the red car sleeps</p>", "<p>la voiture rouge dort</p>"),
        ("the <b>red car</b> sleeps", "la <b>voiture rouge</b> dort"),
        ("the <a href='x y'><b>red</b></a> car sleeps", "la voiture <a href='x y'><b>rouge</b></a> dort"),
        ("the red car <br/> sleeps", "la voiture rouge <br/>dort"),
        ("the red car sleeps <br/>", "la voiture rouge dort <br/>"),
        ("the </i> red car sleeps", "la </i>voiture rouge dort"),
        ("the red car sleeps", "la voiture rouge dort"),
    ],
)
def test_tags_stand_around_what_looks_at_what_they_enclosed(line: str, expected: str):
    plain = strip_tags(line)
    assert plain.text == "the red car sleeps"
    assert restore(plain, "la voiture rouge dort", CROSSED) == expected


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
        ("the </br> red car", True),
        ("the <x id='1'/> red car", False),
        ("if a < b and c > d", False),
    ],
)
def test_a_tag_without_a_partner_is_found(line: str, expected: bool):
    assert strip_tags(line).has_unpaired_tag == expected


def test_a_placeholder_takes_the_place_of_the_word_that_looks_at_it():
    plain = strip_tags("the __COLOUR__ car sleeps")
    assert restore(plain, "la voiture xx dort", CROSSED) == "la voiture __COLOUR__ dort"
    assert restore(plain, "la voiture __COLOUR__ dort", CROSSED) == "la voiture __COLOUR__ dort"
    assert restore(strip_tags("__URL__"), "", np.zeros((0, 1))) == "__URL__"


@pytest.mark.parametrize(
    ("line", "translation", "weights", "expected"),
    [
        ("__A__ __B__", "x", [[0.9, 0.8]], "__A__ __B__"),
        ("__A__ __B__", "x y", [[0.9, 0.8], [0.1, 0.2]], "__A__ __B__"),
        ("__U__ and __U__", "__U__ et quoi", [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], "__U__ et __U__"),
        ("__A__,__B__!", "__A__ x", [[0.9], [0.1]], "__A__ __B__"),
        ("(__A__)", "x", [[1.0]], "(__A__)"),
        ("__A__/__A__ __A__", "__A__ x y", [[0.1, 0.1], [0.5, 0.1], [0.1, 0.5]], "__A__ __A__ __A__"),
    ],
)
def test_no_placeholder_takes_the_place_of_another(line, translation, weights, expected):
    assert restore(strip_tags(line), translation, np.array(weights)) == expected


def test_a_placeholder_takes_the_place_of_no_number_and_of_no_text_without_spaces():
    weights = np.array([[0.1, 0.2], [0.1, 0.8]])
    assert restore(strip_tags("12 __NAME__"), "rien 12", weights) == "__NAME__ 12"
    assert restore(strip_tags("12 __NAME__"), "他有苹果。", weights[1:]) == "他有苹果。 __NAME__"


@given(st.lists(st.sampled_from(["__A__", "__B__", "(__A__)", "a", "b"]), max_size=8), st.integers(0, 5))
def test_every_placeholder_comes_back_as_often_as_it_stood_there(words: list[str], num_target: int):
    weights = np.random.default_rng(len(words)).random((num_target, len(words)))
    target = ["__A__", "w", "__C__", "w", "w"][:num_target]
    restored = restore(strip_tags(" ".join(words)), " ".join(target), weights)
    for name in ("__A__", "__B__"):
        assert restored.count(name) == max(" ".join(words).count(name), " ".join(target).count(name))


def test_less_and_greater_signs_of_ordinary_text_are_no_tags():
    line = "3 < 4 and 5 > 2 <3"
    assert strip_tags(line).text == line
    assert strip_tags(line).tags == ()


@given(
    st.lists(st.sampled_from(["<b>", "</b>", "<i>", "</i>", "<br/>", "a", "b", " "]), max_size=12), st.integers(0, 4)
)
def test_every_tag_comes_back_exactly_once(parts: list[str], num_target: int):
    line = "".join(parts)
    plain = strip_tags(line)
    weights = np.random.default_rng(len(line)).random((num_target, len(plain.text.split())))
    restored = restore(plain, " ".join(["w"] * num_target), weights)
    assert sorted(re.findall(r"<[^>]*>", restored)) == sorted(re.findall(r"<[^>]*>", line))
    assert re.sub(r"<[^>]*>", "", restored).split() == ["w"] * num_target


def test_symbols_of_the_tokenizer_are_no_tags():
    plain = strip_tags("<BT> the <b>red</b> car", {"<BT>"})
    assert plain.text == "<BT> the red car"
    assert [tag.text for tag in plain.tags] == ["<b>"]
    assert strip_tags("<BT> the red car", {"<BT>"}).text == "<BT> the red car"
    assert strip_tags("<BT> the red car").text == "the red car"


def is_well_formed(line: str) -> bool:
    open_tags: list[str] = []
    for closing, name, alone in re.findall(r"<(/?)(\w+)(/?)>", line):
        if closing:
            if not open_tags or open_tags.pop() != name:
                return False
        elif not alone:
            open_tags.append(name)
    return not open_tags


def test_tags_whose_words_the_translation_mixes_do_not_cross():
    weights = np.eye(2)[[0, 1, 0, 1, 1]]
    assert restore(strip_tags("<b>a</b> <i>b</i>"), "v w x y z", weights) == "<b>v</b> w x <i>y z</i>"
    weights = np.eye(3)[[2, 0, 1]]
    line = "<p><b>a</b> b</p> <i>c</i>"
    assert restore(strip_tags(line), "x y z", weights) == "<i>x</i> <p><b>y</b> z</p>"


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


@given(trees(), st.integers(0, 6), st.integers(0, 2**32 - 1))
def test_well_formed_markup_stays_well_formed(line: str, num_target: int, seed: int):
    plain = strip_tags(line)
    weights = np.random.default_rng(seed).random((num_target, len(plain.text.split())))
    restored = restore(plain, " ".join(["w"] * num_target), weights)
    assert is_well_formed(restored), restored
    assert sorted(re.findall(r"<[^>]*>", restored)) == sorted(re.findall(r"<[^>]*>", line))


@pytest.mark.parametrize(
    ("line", "looks_at", "expected"),
    [
        ("<a>one two</a> <b>three</b>", [0, 2, 1, 1], "v <b>w</b> <a>x y</a>"),
        ("<a>one</a> <b>two</b>", [0, 1, 0], "<a>v</a> <b>w</b> x"),
        ("<i>one <a>two</a></i> <b>three</b>", [0, 0, 2, 1], "v w <b>x</b> <i><a>y</a></i>"),
        ("<a>one</a> <b>two</b>", [0, 0, 0], "<a>v w x</a> <b></b>"),
        ("one <a><img/></a> two", [1, 0], "<a><img/></a>v w"),
        ("<a>one <img/></a> two", [0, 0, 1], "<a>v w <img/></a> x"),
        ("<b>one <i>two</b> three</i>", [0, 1, 2], "<b>v w</b> <i>x</i>"),
    ],
)
def test_elements_side_by_side_stay_so_and_nested_ones_stay_nested(line: str, looks_at: list[int], expected: str):
    plain = strip_tags(line)
    words = restored_words(plain, " ".join("vwxyz"[: len(looks_at)]), np.eye(len(plain.text.split()))[looks_at])
    assert " ".join(word for word in words if word) == expected


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
    line = numbered(line)
    columns = itertools.count()
    source = contents(re.sub(r"\bw\b", lambda _: f"s{next(columns)}", line))
    num_source = next(columns)
    looks_at = np.random.default_rng(seed).integers(num_source, size=num_target).tolist() if num_source else []
    words = tagged_words([f"w{row}" for row in range(len(looks_at))], strip_tags(line).tags, looks_at)
    target = contents(" ".join(words))
    aims = {f"w{row}": f"s{column}" for row, column in enumerate(looks_at)}
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
    random = np.random.default_rng(seed)
    plain = strip_tags(line)
    num_source = len(plain.text.split())
    looks_at = random.integers(num_source, size=num_target).tolist() if num_source else []
    is_open = [tag.closing is not None and random.random() < 0.5 for tag in plain.tags]
    opened = [replace(tag, is_open=True) for tag, is_it in zip(plain.tags, is_open, strict=True) if is_it]
    random.shuffle(opened)
    others = [tag for tag, is_it in zip(plain.tags, is_open, strict=True) if not is_it]
    words = tagged_words(["w"] * num_target, [*opened, *others], looks_at)
    whole = " ".join([*(tag.text for tag in opened), *words])
    assert is_well_formed(whole), whole
    assert sorted(re.findall(r"<[^>]*>", whole)) == sorted(re.findall(r"<[^>]*>", line))
