"""Edits of a text against a slow truth that follows single characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt_cli.text.edits import Change, Edits, word_spans

TEXTS = st.text("ab .", max_size=12)


@st.composite
def changes_of(draw, text):
    """Changes that do not overlap, from left to right."""
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
    found = []
    for begin, end in zip(places[::2], places[1::2], strict=False):
        one_to_one = draw(st.booleans())
        size = end - begin
        written = draw(st.text("AB .", min_size=size, max_size=size) if one_to_one else st.text("AB .", max_size=3))
        found.append(Change(begin, end, written, one_to_one=one_to_one))
    return found


@st.composite
def chains(draw, length):
    """Edits of which each goes on with the text that the one before it makes."""
    found = [Edits.identity(draw(TEXTS))]
    for _ in range(length):
        found.append(Edits.of(found[-1].new, draw(changes_of(found[-1].new))))
    return found[1:]


def partners(edits):
    """The slow truth: for each character of the new text, the place in the old one for which it stands, or None."""
    found = [None] * len(edits.new)
    for run in edits.runs:
        for number in range(run.length):
            found[run.new + number] = run.old + number
    return found


def partners_of_changes(text, changes):
    """The same from the changes alone, and the text that they make."""
    written, found, place = "", [], 0
    for change in changes:
        for number in range(place, change.begin):
            found.append(number)
        written += text[place : change.begin] + change.text
        own = text[change.begin : change.end]
        is_matched = len(own) == len(change.text) and (change.one_to_one or own == change.text)
        found += [change.begin + number if is_matched else None for number in range(len(change.text))]
        place = change.end
    return written + text[place:], found + list(range(place, len(text)))


@st.composite
def texts_with_changes(draw):
    text = draw(TEXTS)
    return text, draw(changes_of(text))


@given(texts_with_changes())
def test_changes_make_the_text_and_match_characters_as_one_by_one(case):
    text, changes = case
    edits = Edits.of(text, changes)
    assert (edits.new, partners(edits)) == partners_of_changes(text, changes)
    assert edits == Edits.of(text, [*changes][::-1]) or len({change.begin for change in changes}) < len(changes)


@given(chains(2))
def test_composed_edits_match_a_character_with_the_partner_of_its_partner(chain):
    one, other = chain
    composed = one.compose(other)
    before = partners(one)
    assert partners(composed) == [None if place is None else before[place] for place in partners(other)]


@given(chains(3))
def test_composition_is_associative(chain):
    one, two, three = chain
    assert one.compose(two).compose(three) == one.compose(two.compose(three))


@given(chains(2))
def test_the_inverse_inverts(chain):
    one, two = chain
    assert one.inverse().inverse() == one
    assert one.compose(two).inverse() == two.inverse().compose(one.inverse())
    there_and_back = one.compose(one.inverse())
    assert (there_and_back.old, there_and_back.new) == (one.old, one.old)
    assert all(old == new for new, old in enumerate(partners(there_and_back)) if old is not None)


@given(chains(1))
def test_what_changes_nothing_is_neutral(chain):
    (one,) = chain
    assert Edits.identity(one.old).compose(one) == one == one.compose(Edits.identity(one.new))
    assert Edits.identity(one.old).is_identity
    assert one.is_identity == (partners(one) == list(range(len(one.old))) and one.old == one.new)


def span_by_characters(edits, begin, end):
    """The slow truth of `new_span`: from the first partner on the left of the span to the first on its right."""
    places = {old: new for new, old in enumerate(partners(edits)) if old is not None}
    if begin == end:
        if not begin:
            return 0, 0
        place = span_by_characters(edits, begin - 1, begin)[1]
        return place, place
    if begin in places:
        first = places[begin]
    else:
        first = max((new + 1 for old, new in places.items() if old < begin), default=0)
    last = end - 1
    if last in places:
        return first, places[last] + 1
    return first, min((new for old, new in places.items() if old > last), default=len(edits.new))


@given(chains(1), st.data())
def test_spans_go_both_ways_as_single_characters_do(chain, data):
    (edits,) = chain
    for one, mapped in ((edits, edits.new_span), (edits.inverse(), edits.old_span)):
        begin = data.draw(st.integers(0, len(one.old)))
        end = data.draw(st.integers(begin, len(one.old)))
        assert mapped(begin, end) == span_by_characters(one, begin, end)
        assert one.new_spans([(begin, end)]) == [span_by_characters(one, begin, end)]


@given(chains(1))
def test_no_word_is_without_a_place_and_all_places_rise(chain):
    (edits,) = chain
    for one in (edits, edits.inverse()):
        spans = [one.new_span(*word) for word in word_spans(one.old)]
        assert all(0 <= begin <= end <= len(one.new) for begin, end in spans)
        assert sorted(spans) == spans
    assert len(edits.old_words()) == len(edits.new.split())


@given(chains(1))
def test_a_word_has_the_value_of_the_word_that_it_shares_most_characters_with(chain):
    (edits,) = chain
    olds = word_spans(edits.old)
    for word, own in zip(word_spans(edits.new), edits.old_words(), strict=True):
        begin, end = span_by_characters(edits.inverse(), *word)
        shared = [len(set(range(begin, end)) & set(range(*old))) for old in olds]
        assert own == (shared.index(max(shared)) if any(shared) else None)
    values = list(range(len(olds)))
    assert edits.map_word_values(values, -1) == [-1 if word is None else word for word in edits.old_words()]


@given(chains(1))
def test_the_changes_of_edits_make_them(chain):
    (edits,) = chain
    made = Edits.of(edits.old, edits.changes())
    is_same_by_chance = any(edits.old[slice(*old)] == edits.new[slice(*new)] for old, new in edits.gaps())
    assert made == edits or (is_same_by_chance and made.new == edits.new)
    assert edits.is_identity == (edits.changes() == [])


@given(chains(1))
def test_gaps_and_runs_are_the_whole_of_both_texts(chain):
    (edits,) = chain
    gaps = list(edits.gaps())
    for side, text in enumerate((edits.old, edits.new)):
        in_runs = {run[side] + number for run in edits.runs for number in range(run.length)}
        in_gaps = [place for gap in gaps for place in range(*gap[side])]
        assert sorted([*in_runs, *in_gaps]) == list(range(len(text)))


@pytest.mark.parametrize("changes", [[(0, 2, ""), (1, 3, "")], [(2, 5, "")], [(-1, 1, "")], [(2, 1, "")]])
def test_changes_that_overlap_or_lie_outside_are_refused(changes):
    with pytest.raises(ValueError, match="outside"):
        Edits.of("abcd", [Change(*change) for change in changes])


def test_edits_of_another_text_cannot_follow():
    with pytest.raises(ValueError, match="cannot follow"):
        Edits.identity("a").compose(Edits.identity("b"))


def test_a_long_line_takes_steps_in_proportion():
    """A line of 8,000 changes has 16 times the runs of one of 500, and spans are found by bisection."""
    for size in (500, 8000):
        edits = Edits.of("ab " * size, [Change(3 * word, 3 * word + 1, "") for word in range(size)])
        assert len(edits.runs) == size
        assert edits.old_words() == list(range(size))
