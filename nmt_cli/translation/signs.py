"""Signs around a line that the training text does not have: emoji, bullets, brackets.

A model that has never seen a sign makes something of it, and loses the sentence. So it reads the line without those at
its beginning and end, and its translation gets them back. `inner_signs.py` is about those within the line.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import NamedTuple

from nmt_cli.data.tokenizer import CharSpan

MAX_LENGTH = 2_000
"""Characters of the longest line that is read without its signs; parts of longer ones may begin and end anywhere."""
JOINERS = "\u200d\ufe0e\ufe0f\u20e3"
"""Characters that join emoji, or choose how one is drawn."""
PARTNERS = {")": "(", "(": ")", "]": "[", "[": "]", "}": "{", "{": "}", "»": "«", "«": "»", "›": "‹", "‹": "›"}
QUOTES = '"“”„‟'


def is_sign(character: str) -> bool:
    """Return whether a character is a sign or a punctuation mark. One of a currency belongs to its number."""
    return (unicodedata.category(character)[0] in "SP" and not is_currency(character)) or character in JOINERS


def is_currency(character: str) -> bool:
    """Return whether a character is the sign of a currency, as €."""
    return unicodedata.category(character) == "Sc"


def without_signs(text: str, is_unknown: Callable[[str], bool]) -> CharSpan:
    """Return where a text begins and ends without the unknown signs around it, and the blanks between them and it.

    The known signs of an emoticon, `:)`, are left out with the unknown ones. A sign beside a digit stays, as in `#1`,
    and so does a bracket or quote whose partner stays. All of a text stays that begins with a blank, because it may be
    a part of a line, and of one that is too long.
    """
    begin, end = 0, len(text)
    if end > MAX_LENGTH or text[:1].isspace():
        return begin, end
    while begin < end and (text[begin].isspace() or is_unknown(text[begin])):
        begin += 1
    while end > begin and (text[end - 1].isspace() or is_unknown(text[end - 1])):
        end -= 1
    if begin < end < len(text) and not text[end].isspace():
        glued = text[begin:end].split()[-1]
        if not any(map(str.isalnum, glued)):
            end = max(begin, len(text[: end - len(glued)].rstrip()))
    if begin < end and text[begin].isdigit() and not text[:begin][-1:].isspace():
        begin = 0
    if begin < end and text[end - 1].isdigit() and not text[end : end + 1].isspace():
        end = len(text)
    while True:
        core = text[begin:end]
        first = next((place for place in range(begin) if _is_half(text[place], core)), begin)
        last = next((place for place in reversed(range(end, len(text))) if _is_half(text[place], core)), end - 1) + 1
        if (first, last) == (begin, end):
            return begin, end if text[end:].strip() else len(text)
        begin, end = first, last


def _is_half(sign: str, core: str) -> bool:
    """Return whether a sign is a bracket or a quote, and the text between the signs has its partner."""
    if sign in QUOTES:
        return any(quote in core for quote in QUOTES)
    return sign in PARTNERS and PARTNERS[sign] in core


class Signs(NamedTuple):
    """The signs in front of a text and behind it, with the blanks between them and the text."""

    before: str
    after: str

    @property
    def num_words(self) -> tuple[int, int]:
        """Words in front of the text and behind it that are no part of its own first and last word."""
        before, after = len(self.before.split()), len(self.after.split())
        is_glued = bool(self.before) and not self.before[-1].isspace(), bool(self.after) and not self.after[0].isspace()
        return before - is_glued[0], after - is_glued[1]
