"""The characters of a training text, and equivalents of those that it lacks: quotes, dashes, accents, blanks."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

_NEUTRAL = "'\"`´′″ʹ"
_OPENING, _CLOSING = "„«‹‚‛‟“‘", "”’»›ʼ"
_QUOTES = ("'’‘‚‛‹›ʼʹ′`´", '"“”„‟«»″')
DASHES = "-–—‐‑‒―−"
_INVISIBLE = "\u00ad\u061c\u200b\u200c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
"""Invisible characters: they may split a word at the end of a line, or set the direction of a text."""


class KnownCharacters:
    """The characters of a training text, each with its number of occurrences."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        """Take the number of occurrences of each character from `counts`."""
        self.counts = counts
        self._known = frozenset(counts)

    def has_all(self, text: str) -> bool:
        """Return whether the training text has all characters of `text`."""
        return self._known.issuperset(text)

    def equivalent(self, characters: str, *, is_opening: bool) -> str:
        """Return what the training text has for a character with its accents; without an equivalent, these themselves.

        White space becomes a space, and an invisible character becomes an empty text. `is_opening`: the character is at
        the beginning of a word, where a quote opens.
        """
        if self.has_all(characters):
            return characters
        if characters.isspace():
            return " "
        if characters in _INVISIBLE:
            return ""
        for group in (*_QUOTES, DASHES):
            if characters in group and (found := self._most_usual(group, is_opening=is_opening)):
                return found
        for form in ("NFC", "NFD", "NFKC"):
            read = unicodedata.normalize(form, characters)
            if self.has_all(read) and not any(map(str.isspace, read)):
                return read
        return characters

    def _most_usual(self, group: str, *, is_opening: bool) -> str:
        """Return the character of `group` that the training text uses before (or after) a word; empty if it has none.

        Of characters that it has about as often, one that serves only this purpose is taken: “ opens in English and
        closes in German.
        """
        there = [one for one in _OPENING + _CLOSING + _NEUTRAL + DASHES if one in group and one in self._known]
        here = [one for one in there if one not in (_CLOSING if is_opening else _OPENING) or one in "“‘"]
        here = sorted(here or there, key="“‘".find)
        most = max((self.counts[one] for one in here), default=0)
        return next((one for one in here if 2 * self.counts[one] >= most), "")
