"""Signs within a line that the training text hardly ever has: brackets, dashes, slashes, emoji.

A model that does not know a sign makes something of it, and loses the sentence. So it reads the line without it, or
with commas in the place of brackets and dashes. `sign_places.py` puts the signs into the translation.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from nmt_cli.data.tokenizer import CharSpan
from nmt_cli.translation.signs import JOINERS, PARTNERS, QUOTES, is_sign

_MARKS = ".,;:!?…"
_WITHIN_WORDS = frozenset("'’-")
_LONG_DASHES = frozenset("–—―")
_OPENING = frozenset("([{«‹")
_DEGREES = re.compile(r"°(?:[A-Z](?!\w))?")
_WORD_FOLLOWS = re.compile(r"[^\w.,;:!?…]*\w")
_WORD = re.compile(r"\S+")


class InnerSign(NamedTuple):
    """Characters of a line that the model does not read."""

    begin: int
    end: int
    begin_read: int
    """The place from which `read` stands for the text up to `end`: where the sign begins, or the blanks before it."""
    read: str
    partner: int | None = None
    """The number of the other sign of a pair among the signs of the line."""
    is_word: bool = False
    """True if it stands between blanks, or joins two words, as in `he/she`."""

    @property
    def is_comma(self) -> bool:
        """True if the model reads a comma instead."""
        return bool(self.read.strip())


@dataclass(frozen=True, slots=True)
class SignFinder:
    """Finds the signs of a line that a model hardly knows."""

    is_rare: Callable[[str], bool]
    """Tells it of a character."""
    is_rare_word: Callable[[str], bool]
    """Tells it of a word that is made of signs alone."""
    comma: str
    """A comma as the training text has it, `,` or ` ,`; empty where it has none."""

    def found(self, text: str, span: CharSpan, kept: Sequence[CharSpan]) -> list[InnerSign]:
        """Return the signs between two places of a text that a model need not read, from left to right.

        The others are those within the spans `kept`, the marks of a sentence and those within a word, signs beside a
        digit except brackets, quotes and degrees, and signs between capitals, as in `R&B`.
        """
        places: list[CharSpan] = []
        for word in _WORD.finditer(text, *span):
            if any(map(str.isalnum, word[0])):
                places += sorted({*self._degrees(text, word.span(), kept), *self._glued(text, word.span(), kept)})
            elif any(begin < word.end() and word.start() < end for begin, end in kept):
                continue
            elif (bare := word[0].rstrip(_MARKS)) and self.is_rare_word(bare):
                places.append((word.start(), word.start() + len(bare)))
        partners = _partners(text, places)
        found: list[InnerSign] = []
        read, end = "", 0
        for number, place in enumerate(places):
            partner = partners.get(number)
            sign = self._sign(text, place, read + text[end : place[0]], partner)
            if partner is not None and partner < number and _begins_sentence(text, found[partner]):
                sign = sign._replace(begin_read=place[0], read="")  # a comma would part its subject from the rest
            read, end = read + text[end : sign.begin_read] + sign.read, sign.end
            found.append(sign)
        return found

    def _degrees(self, text: str, span: CharSpan, kept: Sequence[CharSpan]) -> Iterator[CharSpan]:
        """Yield the signs of degrees in a word, with their unit."""
        if self.is_rare("°"):
            for degrees in _DEGREES.finditer(text, *span):
                if not any(begin <= degrees.start() < end for begin, end in kept):
                    yield degrees.span()

    def _glued(self, text: str, span: CharSpan, kept: Sequence[CharSpan]) -> Iterator[CharSpan]:
        """Yield the signs of a word that has letters or digits too."""
        places = [
            place
            for place in range(*span)
            if is_sign(one := text[place])
            and one != "°"
            and one not in _MARKS
            and one not in _WITHIN_WORDS
            and not any(begin <= place < end for begin, end in kept)
            and (self.is_rare_word(one) if one in _LONG_DASHES else self.is_rare(one))
        ]
        has_inner_bracket = any(
            text[max(place - 1, 0) : place].isalnum() and text[place + 1 : place + 2].isalnum()
            for place in places
            if _is_half(text[place])
        )
        for begin, end in _runs(text, places):
            before, after = text[max(begin - 1, span[0]) : begin], text[end : min(end + 1, span[1])]
            is_between = before.isalnum() and after.isalnum()
            if not _is_half(text[begin]) and (before.isdigit() or after.isdigit()):
                continue
            if _is_half(text[begin]) and has_inner_bracket:
                continue
            if is_between and (before.isupper() or after.isupper()):
                continue
            yield begin, end

    def _sign(self, text: str, place: CharSpan, before: str, partner: int | None) -> InnerSign:
        """Return the sign at a place, and what is read instead; `before` is what is read before it."""
        begin, end = place
        after = text[end : end + 1]
        is_apart = not text[begin - 1 : begin].strip() and not after.isalnum()
        is_between = text[begin - 1 : begin].isalnum() and after.isalnum()
        if partner is not None:
            is_pause = text[begin] in PARTNERS
        else:
            is_pause = text[begin] in _LONG_DASHES or (is_apart and not any(map(_is_picture, text[begin:end])))
        is_comma = is_pause and bool(self.comma) and before.rstrip()[-1:].isalnum()
        is_comma = is_comma and _WORD_FOLLOWS.match(text, end) is not None
        begin_read = len(text[:begin].rstrip()) if is_apart or is_comma else begin
        read = self.comma + " " * bool(after.strip()) if is_comma else " " * is_between
        return InnerSign(begin, end, begin_read, read, partner, is_word=partner is None and (is_apart or is_between))


def _begins_sentence(text: str, sign: InnerSign) -> bool:
    """Return whether no comma stands before what follows a sign, neither in the line nor in what is read."""
    return not sign.is_comma and not text[: sign.begin].rstrip().endswith(",")


def _is_half(sign: str) -> bool:
    return sign in PARTNERS or sign in QUOTES


def _is_picture(sign: str) -> bool:
    """Return whether a sign is an emoji or the like, which stands for no pause."""
    return unicodedata.category(sign) in ("So", "Sk") or sign in JOINERS


def _runs(text: str, places: Sequence[int]) -> Iterator[CharSpan]:
    """Yield the places that stand side by side as begin and end; a bracket or quote stands alone."""
    numbered = [(place, number, _is_half(text[place])) for number, place in enumerate(places)]
    for _, run in groupby(numbered, key=lambda one: (one[0] - one[1], one[2] and one[0])):
        own = [place for place, _, _ in run]
        yield own[0], own[-1] + 1


def _partners(text: str, places: Sequence[CharSpan]) -> dict[int, int]:
    """Return the numbers of two signs by each other that enclose words: brackets, quotes, or as in `*this*`."""
    partners: dict[int, int] = {}
    opened: list[int] = []
    for number, (begin, end) in enumerate(places):
        sign, before, after = text[begin:end], text[begin - 1 : begin], text[end : end + 1]
        wanted = PARTNERS.get(sign, sign)
        first = next((one for one in reversed(opened) if _same(text[slice(*places[one])], wanted)), None)
        is_apart = before.isspace() and not after.strip()
        if is_apart and not _is_half(sign):
            continue
        if first is not None and sign not in _OPENING and (is_apart or not before.isspace()):
            del opened[opened.index(first) :]
            if any(map(str.isalnum, text[places[first][1] : begin])):
                partners |= {first: number, number: first}
        elif sign not in PARTNERS or sign in _OPENING:
            opened.append(number)
    return partners


def _same(sign: str, wanted: str) -> bool:
    """Return whether two signs are the same, or quotes both."""
    return sign == wanted or (sign in QUOTES and wanted in QUOTES)


def left_out(signs: Sequence[InnerSign]) -> list[tuple[int, int, str]]:
    """Return the changes of a text, as `replaced` takes them, by which it loses signs."""
    return [(sign.begin_read, sign.end, sign.read) for sign in signs]
