"""XLIFF: what attributes say about a translation, which units may be translated, and what a note tells."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from document_translators import SPLIT, upper

from nmt_cli.documents.document import translate_document

HEAD = '<xliff version="1.2"><file source-language="en"><body>'
END = "</body></file></xliff>\n"
TEXT = "<trans-unit><source>a</source></trans-unit>"


def units(text: str, translate=upper, overwrite: bool = False) -> str:
    done = translate_document(
        "a.xlf", (HEAD + text + END).encode(), translate, SPLIT, target_lang=None, overwrite=overwrite
    ).content
    ElementTree.fromstring(done)
    return done.decode().removeprefix(HEAD).removesuffix(END)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            '<trans-unit approved="yes"><source>a</source><target state="signed-off">b</target></trans-unit>',
            '<trans-unit approved="no"><source>a</source><target state="translated">A</target></trans-unit>',
        ),
        (
            '<trans-unit approved="yes"><source>a</source><target>b</target></trans-unit>',
            '<trans-unit approved="no"><source>a</source><target>A</target></trans-unit>',
        ),
        (
            '<trans-unit approved="yes"><source>a</source><target state="new"/></trans-unit>',
            '<trans-unit approved="no"><source>a</source><target state="translated">A</target></trans-unit>',
        ),
        (
            '<unit><segment id="1" state="final" subState="x:y"><source>a</source><target>b</target></segment></unit>',
            '<unit><segment id="1" state="translated"><source>a</source><target>A</target></segment></unit>',
        ),
        (
            "<unit><segment state='reviewed'><source>a</source><target>b</target></segment></unit>",
            "<unit><segment state='translated'><source>a</source><target>A</target></segment></unit>",
        ),
    ],
)
def test_nobody_has_approved_a_new_translation(before: str, after: str):
    assert units(before, overwrite=True) == after


def test_the_same_translation_stays_approved():
    unit = '<trans-unit approved="yes"><source>a</source><target state="final">A</target></trans-unit>'
    assert units(unit, overwrite=True) == unit
    assert units(unit.replace(">A<", ">b<")) == unit.replace(">A<", ">b<")


@pytest.mark.parametrize("state", ["", 'state="final" ', 'state="needs-review-translation" '])
def test_where_a_translation_came_from_is_told_of_the_new_one(state: str):
    """Fails if a translation by the model passes for an exact match of a translation memory."""
    unit = f'<trans-unit><source>a</source><target {state}state-qualifier="exact-match">b</target></trans-unit>'
    (new,) = ElementTree.fromstring(HEAD + units(unit, overwrite=True) + END).iter("target")
    assert (new.text, new.attrib["state-qualifier"]) == ("A", "mt-suggestion")
    same = unit.replace(">b<", ">A<")
    assert 'state-qualifier="exact-match"' in units(same, overwrite=True)
    assert "mt-suggestion" not in units("<trans-unit><source>a</source><target>b</target></trans-unit>", overwrite=True)


@pytest.mark.parametrize(
    ("state", "after"), [("final", "translated"), ("needs-review-translation", "needs-review-translation")]
)
def test_filled_segments_change_the_state_of_their_unit_once(state: str, after: str):
    """Fails if a translation that somebody has to look at passes for a finished one, because others were added."""
    marks = "".join(f'<mrk mtype="seg" mid="{number}">{{}}</mrk>' for number in range(3))
    unit = (
        f'<trans-unit approved="{{}}"><source>abc</source><seg-source>{marks.format(*"abc")}</seg-source>'
        f'<target state="{{}}" state-qualifier="{{}}">{marks}</target></trans-unit>'
    )
    before = unit.format("yes", state, "exact-match", "x", "", "")
    assert units(before) == unit.format("no", after, "mt-suggestion", "x", "B", "C")
    assert units(before, overwrite=True) == unit.format("no", "translated", "mt-suggestion", "A", "B", "C")


def test_the_nearest_element_says_if_a_unit_is_translated():
    done = units(
        '<group translate="no"><trans-unit translate="yes"><source>a</source></trans-unit><group>'
        '<trans-unit><source>b</source></trans-unit></group><group translate="yes">'
        '<trans-unit><source>c</source></trans-unit><trans-unit translate="no"><source>d</source></trans-unit></group>'
        "</group>"
    )
    assert [target.text for target in ElementTree.fromstring(done).iter("target")] == ["A", "C"]


def test_a_unit_of_xliff_2_is_translated_within_a_group_that_is_not():
    done = units('<group translate="no"><unit translate="yes"><segment><source>a</source></segment></unit></group>')
    assert "<target>A</target>" in done


@pytest.mark.parametrize("value", ["preserve", "default"])
def test_an_added_target_keeps_white_space_as_its_source_does(value: str):
    before = f'<trans-unit><source xml:space="{value}">a  b</source></trans-unit>'
    (added,) = ElementTree.fromstring(HEAD + units(before) + END).iter("target")
    assert added.attrib == {"{http://www.w3.org/XML/1998/namespace}space": value}
    assert units("<trans-unit><source>a</source></trans-unit>").count("<target>A<") == 1


def test_a_note_counts_the_texts_within_codes_which_stay():
    unit = '<trans-unit><source>a <ph id="1">x <sub>note <x id="2"/></sub><sub>b</sub></ph> c</source>{}</trans-unit>'
    data = HEAD + unit.format("") * 2 + unit.format("<target>d</target>") + TEXT + END
    done = translate_document("a.xlf", data.encode(), upper, SPLIT, target_lang=None)
    assert done.counts.notes == [
        "2 texts have a footnote or the like inside a code (sub), which stays in the source language"
    ]
    assert b'<target>A <ph id="1">x <sub>note <x id="2"/></sub><sub>b</sub></ph> C</target>' in done.content
    assert not translate_document("a.xlf", (HEAD + TEXT + END).encode(), upper, SPLIT, target_lang=None).counts.notes
