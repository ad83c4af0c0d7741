"""Symbols around lines, and around their translations."""

from __future__ import annotations

import random

import numpy as np
import pytest
from marks import some_or_all
from odd_lines import SYMBOLS, TRANSLATORS, WORDS, WRITING, odd_line

from nmt_cli.demo import phrasebook
from nmt_cli.normalization.known_characters import KnownCharacters
from nmt_cli.normalization.normalizer import Normalizer
from nmt_cli.normalization.outer_symbols import OuterSymbols
from nmt_cli.normalization.profile import TextProfile
from nmt_cli.normalization.symbols import MAX_LENGTH, KnownSymbols
from nmt_cli.text.edits import word_spans
from nmt_cli.text.line import Line
from nmt_cli.text.translation import Translation
from nmt_cli.text.unit_alignment import Alignment

LINES = [pair.source for pair in phrasebook.generate(seed=3, num_train=1500, num_dev=1, num_test=1).train]
KINDS = [*SYMBOLS, *SYMBOLS, *SYMBOLS, *WRITING, *WORDS]
PROFILE = TextProfile.of(["I see you.?!,:;-'"] * 20, "en")
KNOWN = KnownSymbols(PROFILE, KnownCharacters(PROFILE.characters))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("I see you.", ("", "I see you.", "")),
        ("I see you. 😀", ("", "I see you.", " 😀")),
        ("I see you. ", ("", "I see you. ", "")),
        ("😀😀 I see you! ❤️", ("😀😀 ", "I see you!", " ❤️")),
        ("• I see you", ("• ", "I see you", "")),
        ("😀 (I) see [you] 😀", ("😀 ", "(I) see [you]", " 😀")),
        ("“I don't see you”", ("“", "I don't see you", "”")),
        ("I see you :)", ("", "I see you", " :)")),
        ("I see you!)", ("", "I see you!", ")")),
        ("😀", ("😀", "", "")),
        ("", ("", "", "")),
        ("हिन्दी 😀", ("", "हिन्दी", " 😀")),
        ("x" * MAX_LENGTH + "😀", ("", "x" * MAX_LENGTH + "😀", "")),
        ("* I see you. ", ("* ", "I see you. ", "")),
        ("👩‍👧 and 👍🏽", ("👩‍👧 ", "and", " 👍🏽")),
        ("(I see you.)", ("(", "I see you.", ")")),
        ("I see (you)", ("", "I see (you)", "")),
        ("(I) see you", ("", "(I) see you", "")),
        ("([I see you])", ("([", "I see you", "])")),
        ("“I” see “you”", ("", "“I” see “you”", "")),
        ("I see you! ;-)", ("", "I see you!", " ;-)")),
        ("#1 and 5°", ("", "#1 and 5°", "")),
        ("# 1 and 5 °", ("# ", "1 and 5", " °")),
        ("€ and €", ("", "€ and €", "")),
        ("😀 *** 😀", ("😀 *** 😀", "", "")),
        (":)", ("", "", ":)")),
        (" 😀 I see", ("", " 😀 I see", "")),  # perhaps a part of a line
    ],
)
def test_what_is_left_out_and_what_stays(text, parts):
    line = OuterSymbols(KNOWN).read(Line.of(text))
    begin, end = line.undo_records[0].data if line.undo_records else (0, len(text))
    assert (text[:begin], text[begin:end], text[end:]) == parts
    assert line.text == text[begin:end]


def test_what_is_locked_keeps_the_symbols_around_it():
    line = Line.of("* see (%s) *").apply_step("codes", non_text_spans=[(6, 10)])
    assert OuterSymbols(KNOWN).read(line).text == "see (%s)"
    locked = Line.of("*see* %s *").apply_step("codes", lock=[(0, 5)])
    assert OuterSymbols(KNOWN).read(locked).text == "*see* %s"


def undone(text: str, said: str, begun: str = "", step=None, **more) -> Translation:
    """The translation of a line whose words look at its words in order, within the symbols of the line."""
    own = step or OuterSymbols(KNOWN)
    line = own.read(Line.of(text))
    found = Translation(line.text, said, prefix_length=len(begun), **more)
    for undo in line.undo_records:
        found = found.undo_step(undo, own.undo(undo, found))
    return found


