"""Spacing, spelling, characters, case and full stop."""

from __future__ import annotations

import pickle
import random
import re
from collections import Counter

import numpy as np
import pytest
from marks import some_or_all, some_or_all_of
from odd_lines import odd_line

from nmt_cli.demo import phrasebook
from nmt_cli.normalization.characters import Characters
from nmt_cli.normalization.known_characters import KnownCharacters
from nmt_cli.normalization.normalizer import Normalizer
from nmt_cli.normalization.profile import TextProfile
from nmt_cli.normalization.sentence_ends import ends_sentence
from nmt_cli.normalization.word_case import Truecaser
from nmt_cli.text.edits import word_spans
from nmt_cli.text.line import Constraint, Line
from nmt_cli.text.translation import Translation
from nmt_cli.text.unit_alignment import Alignment

BOOK = phrasebook.generate(seed=3, num_train=1500, num_dev=1, num_test=300)
SIDES = {
    "en": ([pair.source for pair in BOOK.train], [pair.source for pair in BOOK.test]),
    "fr": ([pair.target for pair in BOOK.train], [pair.target for pair in BOOK.test]),
}
TEXT = [
    'Tom says "yes", and the cat of Anna isn\'t here...',
    "Where is the well-known house? It is near NATO.",
    "I see the cat - the cat sees Tom.",
]


@pytest.fixture(scope="module", params=SIDES)
def language(request):
    return request.param


@pytest.fixture(scope="module", params=some_or_all_of(1_500))
def both(request, language):
    """The steps, and odd lines without symbols within, which have a step of their own."""
    lines, test = SIDES[language]
    steps = Normalizer.of(TextProfile.of(lines, language), source_lang=language, target_lang="de", knows_words=True)
    chance = random.Random(5)
    odd = [odd_line(chance.choice(test), chance) for _ in range(request.param)]
    odd = [text for text in odd if all(undo.step != "inner symbols" for undo in steps.read(text).undo_records)]
    return steps, [*test[: request.param], *odd]


def normalizer(lines=TEXT, source="en", target="de", symbols=(), knows_words=True):
    profile = TextProfile.of(lines, source)
    return Normalizer.of(profile, source_lang=source, target_lang=target, symbols=symbols, knows_words=knows_words)


@pytest.mark.parametrize("step", ["spelling", "characters", "full stop"])
def test_what_a_step_has_read_it_leaves_alone(both, step):
    steps, lines = both
    (own,) = (one for one in steps.steps if one.name == step)
    for text in lines:
        line = Line.of(own.read(Line.of(text)).text)
        assert own.read(line) is line, text


def test_no_word_is_without_a_place(both):
    steps, lines = both
    for text in lines:
        edits = steps.read(text).edits
        assert (edits.old, edits.new) == (text, steps.read(text).text)
        assert all(word is not None for word in edits.old_words())


