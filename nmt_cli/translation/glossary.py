"""Terms that are to be translated in one way: their file, and where they stand in a text.

A line of the file is a source term, a tab, and its translation, or several separated by `|`, the preferred one first. A
third column `exact` makes case matter. Lines that begin with `#` are comments.
"""

from __future__ import annotations

import os
import re
import unicodedata
from codecs import BOM_UTF8
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import NamedTuple

from nmt_cli.data.lines import decode_line, input_name, iter_lines, open_input
from nmt_cli.data.tokenizer import UNK, Tokenizer
from nmt_cli.errors import InputError
from nmt_cli.search.constraints import Term
from nmt_cli.translation.results import Part, TermFound, TermUse

_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Characters of scripts that do not write spaces between words: Thai, Lao, Burmese, Khmer, Han, kana."""

_FINALS = frozenset(
    ".!?\u2026\u037e\u055c\u055e\u0589\u061f\u06d4\u0964\u0965\u104b\u1362\u1367\u17d4\u203c\u2047\u2048\u2049\u3002\uff01\uff0e\uff1f\uff61"
)
"""Characters that end a sentence."""

_HYPHENS = "-\u00ad\u2010\u2011"


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a glossary."""

    term: str
    forms: tuple[str, ...]
    """Its translations, the preferred one first."""
    exact: bool
    line: int


class Match(NamedTuple):
    """An entry in a text, and its characters there."""

    entry: Entry
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Glossary:
    """Entries, found by what they fold to."""

    name: str
    entries: tuple[Entry, ...]
    _exact: dict[str, Entry] = field(default_factory=dict)
    _folded: dict[str, Entry] = field(default_factory=dict)
    _lengths: dict[str, list[int]] = field(default_factory=dict)
    """Lengths of the folded terms that begin with a character, longest first."""
    _terms: frozenset[str] = frozenset()
    """The folded terms."""

    @classmethod
    def of(cls, name: str, entries: Sequence[Entry]) -> Glossary:
        """Return the glossary of some entries.

        Raises:
            InputError: two entries contradict each other.
        """
        exact: dict[str, Entry] = {}
        folded: dict[str, Entry] = {}
        lengths: dict[str, set[int]] = {}
        for entry in entries:
            key = entry.term if entry.exact else _folded(entry.term).text
            earlier = (exact if entry.exact else folded).setdefault(key, entry)
            if earlier.forms != entry.forms:
                raise InputError(
                    f"{name}:{entry.line}: {entry.term!r} has another translation than in line {earlier.line}. Write "
                    "all translations of a term into one line, separated by |"
                )
            whole = _folded(entry.term).text
            lengths.setdefault(whole[0], set()).add(len(whole))
        by_length = {first: sorted(found, reverse=True) for first, found in lengths.items()}
        return cls(name, tuple(entries), exact, folded, by_length, frozenset(_folded(one.term).text for one in entries))

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
        """Return the glossary that the lines of a file make; a byte order mark before them is ignored.

        Raises:
            InputError: a line is wrong (`name` and line are named).
        """
        found = (
            _entry(name, number, line.removeprefix(BOM_UTF8) if number == 1 else line)
            for number, line in enumerate(lines, start=1)
        )
        return cls.of(name, [entry for entry in found if entry is not None])

    def matches(self, text: str) -> list[Match]:
        """Return the terms of a text, from left to right: of those that begin at a place the longest."""
        folded = _folded(text)
        found: list[Match] = []
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

    def _match_at(self, text: str, folded: _Folded, place: int) -> Match | None:
        begin = folded.places[place]
        if not (folded.begins(place) and _is_boundary(text, begin)):
            return None
        for length in self._lengths.get(folded.text[place], ()):
            stop = place + length
            if stop > len(folded.text) or folded.text[place:stop] not in self._terms:
                continue
            end = folded.places[stop - 1] + 1
            if not (folded.begins(stop) and _is_boundary(text, end)):
                continue
            found = self._exact.get(" ".join(text[begin:end].split())) or self._folded.get(folded.text[place:stop])
            if found is not None:
                return Match(found, begin, end)
        return None


class _Folded(NamedTuple):
    """A text without case, each run of white space as one blank."""

    text: str
    places: list[int]
    """The place in the text of each of its characters."""

    def begins(self, place: int) -> bool:
        """Return whether a character of the text begins here: one may fold to several."""
        return place in (0, len(self.places)) or self.places[place] != self.places[place - 1]


def _folded(text: str) -> _Folded:
    folded: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        if character.isspace():
            if not folded or folded[-1] != " ":
                folded.append(" ")
                places.append(place)
            continue
        own = character.casefold()
        folded.extend(own)
        places.extend([place] * len(own))
    return _Folded("".join(folded), places)


def _is_boundary(text: str, place: int) -> bool:
    """Return whether no word of the text goes on across a place."""
    if place in (0, len(text)):
        return True
    before, after = text[place - 1], text[place]
    if not (before.isascii() and after.isascii()):
        if unicodedata.combining(after):
            return False
        if _WITHOUT_SPACES.match(before) or _WITHOUT_SPACES.match(after):
            return True
    return not (_is_of_word(before) and _is_of_word(after))


def _is_of_word(character: str) -> bool:
    return character.isalnum() or character == "_" or unicodedata.category(character).startswith("M")


def _entry(name: str, number: int, line: bytes) -> Entry | None:
    """Return the entry of a line; None for a blank line and a comment."""
    where = f"{name}:{number}"
    text, is_valid = decode_line(line.removesuffix(b"\r"))
    if not is_valid:
        raise InputError(f"{where}: is not valid UTF-8")
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
        raise InputError(f"{where}: the source term is empty")
    if not all(translations):
        raise InputError(f"{where}: a translation of {term!r} is empty")
    if len(columns) == 3 and columns[2] not in ("", "exact"):
        raise InputError(f"{where}: the third column is {columns[2]!r}; it must be exact, or be left out")
    return Entry(term, tuple(dict.fromkeys(translations)), columns[2:] == ["exact"], number)


