"""Characters that a training text does not have, and those that it has for them: quotes, dashes, accents, blanks."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence

from nmt_cli.data.tokenizer import CharSpan

_CLUSTER = re.compile("[^\u0300-\u036f]?[\u0300-\u036f]*", re.DOTALL)
"""A character with the accents that follow it."""
_NEUTRAL = "'\"`´′″ʹ"
_OPENING, _CLOSING = "„«‹‚‛‟“‘", "”’»›ʼ"
_QUOTES = ("'’‘‚‛‹›ʼʹ′`´", '"“”„‟«»″')
_DASHES = "-–—‐‑‒―−"
_INVISIBLE = "\u00ad\u200b\u2060\ufeff"


class Characters:
    """The characters of a text, each with the number of times that it stands there."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        """Take the counts."""
        self.counts = counts
        self._known = frozenset(counts)

    def has_all(self, text: str) -> bool:
        """Return whether the text has all characters of another."""
        return self._known.issuperset(text)

    def usual(self, text: str, places: Sequence[CharSpan]) -> tuple[str, list[CharSpan]]:
        """Return a word, or the white space between words, with the characters that the training text has."""
        if self.has_all(text):
            return text, list(places)
        written: list[str] = []
        spans: list[CharSpan] = []
        opens = True
        for match in _CLUSTER.finditer(text):
            begin, end = match.span()
            if begin == end:
                continue
            is_between = text[max(begin - 1, 0) : begin].isalpha() and text[end : end + 1].isalpha()
            read = self.equivalent(match[0], opens=opens)
            opens = opens and not any(map(str.isalnum, match[0]))
            if match[0] in "—―" and is_between and read in _DASHES and read not in "—―":
                read = f" {read} "  # a hyphen would make one word of two
            written.append(read)
            spans += [(places[begin][0], places[end - 1][1])] * len(read)
        return "".join(written), spans

    def equivalent(self, characters: str, *, opens: bool) -> str:
        """Return what stands in the training text for a character and its accents; themselves if nothing does.

        `opens`: they stand at the beginning of a word, where a quote opens.
        """
        if self.has_all(characters):
            return characters
        if characters.isspace():
            return " "
        if characters in _INVISIBLE:
            return ""
        for group in (*_QUOTES, _DASHES):
            if characters in group and (found := self._most_usual(group, opens=opens)):
                return found
        for form in ("NFC", "NFD", "NFKC"):
            read = unicodedata.normalize(form, characters)
            if self.has_all(read) and not any(map(str.isspace, read)):
                return read
        return characters

    def _most_usual(self, group: str, *, opens: bool) -> str:
        """Return the character of a group that the training text uses in this place; nothing if it has none.

        Of two that it has about as often, the one that does nothing else is taken: “ opens in English and closes in
        German.
        """
        there = [one for one in _OPENING + _CLOSING + _NEUTRAL + _DASHES if one in group and one in self._known]
        here = [one for one in there if one not in (_CLOSING if opens else _OPENING) or one in "“‘"]
        here = sorted(here or there, key="“‘".find)
        most = max((self.counts[one] for one in here), default=0)
        return next((one for one in here if 2 * self.counts[one] >= most), "")
