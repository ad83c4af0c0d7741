"""Which words are correct: by TER's own steps, compared with TER's own number of edits."""

from __future__ import annotations

import random

import pytest
from sacrebleu.metrics.lib_ter import translation_edit_rate

from nmt_cli.confidence.labels import correct_words, is_correct, ter_alignment


@pytest.mark.parametrize(
    ("hypothesis", "reference", "correct"),
    [
        ("the red car sleeps", "the red car sleeps", [1, 1, 1, 1]),
        ("the blue car sleeps", "the red car sleeps", [1, 0, 1, 1]),
        ("the the car", "the car", [0, 1]),  # one of the two is too much; which one, TER decides
        ("The CAR", "the car", [1, 1]),
        ("in the garden sleeps the car", "the car sleeps in the garden", [1, 1, 1, 1, 1, 1]),  # a shifted run is right
        ("", "the car", []),
        ("the car", "", [0, 0]),
        ("the  \t car", "the car", [1, 1]),
    ],
)
def test_words_are_correct_where_ter_needs_no_edit(hypothesis, reference, correct):
    found = correct_words(hypothesis, reference)
    if hypothesis == "the the car":
        assert sum(found) == 2
        assert found[2]
    else:
        assert found == [bool(value) for value in correct]


def test_a_word_that_is_missing_makes_the_line_wrong_but_no_word():
    assert correct_words("the sleeps", "the car sleeps") == [True, True]
    assert not is_correct("the sleeps", "the car sleeps")
    assert is_correct("The  car", "the car")


def test_the_steps_are_those_of_sacrebleu():
    """The number of edits is sacreBLEU's, and no more words are correct than both sides have."""
    draw = random.Random(1)
    for _ in range(300):
        words, wanted = ([draw.choice("abcdefg") for _ in range(draw.randrange(12))] for _ in range(2))
        edits, correct = ter_alignment(words, wanted)
        assert edits == translation_edit_rate(words, wanted)[0]
        assert len(correct) == len(words)
        remaining = list(wanted)
        for word, is_right in zip(words, correct, strict=True):
            if is_right:
                remaining.remove(word)  # each word of the reference counts once
        assert edits >= max(len(words), len(wanted)) - sum(correct)
