"""Attention between units, merged to words, against sums of single weights."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nmt_cli.text.alignment import hard_alignment, merge_to_words
from nmt_cli.text.edits import Change, Edits, word_spans
from nmt_cli.text.unit_alignment import Alignment


def units_of(text, size=2):
    """Units of at most `size` characters, each with the blanks before it as SentencePiece has them."""
    return tuple((begin, min(begin + size, len(text))) for begin in range(0, len(text), size))


@st.composite
def alignments(draw):
    source, target = draw(st.text("ab ", min_size=1, max_size=12)), draw(st.text("ab ", min_size=1, max_size=12))
    own, other = units_of(source), units_of(target)
    chance = np.random.default_rng(draw(st.integers(0, 100)))
    return source, target, Alignment(own, other, chance.random((len(other), len(own) + 1)))


def word_of(span, words):
    """The slow truth: the word at the first visible character of a unit or behind it, or the last."""
    behind = [number for number, (_, end) in enumerate(words) if end > span[0]]
    return min(behind, default=max(len(words) - 1, 0))


@given(alignments())
def test_units_make_the_words_that_pieces_make(case):
    source, target, found = case
    words = word_spans(source), word_spans(target)
    numbers = [
        [word_of(span, own) for span in units] for units, own in zip((found.source, found.target), words, strict=True)
    ]
    expected = merge_to_words(found.weights, numbers[0], numbers[1], (len(words[1]), len(words[0])))
    np.testing.assert_allclose(found.word_weights(*words), expected)
    assert found.links(*words) == (hard_alignment(expected[:, :-1]) if words[0] else [])


@given(alignments())
def test_a_long_line_has_the_links_of_one_hot_weights(case):
    source, target, found = case
    aligned = tuple(int(row[:-1].argmax()) for row in found.weights)
    hot = np.zeros_like(found.weights)
    hot[range(len(aligned)), aligned] = 1.0
    words = word_spans(source), word_spans(target)
    long = Alignment(found.source, found.target, None, aligned)
    assert long.aligned_to(*words) == Alignment(found.source, found.target, hot).aligned_to(*words)


def test_what_is_put_in_looks_at_itself_and_the_rest_at_what_it_looked_at():
    found = Alignment(((0, 3), (3, 7)), ((0, 3), (3, 9)), np.array([[0.9, 0.1, 0.0], [0.2, 0.7, 0.1]]))
    source = Edits.of("(the) 😀 cat", [Change(0, 1, ""), Change(4, 7, "")])
    target = Edits.of("die Katze", [Change(0, 0, "("), Change(3, 3, ") 😀")])
    assert (source.new, target.new) == ("the cat", "(die) 😀 Katze")
    shown = [((0, 1), (0, 1)), ((4, 5), (4, 5)), ((6, 7), (6, 7))]
    moved = found.apply_edits(source.inverse(), target, shown)
    words = word_spans(source.old), word_spans(target.new)
    assert moved.links(*words) == [(0, 0), (1, 1), (2, 2)]
    np.testing.assert_allclose(moved.word_weights(*words), [[0.9, 0, 0.1, 0], [0, 1, 0, 0], [0.2, 0, 0.7, 0.1]])
    long = Alignment(found.source, found.target, None, (0, 1)).apply_edits(source.inverse(), target, shown)
    assert long.links(*words) == [(0, 0), (1, 1), (2, 2)]


def test_a_stop_that_only_the_model_has_read_belongs_to_the_word_before_it():
    found = Alignment(((0, 1), (1, 3), (3, 4)), ((0, 1), (1, 2)), np.array([[0.2, 0.5, 0.3, 0], [0.6, 0.1, 0.3, 0]]))
    read = Edits.of("a b", [Change(3, 3, ".")])
    moved = found.apply_edits(read.inverse(), Edits.of("xy", [Change(1, 2, "")]))
    np.testing.assert_allclose(moved.word_weights([(0, 1), (2, 3)], [(0, 1)]), [[0.4, 0.6, 0]])


def test_a_comma_that_only_the_model_has_read_belongs_to_the_word_before_it():
    found = Alignment(((0, 1), (1, 2), (2, 4)), ((0, 1),), np.array([[0.1, 0.6, 0.3, 0.0]]))
    read = Edits.of("a b", [Change(1, 1, ",")])
    moved = found.apply_edits(read.inverse(), Edits.identity("x"))
    np.testing.assert_allclose(moved.word_weights([(0, 1), (2, 3)], [(0, 1)]), [[0.7, 0.3, 0.0]])


def test_empty_texts_have_no_links():
    found = Alignment((), (), np.zeros((0, 1)))
    assert found.links([], []) == []
    assert found.word_weights([(0, 1)], [(0, 1)]).tolist() == [[0, 0]]
