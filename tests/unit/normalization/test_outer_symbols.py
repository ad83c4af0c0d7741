"""Symbols around lines, and around their translations, against the code that put them there before."""

from __future__ import annotations

import random

import pytest
from odd_lines import SYMBOLS, TRANSLATORS, WORDS, WRITING, odd_line

from nmt_cli.data.writing import WritingProfile
from nmt_cli.demo import phrasebook
from nmt_cli.normalization.known_characters import KnownCharacters
from nmt_cli.normalization.normalizer import Normalizer
from nmt_cli.normalization.outer_symbols import OuterSymbols
from nmt_cli.normalization.profile import TextProfile
from nmt_cli.normalization.symbols import KnownSymbols
from nmt_cli.text.line import Line
from nmt_cli.text.translation import Translation
from nmt_cli.translation import results
from nmt_cli.translation.markup import PlainLine
from nmt_cli.translation.prefix import Prefix
from nmt_cli.translation.writing import Writing

LINES = [pair.source for pair in phrasebook.generate(seed=3, num_train=1500, num_dev=1, num_test=1).train]
KINDS = [*SYMBOLS, *SYMBOLS, *SYMBOLS, *WRITING, *WORDS]


def odd_lines(writing, num=800, seed=7):
    """Lines without symbols within, which another step reads."""
    chance = random.Random(seed)
    found = [odd_line(chance.choice(LINES), chance, KINDS) for _ in range(num)]
    return [*(text for text in found if not writing._inner_signs(text)), "😀", ":)", "( )", "", " 😀 the car", "« »"]


@pytest.fixture(scope="module")
def both():
    languages = {"source_lang": "en", "target_lang": "fr", "knows_words": True}
    writing = Writing(WritingProfile.of(LINES, "en"), **languages)
    return writing, Normalizer.of(TextProfile.of(LINES, "en"), **languages), odd_lines(writing)


def test_lines_are_read_without_the_symbols_around_them(both):
    writing, steps, lines = both
    assert [steps.read(text).text for text in lines] == [writing.adapted(text).text for text in lines]
    assert sum(any(undo.step == "outer symbols" for undo in steps.read(text).undos) for text in lines) > len(lines) / 4


@pytest.mark.parametrize("translator", [*TRANSLATORS, lambda text: ""])
def test_translations_get_the_symbols_around_their_lines(both, translator):
    writing, steps, lines = both
    chance = random.Random(2)
    for text in lines:
        line = steps.read(text)
        translation = translator(line.text)
        begun = translation[: chance.choice([0, 0, chance.randrange(len(translation) + 1)])]
        prefix = Prefix(begun, (), (), b"", ()) if begun else None
        own = results.Translation(
            translation, 0.0, 0.0, confidence=0.5, word_confidence=(0.1,) * len(translation.split())
        )
        (expected,) = writing.restored(PlainLine(text, ()), [own], prefix)
        back = steps.undo(
            line,
            Translation(
                line.text, translation, begun=len(begun), confidence=0.5, word_confidence=own.word_confidence,
            ),
        )  # fmt: skip
        assert (back.text, back.source) == (expected.text, text)
        assert len(back.word_confidence) == len(back.text.split())
        assert back.text.startswith(begun)
        if not begun:
            assert back.word_confidence == expected.word_confidence


PROFILE = TextProfile.of(["I see you.?!,:;-'"] * 20, "en")
KNOWN = KnownSymbols(PROFILE, KnownCharacters(PROFILE.characters))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("I see you.", ("", "I see you.", "")),
        ("I see you. ", ("", "I see you. ", "")),
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
    begin, end = line.undos[0].data if line.undos else (0, len(text))
    assert (text[:begin], text[begin:end], text[end:]) == parts
    assert line.text == text[begin:end]


def test_what_is_locked_keeps_the_symbols_around_it():
    line = Line.of("* see (%s) *").changed("codes", no_text=[(6, 10)])
    assert OuterSymbols(KNOWN).read(line).text == "see (%s)"
    locked = Line.of("*see* %s *").changed("codes", lock=[(0, 5)])
    assert OuterSymbols(KNOWN).read(locked).text == "*see* %s"


def test_what_a_prefix_has_behind_it_does_not_come_again(both):
    writing, steps, _ = both
    for text in ("The car is here ★", "★ the car ★ is here ★"):
        line = steps.read(text)
        for begun in ("Das Auto", "Das Auto ★", "Das Auto ★ ★", "Das Auto ★ ist ★ hier ★"):
            said = begun + " ist da"
            found = Translation(line.text, said, begun=len(begun))
            own = results.Translation(said, 0.0, 0.0)
            (expected,) = writing.restored(PlainLine(text, ()), [own], Prefix(begun, (), (), b"", ()))
            assert steps.undo(line, found).text == expected.text
            assert begun != "Das Auto ★ ist ★ hier ★" or not expected.text.endswith("★")
