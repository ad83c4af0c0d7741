"""Terms of a glossary, whose translations the translation of a line must contain."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from nmt_cli.normalization.step import RestoringStep
from nmt_cli.text.edits import Change
from nmt_cli.text.line import Constraint, Line, UndoRecord
from nmt_cli.text.translation import Translation

_ELISION = re.compile(
    r"(?<!\w)(?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu|quoiqu|un|quell|quest|(?:d?a|de|ne|su)ll)['’](\s+)"
    r"(?=[aeiouyhœæà-ý])",
    re.I,
)
"""A word of French, Italian or Catalan that has lost its vowel before the next one, and the blank between them."""


class TermMatch(NamedTuple):
    """A term of the glossary that was found in a text."""

    begin: int
    end: int
    forms: tuple[str, ...]
    """Its translations, the preferred one first."""


class Glossary(Protocol):
    """Finds the terms of a text."""

    def matches(self, text: str, /) -> Sequence[TermMatch]:
        """Return the terms of a text, from left to right; none overlap."""


class GlossaryTerms(RestoringStep):
    """Requires the translations of the terms of a glossary.

    The model reads the terms like other words. Steps that take out symbols or replace numbers leave them whole.
    """

    name = "glossary"

    def __init__(self, glossary: Glossary) -> None:
        """Find terms with this glossary."""
        self._glossary = glossary

    def read(self, line: Line) -> Line:
        """Return the line with its terms as constraints, numbered from left to right."""
        found = [
            Constraint(match.begin, match.end, match.forms, self.name, key)
            for key, match in enumerate(self._glossary.matches(line.text))
        ]
        return line.apply_step(self.name, data=() if found else None, constraints=found)

    def undo(self, undo: UndoRecord, translation: Translation) -> list[Change]:
        """Return the changes that delete the blank of `l' eau`: the search generates a term as a word of its own."""
        begins = {place[0] for term, place in translation.terms if term.step == undo.step and place is not None}
        return [
            Change(*one.span(1), "")
            for one in _ELISION.finditer(translation.text, translation.prefix_length)
            if one.end() in begins
        ]