def test_steps_travel_between_processes(both):
    steps, lines = both
    other = pickle.loads(pickle.dumps(steps))
    assert [other.read(text) for text in lines[-50:]] == [steps.read(text) for text in lines[-50:]]
    assert pickle.loads(pickle.dumps(steps.read(lines[-1]))) == steps.read(lines[-1])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("WHERE IS TOM? THE CAT ISN'T HERE.", "Where is Tom? The cat isn't here."),
        ("TOM'S CAT IS NEAR NATO.", "Tom's cat is near NATO."),
        ("THE WELL-KNOWN CAT A4 AND %s __URL__", "The well-known cat A4 and %s __URL__"),
        ("“THE CAT” – TOM’S…", '"The cat" - Tom\'s...'),
        ("where is tom? it is here", "Where is Tom? It is here."),
        ("the cat", "the cat"),
        ("see %s the __cat__", "see %s the __cat__"),
        ("I see Tom  ", "I see Tom.  "),
        ("the cat—the house.", "The cat - the house."),
        ("Well‑known\u00a0house?", "Well-known house?"),
        ("the\u00ad cat\u200b", "the cat"),
        ("ｔｈｅ ﬁｓｈ", "the fish"),
        ("cafe\u0301", "cafe\u0301"),
        ("see http://Tom’s.example/“x”", "see http://Tom’s.example/“x”"),
        ("Cat", "cat"),
        ("tom", "Tom"),
        ("CAT ", "cat "),
        ("Cat.", "Cat."),
        ("see the __cat__", "see the __cat__"),
        ("I SEE TOM", "I see Tom."),
        ("I see “Tom”…", 'I see "Tom"...'),
        ("I SEE the cat.", "I see the cat."),
        ("The cat sees tom, and the CAT of anna isn't here.", "The cat sees Tom, and the cat of Anna isn't here."),
        ("TOM SEES the cat?", "Tom sees the cat?"),
        ("The Cat IS NEAR __HOUSE__ nato.", "The Cat is near __HOUSE__ NATO."),
        ("Where is Tom? HERE is Tom.", "Where is Tom? Here is Tom."),
        ("The cat of Anna ISNT here.", "The cat of Anna isn't here."),
        ("The Cat Of Tom Is Near The House", "The cat of Tom is near the house."),
        # Before there were steps, case was judged on letters that the training text does not have.
        ("I SEE the ｃａｔ.", "I see the cat."),
        ("The cat of ＡＮＮＡ is here.", "The cat of Anna is here."),
        *(
            (text, text)
            for text in ("", " ", "NATO", "I", "NATO B2B", "猫は家にいる", "Ünß ñ", "The Cat sees EU and A B.")
        ),
    ],
)
def test_a_line_is_read_as_the_training_text_is_written(text, expected):
    assert normalizer([*TEXT, "The cat sees EU and A B.", "Yes, says the B2B."] * 10).read(text).text == expected


@pytest.mark.parametrize(
    ("language", "lines", "text", "expected"),
    [
        ("de", ["Die Straße ist lang.", "Er geht auf der Straße."], "STRASSE", "Straße"),
        ("el", ["Ο δρόμος είναι μακρύς.", "Εδώ είναι ο δρόμος."], "ΜΑΚΡΥΣ ΔΡΟΜΟΣ", "Μακρύς δρόμος"),
        ("tr", ["Bu iş ve ılık ev.", "Bir iş var."], "BU İŞ VE ILIK EV.", "Bu iş ve ılık ev."),
    ],
)
def test_capitals_get_back_what_capitals_leave_out(language, lines, text, expected):
    assert normalizer(lines * 3, source=language).read(text).text == expected


def test_letters_that_become_two_stand_for_their_word():
    line = normalizer().read("THE CAT İS?")
    assert line.text == "The cat i̇s?"
    assert line.edits.old_span(8, 9) == line.edits.old_span(10, 11) == (8, 11)


def translated(steps, text, translation, prefix=""):
    line = steps.read(text)
    return steps.undo(line, Translation(line.text, translation, prefix_length=len(prefix))).text


@pytest.mark.parametrize(
    ("text", "prefix", "translation", "expected"),
    [
        ("THE CAT OF TOM", "", "die Straße von %s __url__.", "DIE STRASSE VON %s __url__"),
        ("Cat", "", "„die“ katze", "„Die“ katze"),
        ("cat", "", "katze", "katze"),
        ("Cat", "die ", "die katze", "die katze"),
        ("I see Tom", "", "Ich sehe Tom.", "Ich sehe Tom"),
        ("I see Tom", "", "Tom .", "Tom ."),
        ("I see Tom", "Ich sehe Tom.", "Ich sehe Tom.", "Ich sehe Tom."),
        ("I see Tom.", "", "Ich sehe Tom.", "Ich sehe Tom."),
        ("I see Tom __URL__", "", "Ich sehe __URL__.", "Ich sehe __URL__."),
        ("THE CAT", "Die Ka", "Die Katze schläft", "Die Katze schläft"),
        ("THE CAT", "DIE ", "DIE Katze Schläft", "DIE KATZE SCHLÄFT"),
        ("Huose", "", "haus", "Haus"),
        ("HUOSE", "", "haus", "HAUS"),
    ],
)
def test_a_translation_has_the_case_and_the_stop_of_its_line(text, prefix, translation, expected):
    assert translated(normalizer(TEXT * 10), text, translation, prefix) == expected


