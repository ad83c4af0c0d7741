"""Symbols within lines: what is read in their place, and where translations get them back."""

from __future__ import annotations

import codecs
import random
import re
from collections import Counter

import numpy as np
import pytest
from marks import some_or_all, some_or_all_of
from odd_lines import INNER, SYMBOLS, WORDS, WRITING, odd_line

from nmt_cli.demo import phrasebook
from nmt_cli.normalization.normalizer import Normalizer
from nmt_cli.normalization.profile import TextProfile
from nmt_cli.text.edits import Edits, word_spans
from nmt_cli.text.line import Line
from nmt_cli.text.translation import Translation
from nmt_cli.text.unit_alignment import Alignment

LINES = [pair.source for pair in phrasebook.generate(seed=3, num_train=1500, num_dev=1, num_test=1).train]
LINES = [line if number % 7 else line.replace(" ", ", ", 1) for number, line in enumerate(LINES)]
LANGUAGES = {"source_lang": "en", "target_lang": "fr", "knows_words": True}
SYMBOL = re.compile(r"[^\w\s.,;:!?'-]")


@pytest.fixture(scope="module")
def steps():
    return Normalizer.of(TextProfile.of(LINES, "en"), **LANGUAGES)


@pytest.fixture(scope="module")
def symbols(steps):
    """The steps of symbols alone, so that nothing else changes."""
    return Normalizer([step for step in steps.steps if step.name in ("codes", "outer symbols", "inner symbols")])


@pytest.fixture(scope="module", params=some_or_all_of(1_200))
def lines(request):
    chance = random.Random(1)
    return [odd_line(chance.choice(LINES), chance, [*INNER]) for _ in range(request.param)]


def words_of(text):
    return re.findall(r"\w+", re.sub(r"°(?:[CF]\b)?", " ", text))


def test_no_word_is_lost_and_no_two_become_one(symbols, lines):
    for text in lines:
        assert words_of(symbols.read(text).text) == words_of(text)


def test_ordinary_lines_are_left_alone(symbols):
    for text in LINES:
        assert symbols.read(text).undo_records == ()


def aligned(source, target, order):
    """The words of a translation, each of which looks at a word of the source."""
    weights = np.zeros((len(order), len(word_spans(source)) + 1))
    weights[range(len(order)), list(order)] = 1.0
    return Alignment(tuple(word_spans(source)), tuple(word_spans(target)), weights)


def restored(steps, line, words, order, prefix_length=0):
    target = " ".join(words[number] for number in order)
    alignment = aligned(line.text, target, order)
    sure = tuple(number / 10 for number in range(len(order)))
    return steps.undo(
        line,
        Translation(
            line.text, target, alignment=alignment, prefix_length=prefix_length, confidence=0.5, word_confidence=sure,
        ),
    )  # fmt: skip


def kept_and_enciphered(edits: Edits) -> str:
    """The slow truth: the raw line with other letters, but for what the model has not read."""
    written, last = "", 0
    for run in edits.runs:
        own = edits.old[run.old : run.old + run.length]
        written += edits.old[last : run.old] + codecs.encode(own, "rot13")
        last = run.old + run.length
    return written + edits.old[last:]


@pytest.mark.parametrize("encipher", [False, True])
def test_a_translation_in_the_same_order_is_written_byte_for_byte_as_its_line(symbols, lines, encipher):
    num_wrong = 0
    for text in lines:
        line = symbols.read(text)
        words = [codecs.encode(word, "rot13") if encipher else word for word in line.text.split()]
        back = restored(symbols, line, words, range(len(words)))
        expected = kept_and_enciphered(line.edits) if encipher else text
        is_simple = not re.search(rf"{SYMBOL.pattern}[\s,.?]*{SYMBOL.pattern}", text)
        assert back.text == expected or not is_simple, text
        num_wrong += back.text != expected
    assert num_wrong <= 0.01 * len(lines)


def orders(num_words, chance):
    """Orders in which a translation may say the words: reversed, two exchanged, with some left out or said twice."""
    yield [*range(num_words)][::-1]
    place = chance.randrange(max(num_words - 1, 1))
    yield [*range(place), *reversed(range(place, min(place + 2, num_words))), *range(place + 2, num_words)]
    yield [chance.randrange(num_words) for _ in range(chance.randint(1, num_words))]


