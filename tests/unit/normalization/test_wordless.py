"""Texts without words are copied; numbers, keycaps and marks of direction stay what they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nmt_cli.demo import phrasebook
from nmt_cli.normalization.glossary_terms import GlossaryTerms
from nmt_cli.normalization.normalizer import Normalizer
from nmt_cli.normalization.number_spans import number_spans
from nmt_cli.normalization.profile import TextProfile
from nmt_cli.text.line import Constraint, Line
from nmt_cli.text.translation import Translation

LINES = [pair.source for pair in phrasebook.generate(seed=3, num_train=600, num_dev=1, num_test=1).train]
PROFILE = replace(TextProfile.of(LINES, "en"), kept_numbers=("30", "2,000", "7", "12"), rewritten_numbers=("2",))
STEPS = Normalizer.of(PROFILE, source_lang="en", target_lang="fr", knows_words=True)


@pytest.mark.parametrize(
    "text",
    ["2:38 PM", "14:45", "name@example.org", "https://example.org/a?b", "v2.10.3", "192.168.0.1", "+33 1 23 45 67 89",
     "2024-01-31", "😀", "...", "50 %", "42", "a@b.c, 12:30", "2", "1️⃣ 2️⃣"],
)  # fmt: skip
def test_a_text_without_words_is_copied(text):
    line = STEPS.read(f" {text} ")
    assert line.text == ""
    assert STEPS.undo(line, Translation("", "")).text == text
    assert STEPS.undo(line, Translation("", "xyz")).text == text


@pytest.mark.parametrize("text", ["%s", "{name}", "__URL__", "%s: %d", "12 %s 13", "<b>%s</b>", "<b>12:30</b> {x} 😀"])
def test_a_text_of_placeholders_alone_is_copied(text):
    steps = STEPS.with_markup()
    line = steps.read(text)
    assert line.text == ""
    assert steps.undo(line, Translation("", "xyz")).text == text


@pytest.mark.parametrize("text", ["From:", "OK", "Hello", "10 km", "IP 192.168.0.1", "a", "2024年", "12th", "am"])
def test_a_text_with_a_word_is_translated(text):
    assert STEPS.read(text).text != ""


def test_a_text_without_words_is_read_where_a_prefix_or_a_term_asks_for_it():
    assert STEPS.read("14:45", "Il est ").text != ""
    (wordless,) = [step for step in STEPS.steps if step.name == "wordless"]
    line = Line.of("14:45").apply_step(GlossaryTerms.name, constraints=[Constraint(0, 5, ("x",), GlossaryTerms.name)])
    assert wordless.read(line).text == "14:45"


@pytest.mark.parametrize(
    ("text", "number"),
    [("about 1e-5 trees", "1e-5"), ("it has 6.02e23 trees", "6.02e23"), ("press 1️⃣ now", "1️⃣"), ("it is -5 now", "-5")],
)
def test_a_number_is_whole(text, number):
    assert [text[slice(*span)] for span in number_spans(text)] == [number]


def test_the_sign_of_a_share_is_a_part_of_its_number():
    line = STEPS.read("I have 50 % of it, and 10 %.")
    assert "%" not in line.text
    terms = tuple((one, (one.begin, one.end)) for one in line.constraints)
    assert STEPS.undo(line, Translation(line.text, line.text, terms=terms)).text == "I have 50 % of it, and 10 %."


@pytest.mark.parametrize("mark", ["\u200c", "\u200e", "\u200f", "\u2066", "\u2068", "\u2069", "\u202a", "\u061c"])
def test_marks_that_nobody_sees_are_not_read(mark):
    assert STEPS.read(f"Where is the {mark}red{mark} car?").text == "Where is the red car?"
