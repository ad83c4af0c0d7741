"""The terms of a glossary: the translation must have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from nmt_cli.normalization.step import Step
from nmt_cli.text.line import Constraint, Line


class Match(NamedTuple):
    """A term in a text."""

    begin: int
    end: int
    forms: tuple[str, ...]
    """Its translations, the preferred one first."""


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
            Constraint(match.begin, match.end, match.forms, self.name, key)
            for key, match in enumerate(self._glossary.matches(line.text))
        ]
        return line.changed(self.name, constraints=found)
