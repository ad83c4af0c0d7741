"""Numbers, codes and addresses in a text, and which of them a translation keeps."""

from __future__ import annotations

import pytest

from nmt_cli.data.tokenizer import train_tokenizer
from nmt_cli.translation.glossary import Entry, Glossary
from nmt_cli.translation.numbers import Numbers, number_spans, rewritten_numbers
from nmt_cli.translation.terms import TermFinder


def found(text: str) -> list[str]:
    return [text[begin:end] for begin, end in number_spans(text)]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("I have 4711 dogs and 1,000.50 euro at 14:30.", ["4711", "1,000.50", "14:30"]),
        ("-5 degrees, 12-15 or 24/7, 2013-05-14.", ["-5", "12-15", "24/7", "2013-05-14"]),
        ("The 12th, the 1990s, 5km, 10:30am and a 10-year-old.", ["12", "1990", "5", "10:30", "10"]),
        ("3.5mm-5.0mm", ["3.5", "5.0"]),
        ("A123, mp3, 4x4, 5G, x86_64, v1.2.3, 14h30", ["A123", "mp3", "4x4", "5G", "x86_64", "v1.2.3", "14h30"]),
        ("PG-13 and COVID-19-Patienten, a Boeing-747, U-2", ["PG-13", "COVID-19", "747", "U-2"]),
        ("12-CD", ["12"]),
        ("50% of $30 or €30.", ["50", "30", "30"]),
        ("我有4711只狗，3.5公里。", ["4711", "3.5"]),
        ("See https://x.org/a?b=2, www.x.org or a.b21@x.org.", ["https://x.org/a?b=2", "www.x.org", "a.b21@x.org"]),
        ("١٢٣ and १२", ["١٢٣", "१२"]),
        ("Tom's 3 cats' 4.", ["3", "4"]),
        ("No numbers, m², ½, a.m. and twenty-one.", []),
        ("", []),
    ],
)
def test_numbers_codes_and_addresses_are_found_with_what_belongs_to_them(text, numbers):
    assert found(text) == numbers


def test_a_number_is_rewritten_if_most_lines_and_at_least_three_write_it_otherwise():
    pairs = [("10 dogs", "dix chiens")] * 3 + [("10 dogs", "10 chiens")] * 3  # half of the lines
    pairs += [("at 2:30", "a 14h30")] * 3 + [("11 dogs", "onze chiens")] * 2  # only two
    pairs += [("12 dogs", "douze chiens")] * 3 + [("12 dogs and 12 cats", "12")] * 4  # fewer than half
    assert rewritten_numbers(pairs) == ["10", "2:30"]


def test_placeholders_tags_symbols_and_rewritten_numbers_are_left_alone():
    numbers = Numbers(["10"], target_lang="fr", symbols=["[X1]"])
    text = "__1__ <b2> {0} %1$s [X1] 10 11"
    assert [text[begin:end] for begin, end in numbers.spans(text)] == ["11"]
    assert numbers.has_rewritten(text)
    assert not numbers.has_rewritten("11 110")


@pytest.fixture(scope="module")
def tokenizer(corpus):
    lines = (corpus / "train.en").read_text().splitlines()
    return train_tokenizer(lines, model_type="bpe", vocab_size=400, normalization="identity", character_coverage=1.0)


def places(finder: TermFinder, text: str) -> list[tuple[str, bool]]:
    return [(text[place.begin : place.end], place.is_number) for place in finder._places(text)]


def test_a_number_within_a_term_of_the_glossary_is_none_of_its_own(tokenizer):
    glossary = Glossary.of("g", [Entry("car 5", ("x",), False, 1)])
    finder = TermFinder((tokenizer, tokenizer), glossary, Numbers([], target_lang="fr"))
    assert places(finder, "7 car 5 and 5") == [("7", True), ("car 5", False), ("5", True)]
    assert places(TermFinder((tokenizer, tokenizer), glossary), "7 car 5 and 5") == [("car 5", False)]


@pytest.mark.parametrize(("language", "glued"), [("zh", True), ("zh-TW", True), ("ja", True), ("de", False)])
def test_a_number_may_be_glued_to_a_word_where_the_language_has_no_spaces(tokenizer, language, glued):
    finder = TermFinder((tokenizer, tokenizer), numbers=Numbers([], target_lang=language))
    (place,) = finder._places("4711")
    spelt = [tokenizer.pieces(ids) for ids in place.pieces]
    assert ["".join(pieces).startswith("▁") for pieces in spelt] == [True, False][: 1 + glued]


def test_a_number_that_the_model_cannot_write_is_no_term(corpus):
    lines = (corpus / "train.en").read_text().splitlines()
    words = train_tokenizer(lines, model_type="word", vocab_size=400, normalization="identity", character_coverage=1.0)
    assert places(TermFinder((words, words), numbers=Numbers([], target_lang="fr")), "4711 dogs") == []


def test_every_piece_with_a_digit_is_known(tokenizer):
    finder = TermFinder((tokenizer, tokenizer), numbers=Numbers([], target_lang="fr"))
    assert {f"<0x3{digit}>" for digit in range(10)} <= set(tokenizer.pieces(finder.digits))
