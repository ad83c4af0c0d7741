"""Symbols within lines that the training text hardly has, and the places where they come back."""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from marks import some_or_all

from nmt_cli.normalization.inner_symbols import InnerSymbols
from nmt_cli.normalization.symbols import is_symbol
from nmt_cli.text.edits import Span, word_spans
from nmt_cli.text.line import Constraint, Line
from nmt_cli.text.translation import Translation
from nmt_cli.text.unit_alignment import Alignment

KNOWN = ".?!,:;'-\""


def step(comma=","):
    known = SimpleNamespace(
        is_rare=lambda symbol: symbol not in KNOWN,
        is_rare_word=lambda word: word not in ("...", "!"),
        has_all_often=lambda _: False,
        comma=comma,
    )
    return InnerSymbols(known)


def read_of(text, comma=",", kept=()):
    return step(comma).read(Line.of(text).apply_step("codes", lock=kept)).text


def aligned(line: Line, target: str, aligned_to: list[int]) -> Alignment:
    """Units that are words; those that look at a word of the raw line share the words read of it in order."""
    words, raw = word_spans(line.text), word_spans(line.raw)
    own: dict[int, list[int]] = {}
    for number, (begin, end) in enumerate(words):
        at = line.edits.old_span(begin, end)[0]
        own.setdefault(next(place for place, (_, last) in enumerate(raw) if last > at), []).append(number)
    weights = np.zeros((len(aligned_to), len(words) + 1))
    num, seen = Counter(aligned_to), Counter[int]()
    for row, word in enumerate(aligned_to):
        parts = own.get(word) or [-1]
        weights[row, parts[seen[word] * len(parts) // num[word]]] = 1.0
        seen[word] += 1
    return Alignment(tuple(words), tuple(word_spans(target)), weights)


def translated(text, target, aligned_to, comma=",", prefix="", **more) -> Translation:
    """Return a translation whose words look at the words of a line that `aligned_to` names."""
    own = step(comma)
    line, words = own.read(Line.of(text)), text.split()
    alignment = aligned(line, target, [words.index(word) for word in aligned_to.split()])
    found = Translation(line.text, target, alignment=alignment, prefix_length=len(prefix), **more)
    (undo,) = line.undo_records
    return found.undo_step(undo, own.undo(undo, found))


def links_of(found: Translation) -> list[Span]:
    return found.alignment.links(word_spans(found.source), word_spans(found.text))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("I see you, Tom.", "I see you, Tom."),
        ("I see 😀 you", "I see you"),
        ("I see😀 you", "I see you"),
        ("I see 👩‍👧👍🏽 you", "I see you"),
        ("I see ❤️, you", "I see, you"),
        ("I see - you", "I see, you"),
        ("I see — you", "I see, you"),
        ("I see—you", "I see, you"),
        ("I see! — You", "I see! You"),
        ("I see you —.", "I see you."),
        ("Tom (my brother) is here.", "Tom, my brother, is here."),
        ("Tom ( my brother ) is here.", "Tom, my brother, is here."),
        ("Tom is here (I see him).", "Tom is here, I see him."),
        ("(Tom) is here", "Tom is here"),
        ("Yes! (I see him) [now]", "Yes! I see him, now"),
        ("I see (you", "I see you"),
        ("I see (5) and (6 7)", "I see, 5, and, 6 7"),
        ("I *see* ~you~ here", "I see you here"),
        ("tea / coffee & milk", "tea, coffee, milk"),
        ("he/she is here", "he she is here"),
        ("the word(s) of R&B, AT&T and A/B", "the word(s) of R&B, AT&T and A/B"),
        ("#1 and +7 but #love", "#1 and +7 but love"),
        ("at 5°, 180 °C, 350°F and 25 °Celsius", "at 5, 180, 350 and 25 Celsius"),
        ("well-known 'yes' \"no\" ... yes!", "well-known 'yes' \"no\" ... yes!"),
        ("I see (😀) you", "I see you"),
        ("日本 😀 語", "日本 語"),
        ("😀", ""),
        ("", ""),
    ],
)
def test_a_line_is_read_without_symbols_or_with_commas(text, read):
    assert read_of(text) == read