@pytest.mark.parametrize("translator", TRANSLATORS)
@some_or_all(800)
def test_a_translation_has_what_stood_around_its_line_byte_for_byte(translator, num):
    chance = random.Random(2)
    own = OuterSymbols(KNOWN)
    for text in [odd_line(chance.choice(LINES), chance, KINDS) for _ in range(num)]:
        begin, end = next((undo.data for undo in own.read(Line.of(text)).undo_records), (0, len(text)))
        said = translator(text[begin:end])
        assert undone(text, said).text == text[:begin] + said + text[end:]


@some_or_all(5_000)
def test_words_and_known_symbols_are_never_left_out(num):
    chance = random.Random(1)
    for _ in range(num):
        text = "".join(chance.choice("a1 .:)(]😀“\ufe0f€") for _ in range(chance.randrange(12)))
        line = OuterSymbols(KNOWN).read(Line.of(text))
        begin, end = line.undo_records[0].data if line.undo_records else (0, len(text))
        assert not any(map(str.isalnum, text[:begin] + text[end:])), text
        assert not any(one in ".:" for one in text[:begin]), text


def test_symbols_that_are_words_have_an_alignment_and_a_confidence():
    weights = np.array([[0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.6, 0.2]])
    for text, said, links, sure in (
        ("😀 I see you 😀", "😀 Ich sehe 😀", [(0, 0), (2, 1), (3, 2), (4, 3)], (0.4, 0.5, 0.25, 0.4)),
        ("(I see you)", "(Ich sehe)", [(1, 0), (2, 1)], (0.5, 0.25)),
    ):
        read = OuterSymbols(KNOWN).read(Line.of(text)).text
        alignment = Alignment(tuple(word_spans(read)), ((0, 3), (3, 8)), weights)
        found = undone(text, "Ich sehe", alignment=alignment, confidence=0.4, word_confidence=(0.5, 0.25))
        assert found.text == said
        assert found.alignment.links(word_spans(text), word_spans(said)) == links
        assert found.word_confidence == sure


@pytest.mark.parametrize("text", ["😀 😀", "😀", ":)", "« »"])
def test_a_line_of_symbols_alone_is_its_own_translation(text):
    found = undone(text, "", confidence=1.0, word_confidence=())
    assert (found.text, found.word_confidence) == (text, (1.0,) * len(text.split()))


@pytest.mark.parametrize(
    ("text", "begun", "said", "expected"),
    [
        ("★ the cat ★ ", "  Die", "  Die Katze", "  Die Katze ★"),
        ("★ the cat ★ ", "  ", "  ", "   ★"),
        ("★ the cat ★ ", "Die  ", "Die  ", "Die   ★"),
        ("the cat★", "Die Katze ", "Die Katze ", "Die Katze ★"),
        ("The cat ★", "Die Katze ★", "Die Katze ★ schläft", "Die Katze ★ schläft"),
        ("The cat ★", "Die", "Die Katze ★ schläft", "Die Katze ★ schläft ★"),
        ("★ The cat ★ is ★", "Die", "Die Katze ★ ist", "Die Katze ★ ist ★"),
        ("★ The cat ★ is ★", "Die ★ Katze ★ ist ★", "Die ★ Katze ★ ist ★", "Die ★ Katze ★ ist ★"),
    ],
)
def test_a_prefix_keeps_its_blanks_and_what_it_has_does_not_come_again(text, begun, said, expected):
    assert undone(text, said, begun).text == expected


def test_all_steps_read_a_line_without_the_symbols_around_it():
    steps = Normalizer.of(TextProfile.of(LINES, "en"), source_lang="en", target_lang="fr").without("wordless")
    for text, read in (
        ("😀 I see the car. 😀", "I see the car."),
        ("* The car sees @tom. 😀", "The car sees @tom."),
        ("@😀", "@😀"),
    ):
        assert steps.read(text).text == read
