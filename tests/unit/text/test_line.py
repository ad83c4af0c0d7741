"""Lines that steps change, and translations of which the steps are undone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt_cli.text.edits import Change
from nmt_cli.text.line import Constraint, Line
from nmt_cli.text.translation import Translation
from nmt_cli.text.unit_alignment import Alignment


def test_spans_move_with_the_text():
    line = Line.of("see %s, the red CAR").apply_step("codes", non_text_spans=[(4, 6)])
    line = line.apply_step("terms", constraints=[Constraint(12, 19, ("rotes Auto",), "terms")])
    line = line.apply_step("stop", [Change(0, 0, "¿"), Change(19, 19, "!")], "data", lock=[(0, 3)])
    assert line.text == "¿see %s, the red CAR!"
    assert [line.text[slice(*span)] for span in line.locked_spans] == ["see", "%s"]
    assert [line.text[slice(*span)] for span in line.non_text_spans] == ["%s"]
    assert [line.text[one.begin : one.end] for one in line.constraints] == ["red CAR"]
    assert [(undo.step, undo.data, undo.edits.old) for undo in line.undo_records] == [("stop", "data", line.raw)]
    assert line.edits.old == line.raw


def test_words_that_are_no_text_are_left_out_of_what_a_line_is_judged_by():
    line = Line.of("see __X__ 42 %s.").apply_step("codes", non_text_spans=[(4, 9), (13, 15)], lock=[(10, 12)])
    assert line.plain_text() == "see 42"
    assert [word[0] for word in line.words()] == ["see", "42"]


@pytest.mark.parametrize("change", [(4, 5, "x"), (2, 8, ""), (5, 5, "x"), (0, 16, "")])
def test_a_step_must_not_touch_what_is_locked(change):
    line = Line.of("see __X__ 42 %s.").apply_step("codes", non_text_spans=[(4, 9)])
    assert not line.is_free(*change[:2])
    with pytest.raises(AssertionError, match="locked"):
        line.apply_step("case", [Change(*change)])
    assert line.is_free(4, 4)
    assert line.is_free(9, 10)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), max_size=5), st.integers(0, 20), st.integers(0, 5))
def test_what_is_free_is_found_as_by_looking_at_each_lock(spans, begin, size):
    locks = [(first, first + length) for first, length in spans if length]
    line = Line.of("x" * 30).apply_step("codes", lock=locks)
    inside = set(range(begin, begin + size))
    expected = not any(inside & set(range(*lock)) for lock in locks)
    if not size:
        expected = not any(place > lock[0] for lock in line.locked_spans for place in [begin] if place < lock[1])
    assert line.is_free(begin, begin + size) == expected


def test_a_step_that_does_nothing_leaves_nothing_behind():
    line = Line.of("see")
    assert line.apply_step("case") is line
    assert line.apply_step("case", [Change(0, 1, "s")]) is line


def test_an_undo_moves_all_that_belongs_to_words():
    line = Line.of("(see 42 cats)").apply_step("symbols", [Change(0, 1, ""), Change(12, 13, "")])
    term = Constraint(4, 6, ("42",), "numbers")
    weights = np.eye(3, 4)
    found = Translation(
        line.text, "sieh 42 Katzen", alignment=Alignment(((0, 3), (3, 6), (6, 11)), ((0, 4), (4, 7), (7, 14)), weights),
        terms=((term, (5, 7)),), confidence=0.5, word_confidence=(0.1, 0.2, 0.3),
    )  # fmt: skip
    back = found.undo_step(line.undo_records[0], [Change(0, 0, "( ", (0, 1)), Change(14, 14, ")", (12, 13))])
    assert (back.source, back.text) == ("(see 42 cats)", "( sieh 42 Katzen)")
    assert back.word_confidence == (0.5, 0.1, 0.2, 0.3)
    ((moved, place),) = back.terms
    assert (back.source[moved.begin : moved.end], back.text[slice(*place)]) == ("42", "42")
    spans = [(0, 4), (5, 7), (8, 13)], [(0, 1), (2, 6), (7, 9), (10, 17)]
    assert back.alignment.links(*spans) == [(0, 0), (0, 1), (1, 2), (2, 3)]


def test_a_prefix_gets_back_what_a_step_took_from_it_and_no_step_changes_it():
    line = Line.of("a B", prefix="<b>Ä").apply_step("tags", (), prefix_changes=[Change(0, 3, ""), Change(3, 4, "ä")])
    found = Translation("a B", "äx y", prefix_length=len(line.prefix))
    back = found.undo_step(line.undo_records[0], [Change(4, 4, "</b>")])
    assert (back.text, back.prefix_length) == ("<b>Äx y</b>", 4)
    with pytest.raises(AssertionError, match="prefix"):
        found.undo_step(line.undo_records[0], [Change(0, 1, "")])


def test_the_translation_of_another_text_is_refused():
    line = Line.of("a").apply_step("stop", [Change(1, 1, ".")])
    with pytest.raises(AssertionError, match="not 'a'"):
        Translation("a", "b").undo_step(line.undo_records[0])
