"""Signs within lines that the training text hardly has."""

from __future__ import annotations

import random

import numpy as np
import pytest

from nmt_cli.data.tokenizer import replaced
from nmt_cli.translation.inner_signs import SignFinder, left_out
from nmt_cli.translation.prefix import Prefix
from nmt_cli.translation.results import TermUse, Translation
from nmt_cli.translation.sign_places import with_inner_signs
from nmt_cli.translation.signs import is_sign

KNOWN = ".?!,:;'-\""


def finder(comma=","):
    def is_rare(sign):
        return sign not in KNOWN

    return SignFinder(is_rare, lambda word: word not in ("...", "!"), comma)


def translated(text, target, looks_at, comma=",", prefix=None, **more):
    """Return a translation whose words look at the words of a line that `looks_at` names."""
    words = text.split()
    weights = np.zeros((len(target.split()), len(words) + 1))
    for row, word in enumerate(looks_at.split()):
        weights[row, words.index(word)] = 1.0
    links = tuple((int(row.argmax()), number) for number, row in enumerate(weights))
    found = Translation(target, -1.0, -0.5, weights, links, len(weights), **more)
    return with_inner_signs(text, finder(comma).found(text, (0, len(text)), []), found, prefix)


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
def test_a_line_is_read_without_signs_or_with_commas(text, read):
    signs = finder().found(text, (0, len(text)), [])
    assert replaced(text, left_out(signs)).text == read


def test_a_text_without_commas_gets_none():
    text = "Tom (my brother) is here — now / there"
    assert (
        replaced(text, left_out(finder("").found(text, (0, len(text)), []))).text == "Tom my brother is here now there"
    )


def test_commas_are_written_as_in_the_training_text():
    text = "Tom ( my brother ) is (here) now — yes"
    read = replaced(text, left_out(finder(" ,").found(text, (0, len(text)), []))).text
    assert read == "Tom , my brother , is , here , now , yes"


def test_what_is_kept_keeps_its_signs():
    text = "see a/b at a/b/😀° and (c/d)"
    kept = [(text.index("a/b/"), text.index(" and")), (text.index("c/d"), text.index(")"))]
    signs = finder().found(text, (0, len(text)), kept)
    assert replaced(text, left_out(signs)).text == "see a b at a/b/😀° and, c/d"


@pytest.mark.parametrize(
    ("text", "target", "looks_at", "expected"),
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
        ("I see—you", "ich sehe, dich", "I see—you see—you", "ich sehe — dich"),
        ("he/she sees", "er sie sieht", "he/she he/she sees", "er / sie sieht"),
        ("a (b [c d] e) f", "A, B, C D, E, F", "a (b [c d] e) f", "A (B [C D] E) F"),
        ("I (see) you", "", "", "()"),
        ("I (see) you", "ich dich", "I you", "ich () dich"),
        ("I 😀", "", "", "😀"),
        ("he said \"I *see\" you*", "er sagte ich sehe dich", "he said \"I *see\" you*", "er sagte ich *sehe dich*"),
    ],
)  # fmt: skip
def test_signs_come_back_where_the_alignment_tells(text, target, looks_at, expected):
    assert translated(text, target, looks_at).text == expected


def test_commas_of_their_own_are_taken_out_too():
    found = translated("Tom ( my brother ) is", "Tom , mein Bruder , ist", "Tom my my brother brother is", comma=" ,")
    assert found.text == "Tom (mein Bruder) ist"
    assert found.links == ((0, 0), (2, 1), (3, 2), (5, 3))
    assert found.weights_with_end.argmax(axis=1).tolist() == [0, 2, 3, 5]
    parted = translated("bar ( women ) grabs", "Bar Frauen , die greift", "bar women grabs women grabs", comma=" ,")
    assert parted.text == "Bar (Frauen) die greift"


def test_signs_that_are_words_have_an_alignment_and_a_confidence():
    use = TermUse("you", (3, 4), "dich", (2, 3))
    found = translated(
        "I see 😀 you", "ich sehe dich", "I see you", terms=(use,), word_confidence=(0.1, 0.2, 0.3), confidence=0.5,
        features=np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    )  # fmt: skip
    assert np.array_equal(found.features, [[1.0, 2.0], [3.0, 4.0], [np.nan] * 2, [5.0, 6.0]], equal_nan=True)
    assert found.text == "ich sehe 😀 dich"
    assert found.links == ((0, 0), (1, 1), (2, 2), (3, 3))
    assert found.word_confidence == (0.1, 0.2, 0.5, 0.3)
    assert found.terms == (TermUse("you", (3, 4), "dich", (3, 4)),)


def prefix(text):
    return Prefix(text, (), (), b"", ())


@pytest.mark.parametrize(
    ("text", "target", "looks_at", "begun", "expected"),
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
def test_no_sign_is_put_into_a_prefix_or_said_again(text, target, looks_at, begun, expected):
    assert translated(text, target, looks_at, prefix=prefix(begun)).text == expected


def test_no_sign_and_no_word_is_lost_whatever_the_attention_is():
    chance = random.Random(1)
    for _ in range(4000):
        text = "".join(chance.choice('ab c  ()[]*—/-😀"5.,') for _ in range(chance.randrange(1, 24))).strip()
        target = " ".join(chance.choice(("x", "y.", "z,", ",", "d'x")) for _ in range(chance.randrange(6)))
        weights = np.random.default_rng(chance.randrange(1 << 30)).random((len(target.split()), len(text.split()) + 1))
        links = tuple((int(row[:-1].argmax()), number) for number, row in enumerate(weights) if len(row) > 1)
        signs = finder(chance.choice(("", ",", " ,"))).found(text, (0, len(text)), [])
        found = with_inner_signs(text, signs, Translation(target, 0.0, 0.0, weights, links, len(weights)))
        left = [text[sign.begin : sign.end] for sign in signs]
        assert not any(one.isalnum() for one in "".join(left).replace("°C", "")), text

        def bare(text, known=KNOWN + "' "):
            return "".join(sorted(one for one in text if is_sign(one) and one not in known))

        assert bare(found.text) == bare("".join(left)), text
        assert sorted(filter(str.isalnum, found.text)) == sorted(filter(str.isalnum, "".join([target, *left]))), text
        assert found.num_words == len(found.text.split()) == len(found.weights_with_end), (text, target)
        assert all(word < found.num_words for _, word in found.links)
