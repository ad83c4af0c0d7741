"""Numbers that are read as others, and put back."""

from __future__ import annotations

import pickle
import random
import re
from dataclasses import replace

import numpy as np
import pytest
from marks import some_or_all_of
from odd_lines import SYMBOLS, WORDS, WRITING, enciphered, odd_line, turned_round

from nmt_cli.demo import phrasebook
from nmt_cli.normalization.normalizer import Normalizer
from nmt_cli.normalization.number_spans import NumberHabits
from nmt_cli.normalization.profile import TextProfile
from nmt_cli.text.edits import word_spans
from nmt_cli.text.line import Constraint, Line
from nmt_cli.text.translation import Translation
from nmt_cli.text.unit_alignment import Alignment

LINES = [pair.source for pair in phrasebook.generate(seed=3, num_train=1500, num_dev=1, num_test=1).train]
HABITS = NumberHabits(("30", "2,000", "7", "100", "12", "3.5", "10:15", "A1", "2001", "5-3"), ("2", "42", "1990"))
KINDS = [*["number"] * 12, *WRITING, *WORDS, *SYMBOLS]
LANGUAGES = {"source_lang": "en", "target_lang": "fr", "knows_words": True}


def of_profile(habits=HABITS):
    return replace(TextProfile.of(LINES, "en"), kept_numbers=habits.kept, rewritten_numbers=habits.rewritten)


@pytest.fixture(scope="module", params=some_or_all_of(1_500))
def both(request):
    """The steps, and odd lines without symbols within, which have a step of their own."""
    steps = Normalizer.of(of_profile(), **LANGUAGES)
    chance = random.Random(11)
    odd = [odd_line(chance.choice(LINES), chance, KINDS) for _ in range(request.param)]
    return steps, [text for text in odd if all(undo.step != "inner symbols" for undo in steps.read(text).undo_records)]


def numbers_of(steps: Normalizer):
    """The step of numbers."""
    return next(step for step in steps.steps if step.name == "numbers")


def read_numbers(steps: Normalizer, text: str, prefix: str = "") -> Line:
    """The line after the step of numbers alone."""
    return numbers_of(steps).read(Line.of(text, prefix))


def said_by(translator, line):
    """A translation, and where it says the numbers of the line."""
    marked = line.text
    for number, one in reversed(list(enumerate(line.constraints))):
        marked = f"{marked[: one.begin]}\ue000{number}\ue001{marked[one.end :]}"
    text, terms = translator(marked), []
    while found := re.search("\ue000(\\d+)\ue001", text):
        term = line.constraints[int(found[1])]
        text = text[: found.start()] + term.forms[0] + text[found.end() :]
        terms.append((term, (found.start(), found.start() + len(term.forms[0]))))
    return text, tuple(terms)


@pytest.mark.parametrize("translator", [str, turned_round])
def test_a_translation_that_says_the_stand_ins_has_the_numbers(both, translator):
    """Wherever it says them, even twice or in another order."""
    steps, lines = both
    for text in lines:
        line = read_numbers(steps, text)
        if any(" " in form for one in line.constraints for form in one.forms):
            continue
        said, terms = said_by(translator, line)
        back = steps.undo(line, Translation(line.text, said, terms=terms))
        numbers = (
            {one.key: number for one, number in zip(line.constraints, line.undo_records[0].data, strict=True)}
            if terms
            else {}
        )
        assert [back.text[slice(*place)] for _, place in back.terms] == [numbers[term.key] for term, _ in terms]
        assert back.source == text
        if translator is str:
            assert back.text == text


def test_numbers_survive_all_steps(both):
    steps, lines = both
    for text in lines:
        line = steps.read(text)
        said, terms = said_by(str, line)
        back = steps.undo(line, Translation(line.text, said, terms=terms))
        for term, place in back.terms:
            assert back.text[slice(*place)] == text[term.begin : term.end], text


def test_a_prefix_that_says_a_number_says_it_once_and_one_that_begins_it_goes_on():
    steps = Normalizer.of(of_profile(), **LANGUAGES)
    said = read_numbers(steps, "I have 4711 cars and 815 boats.", "J'ai 4711 ")
    assert [one.key for one in said.constraints] == [1]
    assert (said.prefix, said.keeps_digits) == ("J'ai 4711 ", True)
    begun = read_numbers(steps, "I have 4711 cars and 815 boats.", "J'ai 47")
    assert (begun.prefix, [one.key for one in begun.constraints]) == ("J'ai 4711", [1])
    assert read_numbers(steps, "I have 4711 cars and 4712 boats.", "J'ai 47").prefix == "J'ai 47"
    back = steps.undo(begun, Translation(begun.text, "J'ai 4711 voitures", prefix_length=len(begun.prefix)))
    assert back.text == "J'ai 4711 voitures"


def test_a_number_that_a_term_touches_is_left_to_the_term():
    steps = Normalizer.of(of_profile(), **LANGUAGES)
    line = Line.of("I see 4711 cars and 4712.").apply_step(
        "glossary", constraints=[Constraint(6, 15, ("x",), "glossary")]
    )
    assert [one.step for one in numbers_of(steps).read(line).constraints] == ["glossary", "numbers"]


def test_the_first_of_two_equal_stand_ins_is_put_back_alone():
    """Only what the search has said for a number is replaced, and nothing within a prefix."""
    steps = Normalizer.of(of_profile(NumberHabits(("7",), ())), **LANGUAGES)
    line = steps.read("I see 9 cars.")
    assert line.text == "I see 7 cars."
    (term,) = line.constraints
    for begun, expected in ((0, "7 voitures, 9."), (13, "7 voitures, 7.")):
        found = Translation(line.text, "7 voitures, 7.", terms=((term, (12, 14)),), prefix_length=begun)
        assert steps.undo(line, found).text == expected


def test_a_line_with_numbers_travels_between_processes(both):
    steps, lines = both
    line = pickle.loads(pickle.dumps(steps.read(lines[0])))
    assert line == pickle.loads(pickle.dumps(steps)).read(lines[0])
    assert enciphered("a %s") == "n %s"


def test_each_word_of_a_number_in_groups_has_a_link(both):
    steps, _ = both
    line = read_numbers(steps, "We are 5 000 here.")
    said, terms = said_by(str, line)
    words = word_spans(said)
    alignment = Alignment(tuple(word_spans(line.text)), tuple(words), np.pad(np.eye(len(words)), ((0, 0), (0, 1))))
    found = steps.undo(line, Translation(line.text, said, alignment=alignment, terms=terms))
    assert len(words) == 4
    assert found.text == "We are 5 000 here."
    own = word_spans(found.text)
    assert found.alignment.links(own, own) == [(number, number) for number in range(5)]
