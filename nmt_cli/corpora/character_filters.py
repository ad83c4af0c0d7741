"""Filters that need only the characters of one pair, and nothing from the rest of its corpus."""

from __future__ import annotations

import re
from collections import Counter

MAX_WORDS = 200
MAX_CHARACTERS = 1_000
MIN_COPIED_LETTERS = 15
MIN_COPIED_WORDS = 3
"""Least number of words of a copy. One with fewer words and less than `MIN_COPIED_LETTERS` letters may be a name."""

_WORD = re.compile(r"\w+")
_LETTER = re.compile(r"[^\W\d_]")
_CONTINUATION = "[\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]"
"""Regular-expression class of the characters that Latin-1 and cp1252 have for the bytes 80 to BF."""
_PUNCTUATION = "„…‹‘’“”•–—›«»"
"""The punctuation in `_CONTINUATION`: correct after a capital, as in `PÄIVÄÄ”`, but not next to small letters."""
_MOJIBAKE = re.compile(
    f"[ÃÂÄÅ](?![{_PUNCTUATION}]){_CONTINUATION}"
    rf"|(?<=[a-zß-ÿ])[ÃÂÄÅ][{_PUNCTUATION}]|[ÃÂÄÅ][{_PUNCTUATION}](?=[a-zß-ÿ])|[ÃÂÄÅ][„‘“‹–—](?=[^\W\d_])"
    f"|â[€„†ˆ‚\x80\x82\x84\x86\x88].|(?:[ÐÑÎÏ×ØÙ]{_CONTINUATION}){{2}}|(?:[äåæçèéãì]{_CONTINUATION}{{2}}){{2}}|ï»¿"
)
"""Matches UTF-8 that was read as cp1252. Scripts whose first bytes are common letters need two characters in a row."""
_TAG = re.compile(r"<(/?[A-Za-z][A-Za-z0-9:-]*)(?:\s[^<>]*)?/?>")
_ENTITY = re.compile(r"&(?:[A-Za-z][A-Za-z0-9]{1,7}|#\d{1,6}|#x[0-9A-Fa-f]{1,5});")
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ue000-\uf8ff]"
)
"""Matches control, zero-width, bidi and private-use characters, except U+200C and U+200D, which Persian, the languages
of India and emoji need, and except the tab and the CR."""
_GROUPED = re.compile(r"(?<!\d)\d{1,3}(?:[.,'’ \u00a0\u202f]\d{3})+(?!\d)")
_NUMBER = re.compile(r"\d+")
_THOUSANDS = re.compile(r"(?:000)+$")
_CJK_NUMERALS = re.compile(r"[一二三四五六七八九十百千万億亿萬兆]")
_NOON = 12
_MOSES = r"(?:(?<!\S)&(?:quot|#91|#93|#124);(?!\S)|(?<!\S)&apos;|&apos;(?!\S))"
"""Regular expression for the escapes that the tokenizer of Moses writes for quotes, apostrophes and brackets."""
_MOSES_MARK = re.compile(_MOSES)
_SEPARATED_PUNCTUATION = re.compile(rf"[\w)\]'\"”»] [.,،。，、।](?: |$)|@-@|{_MOSES}")
"""Matches blanks before marks that no language separates from a word, and the escapes of Moses. French has blanks
before other marks."""


def failed_character_filters(source: str, target: str) -> list[str]:
    """Return the names of the filters that a pair fails by its characters alone."""
    if not source.strip() or not target.strip():
        return ["empty"]
    found = []
    if "\ufffd" in source or "\ufffd" in target or has_mojibake(source) or has_mojibake(target):
        found.append("encoding")
    if is_copy(source, target):
        found.append("copy")
    if is_too_long(source) or is_too_long(target):
        found.append("too-long")
    if differs_in_markup(source, target):
        found.append("markup")
    if differs_in_numbers(source, target):
        found.append("numbers")
    if _INVISIBLE.search(source) or _INVISIBLE.search(target):
        found.append("invisible")
    if is_tokenised(source) or is_tokenised(target):
        found.append("tokenised")
    return found


def failed_line_filters(text: str) -> list[str]:
    """Return the names of the filters that a line of text in one language fails by its characters alone."""
    if not text.strip():
        return ["empty"]
    found = []
    if "\ufffd" in text or has_mojibake(text):
        found.append("encoding")
    if is_too_long(text):
        found.append("too-long")
    if _INVISIBLE.search(text):
        found.append("invisible")
    return found


def has_mojibake(text: str) -> bool:
    """Return True if characters beyond ASCII seem to have been decoded in the wrong encoding."""
    return not text.isascii() and _MOJIBAKE.search(text) is not None


def is_copy(source: str, target: str) -> bool:
    """Return True if the texts are equal apart from case, blanks and punctuation, and more than a name or a number."""
    folded = source.casefold()
    words = _WORD.findall(folded)
    if words != _WORD.findall(target.casefold()):
        return False
    num_letters = len(_LETTER.findall(folded))
    return num_letters >= MIN_COPIED_LETTERS or (len(words) >= MIN_COPIED_WORDS and num_letters > MIN_COPIED_WORDS)


def is_tokenised(text: str) -> bool:
    """Return True if a program seems to have put blanks before the punctuation of the text."""
    return _SEPARATED_PUNCTUATION.search(text) is not None


def is_too_long(text: str) -> bool:
    """Return True if the text is too long for a sentence: more than 200 words or 1,000 characters."""
    return len(text) > MAX_CHARACTERS or (len(text) > MAX_WORDS and len(text.split()) > MAX_WORDS)


def differs_in_markup(source: str, target: str) -> bool:
    """Return True if the sides have different tags, or one has an HTML entity."""
    if ("<" in source or "<" in target) and Counter(_TAG.findall(source)) != Counter(_TAG.findall(target)):
        return True
    return any("&" in text and _ENTITY.search(_MOSES_MARK.sub("", text)) for text in (source, target))


def differs_in_numbers(source: str, target: str) -> bool:
    """Return True if each side has a number that the other lacks.

    A number that one side spells out is not a difference, and neither are separators, the order, 2 against 14 o'clock,
    3:00 against 3, or 20,000 against 20 thousand.
    """
    if _NUMBER.search(source) is None or _NUMBER.search(target) is None:
        return False
    if _CJK_NUMERALS.search(source) or _CJK_NUMERALS.search(target):
        return False
    numbers = _numbers(source), _numbers(target)
    alone = numbers[0] - numbers[1], numbers[1] - numbers[0]
    if not alone[0] or not alone[1] or _digits(alone[0]) == _digits(alone[1]):
        return False
    hours, others = ([int(number) for number in side if len(number) <= 2] for side in alone)
    return not any(abs(hour - other) == _NOON for hour in hours for other in others)


def _numbers(text: str) -> Counter[str]:
    """Return the counts of the numbers in a text without separators, leading zeros and final `000`; 0 is left out."""
    grouped = _GROUPED.sub(lambda found: re.sub(r"\D", "", found[0]), text)
    values = (str(int(number[:30])) for number in _NUMBER.findall(grouped))
    return Counter(_THOUSANDS.sub("", value) for value in values if value != "0")


def _digits(numbers: Counter[str]) -> list[str]:
    return sorted("".join(numbers.elements()))
