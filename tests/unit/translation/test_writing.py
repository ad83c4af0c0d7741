"""Lines adapted to the writing of a training text, and translations with the writing of their lines."""

from __future__ import annotations

import random
import re
from collections import Counter

import numpy as np
import pytest

from nmt_cli.data.tokenizer import train_tokenizer
from nmt_cli.data.writing import WritingProfile
from nmt_cli.translation.characters import Characters
from nmt_cli.translation.glossary import Entry, Glossary
from nmt_cli.translation.markup import PlainLine
from nmt_cli.translation.prefix import Prefix
from nmt_cli.translation.results import TermUse, Translation
from nmt_cli.translation.writing import Writing, _ends_sentence

TEXT = [
    'Tom says "yes", and the cat of Anna isn\'t here...',
    "Where is the well-known house? It is near NATO.",
    "I see the cat - the cat sees Tom.",
]
CASED = ["The cat sees EU and A B.", "The Cat sees the House Near Tom.", "Yes, Says The."]
"""Lines with capitals that may be right."""


def writing(lines=TEXT, source="en", target="de", symbols=(), knows_words=True):
    return Writing(
        WritingProfile.of(lines, source),
        source_lang=source,
        target_lang=target,
        symbols=symbols,
        knows_words=knows_words,
    )


def line(text):
    return PlainLine(text, ())


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
        ("see the __cat__", "see the __cat__"),
        ("I see Tom  ", "I see Tom.  "),
        ("I SEE TOM", "I see Tom."),
        ("I see “Tom”…", 'I see "Tom"...'),
        ("the cat—the house.", "The cat - the house."),
        ("Well‑known\u00a0house?", "Well-known house?"),
        ("the\u00ad cat\u200b", "the cat"),
        ("ｔｈｅ ﬁｓｈ", "the fish"),
        ("cafe\u0301", "cafe\u0301"),
        ("see http://Tom’s.example/“x”", "see http://Tom’s.example/“x”"),
        ("Cat", "cat"),
        ("CAT ", "cat "),
        ("tom", "Tom"),
        ("Cat.", "Cat."),
        ("I SEE the cat.", "I see the cat."),
        ("TOM SEES the cat?", "Tom sees the cat?"),
        ("The cat sees tom, and the CAT of anna isn't here.", "The cat sees Tom, and the cat of Anna isn't here."),
        ("The Cat IS NEAR __HOUSE__ nato.", "The Cat is near __HOUSE__ NATO."),
        ("Where is Tom? HERE is Tom.", "Where is Tom? Here is Tom."),
        ("The cat of Anna ISNT here.", "The cat of Anna isn't here."),
        ("The Cat Of Tom Is Near The House", "The cat of Tom is near the house."),
    ],
)
def test_a_line_is_read_as_the_training_text_is_written(text, expected):
    found = writing(TEXT * 10).adapted(text)
    assert found.text == expected
    assert found.places is None or len(found.places) == len(expected)


@pytest.mark.parametrize(
    ("text", "read", "before", "after"),
    [
        ("😀 I see the cat. 😀", "I see the cat.", "😀 ", " 😀"),
        ("(I see the cat)", "I see the cat.", "(", ")"),
        ("* THE CAT *", "The cat", "* ", " *"),
        ("😀 %s the cat__😀 😀", "%s the cat__😀", "😀 ", " 😀"),
        ("* The cat sees @tom. 😀", "The cat sees @tom.", "* ", " 😀"),
        ("@😀", "@😀", "", ""),
    ],
)
def test_a_line_is_read_without_the_signs_around_it(text, read, before, after):
    own = writing(TEXT * 10)
    assert own.adapted(text).text == read
    found = own.enclosed(line(text), [Translation("die Katze", 0.0, 0.0)])
    assert [one.text for one in found] == [f"{before}die Katze{after}"]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("I see (Tom) 😀 here.", "I see, Tom, here."),
        ("I SEE the 😀 CAT", "I see the cat."),
        ("the cat (the cat of tom) is here", "The cat, the cat of Tom, is here."),
        ("😀 I see *Tom*. 😀", "I see Tom."),
        ("I see Tom (1998) and, in (the house of 10:30) NATO.", "I see Tom, 1998, and, in, the house of 10:30, NATO."),
        ("I see 😀 %s__ 😀/http://a.b", "I see %s__ 😀/http://a.b"),
        ("I see 😀" + " the cat" * 300, "I see 😀" + " the cat" * 300),
        (" I see 😀 Tom.", " I see 😀 Tom."),
        ("Where is Tom ?", "Where is Tom?"),
        ("Tom sees Anna , NATO ... and the cat .", "Tom sees Anna, NATO... and the cat."),
    ],
)
def test_a_line_is_read_without_the_signs_within_it(text, read):
    own = writing([*TEXT, "Tom, Anna and NATO. And Tom?"] * 10)
    assert own.adapted(text).text == read
    assert own.needs_weights(text) == (text != read and "sees" not in text and "?" not in text)


