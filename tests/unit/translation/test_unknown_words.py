"""Words that the model cannot write are copied from the line."""

from __future__ import annotations

import numpy as np
import pytest

from nmt_cli.data.tokenizer import UNK
from nmt_cli.text.edits import Change, word_spans
from nmt_cli.text.line import Line
from nmt_cli.text.translation import Translation
from nmt_cli.text.unit_alignment import Alignment
from nmt_cli.translation.results import Part
from nmt_cli.translation.unknown_words import UNK_SURFACE, copy_unknown_words


def copied(line: Line, target: str, looks_at, unknown=(), prefix_length=0) -> Translation:
    """The translation, whose words look at words of what is read; pieces are words, and those of `unknown`."""
    words = word_spans(line.text)
    weights = np.eye(len(words), len(words) + 1)[looks_at]
    alignment = Alignment(tuple(words), tuple(word_spans(target)), weights)
    found = Translation(line.text, target, alignment=alignment, prefix_length=prefix_length)
    pieces = [*((9, span) for span in words), *((UNK, span) for span in unknown)]
    part = Part(0, 0, 0, tuple(id_ for id_, _ in pieces), tuple(span for _, span in pieces))
    (own,) = copy_unknown_words(line, [part], [found])
    return own


@pytest.mark.parametrize(
    ("text", "target", "looks_at", "unknown", "expected"),
    [
        ("the Zzyx car sleeps", f"la voiture {UNK_SURFACE} dort", [0, 2, 1, 3], [(4, 8)], "la voiture Zzyx dort"),
        ("the John Smith sleeps", f"le {UNK_SURFACE} dort", [0, 1, 3], [(3, 14)], "le John Smith dort"),
        ("the John Smith sleeps", f"le {UNK_SURFACE} dort", [0, 2, 3], [(3, 14)], "le Smith dort"),
        ("the Zzyx car ", f"{UNK_SURFACE}{UNK_SURFACE} la", [1, 0], [(3, 9)], "Zzyx la"),
        ("the car", "la voiture", [0, 1], [], "la voiture"),
    ],
)
def test_an_unknown_word_has_what_its_attention_tells(text, target, looks_at, unknown, expected):
    found = copied(Line.of(text), target, looks_at, unknown)
    assert found.text == expected
    spans = word_spans(text), word_spans(expected)
    assert len(found.alignment.links(*spans)) == len(spans[1])


def test_it_is_the_word_as_the_user_wrote_it():
    line = Line.of("(ZZYX) SLEEPS").apply_step(
        "x", [Change(0, 1, ""), Change(1, 5, "zzyx", one_to_one=True), Change(5, 6, "")]
    )
    assert line.text == "zzyx SLEEPS"
    assert copied(line, f"dort {UNK_SURFACE}", [1, 0], [(0, 4)]).text == "dort ZZYX"


def test_what_a_prefix_has_stays():
    found = copied(Line.of("the Zzyx car"), f"{UNK_SURFACE} la {UNK_SURFACE}", [1, 0, 1], [(4, 8)], prefix_length=4)
    assert found.text == f"{UNK_SURFACE} la Zzyx"
