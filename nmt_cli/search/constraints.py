"""Constraints on the translation of a sentence: its beginning, and terms that it must contain.

The beginning has two parts: pieces that the model reads before the search (`beginning`), and an automaton over pieces
that spells the rest of an unfinished word (`automaton`). A term has some positions in the source and one or
several *forms*: translations in pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

ACCEPTING = -1
"""State of an automaton once the rest of the word is spelt: every piece is allowed."""


@dataclass(frozen=True)
class Term:
    """A term of the source whose translation is given."""

    places: tuple[int, ...]
    """Positions of the term's pieces in the source, from 0."""
    forms: tuple[tuple[int, ...], ...]
    """The pieces of each of its translations, one of which is to be generated."""
    is_known: bool = False
    """True if the model always reads the form that has been generated. If False, it reads its own best piece in
    place of a form to which it gives almost no probability."""

    @cached_property
    def size(self) -> int:
        """Number of pieces of the longest form."""
        return max(map(len, self.forms))


@dataclass(frozen=True)
class Constraints:
    """Requirements on the translation of one sentence."""

    beginning: tuple[int, ...] = ()
    """First pieces of the translation, which the model reads before the search."""
    automaton: tuple[Mapping[int, int], ...] = ()
    """For each state of the automaton, from 0, the pieces that are allowed, and the state after each of them. The
    search starts in state 0. In state `ACCEPTING` every piece is allowed."""
    terms: tuple[Term, ...] = ()
    keeps_numbers: bool = False
    """True if the translation may have digits only in its terms and in its beginning."""
    piece_words: tuple[int, ...] = ()
    """The number of each source piece's word, from 0; empty if each piece is a word. The attention of a word is
    the sum over its pieces."""