def test_signs_that_stand_between_blanks_in_the_training_text_stay_there():
    apart = writing(["Is the cat here ? It is , and Tom - the man ."] * 10)
    for text in ("Is Tom here ?", "The cat , the man - it is here ."):
        assert apart.adapted(text) == (text, None)
    assert apart.adapted("The man (Tom) is here .").text == "The man , Tom , is here ."
    few = writing(["Is the cat here ? It is , and Tom - the man ."] * 9)
    assert few.adapted("The man - Tom is here .").text == "The man Tom is here ."


@pytest.mark.parametrize(("source", "target"), [("en", "ja"), ("zh", "en")])
def test_signs_within_a_line_are_read_where_no_spaces_part_the_words(source, target):
    own = writing(TEXT * 10, source=source, target=target)
    assert own.adapted("I see 😀 Tom.") == ("I see 😀 Tom.", None)


def test_a_profile_without_signs_between_blanks_leaves_out_only_unknown_signs():
    stored = WritingProfile.of(TEXT, "en").to_json()
    del stored["sign_words"]
    old = Writing(WritingProfile.from_json(stored, "x"), source_lang="en", target_lang="de")
    assert old.adapted('I see 😀 "Tom" - the cat, (Anna) here ?').text == 'I see "Tom" - the cat, Anna, here ?'


@pytest.mark.parametrize(
    ("language", "lines", "text", "expected"),
    [
        ("de", ["Die Straße ist lang.", "Er geht auf der Straße."], "STRASSE", "Straße"),
        ("de", ["Die Straße ist lang.", "Er geht auf der Straße."], "DIE STRASSE IST LANG.", "Die Straße ist lang."),
        ("de", ["Die Masse ist groß, die Maße sind es nicht."], "DIE MASSE", "Die Masse"),
        ("el", ["Ο δρόμος είναι μακρύς.", "Εδώ είναι ο δρόμος."], "ΜΑΚΡΥΣ ΔΡΟΜΟΣ", "Μακρύς δρόμος"),
        ("el", ["Ο δρόμος είναι μακρύς.", "Εδώ είναι ο δρόμος."], "ΜΑΚΡΎΣ ΔΡΌΜΟΣ", "Μακρύς δρόμος"),
    ],
)
def test_capitals_get_back_what_capitals_leave_out(language, lines, text, expected):
    found = writing(lines * 3, source=language).adapted(text)
    assert (found.text, len(found.places)) == (expected, len(expected))


@pytest.mark.parametrize(
    "text",
    [*TEXT, "", " ", "NATO", "EU", "I", "B2B 42", "猫は家にいる", "Ünß ñ", "I see QWERTZ and the qwertz.", *CASED],
)
def test_ordinary_text_is_left_alone(text):
    assert writing(TEXT * 10).adapted(text) == (text, None)


@pytest.mark.parametrize("symbol", ["TAG", "<tag>", "⟦tag⟧"])
def test_symbols_of_the_tokenizer_stay_as_they_are(symbol):
    assert writing(symbols=[symbol]).adapted(f"{symbol} THE CAT").text == f"{symbol} The cat"


def test_signs_that_the_training_text_has_are_kept_and_its_own_are_taken_in_their_place():
    curly = writing(["“Yes”, says Tom’s cat – “no”.", "Is the cat here?"] * 10)
    assert curly.adapted("“Tom’s cat” – here.").places is None
    assert curly.adapted('"Tom\'s cat" - here.').text == "“Tom’s cat” – here."


def test_german_quotes_open_and_close_as_in_the_training_text():
    german = writing(["Tom sagt: „Ja“, und „nein“."] * 10, source="de")
    assert german.adapted('"Nein"').text == "„Nein“"


def test_every_line_of_a_text_without_case_is_read_in_small_letters():
    small = writing([one.lower() for one in TEXT])
    assert small.adapted("The Cat of TOM A4 __URL__").text == "the cat of tom a4 __URL__"
    assert not small.is_in_capitals("The cat")


def test_letters_that_become_two_stand_for_their_word():
    turkish = writing(["Bu iş ve ılık ev.", "Bir iş var."], source="tr")
    assert turkish.adapted("BU İŞ VE ILIK EV.").text == "Bu iş ve ılık ev."
    english = writing().adapted("THE CAT İS?")
    assert english.text == "The cat i̇s?"
    assert english.places is not None
    assert english.places[-4:] == [(8, 11)] * 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("THE CAT.", True),
        ("CAT", True),
        ("NATO", False),
        ("EU UN", False),
        ("QWERTZ UIOP ASDF", True),
        ("I", False),
        ("THE %s IS HERE", True),
        ("The cat", False),
        ("42 - 7", False),
        ("", False),
        ("猫 家", False),
    ],
)
def test_acronyms_alone_are_no_line_in_capitals(text, expected):
    assert writing().is_in_capitals(text) is expected


