"""Finds the symbols within a line that the training text hardly ever has: brackets, dashes, slashes, emoji."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from nmt_cli.normalization.symbols import JOINERS, PARTNERS, QUOTES, KnownSymbols, is_bracket_or_quote, is_symbol
from nmt_cli.text.edits import Span

_MARKS = ".,;:!?…"
_WITHIN_WORDS = frozenset("'’-")
_LONG_DASHES = frozenset("–—―")
_OPENING = frozenset("([{«‹")
_DEGREES = re.compile(r"°(?:[A-Z](?!\w))?")
_WORD_FOLLOWS = re.compile(r"[^\w.,;:!?…]*\w")
_ENDS_WORD = re.compile(r"[^\w\s]*(?:\s|\Z)")
_WORD = re.compile(r"\S+")


class InnerSymbol(NamedTuple):
    """Characters of a line that the model does not read."""

    begin: int
    end: int
    replacement_begin: int
    """The place from which `read` replaces the text up to `end`: where the symbol, or the blanks before it, begin."""
    read: str
    partner: int | None = None
    """Index of the other symbol of its pair among the symbols of the line; None if it is not in a pair."""
    is_word: bool = False
    """True if it is between blanks, or joins two words, as in `he/she`."""

    @property
    def is_comma(self) -> bool:
        """True if the model reads a comma instead."""
        return bool(self.read.strip())


@dataclass(frozen=True, slots=True)
class SymbolFinder:
    """Finds the symbols of a line that a model hardly knows."""

    known: KnownSymbols

    def symbols(self, text: str, span: Span, protected_spans: Sequence[Span]) -> list[InnerSymbol]:
        """Return the symbols within `span` of a text that a model need not read, from left to right.

        They do not include symbols within the spans `protected_spans`, the marks of a sentence, apostrophes and hyphens
        in words, symbols beside a digit except brackets, quotes and degrees, and symbols within a word next to a
        capital, as in `R&B`.
        """
        places: list[Span] = []
        for word in _WORD.finditer(text, *span):
            if any(map(str.isalnum, word[0])):
                places += sorted(
                    {
                        *self._degrees(text, word.span(), protected_spans),
                        *self._attached_symbols(text, word.span(), protected_spans),
                    }
                )
            elif any(begin < word.end() and word.start() < end for begin, end in protected_spans):
                continue
            elif (bare := word[0].rstrip(_MARKS)) and self.known.is_rare_word(bare):
                places.append((word.start(), word.start() + len(bare)))
        partners = _partners(text, places)
        found: list[InnerSymbol] = []
        read, end = "", 0
        for number, place in enumerate(places):
            partner = partners.get(number)
            symbol = self._symbol(text, place, read + text[end : place[0]], partner)
            if partner is not None and partner < number and _follows_no_comma(text, found[partner]):
                # A comma would part its subject from the rest.
                symbol = symbol._replace(replacement_begin=place[0], read=" " * _is_between(text, place))
            read, end = read + text[end : symbol.replacement_begin] + symbol.read, symbol.end
            found.append(symbol)
        return list(_separate_words(text, found))

    def _degrees(self, text: str, span: Span, protected_spans: Sequence[Span]) -> Iterator[Span]:
        """Yield the spans of the degree signs in the word at `span`, with their unit, if the training text has few."""
        if self.known.is_rare("°"):
            for degrees in _DEGREES.finditer(text, *span):
                if not any(begin < degrees.end() and degrees.start() < end for begin, end in protected_spans):
                    yield degrees.span()

    def _attached_symbols(self, text: str, span: Span, protected_spans: Sequence[Span]) -> Iterator[Span]:
        """Yield the spans of the rare symbols in a word with letters or digits that a model need not read."""
        places = [
            place
            for place in range(*span)
            if is_symbol(one := text[place])
            and one != "°"
            and one not in _MARKS
            and one not in _WITHIN_WORDS
            and not any(begin <= place < end for begin, end in protected_spans)
            and (self.known.is_rare_word(one) if one in _LONG_DASHES else self.known.is_rare(one))
        ]
        has_inner_bracket = any(
            text[max(place - 1, 0) : place].isalnum() and text[place + 1 : place + 2].isalnum()
            for place in places
            if is_bracket_or_quote(text[place])
        )
        for begin, end in _runs(text, places):
            before, after = text[max(begin - 1, span[0]) : begin], text[end : min(end + 1, span[1])]
            is_between = before.isalnum() and after.isalnum()
            if not is_bracket_or_quote(text[begin]) and (before.isdigit() or after.isdigit()):
                continue
            if is_bracket_or_quote(text[begin]) and has_inner_bracket:
                continue
            if is_between and (before.isupper() or after.isupper()):
                continue
            yield begin, end

    def _symbol(self, text: str, place: Span, before: str, partner: int | None) -> InnerSymbol:
        """Return the symbol at a place, with the text that the model reads instead.

        `before` is the text that the model reads to its left, and `partner` the index of the bracket that belongs to
        it.
        """
        begin, end = place
        after = text[end : end + 1]
        begins_word = not text[begin - 1 : begin].strip() and not after.isalnum()
        is_apart = begins_word and _ENDS_WORD.match(text, end) is not None
        is_between = _is_between(text, place)
        if partner is not None:
            is_pause = text[begin] in PARTNERS
        else:
            is_pause = text[begin] in _LONG_DASHES or (is_apart and not any(map(_is_picture, text[begin:end])))
        is_comma = is_pause and bool(self.known.comma) and before.rstrip()[-1:].isalnum()
        is_comma = is_comma and _WORD_FOLLOWS.match(text, end) is not None
        replacement_begin = len(text[:begin].rstrip()) if is_apart or is_comma else begin
        read = self.known.comma + " " * bool(after.strip()) if is_comma else " " * is_between
        return InnerSymbol(
            begin, end, replacement_begin, read, partner, is_word=partner is None and (begins_word or is_between)
        )


def _separate_words(text: str, symbols: Sequence[InnerSymbol]) -> Iterator[InnerSymbol]:
    """Yield the symbols; where two words would become one without them, the last one between is read as a blank."""
    begin, read = 0, ""
    for number, symbol in enumerate(symbols):
        if not number or symbols[number - 1].end != symbol.replacement_begin:
            begin, read = symbol.replacement_begin, ""
        read += symbol.read
        is_last = number + 1 == len(symbols) or symbols[number + 1].replacement_begin != symbol.end
        is_glued = not read and bool(text[:begin][-1:].strip()) and text[symbol.end : symbol.end + 1].isalnum()
        yield symbol._replace(read=" ") if is_last and is_glued else symbol


def _is_between(text: str, place: Span) -> bool:
    """Return whether a symbol stands between two letters or digits."""
    return text[place[0] - 1 : place[0]].isalnum() and text[place[1] : place[1] + 1].isalnum()


def _follows_no_comma(text: str, symbol: InnerSymbol) -> bool:
    """Return whether no comma precedes a symbol in the line, and the model does not read one in its place."""
    return not symbol.is_comma and not text[: symbol.begin].rstrip().endswith(",")


def _is_picture(symbol: str) -> bool:
    """Return whether a symbol is an emoji or the like, which stands for no pause."""
    return unicodedata.category(symbol) in ("So", "Sk") or symbol in JOINERS


def _runs(text: str, places: Sequence[int]) -> Iterator[Span]:
    """Yield the spans of runs of adjacent character indices; a bracket or quote is always a span of its own."""
    numbered = [(place, number, is_bracket_or_quote(text[place])) for number, place in enumerate(places)]
    for _, run in groupby(numbered, key=lambda one: (one[0] - one[1], one[2] and one[0])):
        own = [place for place, _, _ in run]
        yield own[0], own[-1] + 1


def _partners(text: str, places: Sequence[Span]) -> dict[int, int]:
    """Return the index of each paired symbol's partner by its own index: brackets, quotes, or as in `*this*`."""
    partners: dict[int, int] = {}
    opened: list[int] = []
    for number, (begin, end) in enumerate(places):
        symbol, before, after = text[begin:end], text[begin - 1 : begin], text[end : end + 1]
        wanted = PARTNERS.get(symbol, symbol)
        first = next((one for one in reversed(opened) if _is_same_symbol(text[slice(*places[one])], wanted)), None)
        is_apart = before.isspace() and not after.strip()
        if (is_apart or _is_between(text, (begin, end))) and not is_bracket_or_quote(symbol):
            continue
        if first is not None and symbol not in _OPENING and (is_apart or not before.isspace()):
            del opened[opened.index(first) :]
            if any(map(str.isalnum, text[places[first][1] : begin])):
                partners |= {first: number, number: first}
        elif symbol not in PARTNERS or symbol in _OPENING:
            opened.append(number)
    return partners


def _is_same_symbol(symbol: str, wanted: str) -> bool:
    """Return whether two symbols are equal, or both are quotes."""
    return symbol == wanted or (symbol in QUOTES and wanted in QUOTES)
