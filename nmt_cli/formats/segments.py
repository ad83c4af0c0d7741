"""Base of the readers of formats, which find the texts of a document and write translations back into it.

A format is a class derived from `Content`. It reads the characters of a document as segments, which `nmt import` pairs
and `nmt translate` translates, and it says what to change in the document for a translation. A document is decoded
once, and every place is an offset in its characters. All that lies outside the changed ranges stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import ClassVar, NamedTuple

from nmt_cli.formats.encoded_text import EncodedText
from nmt_cli.formats.work import Work


class Kind(Enum):
    """Kinds of atoms, the pieces of a text: text, tags, placeholders and so on."""

    TEXT = auto()
    OPEN = auto()
    """A tag that begins to enclose text."""
    CLOSE = auto()
    STANDALONE = auto()
    """A tag that encloses nothing; the model does not see it."""
    PLACEHOLDER = auto()
    """A part such as `%s` or an address, for which the model sees one word that it may not change."""
    PROTECTED = auto()
    """A text that its document forbids to translate."""
    BREAK = auto()
    """A line end, a tag or the like that stays where it is, so that no sentence crosses it."""
    ACCELERATOR = auto()
    """The sign before the letter of a keyboard shortcut, as in `&File`; the model does not see it."""
    SEAM = auto()
    """Border of two subtitle cues: a sentence may cross it, and its translation is divided again."""


@dataclass(frozen=True, slots=True)
class Atom:
    """A piece of text, a tag or a placeholder."""

    raw: str
    """Text of the atom in the document's own spelling."""
    text: str = ""
    """Text that the model sees; for a tag, its name; for a break, the line end or other text in its place."""
    kind: Kind = Kind.TEXT
    inner: tuple[Segment, ...] = ()
    """Attributes of a tag that are to be translated; their offsets count from the beginning of `raw`."""

    @property
    def is_visible(self) -> bool:
        """True for text, placeholders and protected text, whose characters the model sees."""
        return self.kind in (Kind.TEXT, Kind.PLACEHOLDER, Kind.PROTECTED)

    @property
    def visible_text(self) -> str:
        """Characters that the model sees: a blank for the border of two cues, nothing for a tag or a break."""
        return self.text if self.is_visible else " " if self.kind is Kind.SEAM else ""

    def split_at(self, place: int) -> tuple[Atom, Atom]:
        """Return the two parts of the atom before and after an offset in its text.

        An atom that the document spells in another way, such as `&amp;`, is not cut, and the second part is empty.
        """
        if self.raw == self.text:
            return replace(self, raw=self.raw[:place], text=self.text[:place]), Atom(
                self.raw[place:], self.text[place:]
            )
        return self, Atom("", "")


_LINE_ENDS = ("\n", "\r\n", "\r")


class CodeSyntax(Enum):
    """The kinds of tags and placeholders that the text of a format may have."""

    TEXT = auto()
    """Codes as in any text: `<b>`, `{name}`, `%s`, addresses."""
    PAGE = auto()
    """Codes as in any text beside the tags of a page; but `<br>` in the text ends no line, and an address may have tags
    inside."""
    MESSAGE = auto()
    """Placeholders of the kinds that the gettext flags in `Segment.format_flags` name; several blanks in a row separate
    columns, as in texts for terminals."""
    UNIT = auto()
    """Codes of programs of any kind, as in XLIFF: `%1` may be an argument, and `&nbsp;` a reference."""


class State(Enum):
    """The state of the translation of a segment, as the document declares it."""

    NEW = auto()
    """There is no translation, or a text that is only a substitute for one."""
    UNFINISHED = auto()
    """A translation that somebody has to look at, such as a fuzzy one."""
    DONE = auto()
    EXCLUDED = auto()
    """The segment is not to be translated, such as an obsolete message."""


class DeclaredLanguages(NamedTuple):
    """The languages that a document declares for segments; empty if it declares none."""

    source: str = ""
    target: str = ""
    place: int = 0
    """Offset of the declaration in the document, for messages."""
    name: str = ""
    """The name of the header or attribute of the target language: `Language`, `target-language`."""


NOTHING_DECLARED = DeclaredLanguages()