def test_pieces_belong_to_the_words_and_characters_of_the_raw_line():
    """They are those of the line in ordinary writing, whose words were written by hand."""
    tokenizer = train_tokenizer(
        TEXT * 10, model_type="bpe", vocab_size=310, normalization="identity", character_coverage=1.0
    )
    reading, _ = writing().reading((tokenizer, tokenizer))
    raw, usual = "  THE\u00a0CAT  IS NEAR “TOM”…", 'The cat is near "Tom"...'
    assert reading.encode_words(raw) == tokenizer.encode_words(usual)
    assert reading.encode(raw) == reading.encode_all([raw])[0] == tokenizer.encode(usual)
    ids, spans = reading.encode_spans(raw)
    letters = [
        (piece.lstrip("▁"), raw[begin:end].strip())
        for piece, (begin, end) in zip(tokenizer.pieces(ids), spans, strict=True)
    ]
    for piece, own in letters:
        assert own.lower() == piece.lower() or own in "“”…"
    assert tokenizer.encode(raw) != reading.encode(raw)


def test_an_adapted_text_stands_for_all_of_the_raw_text_in_order():
    chance = random.Random(5)
    own = writing()
    signs = "THE CAT tom “”’\"'—–-…\u00a0\u200b ́eéﬁ%_ßİı\n\t猫" + "A b"
    for _ in range(2000):
        raw = "".join(chance.choice(signs) for _ in range(chance.randrange(30)))
        found = own.adapted(raw)
        if found.places is None:
            assert found.text == raw
            continue
        assert len(found.places) == len(found.text)
        begins = [begin for begin, _ in found.places]
        assert begins == sorted(begins)
        assert all(0 <= begin < end <= len(raw) for begin, end in found.places)
        assert own.adapted(raw) == found


def test_translations_of_a_line_in_capitals_are_in_capitals():
    use = TermUse("CAT", (1, 2), "die Katze", (0, 2))
    own = (Translation("die Straße von %s __url__", -1.0, -0.5, terms=(use,)), Translation("eine", -2.0, -1.0))
    found = writing().restored(line("THE CAT OF TOM"), own)
    assert [one.text for one in found] == ["DIE STRASSE VON %s __url__", "EINE"]
    assert found[0].terms[0].translation == "DIE KATZE"
    for text in ("The cat", "NATO"):
        assert writing().restored(line(text), own) == own


def test_the_translation_of_a_single_word_has_the_capital_of_its_line():
    use = TermUse("Cat", (0, 1), "katze", (0, 1))
    own = (Translation("katze", -1.0, -0.5, terms=(use,)), Translation("„die“ katze", -2.0, -1.0))
    found = writing(TEXT * 10).restored(line("Cat"), own)
    assert [one.text for one in found] == ["Katze", "„Die“ katze"]
    assert found[0].terms[0].translation == "Katze"
    for text in ("cat", "Tom", "tom", "Cat.", "Qwertz", "The cat."):
        assert writing(TEXT * 10).restored(line(text), own) == own
    assert writing(TEXT * 10).restored(line("CAT"), own)[0].text == "KATZE"
    assert writing(TEXT * 10).restored(line("* Cat 😀"), own)[0].text == "* Katze 😀"
    assert writing(TEXT * 10).restored(line("Cat"), own, Prefix("die ", (), (), b"", ())) == own


def test_a_model_that_knows_sentences_only_reads_a_single_word_as_one():
    own = writing(TEXT * 10, knows_words=False)
    assert own.adapted("Cat").text == "Cat"
    assert own.adapted("CAT").text == "Cat"
    assert own.restored(line("Cat"), [Translation("katze", 0.0, 0.0)])[0].text == "katze"


def test_a_sentence_without_a_full_stop_has_none_in_its_translation():
    use = TermUse("Tom", (2, 3), "Tom.", (2, 3))
    found = (Translation("Ich sehe Tom.", 0.0, 0.0, terms=(use,)), Translation("Tom .", 0.0, 0.0))
    cut = writing().restored(line("I see Tom"), found)
    assert [one.text for one in cut] == ["Ich sehe Tom", "Tom ."]  # a word of its own has its row of weights
    assert cut[0].terms[0].translation == "Tom"
    begun = Prefix("Ich sehe Tom.", (), (), b"", ())
    assert writing().restored(line("I see Tom"), found[:1], begun) == found[:1]
    for text in ("I see Tom.", "Tom", "I see Tom __URL__"):
        assert writing().restored(line(text), found) == found
    tokenised = writing([text.replace(".", " .") for text in TEXT])
    assert tokenised.restored(line("I see Tom"), found) == found


