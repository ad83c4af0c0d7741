"""Glossaries: terms with the translations that they must have. They are read from a file, and found in texts.

A line of the file is a source term, a tab, and its translation, or several separated by `|`, the preferred one first. A
third column `exact` makes case matter. Lines that begin with `#` are comments.
"""

from __future__ import annotations

import os
import re
import unicodedata
from codecs import BOM_UTF8
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from nmt_cli.data.lines import decode_line, input_name, iter_lines, open_input
from nmt_cli.normalization.glossary_terms import TermMatch
from nmt_cli.system.errors import InputError
from nmt_cli.text.letters import MARKS, WITHOUT_SPACES

_GRAPHEME = re.compile(rf"\s+|\S[{MARKS}\u1160-\u11ff]*")
"""White space, or a character with its accents and other marks, or with the vowel and the end of a Korean syllable."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a glossary."""

    term: str
    forms: tuple[str, ...]
    """Translations of the term, the preferred one first."""
    exact: bool
    line: int


@dataclass(frozen=True, slots=True)
class Glossary:
    """Finds its entries in a text, whatever their white space and, unless an entry is exact, their case."""

    name: str
    entries: tuple[Entry, ...]
    _exact: dict[str, Entry] = field(default_factory=dict)
    _folded: dict[str, Entry] = field(default_factory=dict)
    _lengths: dict[str, list[int]] = field(default_factory=dict)
    """For each first character, the lengths of the folded terms (`_FoldedText`) that begin with it, longest first."""
    _terms: frozenset[str] = frozenset()
    """The terms of all entries, folded (see `_FoldedText`)."""

    @classmethod
    def of(cls, name: str, entries: Sequence[Entry]) -> Glossary:
        """Return a glossary with the given entries; `name` names its file in messages.

        Raises:
            InputError: two entries have different translations of the same term.
        """
        exact: dict[str, Entry] = {}
        folded: dict[str, Entry] = {}
        lengths: dict[str, set[int]] = {}
        terms: set[str] = set()
        for entry in entries:
            whole = _folded(entry.term).text
            key = _composed(entry.term) if entry.exact else whole
            earlier = (exact if entry.exact else folded).setdefault(key, entry)
            if earlier.forms != entry.forms:
                raise InputError(
                    f"{name}:{entry.line}: {entry.term!r} has another translation than in line {earlier.line}. Write "
                    "all translations of a term into one line, separated by |"
                )
            terms.add(whole)
            lengths.setdefault(whole[0], set()).add(len(whole))
        by_length = {first: sorted(found, reverse=True) for first, found in lengths.items()}
        return cls(name, tuple(entries), exact, folded, by_length, frozenset(terms))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Glossary:
        """Read a glossary; `-` stands for standard input.

        Raises:
            InputError: the file cannot be read, or a line of it is wrong (file and line are named).
        """
        name = input_name(path)
        with open_input(path, warns_of_format=False) as stream:
            return cls.of_lines(name, iter_lines(stream))

    @classmethod
    def of_lines(cls, name: str, lines: Iterable[bytes]) -> Glossary:
        """Return the glossary in the lines of a file; a byte order mark before the first line is ignored.

        Raises:
            InputError: a line is wrong, or contradicts another one (`name` and line are named).
        """
        found = (
            _entry(name, number, line.removeprefix(BOM_UTF8) if number == 1 else line)
            for number, line in enumerate(lines, start=1)
        )
        return cls.of(name, [entry for entry in found if entry is not None])

    def matches(self, text: str) -> list[TermMatch]:
        """Return the glossary's terms in a text, from left to right and without overlap.

        Of several terms that begin at one place, the longest is taken.
        """
        folded = _folded(text)
        found: list[TermMatch] = []
        place = 0
        while place < len(folded.text):
            match = self._match_at(text, folded, place)
            if match is None:
                place += 1
            else:
                found.append(match)
                while place < len(folded.text) and folded.places[place] < match.end:
                    place += 1
        return found

    def _match_at(self, text: str, folded: _FoldedText, place: int) -> TermMatch | None:
        begin = folded.places[place]
        if not (folded.begins(place) and _is_boundary(text, begin)):
            return None
        for length in self._lengths.get(folded.text[place], ()):
            stop = place + length
            if stop > len(folded.text) or folded.text[place:stop] not in self._terms:
                continue
            end = folded.ends[stop - 1]
            if not (folded.begins(stop) and _is_boundary(text, end)):
                continue
            found = self._exact.get(_composed(text[begin:end])) or self._folded.get(folded.text[place:stop])
            if found is not None:
                return TermMatch(begin, end, found.forms)
        return None