def test_a_text_without_commas_gets_none():
    text = "Tom (my brother) is here — now / there"
    assert read_of(text, "") == "Tom my brother is here now there"


def test_commas_are_written_as_in_the_training_text():
    text = "Tom ( my brother ) is (here) now — yes"
    assert read_of(text, " ,") == "Tom , my brother , is , here , now , yes"


def test_what_is_kept_keeps_its_symbols():
    text = "see a/b at a/b/😀° and (c/d)"
    kept = [(text.index("a/b/"), text.index(" and")), (text.index("c/d"), text.index(")"))]
    assert read_of(text, kept=kept) == "see a b at a/b/😀° and, c/d"


@pytest.mark.parametrize(
    ("text", "target", "aligned_to", "expected"),
    [
        ("I see 😀 you .", "ich sehe dich .", "I see you .", "ich sehe 😀 dich ."),
        ("• I see you", "ich sehe dich", "I see you", "• ich sehe dich"),
        ("• • I see you", "ich sehe dich", "I see you", "• • ich sehe dich"),
        ("•I see you", "ich sehe dich", "•I see you", "•ich sehe dich"),
        ("I see😀 you", "ich sehe dich", "I see😀 you", "ich sehe😀 dich"),
        ("I see #you now", "nun sehe ich dich", "now see I #you", "nun sehe ich #dich"),
        ("at 180 °C (350°F) now", "nun mit 180, 350.", "now at 180 (350°F)", "nun mit 180 °C (350°F)."),
        ("at 180°C, 5 °", "mit 180, 5.", "at 180°C, 5", "mit 180°C, 5 °."),
        ("at 1 (180 °C)", "mit 1, 180.", "at 1 (180", "mit 1 (180 °C)."),
        ("I see 😀. You", "ich sehe. du", "I see You", "ich sehe 😀. du"),
        ("you 😀 I see", "ich sehe dich", "I see you", "ich sehe dich 😀"),
        ("I see! 😀 You", "ich sehe ! du", "I see! see! You", "ich sehe ! 😀 du"),
        ("Tom (my brother) is here.", "Tom, mein Bruder, ist hier.", "Tom (my brother) is here.",
         "Tom (mein Bruder) ist hier."),
        ("Tom (my brother) is here.", "Tom, mein Bruder, ist hier.", "(my (my brother) is here.",
         "Tom (mein Bruder) ist hier."),
        ("Tom (my brother) is here.", "Tom, mein Bruder, ist hier.", "Tom (my brother) brother) here.",
         "Tom (mein Bruder) ist hier."),
        ("Tom (my brother) is here.", "Hier ist mein Bruder Tom.", "here. is (my brother) Tom",
         "Hier ist (mein Bruder) Tom."),
        ("I see Tom (my brother).", "Ich sehe Tom, meinen Bruder.", "I see Tom (my brother).",
         "Ich sehe Tom (meinen Bruder)."),
        ("Yes (Tom, Anna and I) see.", "Ja, Tom, Anna und ich, sehen.", "Yes (Tom, Anna and I) see.",
         "Ja (Tom, Anna und ich) sehen."),
        ("Do it! (If you can.)", "Tu es! Wenn du kannst.", "Do it! (If you can.)", "Tu es! (Wenn du kannst.)"),
        ("I *see* you", "ich sehe dich.", "I *see* you", "ich *sehe* dich."),
        ("Tom — my brother", "Tom, mein Bruder", "Tom my brother", "Tom — mein Bruder"),
        ("I see—you", "ich sehe, dich", "I see—you see—you", "ich sehe—dich"),
        ("he/she sees", "er sie sieht", "he/she he/she sees", "er/sie sieht"),
        ("a (b [c d] e) f", "A, B, C D, E, F", "a (b [c d] e) f", "A (B [C D] E) F"),
        ("I (see) you", "", "", "()"),
        ("I (see) you", "ich dich", "I you", "ich () dich"),
        ("I 😀", "", "", "😀"),
        ("he said \"I *see\" you*", "er sagte ich sehe dich", "he said \"I *see\" you*", "er sagte ich *sehe dich*"),
    ],
)  # fmt: skip
def test_symbols_come_back_where_the_alignment_tells(text, target, aligned_to, expected):
    assert translated(text, target, aligned_to).text == expected