def test_what_follows_a_prefix_has_its_case():
    found = (Translation("Die Katze schläft", 0.0, 0.0),)

    def of(prefix):
        return writing().restored(line("THE CAT"), found, Prefix(prefix, (), (), b"", ()))[0].text

    assert of("Die Ka") == "Die Katze schläft"
    for prefix, text in (("DIE ", "DIE KATZE SCHLÄFT"), ("12 ", "12 KATZEN")):
        found = (Translation(text[:4] + text[4:].title(), 0.0, 0.0),)
        assert writing().restored(line("THE CAT"), found, Prefix(prefix, (), (), b"", ()))[0].text == text


def test_a_prefix_keeps_its_blanks_within_signs():
    for begun, text in (("  Die", "  Die Katze"), ("  ", "  "), ("Die  ", "Die  ")):
        found = (Translation(text, 0.0, 0.0),)
        assert writing().restored(line("★ the cat ★ "), found, Prefix(begun, (), (), b"", ()))[0].text == f"{text} ★"


def test_the_end_of_a_sentence_is_found_as_the_regular_expression_finds_it():
    """The expression takes time by the square of the dots."""
    chance = random.Random(1)
    for _ in range(20_000):
        word = "".join(chance.choice(".!?…)\"'_-aé1\u0301①😀\u200b") for _ in range(chance.randrange(7)))
        assert _ends_sentence(word) == (re.search(r"[.!?…]\W*\Z", word) is not None), word


def test_a_quote_opens_until_a_letter_has_come_and_closes_then():
    """The slow truth looks at all that stands before each character."""
    chance = random.Random(1)
    characters = Characters(Counter("„“ab-'"))
    for _ in range(5_000):
        text = "".join(chance.choice('“”"’–—ab.\u0301★') for _ in range(chance.randrange(9)))
        expected = ""
        for match in re.finditer("[^\u0301]?\u0301*", text):
            before, after = text[: match.start()], text[match.end() :]
            read = characters.equivalent(match[0], opens=not re.search(r"[^\W_]", before)) if match[0] else ""
            is_between = before[-1:].isalpha() and after[:1].isalpha()
            expected += f" {read} " if match[0] == "—" and is_between and read == "-" else read
        assert characters.usual(text, [(place, place + 1) for place in range(len(text))])[0] == expected, text


def test_the_signs_of_a_glossary_are_read():
    glossary = Glossary.of("g", [Entry(term, ("x",), False, 1) for term in ("C++", "★cat", "cat (Tom)")])
    beside = writing().beside(glossary)
    for text in ("I see C++ near Tom.", "★Cat is here.", "The cat (Tom) is here."):
        assert beside.adapted(text).text == text
        assert writing().adapted(text).text != text
        assert not beside.needs_weights(text)


def test_a_sign_that_the_prefix_says_does_not_come_again():
    found = (Translation("Die Katze ★ schläft", 0.0, 0.0),)
    assert writing().restored(line("the cat ★"), found, Prefix("Die Katze ★", (), (), b"", ())) == found
    assert writing().restored(line("the cat ★"), found, Prefix("Die", (), (), b"", ()))[0].text.endswith("schläft ★")


def test_a_sign_behind_the_blank_of_a_prefix_is_a_word():
    weights = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    found = (
        Translation("Die Katze ", 0.0, 0.0, weights, ((0, 0), (1, 1)), 2, word_confidence=(0.5, 0.6), confidence=0.4),
    )
    (own,) = writing().restored(line("the cat★"), found, Prefix("Die Katze ", (), (), b"", ()))
    assert own.text == "Die Katze ★"
    assert own.word_confidence == (0.5, 0.6, 0.4)
    assert len(own.weights) == own.num_words == 3


def test_a_word_with_a_typing_error_gives_the_case_of_what_it_was():
    own = (Translation("haus", 0.0, 0.0),)
    assert writing(TEXT * 10).adapted("Huose").text == "house"
    assert writing(TEXT * 10).restored(line("Huose"), own)[0].text == "Haus"
    assert writing(TEXT * 10).restored(line("HUOSE"), own)[0].text == "HAUS"


def test_a_prefix_that_is_the_whole_translation_is_kept_beside_symbols():
    """Fails if no word is left beside the prefix from which a comma could be taken."""
    text, prefix = "I see (Tom) here.", "Ich sehe (Tom) hier."
    found = Translation(prefix, 0.0, 0.0, np.eye(4, 5), ((0, 0), (1, 1), (2, 2), (3, 3)), 4)
    own = writing([*TEXT, "Tom, Anna and NATO. And Tom?"] * 10)
    (restored,) = own.restored(line(text), [found], Prefix(prefix, (), (), b"", ()))
    assert restored.text == prefix
