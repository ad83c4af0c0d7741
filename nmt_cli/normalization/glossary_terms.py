"""The terms of a glossary: the translation must have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nmt_cli.normalization.step import Step
from nmt_cli.text.line import Constraint, Line


class Entry(Protocol):
    """A term, and its translations."""

    @property
    def forms(self) -> tuple[str, ...]:
        """The translations, the preferred one first."""


class Match(Protocol):
    """A term in a text."""

    @property
    def entry(self) -> Entry:
        """The term and its translations."""

    @property
    def begin(self) -> int:
        """Its first character in the text."""

    @property
    def end(self) -> int:
        """The character after its last."""


class Glossary(Protocol):
    """Finds the terms of a text."""

    def matches(self, text: str, /) -> Sequence[Match]:
        """Return the terms of a text, from left to right; none overlap."""


class GlossaryTerms(Step):
    """Asks for the translations of the terms of a glossary. The terms are read like other words, but whole."""

    name = "glossary"

    def __init__(self, glossary: Glossary) -> None:
        """Find terms with this glossary."""
        self._glossary = glossary

    def read(self, line: Line) -> Line:
        """Return the line with its terms as constraints, numbered from left to right."""
        found = [
            Constraint(match.begin, match.end, match.entry.forms, self.name, key)
            for key, match in enumerate(self._glossary.matches(line.text))
        ]
        return line.changed(self.name, constraints=found)