def test_commas_of_their_own_are_taken_out_too():
    found = translated("Tom ( my brother ) is", "Tom , mein Bruder , ist", "Tom my my brother brother is", comma=" ,")
    assert found.text == "Tom ( mein Bruder ) ist"
    assert {(0, 0), (2, 2), (3, 3), (5, 5)} <= set(links_of(found))
    parted = translated("bar ( women ) grabs", "Bar Frauen , die greift", "bar women grabs women grabs", comma=" ,")
    assert parted.text == "Bar (Frauen) die greift"


def test_symbols_that_are_words_have_an_alignment_and_a_confidence():
    use = Constraint(6, 9, ("dich",), "glossary")
    found = translated(
        "I see 😀 you", "ich sehe dich", "I see you",
        terms=((use, (9, 13)),), word_confidence=(0.1, 0.2, 0.3), confidence=0.5,
        features=np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    )  # fmt: skip
    assert np.array_equal(found.features, [[1.0, 2.0], [3.0, 4.0], [np.nan] * 2, [5.0, 6.0]], equal_nan=True)
    assert found.text == "ich sehe 😀 dich"
    assert links_of(found) == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert found.word_confidence == (0.1, 0.2, 0.5, 0.3)
    ((term, place),) = found.terms
    assert (found.source[term.begin : term.end], found.text[slice(*place)]) == ("you", "dich")


@pytest.mark.parametrize(
    ("text", "target", "aligned_to", "prefix", "expected"),
    [
        ("I 😀 see you", "ich  sehe dich", "I see you", "ich  sehe", "ich  sehe 😀 dich"),
        ("I 😀 see you", "ich 😀 sehe dich", "I 😀 see you", "ich 😀", "ich 😀 sehe dich"),
        ("I (see you) now", "ich ( sehe dich nun", "I I (see you) now", "ich ( sehe", "ich ( sehe dich) nun"),
        ("I (see you) now", "ich (sehe) dich nun", "I (see you) now", "ich (sehe)", "ich (sehe) dich nun"),
        ("I 😀 see you", "ich sehe dich", "I see you", "ich sehe di", "ich sehe dich 😀"),
        ("I 😀 see you", "  ich sehe dich", "I see you", "  ic", "  ich 😀 sehe dich"),
        ("I 😀 see you", "  ich sehe dich", "I see you", "  ", "  ich 😀 sehe dich"),
        ("I 😀 see you", "ich  sehe  dich", "I see you", "ich  sehe  ", "ich  sehe  😀 dich"),
        ("I see 😀", "ich sehe  ", "I see", "ich sehe  ", "ich sehe  😀"),
    ],
)
def test_no_symbol_is_put_into_a_prefix_or_said_again(text, target, aligned_to, prefix, expected):
    assert translated(text, target, aligned_to, prefix=prefix).text == expected


@some_or_all(3_000)
def test_no_symbol_and_no_word_is_lost_whatever_the_attention_is(num):
    chance = random.Random(1)
    for _ in range(num):
        text = "".join(chance.choice('ab c  ()[]*—/-😀"5.,') for _ in range(chance.randrange(1, 24))).strip()
        target = " ".join(chance.choice(("x", "y.", "z,", ",", "d'x")) for _ in range(chance.randrange(6)))
        own = step(chance.choice(("", ",", " ,")))
        line = own.read(Line.of(text))
        units = word_spans(line.text), word_spans(target)
        weights = np.random.default_rng(chance.randrange(1 << 30)).random((len(units[1]), len(units[0]) + 1))
        found = Translation(line.text, target, alignment=Alignment(*map(tuple, units), weights))
        for undo in line.undo_records:
            found = found.undo_step(undo, own.undo(undo, found))
        left = [text[symbol.begin : symbol.end] for undo in line.undo_records for symbol in undo.data]
        assert not any(one.isalnum() for one in "".join(left).replace("°C", "")), text

        def bare(text, known=KNOWN + "' "):
            return "".join(sorted(one for one in text if is_symbol(one) and one not in known))

        assert bare(found.text) == bare("".join(left)), text
        assert sorted(filter(str.isalnum, found.text)) == sorted(filter(str.isalnum, "".join([target, *left]))), text
