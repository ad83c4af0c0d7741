"""Segments that the formats find in a document: ranges that hold text, and the parts of each text.

A document is decoded once, and every place is an offset in its characters. All that lies outside the ranges stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import NamedTuple

FREE_SIGNS = "%"
"""Signs of placeholders that are common in text too: one language writes `percent`, another `%`."""


class Kind(Enum):
    """Kinds of parts that a text is made of."""

    TEXT = auto()
    OPEN = auto()
    """A tag that begins to enclose text."""
    CLOSE = auto()
    ALONE = auto()
    """A tag that encloses nothing; the model does not see it."""
    PLACEHOLDER = auto()
    """A word that the model sees and may not change."""
    BREAK = auto()
    """Something that stays where it is, so no sentence goes across it."""
    SEAM = auto()
    """Border of two cues: a sentence may cross it, and its translation is divided again."""


@dataclass(frozen=True, slots=True)
class Atom:
    """A piece of text, a tag or a placeholder."""

    raw: str
    """Text of the part in the document's own spelling."""
    text: str = ""
    """Text that the model sees; for a tag, its name."""
    kind: Kind = Kind.TEXT
    inner: tuple[Segment, ...] = ()
    """Attributes of a tag that are to be translated, at their places in `raw`."""

    @property
    def is_shown(self) -> bool:
        """True for text and placeholders, whose characters the model sees."""
        return self.kind in (Kind.TEXT, Kind.PLACEHOLDER)

    @property
    def shown(self) -> str:
        """Characters that the model sees: a blank for a seam, nothing for a tag or a break."""
        return self.text if self.is_shown else " " if self.kind is Kind.SEAM else ""

    def cut(self, place: int) -> tuple[Atom, Atom]:
        """Return the text before and after `place`; what is spelled as one, such as an entity, goes to the first."""
        if self.raw == self.text:
            return replace(self, raw=self.raw[:place], text=self.text[:place]), Atom(
                self.raw[place:], self.text[place:]
            )
        return self, Atom("", "")


@dataclass(frozen=True, slots=True)
class Segment:
    """A range of a document, the text to translate, and how its translation is written there."""

    start: int
    end: int
    """The range that the translation replaces."""
    atoms: tuple[Atom, ...]
    """The text; mostly what stands in the range, but in a catalogue it stands elsewhere."""
    spell: Callable[[str], str] = str
    """Returns how the document spells a text, as with entities."""
    finish: Callable[[Sequence[str]], str] = "".join
    """Returns the range from what stands between the seams."""
    seconds: tuple[float, ...] = ()
    """Seconds for which each part between the seams is shown, if there are seams."""
    signs: str = FREE_SIGNS
    """Signs that the translation may have though the text lacks them."""
    codes: re.Pattern[str] | None = None
    """Pattern of the tags and placeholders that the translation must have as often; None is `CODE`."""


class Edit(NamedTuple):
    """A range and what takes its place, such as the name of a language."""

    start: int
    end: int
    text: str


@dataclass(slots=True)
class Located:
    """Findings of a format in a document: segments and edits in any order, without overlaps."""

    segments: list[Segment] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Notes for the user, such as entries that were left alone."""
    languages: list[str] = field(default_factory=list)
    """Languages that the document says its text is in."""


def spliced(text: str, edits: Iterable[Edit]) -> str:
    """Return a text with the ranges of all edits replaced; those at one place stand in the order given."""
    parts, position = [], 0
    for start, end, new in sorted(edits, key=lambda edit: edit[:2]):
        parts += [text[position:start], new]
        position = end
    return "".join([*parts, text[position:]])
