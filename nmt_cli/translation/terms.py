"""The terms of a text that a translation must have: terms of a glossary, and numbers, which stay as they are."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from nmt_cli.data.tokenizer import UNK, Tokenizer
from nmt_cli.search.constraints import Term
from nmt_cli.system.errors import InputError
from nmt_cli.translation.glossary import WITHOUT_SPACES, Entry, Glossary, is_of_word
from nmt_cli.translation.numbers import Numbers
from nmt_cli.translation.results import Part, TermFound, TermUse
from nmt_cli.translation.writing import Writing

_FINALS = frozenset(
    ".!?\u2026\u037e\u055c\u055e\u0589\u061f\u06d4\u0964\u0965\u104b\u1362\u1367\u17d4\u203c\u2047\u2048\u2049\u3002\uff01\uff0e\uff1f\uff61"
)
"""Characters that end a sentence."""
_HYPHENS = "-\u00ad\u2010\u2011"


class _Place(NamedTuple):
    """A term in a text."""

    begin: int
    """Its first character."""
    end: int
    forms: tuple[str, ...]
    """Its translations."""
    pieces: tuple[tuple[int, ...], ...]
    """The pieces of these translations; for a number, the pieces of its stand-in."""
    spellings: tuple[tuple[int, ...], ...] = ()
    """The pieces of a number itself, a sequence for each of `pieces`; empty for a term of the glossary."""
    is_known: bool = False
    """True of a number whose stand-in is in the training text."""


class TermFinder:
    """Finds the terms in the parts of a text, as the search needs them."""

    def __init__(
        self,
        tokenizers: tuple[Tokenizer, Tokenizer],
        glossary: Glossary | None = None,
        numbers: Numbers | None = None,
    ) -> None:
        """Cut the translations of the glossary into pieces; `numbers` finds those that are to stay as they are.

        Raises:
            InputError: the model cannot spell a translation (file and line are named).
        """
        self.glossary = glossary or Glossary.of("", ())
        self._numbers = None if numbers is None else numbers.beside(glossary)
        self._source, self._target = tokenizers
        self._forms: dict[tuple[int, str], tuple[tuple[int, ...], ...]] = {}
        for entry in self.glossary.entries:
            for form in entry.forms:
                self._forms[entry.line, form] = pieces = tuple(_spellings(form, self._target))
                if any(UNK in ids or not ids for ids in pieces):
                    raise InputError(
                        f"{self.glossary.name}:{entry.line}: the model cannot write {form!r}: a character of it, or "
                        "all of the word, is not in its vocabulary"
                    )

    @property
    def inside_words(self) -> tuple[int, ...]:
        """The pieces of the target that go on with the word before them."""
        return self._target.once(inside_words)

    @property
    def finals(self) -> tuple[int, ...]:
        """The pieces of the target that end a sentence."""
        return self._target.once(finals)

    @property
    def digits(self) -> tuple[int, ...]:
        """The pieces of the target with a digit."""
        return self._target.once(digits)

    def added_to(self, parts: Sequence[Part], texts: Sequence[tuple[int, str, int]]) -> list[Part]:
        """Return the parts with their terms, apart from each other those that their prefixes cover; the arguments are
        `in_parts`'."""
        found = []
        free = {line for line, text, _ in texts if self._numbers is not None and self._numbers.has_rewritten(text)}
        for part, terms in zip(parts, self.in_parts(parts, texts), strict=True):
            own, covered = (terms, ()) if part.prefix is None else self.divided(terms, part.prefix.text)
            words = self.words(part.ids) if own else ()
            # If the prefix covers a number, the model must not generate its stand-in.
            numbers, left = (sum(term.is_number for term in some) for some in (terms, own))
            keeps_numbers = numbers > 0 and (part.line not in free or left < numbers)
            found.append(replace(part, terms=own, covered=covered, keeps_numbers=keeps_numbers, words_of_terms=words))
        return found

    def in_parts(self, parts: Sequence[Part], texts: Iterable[tuple[int, str, int]]) -> list[tuple[TermFound, ...]]:
        """Return the terms of each part. `parts` are all parts of some segments of lines, and `texts` are these
        segments in the same order: the line, the text and the number of its first word."""
        texts_with_terms = [(line, text, first_word, self._places(text)) for line, text, first_word in texts]
        if not any(terms for *_, terms in texts_with_terms):
            return [()] * len(parts)
        found: dict[int, list[TermFound]] = {}
        lengths: dict[int, int] = {}
        for line, text, first_word, terms in texts_with_terms:
            before = lengths.get(line, 0)
            ids, spans = self._source.encode_spans(text) if terms else (self._source.encode(text), [])
            lengths[line] = before + len(ids)
            words = [word.start() for word in re.finditer(r"\S+", text)] if terms else []
            begins_of_pieces, ends_of_pieces = [begin for begin, _ in spans], [end for _, end in spans]
            for term in terms:
                first = bisect_right(ends_of_pieces, term.begin)
                places = range(before + first, before + bisect_left(begins_of_pieces, term.end))
                word = first_word + bisect_right(words, term.begin) - 1
                end = first_word + bisect_left(words, term.end)
                own = TermFound(
                    text[term.begin : term.end], (word, end), Term(tuple(places), term.pieces, term.is_known),
                    term.forms, term.spellings,
                )  # fmt: skip
                if places:
                    found.setdefault(line, []).append(own)
        firsts = {line: [own.term.places[0] for own in of_line] for line, of_line in found.items()}
        of_parts, begins = [], dict.fromkeys(lengths, 0)
        for part in parts:
            begin = begins[part.line]
            begins[part.line] = end = begin + len(part.ids) - part.num_tags
            own_terms = slice(*(bisect_left(firsts.get(part.line, []), place) for place in (begin, end)))
            of_parts.append(
                tuple(term.within(begin - part.num_tags, end) for term in found.get(part.line, [])[own_terms])
            )
        return of_parts

    def _places(self, text: str) -> list[_Place]:
        """Return the terms of a text from left to right; a number that a term of the glossary touches is none."""
        found = [
            _Place(
                match.begin, match.end, match.entry.forms,
                tuple(ids for form in match.entry.forms for ids in self._forms[match.entry.line, form]),
            )
            for match in self.glossary.matches(text)
        ]  # fmt: skip
        if self._numbers is None:
            return found
        for begin, end, stand_in, is_known in self._numbers.found(text):
            said, spelt = self._ways(stand_in, text[begin:end], ends=text[end : end + 1] in _FINALS)
            found.append(_Place(begin, end, (text[begin:end],), said, spelt, is_known))
        return sorted(found)

    def _ways(
        self, stand_in: str, number: str, *, ends: bool
    ) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
        """Return the pieces in which the model may say a stand-in, and for each of these the pieces of the number.

        If pieces join a full stop to a digit, as `3.`, the model has learnt to end sentences with them. So it may say
        a number that `ends` a sentence with this full stop too.
        """
        assert self._numbers is not None
        said: list[tuple[int, ...]] = []
        spelt: list[tuple[int, ...]] = []
        for mark in ("", *(self._target.once(_marks_of_digits) if ends else ())):
            own, other = (
                list(_spellings(one + mark, self._target, may_be_glued=self._numbers.may_be_glued))
                for one in (stand_in, number)
            )
            if not mark or own[0][: len(said[0])] != said[0]:
                ways = min(len(own), len(other))
                said += own[:ways]
                spelt += other[:ways]
        return tuple(said), tuple(spelt)

    def words(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Return the number of each source piece's word, from 0; a piece of a script without spaces is a word."""
        inside = self._source.once(_inside_words)
        begun = accumulate(id_ not in inside for id_ in ids)
        return tuple(max(number - 1, 0) for number in begun)

    def divided(self, terms: Sequence[TermFound], prefix: str) -> tuple[tuple[TermFound, ...], tuple[TermUse, ...]]:
        """Return the terms that a prefix does not cover, and those that it covers."""
        left, uses = list(terms), []
        there = (term for term in terms if not term.is_number or term.text in prefix)
        for form in sorted({form for term in there for form in term.forms}):
            entry = Entry(form, (form,), True, 0)
            for match in Glossary.of("", [entry]).matches(prefix):
                said = next((term for term in left if form in term.forms), None)
                if said is not None:
                    left.remove(said)
                    begin, end = len(prefix[: match.begin + 1].split()) - 1, len(prefix[: match.end].split())
                    if not said.is_number:
                        uses.append(TermUse(said.text, said.words, " ".join(prefix.split()[begin:end]), (begin, end)))
        return tuple(left), tuple(uses)


def _spellings(form: str, tokenizer: Tokenizer, *, may_be_glued: bool = False) -> Iterable[tuple[int, ...]]:
    """Yield the pieces of a translation; those without a blank before them too if it may be glued to what stands there,
    as in a script without spaces."""
    ids = tuple(tokenizer.encode(form))
    yield ids
    if ids and (may_be_glued or WITHOUT_SPACES.match(form)):
        first = tokenizer.pieces(ids[:1])[0]
        if first == "▁":
            yield ids[1:]
        elif first.startswith("▁") and UNK not in (own := tokenizer.ids_of([first[1:]])):
            yield (*own, *ids[1:])


def find_terms(
    tokenizers: tuple[Tokenizer, Tokenizer], glossary: Glossary | None, writing: Writing | None
) -> TermFinder | None:
    """Return what finds the terms of a glossary and the numbers to keep; None where there are neither.

    Raises:
        InputError: the model cannot spell a translation (file and line are named).
    """
    numbers = None if writing is None else writing.numbers
    return None if glossary is None and numbers is None else TermFinder(tokenizers, glossary, numbers)


def inside_words(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return the pieces that go on with the word before them: bytes, and those that begin with a hyphen, or with a
    letter or a digit of a script with spaces."""
    found = []
    for id_, spelling in enumerate(tokenizer.spellings()):
        first = (spelling or b"").decode(errors="ignore")[:1]
        goes_on = first in _HYPHENS or (is_of_word(first) and not WITHOUT_SPACES.match(first))
        if spelling and (not first or goes_on):
            found.append(id_)
    return tuple(found)


def finals(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return the pieces that hold nothing but a character that ends a sentence."""
    return tuple(id_ for id_, text in enumerate(_texts(tokenizer)) if text.removeprefix("▁") in _FINALS)


def digits(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return the pieces with a digit."""
    return tuple(id_ for id_, text in enumerate(_texts(tokenizer)) if any(map(str.isdecimal, text)))


def _marks_of_digits(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Return the marks at the end of a sentence that pieces join to a digit."""
    joined = (text for text in _texts(tokenizer) if text[-2:-1].isdecimal())
    return tuple(sorted({text[-1] for text in joined} & _FINALS))


def _inside_words(tokenizer: Tokenizer) -> frozenset[int]:
    return frozenset(inside_words(tokenizer))


def _texts(tokenizer: Tokenizer) -> list[str]:
    """Return the text of each piece, which is empty for a byte that is no character."""
    return [(spelling or b"").decode(errors="ignore") for spelling in tokenizer.spellings()]
