"""Work that grows with the length of a text and not with its square, counted and not timed."""

from __future__ import annotations

import builtins
import re

import pytest
from document_translators import SPLIT, upper

from nmt_cli.documents.document import translate_document
from nmt_cli.documents.inline_codes import split_codes
from nmt_cli.documents.sentences import Unit, split_into_sentences
from nmt_cli.documents.units import line_of
from nmt_cli.formats import subtitles
from nmt_cli.formats.segments import Atom, Kind
from nmt_cli.formats.work import Work


class Counted(str):
    """Text that counts the characters that are copied out of it, and out of its parts."""

    num_copied = 0

    def __getitem__(self, place: slice) -> Counted:
        part = Counted(super().__getitem__(place))
        Counted.num_copied += len(part)
        return part


@pytest.fixture
def text() -> Counted:
    Counted.num_copied = 0
    return Counted("so %s. " * 2_000)


def test_placeholders_are_cut_out_of_a_long_text_without_copies_of_its_rest(text: Counted):
    found = split_codes([Atom(text, text)], work=Work())
    assert sum(atom.kind is Kind.PLACEHOLDER for atom in found) == 2_000
    assert Counted.num_copied <= 4 * len(text)


def test_sentences_are_cut_out_of_a_long_text_without_copies_of_its_rest(text: Counted):
    found = split_into_sentences([Atom(text, text)], lambda _: ["so %s. "] * 2_000, Work())
    assert sum(isinstance(item, Unit) for item in found) == 2_000
    assert Counted.num_copied <= 4 * len(text)


def test_the_lines_of_a_long_cue_are_filled_without_a_sum_for_each(monkeypatch: pytest.MonkeyPatch):
    num_added = 0

    def adding(numbers: list[int]) -> int:
        nonlocal num_added
        numbers = list(numbers)
        num_added += len(numbers)
        return builtins.sum(numbers)

    monkeypatch.setattr(subtitles, "sum", adding, raising=False)
    cue = "1\n00:00:01,000 --> 00:00:02,000\n" + "red  dog\n" * 500
    done = translate_document("a.srt", cue.encode(), upper, SPLIT, target_lang=None).content.decode()
    assert done.count("RED DOG\n") == 500
    assert num_added <= 3_000


def test_a_text_is_not_searched_for_each_of_its_placeholders(monkeypatch: pytest.MonkeyPatch):
    num_searches = 0
    findall = re.findall

    def searching(*arguments: str) -> list[str]:
        nonlocal num_searches
        num_searches += 1
        return findall(*arguments)

    monkeypatch.setattr(re, "findall", searching)
    atoms = split_codes([Atom(text := " ".join(f"{{n{number}}} dog" for number in range(2_000)), text)], work=Work())
    line = line_of(Unit(atoms), lambda atom: atom.raw, Work())
    assert line.text == text
    assert num_searches <= 20


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a %s and %s", "a %s and %s"),
        ("a <code>car</code> is a car", "a __1__ is a car"),
        ("a <code>cars</code> is no oscars", "a cars is no oscars"),
        ("a <code>cars</code> is no cars_2", "a cars is no cars_2"),
        ("a <code>cars</code> is <code>cars two</code> cars", "a __1__ is cars_two cars"),
        ("a <code>4711</code> is <code>47</code> or 47", "a 4711 is __2__ or 47"),
        ("a <code>x.y</code> is <code>x.y.z</code>", "a __1__ is x.y.z"),
        ("a <code>--</code> is <code>---</code>", "a __1__ is ---"),
        ("a <code>a-a-a</code> is a-a-a-a-a", "a __1__ is a-a-a-a-a"),
    ],
)
def test_placeholders_that_stand_elsewhere_too_get_other_names(text: str, seen: str):
    lines: list[str] = []

    def translate(some):
        lines.extend(some)
        return upper(some)

    translate_document("a.html", f"<p>{text}</p>".encode(), translate, SPLIT, target_lang=None)
    assert lines == [seen]