class TermFinder:
    """Finds the terms of a glossary in the parts of a text, as the search needs them."""

    def __init__(self, glossary: Glossary, tokenizers: tuple[Tokenizer, Tokenizer]) -> None:
        """Cut the translations into pieces.

        Raises:
            InputError: the model cannot spell a translation (file and line are named).
        """
        self.glossary = glossary
        self._source, target = tokenizers
        self._forms = {
            (entry.line, form): tuple(_spellings(form, target)) for entry in glossary.entries for form in entry.forms
        }
        for entry in glossary.entries:
            for form in entry.forms:
                if any(UNK in ids or not ids for ids in self._forms[entry.line, form]):
                    raise InputError(
                        f"{glossary.name}:{entry.line}: the model cannot write {form!r}: a character of it, or all of "
                        "the word, is not in its vocabulary"
                    )
        self.inside_words = inside_words(target)
        self.finals = finals(target)
        self._inside_source_words = frozenset(inside_words(self._source))

    def added_to(self, parts: Sequence[Part], texts: Sequence[tuple[int, str, int]]) -> list[Part]:
        """Return the parts with their terms, apart from each other those that their prefixes say; the arguments are
        `in_parts`'."""
        found = []
        for part, terms in zip(parts, self.in_parts(parts, texts), strict=True):
            own, said = (terms, ()) if part.prefix is None else self.divided(terms, part.prefix.text)
            found.append(replace(part, terms=own, said=said, words_of_terms=self.words(part.ids) if own else ()))
        return found

    def in_parts(self, parts: Sequence[Part], texts: Iterable[tuple[int, str, int]]) -> list[tuple[TermFound, ...]]:
        """Return the terms of each part. `parts` are all parts of some segments of lines, and `texts` are these
        segments in the same order: the line, the text and the number of its first word."""
        found: dict[int, list[TermFound]] = {}
        lengths: dict[int, int] = {}
        for line, text, first_word in texts:
            matches = self.glossary.matches(text)
            before = lengths.get(line, 0)
            ids, spans = self._source.encode_spans(text) if matches else (self._source.encode(text), [])
            lengths[line] = before + len(ids)
            for match in matches:
                places = [before + place for place, span in enumerate(spans) if _overlap(span, match)]
                word = first_word + len(text[: match.begin + 1].split()) - 1
                end = first_word + len(text[: match.end].split())
                forms = tuple(ids for form in match.entry.forms for ids in self._forms[match.entry.line, form])
                term = TermFound(
                    text[match.begin : match.end], (word, end), Term(tuple(places), forms), match.entry.forms
                )
                if places:
                    found.setdefault(line, []).append(term)
        of_parts, begins = [], dict.fromkeys(lengths, 0)
        for part in parts:
            begin = begins[part.line]
            begins[part.line] = end = begin + len(part.ids)
            own = [term.within(begin, end) for term in found.get(part.line, ()) if begin <= term.term.places[0] < end]
            of_parts.append(tuple(own))
        return of_parts

    def words(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Return the number of each source piece's word, from 0; a piece of a script without spaces is a word."""
        begun = accumulate(id_ not in self._inside_source_words for id_ in ids)
        return tuple(max(number - 1, 0) for number in begun)

    def divided(self, terms: Sequence[TermFound], prefix: str) -> tuple[tuple[TermFound, ...], tuple[TermUse, ...]]:
        """Return the terms that a prefix does not say already, and those that it says."""
        left, uses = list(terms), []
        for form in sorted({form for term in terms for form in term.forms}):
            entry = Entry(form, (form,), True, 0)
            for match in Glossary.of("", [entry]).matches(prefix):
                said = next((term for term in left if form in term.forms), None)
                if said is not None:
                    left.remove(said)
                    begin, end = len(prefix[: match.begin + 1].split()) - 1, len(prefix[: match.end].split())
                    uses.append(TermUse(said.text, said.words, " ".join(prefix.split()[begin:end]), (begin, end)))
        return tuple(left), tuple(uses)


def _overlap(span: tuple[int, int], match: Match) -> bool:
    return span[0] < match.end and span[1] > match.begin


def _spellings(form: str, tokenizer: Tokenizer) -> Iterable[tuple[int, ...]]:
    """Yield the pieces of a translation; in a script without spaces also those without a blank before them."""
    ids = tuple(tokenizer.encode(form))
    yield ids
    if ids and _WITHOUT_SPACES.match(form):
        first = tokenizer.pieces(ids[:1])[0]
        if first == "▁":
            yield ids[1:]
        elif first.startswith("▁") and UNK not in (own := tokenizer.ids_of([first[1:]])):
            yield (*own, *ids[1:])


def inside_words(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return the pieces that go on with the word before them: bytes, and those that begin with a hyphen, or with a
    letter or a digit of a script with spaces."""
    found = []
    for id_, spelling in enumerate(tokenizer.spellings()):
        first = (spelling or b"").decode(errors="ignore")[:1]
        goes_on = first in _HYPHENS or (_is_of_word(first) and not _WITHOUT_SPACES.match(first))
        if spelling and (not first or goes_on):
            found.append(id_)
    return tuple(found)


def finals(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return the pieces that hold nothing but a character that ends a sentence."""
    spellings = [(spelling or b"").decode(errors="ignore").removeprefix("▁") for spelling in tokenizer.spellings()]
    return tuple(id_ for id_, spelling in enumerate(spellings) if spelling in _FINALS)