@dataclass(frozen=True, slots=True)
class Segment:
    """A text of a document, the range for its translation, and what is known of both."""

    start: int
    end: int
    """End of the range that the translation replaces, which begins at `start`; both are offsets in the document."""
    atoms: tuple[Atom, ...]
    """The text to translate. It is mostly the text of the range, but in a catalogue it is elsewhere in the document."""
    escape: Callable[[str], str] = str
    """Function that returns a text as the document spells it, for example with entities."""
    join_chunks: Callable[[Sequence[str]], str] = "".join
    """Function that makes the new text of the range from the translated parts between its seams (see `Kind.SEAM`)."""
    seconds: tuple[float, ...] = ()
    """Seconds for which each cue is shown, if the segment was joined from several cues; else empty."""
    codes: CodeSyntax = CodeSyntax.TEXT
    line: int = 0
    """The number of the line on which the segment, or the entry around it, begins, for messages."""
    target: str | None = None
    """The text, without tags, of the translation that the document has; None where it has no place for one."""
    state: State = State.NEW
    reason: str = ""
    """Why it is not a pair of texts, for the report of an import: `fuzzy`, `obsolete`."""
    declared: DeclaredLanguages = NOTHING_DECLARED
    context: str = ""
    format_flags: frozenset[str] = frozenset()
    """Kinds of placeholders in the text, by flags of gettext such as `c-format`."""
    time: tuple[float, float] | None = None
    """The seconds at which a cue appears and disappears; None if the segment is no cue."""
    num_repeated: int = 0
    """Number of lines at its beginning that repeat the cue before it, as in captions that roll up."""
    is_self_contained: bool = False
    """True if no sentence continues from one of its lines to the next, or into another segment."""
    group: object = None
    """The same object for segments that are complete only together, as the plural forms of a message."""
    parts: tuple[Segment, ...] = ()
    """The segments from which it was joined, because one sentence may run over them; empty if it was not joined."""
    unmarked_text: str | None = None
    """The text that `nmt import` takes, if the document has it a second time, as the atoms, with its sentences marked.
    """
    has_subflow: bool = False
    """True if a tag in it holds a text of its own, such as a footnote, which stays untranslated."""
    unit: object = None
    """Data that the reader of the format keeps for writing the translation, such as the entry of a catalogue."""

    @property
    def text(self) -> str:
        """The text without tags, as `nmt import` writes it."""
        if self.unmarked_text is not None:
            return self.unmarked_text
        return "".join(
            "\n" if atom.raw in _LINE_ENDS else atom.text
            for atom in self.atoms
            if atom.kind not in (Kind.OPEN, Kind.CLOSE, Kind.STANDALONE)
        )


class Edit(NamedTuple):
    """A range of a document, and the text that replaces it."""

    start: int
    end: int
    text: str


class UnreadablePart(NamedTuple):
    """A part of a document that is left as it is, because it cannot be read or is in another language."""

    line: int
    problem: str


class Content:
    """Reader of a document, which yields its segments and the edits for their translations.

    Each format is a derived class, listed in `readers.py`.
    """

    HAS_REFERENCES: ClassVar[bool] = False
    """True if `&#...;` may stand for a character that the encoding of the document lacks."""
    HAS_CODES: ClassVar[bool] = True
    """False for plain text, in which the translation of a sentence without tags and placeholders is used unchecked."""

    def __init__(self, document: EncodedText, work: Work | None = None) -> None:
        self.document, self.work = document, work or Work()
        self.source_lang = ""
        """The language of the texts to take; empty if it is not known. It is set before the segments are taken."""
        self.notes: list[str] = []
        """Notes for the user. This list and the two after it are complete when all segments have been taken."""
        self.unreadable_parts: list[UnreadablePart] = []
        self.languages: list[str] = []
        """Languages that the document declares for its text."""
        self._line, self._counted = 1, 0
        self._newline = document.newline

    @staticmethod
    def charset(data: bytes) -> re.Match[bytes] | None:
        """Return a match whose first group is the encoding that a document declares, or None."""
        del data
        return None

    def segments(self) -> Iterator[Segment]:
        """Yield the segments in the order of their lines.

        Raises:
            InputError: nothing in the document can be read; a part that cannot be read is added to `unreadable_parts`.
        """
        raise NotImplementedError

    def language_edits(self, code: str) -> Iterator[Edit]:
        """Yield the edits that make the document declare the language `code`; call it when all segments were taken."""
        del code
        return iter(())

    def translation_edits(self, segment: Segment, chunks: Sequence[str]) -> Iterator[Edit]:
        """Yield the edits that write the translation of a segment; `chunks` is its text, cut at each `Kind.SEAM`."""
        yield Edit(segment.start, segment.end, segment.join_chunks(chunks))

    def line_at(self, place: int) -> int:
        """Return the number, from 1, of the line at an offset; fast if it is called with ascending offsets."""
        if place < self._counted:
            self._line, self._counted = 1, 0
        self._line += self.document.text.count(self._newline, self._counted, place)
        self._counted = place
        return self._line


def closing_tags(atoms: Sequence[Atom]) -> dict[int, int]:
    """Return the index of the closing tag for each index of an opening tag that has one; the pairs do not cross."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    num_open: dict[str, int] = {}
    for place, atom in enumerate(atoms):
        if atom.kind is Kind.OPEN:
            opened.append(place)
            num_open[atom.text] = num_open.get(atom.text, 0) + 1
        elif atom.kind is Kind.CLOSE and num_open.get(atom.text):
            while True:
                last = opened.pop()
                num_open[atoms[last].text] -= 1
                if atoms[last].text == atom.text:
                    pairs[last] = place
                    break
    return pairs


def join_atoms(atoms: Sequence[Atom], name: str = "") -> Atom:
    """Return the atoms joined into one: a tag that encloses nothing or, with `name`, a placeholder of this name."""
    inner: list[Segment] = []
    offset = 0
    for atom in atoms:
        inner += [replace(one, start=one.start + offset, end=one.end + offset) for one in atom.inner]
        offset += len(atom.raw)
    return Atom("".join(atom.raw for atom in atoms), name, Kind.PLACEHOLDER if name else Kind.STANDALONE, tuple(inner))


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return a text with the ranges of all edits replaced; edits of one range are made in the order given."""
    parts, position = [], 0
    for start, end, new in sorted(edits, key=lambda edit: edit[:2]):
        parts += [text[position:start], new]
        position = end
    return "".join([*parts, text[position:]])
