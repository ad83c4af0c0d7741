"""Numbers, codes and addresses in a text, and which of them a translation keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from nmt_cli.data.tokenizer import PieceWords, train_tokenizer
from nmt_cli.search.constraints import Term
from nmt_cli.search.hypothesis import GeneratedTerm, Hypothesis
from nmt_cli.translation.glossary import Entry, Glossary
from nmt_cli.translation.numbers import NumberHabits, Numbers, number_spans
from nmt_cli.translation.results import Part, TermFound
from nmt_cli.translation.stand_ins import with_numbers
from nmt_cli.translation.terms import TermFinder

NONE = NumberHabits((), ())


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
        (
            "1 000 000 or 2\u202f500,75 (12 000 people), 5 000km and 3 000-year-old.",
            ["1 000 000", "2\u202f500,75", "12 000", "5 000", "3 000"],
        ),
        ("In 2019 300 people, May 5 2020, 10 20.", ["2019", "300", "5", "2020", "10", "20"]),
        ("1 1/2 cups, 3 1/2.", ["1 1/2", "3 1/2"]),
        (
            "Call +33 (0)1 23 45 67 89, (555) 123-4567, +1 555 123-4567 or tel:555 1234.",
            ["+33 (0)1 23 45 67 89", "(555) 123-4567", "+1 555 123-4567", "555 1234"],
        ),
        ("12 000:30 1 000 1,000", ["12", "000:30", "1", "000", "1,000"]),  # goes on
        ("R&B at H&M or (AT&T), Q&A's; Tom&Mary TOM&MARY r&b X&1", ["R&B", "H&M", "AT&T", "Q&A", "1"]),
        ("www.x.org/?A&B R&B 1 000", ["www.x.org/?A&B", "R&B", "1 000"]),
        ("No numbers, m², ½, a.m. and twenty-one.", []),
        ("", []),
    ],
)
def test_numbers_codes_and_addresses_are_found_with_what_belongs_to_them(text, numbers):
    assert found(text) == numbers


def test_habits_are_learnt_from_the_lines_that_have_a_number():
    pairs = [(f"10 dogs {n}.", "dix chiens") for n in "abcdefghi"] + [("10 dogs", "10 chiens")] * 3  # a tenth keeps it
    pairs += [(f"at 2:30 {n}", "a 14h30") for n in "abcd"] + [(f"11 dogs {n}", "onze") for n in "abc"]  # only three
    pairs += [("15 dogs", f"quinze {n}") for n in "abcdefgh"]  # of one sentence
    pairs += [(f"12 dogs {n}", "douze") for n in "abcdefgh"] + [("12 dogs and 12 cats", "12")] * 4  # a ninth
    pairs += [("20 dogs", "20 chiens")] * 5 + [("13 dogs", "13 chiens"), ("A1 and B2", "A1 et B2"), ("A1", "A1")]
    habits = NumberHabits.of(pairs)
    assert habits.rewritten == ("10", "2:30")
    assert habits.kept == ("20", "12", "10")  # 13 only once, and A1 has letters


def test_placeholders_tags_symbols_and_rewritten_numbers_are_left_alone():
    numbers = Numbers(NumberHabits((), ("10",)), target_lang="fr", symbols=["[X1]"])
    text = "__1__ <b2> {0} %1$s [X1] 10 11"
    assert [text[number.begin : number.end] for number in numbers.found(text)] == ["11"]
    assert numbers.has_rewritten(text)
    assert not numbers.has_rewritten("11 110")


@pytest.mark.parametrize(
    ("text", "stand_ins"),
    [
        ("4711 and 5", ["2013", "3"]),  # the nearest length
        ("88 and 99 and 77 and 6 and 5", ["20", "30", "3", "2013", "5"]),  # each once, while there are some
        ("30 and 31", ["30", "20"]),
        ("3.75, 1,000 and 8:15", ["1.5", "2013", "2:30"]),  # the same signs, and a plain number for other quantities
        ("-5 and 1 000 and +33 1 23 45", ["20", "2013", "30"]),
        ("9-5-2 and 01.02.2020", ["9-5-2", "01.02.2020"]),  # dates
        ("A123, 5G and https://x.org/12", ["A123", "5G", "https://x.org/12"]),
    ],
)
def test_a_number_has_a_known_one_in_its_place(text, stand_ins):
    kept = ("20", "2:30", "30", "3", "2013", "1.5")
    numbers = Numbers(NumberHabits(kept, ()), target_lang="fr").found(text)
    assert [number.stand_in for number in numbers] == stand_ins
    assert [number.is_known for number in numbers] == [one in kept for one in stand_ins]


def test_a_number_that_is_left_to_the_model_stands_for_no_other_in_its_line():
    numbers = Numbers(NumberHabits(("20", "30"), ("20",)), target_lang="fr")
    assert [number.stand_in for number in numbers.found("41 and 20")] == ["30"]
    assert [number.stand_in for number in numbers.found("41")] == ["20"]


def test_a_number_that_stands_for_itself_stands_for_no_other_in_its_line():
    numbers = Numbers(NumberHabits(("5", "12:30"), ()), target_lang="fr")
    assert [number.stand_in for number in numbers.found("77 and 5")] == ["77", "5"]
    assert [number.stand_in for number in numbers.found("13:45 or 12:30")] == ["13:45", "12:30"]
    assert [number.stand_in for number in numbers.found("13:45 or 77")] == ["12:30", "5"]


def test_a_term_of_the_glossary_takes_the_numbers_and_signs_that_it_touches():
    glossary = Glossary.of("g", [Entry(term, ("x",), False, 1) for term in ("€", "car 5", "7 up")])
    numbers = Numbers(NumberHabits(("30",), ()), target_lang="fr", is_rare="€$".__contains__).beside(glossary)
    text = "€50, 60 €, $70, car 5, 7 up, 8"
    assert [text[number.begin : number.end] for number in numbers.found(text)] == ["50", "60", "$70", "8"]


@pytest.mark.parametrize(
    ("begun", "rest"),
    [
        ("avec 12", "34"),
        ("avec 1234", ""),
        ("avec 12 ", ""),
        ("avec", ""),
        ("avec 5", ""),  # is one, and may begin the other
        ("avec 9", ""),
        ("", ""),
    ],
)
def test_a_prefix_may_end_within_a_number_of_its_line(begun, rest):
    assert Numbers(NONE, target_lang="fr").rest_of("with 1234 and 5 and 56", begun) == rest


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        ("€50 or € 60, 70€ or 80 €.", ["€50", "€ 60", "70€", "80 €"]),
        ("5 € 10 € £7", ["5 €", "10 €", "7"]),  # a sign belongs to one number, and the pound is known
        ("US€50 or 50€uro, €  5", ["50", "50", "5"]),
        ("€20", ["€20"]),  # with a sign that the model does not know nothing is left to it
        ("€ x", []),
    ],
)
def test_the_rare_sign_of_a_currency_belongs_to_its_number_and_is_not_read(text, amounts):
    numbers = Numbers(NumberHabits(("30", "300"), ("20",)), target_lang="fr", is_rare="€".__contains__)
    own = numbers.found(text)
    assert [text[number.begin : number.end] for number in own] == amounts
    assert not any("€" in number.stand_in for number in own)
    assert not numbers.has_rewritten(text)
    assert numbers.has_rewritten("20 x")


def test_numbers_come_back_with_the_weights_and_words_of_what_the_model_has_said():
    """The model has said 1 2 | 3 | 4 5 | 6 for numbers of one and of three pieces."""
    numbers = (
        TermFound("7", (0, 1), Term((0,), ((1, 2),)), ("7",), ((11,),)),
        TermFound("x", (1, 2), Term((1,), ((3,),)), ("x",)),
        TermFound("888", (2, 3), Term((2,), ((9,), (4, 5))), ("888",), ((10,), (12, 13, 14))),
    )
    part = Part(0, 0, 0, (1, 2, 3), (), terms=numbers)
    weights = torch.arange(14).view(7, 2)
    found = Hypothesis(
        (1, 2, 3, 4, 5, 6),
        -1.0,
        -1.0,
        ended=True,
        weights_TS=weights,
        generated_terms=(GeneratedTerm(0, 0, 2), GeneratedTerm(1, 2, 3), GeneratedTerm(2, 3, 5)),
    )
    spoken = with_numbers(found, part)
    assert spoken.hypothesis.ids == (11, 3, 12, 13, 14, 6)
    assert spoken.hypothesis.weights_TS[:, 0].tolist() == [0, 4, 6, 8, 8, 10, 12]
    assert spoken.hypothesis.generated_terms == (GeneratedTerm(0, 0, 1), GeneratedTerm(1, 1, 2), GeneratedTerm(2, 2, 5))
    target = PieceWords(spoken.hypothesis.ids, (0, 1, 2, 2, 2, 3), 4)
    assert spoken.said(target, found.ids) == PieceWords(found.ids, (0, 0, 1, 2, 2, 3), 4)
    alone = replace(part, terms=numbers[1:2])
    plain = replace(found, generated_terms=(GeneratedTerm(0, 2, 3),))
    assert with_numbers(plain, alone).hypothesis is plain


@pytest.fixture(scope="module")
def tokenizer(corpus):
    lines = (corpus / "train.en").read_text().splitlines()
    return train_tokenizer(lines, model_type="bpe", vocab_size=400, normalization="identity", character_coverage=1.0)


def places(finder: TermFinder, text: str) -> list[tuple[str, bool]]:
    return [(text[place.begin : place.end], bool(place.spellings)) for place in finder._places(text)]


def test_a_number_at_the_end_may_be_said_with_a_full_stop_that_pieces_join_to_its_last_digit():
    lines = ["in 2013.", "at 3.", "see 13."] * 20
    target = train_tokenizer(lines, model_type="bpe", vocab_size=290, normalization="identity", character_coverage=1.0)
    finder = TermFinder((target, target), numbers=Numbers(NumberHabits(("2013", "20"), ()), target_lang="fr"))
    joined = tuple(target.encode("2013."))
    assert target.pieces(joined)[-1] not in (".", "▁.")  # else the test shows nothing
    (place,) = finder._places("at 4711 cars")
    assert place.pieces == (tuple(target.encode("2013")),)
    (place,) = finder._places("at 4711.")
    assert place.pieces == (tuple(target.encode("2013")), joined)
    assert [target.decode(ids) for ids in place.spellings] == ["4711", "4711."]
    (place,) = finder._places("at 47.")
    assert place.pieces == (tuple(target.encode("20")),)  # here the mark is a piece of its own


def test_a_number_within_a_term_of_the_glossary_is_none_of_its_own(tokenizer):
    glossary = Glossary.of("g", [Entry("car 5", ("x",), False, 1)])
    finder = TermFinder((tokenizer, tokenizer), glossary, Numbers(NONE, target_lang="fr"))
    assert places(finder, "7 car 5 and 5") == [("7", True), ("car 5", False), ("5", True)]
    assert places(TermFinder((tokenizer, tokenizer), glossary), "7 car 5 and 5") == [("car 5", False)]


@pytest.mark.parametrize(("language", "glued"), [("zh", True), ("zh-TW", True), ("ja", True), ("de", False)])
def test_a_number_may_be_glued_to_a_word_where_the_language_has_no_spaces(tokenizer, language, glued):
    finder = TermFinder((tokenizer, tokenizer), numbers=Numbers(NONE, target_lang=language))
    (place,) = finder._places("4711")
    spelt = [tokenizer.pieces(ids) for ids in place.pieces]
    assert ["".join(pieces).startswith("▁") for pieces in spelt] == [True, False][: 1 + glued]


def test_every_piece_with_a_digit_is_known(tokenizer):
    finder = TermFinder((tokenizer, tokenizer), numbers=Numbers(NONE, target_lang="fr"))
    assert {f"<0x3{digit}>" for digit in range(10)} <= set(tokenizer.pieces(finder.digits))
