"""Numbers, codes and addresses in a text, and which of them a translation keeps."""

from __future__ import annotations

import pytest

from nmt_cli.normalization.number_spans import NumberHabits, number_spans
from nmt_cli.normalization.numbers import Numbers
from nmt_cli.text.line import Constraint, Line

NONE = NumberHabits((), ())


def read(habits: NumberHabits, text: str, terms=(), prefix: str = "", rare: str = "", **more) -> Line:
    """The line after the step of numbers alone."""
    line = Line.of(text, prefix)
    if terms:
        line = line.apply_step("glossary", constraints=[Constraint(*term, ("x",), "glossary") for term in terms])
    return Numbers(habits, is_rare=lambda one: one in rare, **more).read(line)


def numbers_of(line: Line) -> list[str]:
    """The numbers that are kept, as the user wrote them."""
    spans = [line.edits.old_span(one.begin, one.end) for one in line.constraints if one.step == "numbers"]
    return [line.raw[slice(*span)] for span in spans]


def stand_ins(line: Line) -> list[str]:
    return [one.forms[0] for one in line.constraints]


def found(text: str) -> list[str]:
    return [text[begin:end] for begin, end in number_spans(text)]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("I have 4711 dogs and 1,000.50 euro at 14:30.", ["4711", "1,000.50", "14:30"]),
        ("-5 degrees, 12-15 or 24/7, 2013-05-14.", ["-5", "12-15", "24/7", "2013-05-14"]),
        ("The 12th, the 1990s, 5km, 10:30am and a 10-year-old.", ["12", "1990", "5", "10:30", "10"]),
        ("3.5mm-5.0mm", ["3.5", "5.0"]),
        ("10^6 or 6.02×10^23", ["10^6", "6.02×10^23"]),
        ("UUID 550e8400-e29b-41d4-a716-446655440000.", ["550e8400-e29b-41d4-a716-446655440000"]),
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
    line = read(NumberHabits((), ("10",)), "__1__ <b2> {0} %1$s [1]_. [X1] 10 11", symbols=["[X1]"])
    assert numbers_of(line) == ["11"]
    assert not line.keeps_digits
    assert read(NumberHabits((), ("10",)), "11 110").keeps_digits


@pytest.mark.parametrize(
    ("text", "expected"),
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
def test_a_number_has_a_known_one_in_its_place(text, expected):
    kept = ("20", "2:30", "30", "3", "2013", "1.5")
    line = read(NumberHabits(kept, ()), text)
    assert stand_ins(line) == expected
    assert [one.is_known for one in line.constraints] == [one in kept for one in expected]


def test_a_number_that_is_left_to_the_model_stands_for_no_other_in_its_line():
    habits = NumberHabits(("20", "30"), ("20",))
    assert stand_ins(read(habits, "41 and 20")) == ["30"]
    assert stand_ins(read(habits, "41")) == ["20"]


def test_a_number_that_stands_for_itself_stands_for_no_other_in_its_line():
    habits = NumberHabits(("5", "12:30"), ())
    assert stand_ins(read(habits, "77 and 5")) == ["77", "5"]
    assert stand_ins(read(habits, "13:45 or 12:30")) == ["13:45", "12:30"]
    assert stand_ins(read(habits, "13:45 or 77")) == ["12:30", "5"]


def test_a_term_of_the_glossary_takes_the_numbers_and_signs_that_it_touches():
    text = "€50, 60 €, $70, car 5, 7 up, 8"
    terms = [(0, 1), (8, 9), (16, 21), (23, 27)]
    assert [text[begin:end] for begin, end in terms] == ["€", "€", "car 5", "7 up"]
    assert numbers_of(read(NumberHabits(("30",), ()), text, terms, rare="€$")) == ["50", "60", "$70", "8"]


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
    assert read(NONE, "with 1234 and 5 and 56", prefix=begun).prefix == begun + rest


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
    habits = NumberHabits(("30", "300"), ("20",))
    line = read(habits, text, rare="€")
    assert numbers_of(line) == amounts
    assert not any("€" in one for one in stand_ins(line))
    assert line.keeps_digits == bool(amounts)
    assert not read(habits, "20 x 5", rare="€").keeps_digits
