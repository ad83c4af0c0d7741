"""Signs around lines that the training text does not have."""

from __future__ import annotations

import random

import numpy as np
import pytest

from nmt_cli.translation.results import TermUse, Translation
from nmt_cli.translation.signs import MAX_LENGTH, Signs, is_sign, without_signs

KNOWN = ".?!,:;-'"


def split(text):
    begin, end = without_signs(text, lambda one: is_sign(one) and one not in KNOWN)
    return text[:begin], text[begin:end], text[end:]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("I see you.", ("", "I see you.", "")),
        ("I see you. 😀", ("", "I see you.", " 😀")),
        ("I see you. ", ("", "I see you. ", "")),
        ("* I see you. ", ("* ", "I see you. ", "")),
        ("😀😀 I see you! ❤️", ("😀😀 ", "I see you!", " ❤️")),
        ("👩‍👧 and 👍🏽", ("👩‍👧 ", "and", " 👍🏽")),
        ("• I see you", ("• ", "I see you", "")),
        ("(I see you.)", ("(", "I see you.", ")")),
        ("I see (you)", ("", "I see (you)", "")),
        ("(I) see you", ("", "(I) see you", "")),
        ("😀 (I) see [you] 😀", ("😀 ", "(I) see [you]", " 😀")),
        ("([I see you])", ("([", "I see you", "])")),
        ("“I see you”", ("“", "I see you", "”")),
        ("“I don't see you”", ("“", "I don't see you", "”")),
        ("“I” see “you”", ("", "“I” see “you”", "")),
        ("I see you :)", ("", "I see you", " :)")),
        ("I see you! ;-)", ("", "I see you!", " ;-)")),
        ("I see you!)", ("", "I see you!", ")")),
        ("#1 and 5°", ("", "#1 and 5°", "")),
        ("# 1 and 5 °", ("# ", "1 and 5", " °")),
        ("€ and €", ("", "€ and €", "")),
        ("😀", ("😀", "", "")),
        ("😀 *** 😀", ("😀 *** 😀", "", "")),
        (":)", ("", "", ":)")),
        ("", ("", "", "")),
        (" 😀 I see", ("", " 😀 I see", "")),  # perhaps a part of a line
        ("हिन्दी 😀", ("", "हिन्दी", " 😀")),
        ("x" * MAX_LENGTH + "😀", ("", "x" * MAX_LENGTH + "😀", "")),
    ],
)
def test_signs_around_a_text_are_found(text, parts):
    assert split(text) == parts


def test_words_and_known_signs_are_never_left_out():
    chance = random.Random(1)
    for _ in range(5000):
        text = "".join(chance.choice("a1 .:)(]😀“\ufe0f€") for _ in range(chance.randrange(12)))
        before, core, after = split(text)
        assert before + core + after == text
        assert not any(map(str.isalnum, before + after)), text
        assert not any(one in ".:" for one in before), text


def test_a_translation_within_signs_has_words_alignments_and_confidences_for_all():
    weights = np.array([[0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.6, 0.2]])  # of "Ich sehe" to three of five words
    weights = np.concatenate([np.zeros((2, 1)), weights[:, :3], np.zeros((2, 1)), weights[:, 3:]], axis=1)
    use = TermUse("see", (2, 3), "sehe", (1, 2))
    found = Translation(
        "Ich sehe", -1.0, -0.5, weights, ((2, 0), (3, 1)), 2, (use,), word_confidence=(0.5, 0.25), confidence=0.4
    )
    made = found.enclosed(Signs("😀 ", " 😀"), 5)
    assert made.text == "😀 Ich sehe 😀"
    assert made.num_words == 4
    assert made.links == ((0, 0), (2, 1), (3, 2), (4, 3))
    assert made.weights_with_end.argmax(axis=1).tolist() == [0, 2, 3, 4]
    assert made.weights_with_end[1:3].tolist() == weights.tolist()
    assert made.terms[0].target == (2, 3)
    assert made.word_confidence == (0.4, 0.5, 0.25, 0.4)
    glued = found.enclosed(Signs("(", ")"), 5)
    assert (glued.text, glued.num_words, glued.links) == ("(Ich sehe)", 2, found.links)


def test_a_line_of_signs_alone_is_its_own_translation():
    empty = Translation("", 0.0, 0.0, np.zeros((0, 3)), (), 0, word_confidence=(), confidence=1.0)
    made = empty.enclosed(Signs("😀 😀", ""), 2)
    assert (made.text, made.num_words, made.links) == ("😀 😀", 2, ((0, 0), (1, 1)))
    assert made.weights_with_end.shape == (2, 3)
    assert made.word_confidence == (1.0, 1.0)
    assert Translation("", 0.0, 0.0).enclosed(Signs("", "😀"), 1) == Translation("😀", 0.0, 0.0)
