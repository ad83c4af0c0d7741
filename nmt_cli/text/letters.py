"""Words and their letters, as a language writes them: what is a word, and which letters are its capitals."""

from __future__ import annotations

import re
from functools import lru_cache
from unicodedata import category

from nmt_cli.text.language_codes import is_turkic, primary_language

WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Characters of scripts that do not write spaces between words: Thai, Lao, Burmese, Khmer, Han, kana."""
OTHER_SCRIPTS = re.compile(
    r"[^\W\d_A-Za-z\u00aa-\u02af\u0370-\u058f\u10a0-\u10ff\u1c80-\u1cbf\u1e00-\u1fff\u2c00-\u2dff\ua640-\ua7ff]"
)
"""Letters of scripts that are not like Latin: neither Greek, Cyrillic, Armenian nor Georgian. A name in Latin letters
may stand beside them without a blank, as in Chinese, Korean and Arabic."""
MARKS = "".join(one for one in map(chr, range(0x300, 0x1E950)) if category(one)[0] == "M")
"""Accents, vowel signs and other combining marks, which follow their letter."""
_JOINING = rf"(?=[^\0-\u02ff])[{MARKS}\u200c\u200d]"
"""A combining mark after its letter, or a sign that joins letters or keeps them apart. The lookahead makes the search
ten times as fast in text that has none of them."""
_LETTERS = rf"[^\W\d_]++(?:(?:{_JOINING})++[^\W\d_]*+)*+"
WORD = re.compile(rf"\b(?<![^\0-\u02ff](?<=[{MARKS}\u200c\u200d])){_LETTERS}(?:['’]{_LETTERS})*+(?!\w)")
"""A word: letters, perhaps with apostrophes between them. `B2B` and `my_name` do not match."""
SIGN_WORD = re.compile(r"(?<!\S)[^\w\s]+(?!\S)")
"""Signs that are a word of their own, such as a dash between blanks."""
_GEORGIAN = re.compile("([\u10d0-\u10ff]+)")
_TONOS = str.maketrans("ΆΈΉΊΌΎΏ", "ΑΕΗΙΟΥΩ")


_is_turkic = lru_cache(is_turkic)
_primary = lru_cache(primary_language)
"""The two functions are cached, because they are called for each word of each line."""


def lower(text: str, language: str) -> str:
    """Return the text in small letters, as the language writes them: Turkish has I without a dot."""
    if _is_turkic(language):
        text = text.replace("İ", "i").replace("I", "ı")
    return text.lower()


def upper(text: str, language: str) -> str:
    """Return the text in capitals, as the language writes them.

    Turkish i keeps its dot, Greek capitals have no accent, and Georgian has no capitals in ordinary use.
    """
    if _is_turkic(language):
        text = text.replace("i", "İ")
    text = "".join(part if _GEORGIAN.match(part) else part.upper() for part in _GEORGIAN.split(text))
    return text.translate(_TONOS) if _primary(language) == "el" else text


def is_all_caps(text: str) -> bool:
    """Return whether a text has letters with case, and all of them are capitals; ß is ignored."""
    return text.replace("ß", "").isupper()