def test_whatever_the_order_each_symbol_comes_back_once_and_no_word_changes(symbols, lines):
    chance = random.Random(2)
    for text in lines:
        line = symbols.read(text)
        words = [codecs.encode(word, "rot13") for word in line.text.split()]
        if not words:
            continue
        for order in orders(len(words), chance):
            said = " ".join(words[number] for number in order)
            prefix_length = chance.choice([0, 0, chance.randrange(len(said) + 1)])
            back = restored(symbols, line, words, order, prefix_length)
            assert back.text.startswith(said[:prefix_length])
            assert words_of(back.text) == words_of(said)
            if not prefix_length:
                left_out = Counter(SYMBOL.findall(text)) - Counter(SYMBOL.findall(line.text))
                assert Counter(SYMBOL.findall(back.text)) == left_out + Counter(SYMBOL.findall(said))
            assert len(back.word_confidence) == len(back.text.split())
            assert back.source == text


@pytest.mark.parametrize(
    ("text", "read", "words", "expected"),
    [
        ("I see (your) cat.", "I see, your, cat.", "3 2 1 0", "cat. (your) see, I"),
        ("The cat (big) sleeps.", "The cat, big, sleeps.", "0 2 1 3", "The (big) cat, sleeps."),
        ("A he/she is here.", "A he she is here.", "2 3 0 1", "she is A he /"),
        ("See *this* cat.", "See this cat.", "2 1 0", "cat. *this* See"),
        ("I see 😀 a cat.", "I see a cat.", "2 3 0 1", "a cat. I see 😀"),
        ("It is hot in °C-5 now.", "It is hot in -5 now.", "0 1 2 3 4 5", "It is hot in °C-5 now."),
        ("I see «your» 😀cat.", "I see, your, cat.", "0 1 2 3", "I see «your» 😀cat."),
    ],
)
def test_symbols_stand_beside_the_words_that_look_at_their_neighbours(symbols, text, read, words, expected):
    line = symbols.read(text)
    assert line.text == read
    order = [int(word) for word in words.split()]
    assert restored(symbols, line, line.text.split(), order).text == expected


def test_without_attention_the_translation_stays(symbols):
    line = symbols.read("I see (your) cat.")
    assert line.needs_alignment
    assert symbols.undo(line, Translation(line.text, "x y, z, a.")).text == "x y, z, a."


def test_a_prefix_that_has_symbols_does_not_get_them_again(symbols):
    line = symbols.read("I see (your) 😀 cat.")
    begun, said = "V frr (lbhe)", "V frr (lbhe) png."
    alignment = aligned(line.text, said, range(4))
    back = symbols.undo(line, Translation(line.text, said, alignment=alignment, prefix_length=len(begun)))
    assert back.text == "V frr (lbhe) 😀 png."


def test_languages_without_blanks_and_models_without_attention_read_all_symbols():
    profile = TextProfile.of(LINES, "en")
    for source, target in (("en", "ja"), ("zh", "en")):
        own = Normalizer.of(profile, source_lang=source, target_lang=target)
        assert own.read("I see 😀 Tom.").text == "I see 😀 Tom."
    without = Normalizer.of(profile, **LANGUAGES).without("inner symbols")
    assert without.read("I see 😀 Tom.").text == "I see 😀 Tom."


@some_or_all(1_500)
def test_all_steps_together_take_any_line(steps, num):
    """Nothing is asserted but that the steps agree with each other: no lock is broken, no two changes overlap."""
    chance = random.Random(9)
    kinds = [*INNER, *INNER, *SYMBOLS, *WORDS, *WRITING]
    for _ in range(num):
        text = odd_line(odd_line(chance.choice(LINES), chance, kinds), chance, kinds)
        line = steps.read(text)
        words = line.text.split()
        if words:
            order = [chance.randrange(len(words)) for _ in words]
            assert restored(steps, line, words, order).source == text
        assert line.edits.old == text


@some_or_all(3_000)
def test_a_line_with_odd_characters_is_read_and_restored(steps, num):
    chance = random.Random(3)
    signs = "the cat (x)[]«»“”\"'*–—-/°C😀❤️.,;?! \u00a0%@_42ßİı\u0301猫"
    for _ in range(num):
        text = "".join(chance.choice(signs) for _ in range(chance.randrange(30)))
        line = steps.read(text)
        words = line.text.split()
        order = [chance.randrange(len(words)) for _ in words]
        back = restored(steps, line, words, order)
        assert (back.source, line.edits.new) == (text, line.text)
        assert len(back.word_confidence) == len(back.text.split())
        assert Line.of(text) == Line.of(line.raw)
