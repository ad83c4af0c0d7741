"""Terms of a glossary among the other steps."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from marks import some_or_all
from odd_lines import INNER, SYMBOLS, WORDS, WRITING, odd_line

from nmt_cli.demo import phrasebook
from nmt_cli.normalization.normalizer import Normalizer
from nmt_cli.normalization.profile import TextProfile
from nmt_cli.text.translation import Translation
from nmt_cli.translation.glossary import Entry, Glossary

LINES = [pair.source for pair in phrasebook.generate(seed=3, num_train=1500, num_dev=1, num_test=1).train]
TERMS = ("C++", "★cat", "cat (Tom)", "the", "is", "Your", "30 °F", "4711 cars", "(doctor)", "*red")
GLOSSARY = Glossary.of("g", [Entry(term, (f"<{term}>", "x"), False, 1) for term in TERMS])
HABITS = {"kept_numbers": ("30", "7", "100"), "rewritten_numbers": ("2",)}
LANGUAGES = {"source_lang": "en", "target_lang": "fr", "knows_words": True}


@pytest.fixture(scope="module")
def steps():
    return Normalizer.of(replace(TextProfile.of(LINES, "en"), **HABITS), **LANGUAGES)


@some_or_all(800)
def test_each_term_stays_with_its_symbols_where_it_stands(steps, num):
    chance = random.Random(4)
    kinds = [*WRITING, *WORDS, *SYMBOLS, *INNER]
    for _ in range(num):
        words = odd_line(chance.choice(LINES), chance, kinds).split()
        words.insert(chance.randrange(len(words) + 1), chance.choice(TERMS))
        text = " ".join(words)
        line = steps.with_glossary(GLOSSARY).read(text)
        expected = GLOSSARY.matches(text)
        terms = [one for one in line.constraints if one.step == "glossary"]
        assert [one.forms for one in terms] == [forms for *_, forms in expected]
        assert [one.key for one in terms] == [*range(len(terms))]
        for term, (begin, end, _) in zip(terms, expected, strict=True):
            first, last = line.edits.old_span(term.begin, term.end)
            assert (first <= begin and end <= last) or text[begin:end].strip(".") == text[first:last].strip("."), text


@pytest.mark.parametrize("text", ["I see C++ near Tom.", "★Cat is here.", "The cat (Tom) is here."])
def test_the_signs_of_a_glossary_are_read(steps, text):
    assert steps.with_glossary(GLOSSARY).read(text).text == text
    assert steps.read(text).text != text
    assert steps.with_glossary(GLOSSARY).with_glossary(None).read(text).text == steps.read(text).text


def test_a_number_that_a_term_touches_is_the_terms(steps):
    line = steps.with_glossary(GLOSSARY).read("I have 4711 cars and 815 boats.")
    assert [(one.step, line.text[one.begin : one.end]) for one in line.constraints if "+" not in one.forms[0]] == [
        ("glossary", "4711 cars"), ("numbers", "100"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("written", "right"),
    [
        ("Où est l' automobile ?", "Où est l'automobile ?"),
        ("L’ automobile rouge", "L’automobile rouge"),
        ("jusqu' automobile", "jusqu'automobile"),
        ("l' autre automobile", "l' autre automobile"),
        ("the boys' automobile", "the boys' automobile"),
    ],
)
def test_a_term_is_joined_to_the_elided_word_before_it(written, right):
    steps = Normalizer().with_glossary(Glossary.of("g", [Entry("car", ("automobile",), False, 1)]))
    line = steps.read("Where is the car?")
    begin = written.index("automobile")
    terms = ((line.constraints[0], (begin, begin + 10)),)
    done = steps.undo(line, Translation(line.text, written, terms=terms))
    (place,) = (place for _, place in done.terms)
    assert (done.text, done.text[slice(*place)]) == (right, "automobile")
