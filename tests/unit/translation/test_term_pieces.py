"""Constraints of lines in pieces, and the parts of long lines to which they belong."""

from __future__ import annotations

from itertools import pairwise

import pytest

from nmt_cli.data.tokenizer import Tokenizer, train_tokenizer
from nmt_cli.normalization.normalizer import Normalizer
from nmt_cli.normalization.number_spans import NumberHabits
from nmt_cli.normalization.numbers import Numbers
from nmt_cli.text.line import Line
from nmt_cli.translation.glossary import Entry, Glossary
from nmt_cli.translation.results import Part
from nmt_cli.translation.terms import TermEncoder

GLOSSARY = Glossary.of("g", [Entry("car 5", ("voiture", "bus"), False, 1), Entry("red", ("rouge",), False, 2)])


@pytest.fixture(scope="module")
def tokenizer(corpus) -> Tokenizer:
    lines = (corpus / "train.en").read_text().splitlines()
    return train_tokenizer(lines, model_type="bpe", vocab_size=400, normalization="identity", character_coverage=1.0)


def steps(kept=(), glossary=None, **more) -> Normalizer:
    numbers = Numbers(NumberHabits(tuple(kept), ()), is_rare=lambda _: False, **more)
    return Normalizer([numbers]).with_glossary(glossary)


def parts_of(tokenizer: Tokenizer, line: Line, cuts=()) -> list[Part]:
    ids, spans = tokenizer.encode_spans(line.text)
    ends = [0, *cuts, len(ids)]
    return [
        Part(0, 0, number, tuple(ids[begin:end]), tuple(spans[begin:end]))
        for number, (begin, end) in enumerate(pairwise(ends))
    ]


def forms_of(tokenizer: Tokenizer, line: Line, glossary=None) -> list[tuple[tuple[int, ...], ...]]:
    finder = TermEncoder((tokenizer, tokenizer), glossary)
    return [
        found.term.forms for part in finder.with_constraints(parts_of(tokenizer, line), [line]) for found in part.terms
    ]


def test_a_number_at_the_end_may_be_said_with_a_full_stop_that_pieces_join_to_its_last_digit():
    lines = ["in 2013.", "at 3.", "see 13."] * 20
    target = train_tokenizer(lines, model_type="bpe", vocab_size=290, normalization="identity", character_coverage=1.0)
    own = steps(("2013", "20"))
    joined = tuple(target.encode("2013."))
    assert target.pieces(joined)[-1] not in (".", "▁.")  # else the test shows nothing
    assert forms_of(target, own.read("at 4711 cars")) == [(tuple(target.encode("2013")),)]
    assert forms_of(target, own.read("at 4711.")) == [(tuple(target.encode("2013")), joined)]
    assert forms_of(target, own.read("at 47.")) == [
        (tuple(target.encode("20")),)
    ]  # here the mark is a piece of its own


def test_a_number_within_a_term_of_the_glossary_is_none_of_its_own(tokenizer: Tokenizer):
    line = steps(glossary=GLOSSARY).read("7 car 5 and 5")
    (part,) = TermEncoder((tokenizer, tokenizer), GLOSSARY).with_constraints(parts_of(tokenizer, line), [line])
    assert [found.constraint.step for found in part.terms] == ["numbers", "glossary", "numbers"]
    assert part.terms[1].term.forms == tuple(tuple(tokenizer.encode(form)) for form in ("voiture", "bus"))


@pytest.mark.parametrize("glued", [True, False])
def test_a_number_may_be_glued_to_a_word_where_the_language_has_no_spaces(tokenizer: Tokenizer, glued: bool):
    (forms,) = forms_of(tokenizer, steps(may_lack_blank_before=glued).read("4711"))
    spelt = [tokenizer.pieces(ids) for ids in forms]
    assert ["".join(pieces).startswith("▁") for pieces in spelt] == [True, False][: 1 + glued]


def test_every_piece_with_a_digit_is_known(tokenizer: Tokenizer):
    finder = TermEncoder((tokenizer, tokenizer))
    assert {f"<0x3{digit}>" for digit in range(10)} <= set(tokenizer.pieces(finder.digits))


@pytest.mark.parametrize("text", ["a 4711 b 22 c 1.5", "7 car 5 and red 5", "😀 7 é 8", "12345678 é 9", "no"])
def test_each_constraint_belongs_to_the_part_with_its_first_piece_wherever_a_line_is_cut(tokenizer, text):
    """The slow truth looks at each piece of the whole line."""
    line = steps(glossary=GLOSSARY).read(text)
    (whole,) = parts_of(tokenizer, line)
    expected = [
        [place for place, (begin, end) in enumerate(whole.spans) if begin < one.end and one.begin < end]
        for one in line.constraints
    ]
    for cut in range(1, len(whole.ids)):
        parts = TermEncoder((tokenizer, tokenizer), GLOSSARY).with_constraints(parts_of(tokenizer, line, [cut]), [line])
        found = []
        for begin, part in zip((0, cut), parts, strict=True):
            found += [(term.constraint, [begin + place for place in term.term.places]) for term in part.terms]
        firsts = [
            (one, [place for place in places if (place < cut) == (places[0] < cut)])
            for one, places in zip(line.constraints, expected, strict=True)
        ]
        assert found == firsts