class _FoldedText(NamedTuple):
    """A text without case, each run of white space as one blank, and each letter with its marks composed (NFC)."""

    text: str
    places: list[int]
    """For each folded character, the place in the original text where its letter begins."""
    ends: list[int]
    """For each folded character, the place in the original text where its letter ends."""

    def begins(self, place: int) -> bool:
        """Return whether a letter of the original begins at a place of the folded text, or the text ends there.

        One letter may fold to several characters.
        """
        return place in (0, len(self.places)) or self.places[place] != self.places[place - 1]


def _folded(text: str) -> _FoldedText:
    folded: list[str] = []
    places: list[int] = []
    ends: list[int] = []
    for match in _GRAPHEME.finditer(text):
        own = " " if match[0].isspace() else unicodedata.normalize("NFC", match[0]).casefold()
        folded.extend(own)
        places.extend([match.start()] * len(own))
        ends.extend([match.end()] * len(own))
    return _FoldedText("".join(folded), places, ends)


def _composed(text: str) -> str:
    """Return a text in NFC, with each run of white space as one blank.

    On macOS, a letter and its accent are often two characters.
    """
    return " ".join(unicodedata.normalize("NFC", text).split())


def _is_boundary(text: str, place: int) -> bool:
    """Return whether a place is a boundary of words: no word of the text continues across it."""
    if place in (0, len(text)):
        return True
    before, after = text[place - 1], text[place]
    if not (before.isascii() and after.isascii()):
        if unicodedata.combining(after):
            return False
        if WITHOUT_SPACES.match(before) or WITHOUT_SPACES.match(after):
            return True
    return not (is_word_character(before) and is_word_character(after))


def is_word_character(character: str) -> bool:
    return character.isalnum() or character == "_" or unicodedata.category(character).startswith("M")


def _entry(name: str, number: int, line: bytes) -> Entry | None:
    """Return the entry of a line; None for a blank line and a comment.

    Raises:
        InputError: the line is wrong (`name` and `number` are named).
    """
    where = f"{name}:{number}"
    text, is_valid = decode_line(line.removesuffix(b"\r"))
    if not is_valid:
        raise InputError(f"{where}: is not valid UTF-8; write the glossary in UTF-8")
    if not text.strip() or text.startswith("#"):
        return None
    columns = [column.strip() for column in text.split("\t")]
    if len(columns) not in (2, 3):
        raise InputError(
            f"{where}: has {len(columns)} column{'s'[: len(columns) != 1]} instead of 2 or 3. A line is a source term, "
            "a tab, its translation, and perhaps a tab and the word exact"
        )
    term, *translations = (" ".join(part.split()) for part in (columns[0], *columns[1].split("|")))
    if not term:
        raise InputError(f"{where}: the source term is empty; a line is TERM, a tab, TRANSLATION")
    if not all(translations):
        raise InputError(f"{where}: a translation of {term!r} is empty; a line is TERM, a tab, TRANSLATION")
    if len(columns) == 3 and columns[2] not in ("", "exact"):
        raise InputError(f"{where}: the third column is {columns[2]!r}; it must be exact, or be left out")
    return Entry(term, tuple(dict.fromkeys(translations)), columns[2:] == ["exact"], number)