def test_symbols_of_the_tokenizer_stay_as_they_are():
    for symbol in ("TAG", "<tag>", "⟦tag⟧"):
        assert normalizer(symbols=[symbol]).read(f"{symbol} THE CAT").text == f"{symbol} The cat"


def word_behind(begin: int, words) -> int:
    """The slow truth: the word at a character or behind it, or the last."""
    return min((number for number, (_, end) in enumerate(words) if end > begin), default=len(words) - 1)


def test_links_reach_the_words_that_the_user_wrote(both):
    """Each word that is read is a unit, and looks at itself; no step that these lines need changes their number."""
    steps, lines = both
    for text in lines:
        line = steps.read(text)
        words = word_spans(line.text)
        found = Translation(
            line.text, line.text, alignment=Alignment(tuple(words), tuple(words), np.eye(len(words), len(words) + 1))
        )
        back = steps.undo(line, found)
        own = word_spans(text), word_spans(back.text)
        assert back.source == text
        if len(own[0]) == len(own[1]) == len(words):
            assert back.alignment.links(*own) == [(number, number) for number in range(len(words))], text
        expected = [(line.edits.old_span(*word), number) for number, word in enumerate(words)]
        if len(own[1]) == len(words):
            assert back.alignment.links(*own) == [(word_behind(span[0], own[0]), row) for span, row in expected], text


@pytest.mark.parametrize(
    "text", [*TEXT, "EU", "I see QWERTZ and the qwertz.", "The Cat sees the House Near Tom.", "Yes, Says The."]
)
def test_ordinary_text_is_left_alone(text):
    cased = ["The cat sees EU and A B.", "The Cat sees the House Near Tom.", "Yes, Says The."]
    assert normalizer([*TEXT, *cased] * 10).read(text).undo_records == ()


def test_marks_that_stand_between_blanks_in_the_training_text_stay_there():
    apart = normalizer(["Is the cat here ? It is , and Tom - the man ."] * 10)
    for text in ("Is Tom here ?", "The cat , the man - it is here ."):
        assert apart.read(text).text == text
    assert apart.read("The man (Tom) is here .").text == "The man , Tom , is here ."
    few = normalizer(["Is the cat here ? It is , and Tom - the man ."] * 9)
    assert few.read("The man - Tom is here .").text == "The man Tom is here ."


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("I SEE the 😀 CAT", "I see the cat."),
        ("the cat (the cat of tom) is here", "The cat, the cat of Tom, is here."),
        ("😀 I see *Tom*. 😀", "I see Tom."),
        ("I see 😀 %s__ 😀/http://a.b", "I see %s__ 😀/http://a.b"),
        ("I see 😀" + " the cat" * 300, "I see 😀" + " the cat" * 300),
        (" I see 😀 Tom.", " I see 😀 Tom."),
        ("Where is Tom ?", "Where is Tom?"),
        ("Tom sees Anna , NATO ... and the cat .", "Tom sees Anna, NATO... and the cat."),
    ],
)
def test_steps_read_what_the_steps_before_have_left(text, read):
    assert normalizer([*TEXT, "Tom, Anna and NATO. And Tom?"] * 10).read(text).text == read


def test_an_old_profile_leaves_out_only_unknown_symbols():
    stored = TextProfile.of(TEXT, "en").to_json()
    del stored["sign_words"]
    old = Normalizer.of(TextProfile.from_json(stored, "x"), source_lang="en", target_lang="de")
    assert old.read('I see 😀 "Tom" - the cat, (Anna) here ?').text == 'I see "Tom" - the cat, Anna, here ?'


