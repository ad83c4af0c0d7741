"""Rules about the characters of one pair."""

import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt_cli.corpora.character_filters import (
    differs_in_markup,
    differs_in_numbers,
    failed_character_filters,
    has_mojibake,
    is_copy,
    is_tokenised,
)
from nmt_cli.corpora.filters import FILTER_NAMES


@pytest.mark.parametrize(
    ("source", "target", "found"),
    [
        ("A dog runs.", "Ein Hund rennt.", []),
        ("A dog runs.", " \u00a0", ["empty"]),
        ("", "Ein Hund", ["empty"]),
        ("A dog runs.", "Ein H\ufffdnd rennt.", ["encoding"]),
        ("A dog runs.", "a DOG  runs", ["copy"]),
        ("word " * 201, "Wort " * 150, ["too-long"]),
        ("x" * 1_001, "y", ["too-long"]),
        ("a <b>dog</b>", "ein <b>Hund</b>", []),
        ("a <b>dog</b>", "ein Hund", ["markup"]),
        ("cats & dogs; all", "Katzen &amp; Hunde", ["markup"]),
        ("1 < 2 and 3 > 2", "1 < 2 und 3 > 2", []),
        ("It is 12.", "Es ist 13 Uhr.", ["numbers"]),
        ("A\u200b dog", "Ein Hund", ["invisible"]),
        ("A dog\r", "Ein\tHund\r", []),
        ("می\u200cخواهم", "I want it", []),
    ],
)
def test_a_pair_breaks_these_rules(source, target, found):
    assert failed_character_filters(source, target) == found


@pytest.mark.parametrize(
    "text", ["Tom", "Angela Merkel", "2016", "10:30!", "New York", "A B C", "", "…"]
)  # fmt: skip
def test_a_name_or_a_number_alone_is_no_copy(text):
    assert not is_copy(text, text)


@pytest.mark.parametrize("text", ["Two dogs run.", "Menschen beobachten", "这是一个没有翻译的句子没有翻译的句子"])
def test_a_sentence_is_a_copy_in_any_case(text):
    assert is_copy(text, f" {text.upper()} ")


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("at 12:30", "um halb eins"),
        ("at 2 pm", "um 14 Uhr"),
        ("2:30 p.m.", "14:30"),
        ("1,000 people", "1.000 Menschen"),
        ("1,000,000 people", "1 000 000 Menschen"),
        ("3.5 metres", "3,5 Meter"),
        ("two men and 3 dogs", "2 Männer und 3 Hunde"),
        ("May 5, 2016", "5.5.2016"),
        ("10,000 yuan", "1万元"),
        ("bus 007", "Bus 7"),
        ("20,000 yen", "20 nghìn Yên"),
        ("at 3:00 on May 10", "3 giờ ngày 10 tháng 5"),
    ],
)
def test_a_number_written_otherwise_is_no_difference(source, target):
    assert not differs_in_numbers(source, target)
    assert not differs_in_numbers(target, source)


@pytest.mark.parametrize(("source", "target"), [("in 1990", "1991"), ("3 dogs, 4 cats", "3 Hunde, 5 Katzen")])
def test_other_numbers_are_a_difference(source, target):
    assert differs_in_numbers(source, target)


@pytest.mark.parametrize(
    "text", ["Mädchen", "It’s here", "„Straße“", "naïve café", "Привет мир", "你好", "łódź", "ĐƯỜNG"]
)
def test_text_in_the_wrong_encoding_is_found_and_right_text_is_not(text):
    assert not has_mojibake(text)
    assert has_mojibake(text.encode().decode("latin-1"))


@pytest.mark.parametrize(
    "text", ["HYVÄÄ PÄIVÄÄ”, hän sanoi.", "HYVÄÄ PÄIVÄÄ», hän", "MITÄ… EI.", "“Ä”", "„GRÜẞ’ DICH, Ä‘", "MANHÃ – Å"]
)
def test_signs_behind_a_capital_are_text(text):
    assert not has_mojibake(text)


@pytest.mark.parametrize(
    "text", ["Österreich", "Ångström", "cœur", "nő", "byś", "ESPAÑA AÑO", "GRÖSSE UND STÄRKE", "sûr"]
)
def test_utf_8_that_was_read_as_cp1252_is_found(text):
    assert has_mojibake(text.encode().decode("cp1252"))


@pytest.mark.parametrize(
    "text",
    [
        "food , soup .",
        "the end .",
        "l&apos; eau",
        "it &apos;s",
        "well @-@ known",
        "( a ) , b",
        "吃 饭 。",
        '"yes" , he said',
    ],
)
def test_blanks_before_punctuation_are_found(text):
    assert is_tokenised(text)


@pytest.mark.parametrize(
    "text",
    ["food, soup.", "Ça va ? Oui !", "wait ... now", "the .NET way", "3,000.5 km", ". . .", "don&apos;t"],
)
def test_text_as_people_write_it_is_not_tokenised(text):
    assert not is_tokenised(text)


def test_what_the_tokenizer_of_moses_writes_is_no_markup():
    assert not differs_in_markup("it &apos;s a &quot; dog &quot;", "l&apos; eau &#91; 1 &#93;")
    assert differs_in_markup("don&apos;t", "nicht")
    assert differs_in_markup("R&amp;D", "R&D")


def test_tags_may_have_attributes_and_stand_in_any_order():
    assert not differs_in_markup('<a href="x">one</a> <br/>', "<br/> <a>ein</a>")


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_is_judged(source, target):
    found = failed_character_filters(source, target)
    assert set(found) <= set(FILTER_NAMES)
    assert len(found) == len(set(found))


def test_random_letters_break_no_rule():
    draw = random.Random(3)
    for _ in range(300):
        source, target = (
            " ".join("".join(draw.choices(string.ascii_lowercase, k=5)) for _ in range(8)) for _ in range(2)
        )
        assert failed_character_filters(source, target) == []