def test_characters_that_the_training_text_has_are_kept_and_its_own_are_taken_in_their_place():
    curly = normalizer(["“Yes”, says Tom’s cat – “no”.", "Is the cat here?"] * 10)
    assert curly.read("“Tom’s cat” – here.").undo_records == ()
    assert curly.read('"Tom\'s cat" - here.').text == "“Tom’s cat” – here."
    german = normalizer(["Tom sagt: „Ja“, und „nein“."] * 10, source="de")
    assert german.read('"Nein"').text == "„Nein“"


def test_every_line_of_a_text_without_case_is_read_in_small_letters():
    small = normalizer([one.lower() for one in TEXT])
    assert small.read("The Cat of TOM A4 __URL__").text == "the cat of tom a4 __URL__"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("THE CAT.", True), ("CAT", True), ("NATO", False), ("EU UN", False), ("QWERTZ UIOP ASDF", True), ("I", False),
        ("THE  IS HERE", True), ("The cat", False), ("42 - 7", False), ("", False), ("猫 家", False),
    ],
)  # fmt: skip
def test_acronyms_alone_are_no_line_in_capitals(text, expected):
    assert Truecaser(TextProfile.of(TEXT, "en"), "en", knows_words=True).is_in_capitals(text) is expected


def test_a_model_that_knows_sentences_only_reads_a_single_word_as_one():
    own = normalizer(TEXT * 10, knows_words=False)
    assert own.read("Cat").text == "Cat"
    assert own.read("CAT").text == "Cat"
    assert translated(own, "Cat", "katze") == "katze"


def test_a_training_text_with_apart_stops_ends_no_line_with_one():
    tokenised = normalizer([text.replace(".", " .") for text in TEXT])
    assert translated(tokenised, "I see Tom", "Ich sehe Tom.") == "Ich sehe Tom."


def test_terms_stay_where_the_case_and_the_stop_around_them_change():
    steps = normalizer(TEXT * 10)
    for text, said, span, expected in (
        ("THE CAT OF TOM", "die Katze von Tom.", (0, 9), "DIE KATZE"),
        ("I see Tom", "Ich sehe Tom.", (9, 13), "Tom"),
        ("Cat", "katze", (0, 5), "Katze"),
    ):
        line = steps.read(text)
        term = Constraint(0, 3, ("x",), "glossary")
        back = steps.undo(line, Translation(line.text, said, terms=((term, span),)))
        assert [back.text[slice(*place)] for _, place in back.terms] == [expected]


@some_or_all(20_000)
def test_the_end_of_a_sentence_is_found_as_the_regular_expression_finds_it(num):
    """The expression takes time by the square of the dots."""
    chance = random.Random(1)
    for _ in range(num):
        word = "".join(chance.choice(".!?…)\"'_-aé1\u0301①😀\u200b") for _ in range(chance.randrange(7)))
        assert ends_sentence(word) == (re.search(r"[.!?…]\W*\Z", word) is not None), word


@some_or_all(5_000)
def test_a_quote_opens_until_a_letter_has_come_and_closes_then(num):
    """The slow truth looks at all that stands before each character."""
    chance = random.Random(1)
    known = KnownCharacters(Counter("„“ab-'"))
    for _ in range(num):
        text = "".join(chance.choice('“”"’–—ab.\u0301★') for _ in range(chance.randrange(9)))
        expected = ""
        for match in re.finditer("[^\u0301]?\u0301*", text):
            before, after = text[: match.start()], text[match.end() :]
            read = known.equivalent(match[0], is_opening=not re.search(r"[^\W_]", before)) if match[0] else ""
            is_between = before[-1:].isalpha() and after[:1].isalpha()
            expected += f" {read} " if match[0] == "—" and is_between and read == "-" else read
        assert Characters(known).read(Line.of(text)).text == expected, text
