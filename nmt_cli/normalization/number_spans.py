"""Finds numbers, codes and addresses, which a translation keeps, and those that a training text keeps or rewrites."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from nmt_cli.text.edits import Span
from nmt_cli.text.letters import WITHOUT_SPACES

MIN_REWRITTEN = 4
"""Least number of different training sentences whose translation rewrites a number, for a model to be free to do so."""
MAX_KEPT_SHARE = 0.1
"""Largest share of the sentences with a number that may keep it, if it counts as rewritten."""
MIN_KEPT = 2
"""Least number of lines that keep a number, for it to be used in place of other numbers."""
MAX_KEPT = 1_000
"""Most numbers of a training text that are used in place of others."""
_LETTER = rf"(?:(?!{WITHOUT_SPACES.pattern})[^\W\d_])"
_SEGMENT = rf"(?:{_LETTER}|[\d_])+"
_TOKEN = re.compile(rf"(?:(?<!\S)[-−+](?=\d))?{_SEGMENT}(?:[-./:,]{_SEGMENT})*")
_PARTS = re.compile(rf"([-−+./:,]?)({_SEGMENT})")
_ORDINAL = re.compile(r"(\d+)[^\W\d_]+")
"""Digits with letters behind them: `12th`, `1990s`, `5km`."""
_DIGIT = re.compile(r"\d")
_BLANK = r"[ \u00a0\u2009\u202f]"
_GROUP = r"(?:\(\d++\)\d*+|\d++)(?:[-./]\d++)*+"
SPACED_NUMBERS = re.compile(
    rf"(?:(?<![^\s(:])[-−+]|(?<![\w.,/@&#-])(?<!\d:)){_GROUP}(?:{_BLANK}{_GROUP})++(?:[.,]\d++)?+"
)
"""Two or more numbers separated by blanks; `_is_one_number` decides whether they are one."""
_CONTINUATION = re.compile(r"[.,]\d|[:&_]\w")
"""A sign and what follows it, if they belong to the number before them, as `:30` in `12:30`."""
_GROUPED_THOUSANDS = re.compile(rf"[-−+]?\d{{1,3}}(?:{_BLANK}\d{{3}})+(?:[.,]\d+)?")
"""A number whose thousands are separated by blanks: `1 000 000`, `2 500,75`."""
_MIXED_NUMBER = re.compile(rf"[-−+]?\d+{_BLANK}\d+/\d+")
"""A whole and a fraction: `1 1/2`."""
_PHONE_NUMBER = re.compile(rf"\d{{3}}{_BLANK}(?:\d{{3}}-)?\d{{4}}")
"""The form of telephone numbers in North America; the area may be missing."""
MIN_PHONE_DIGITS = 7
"""Least number of digits for numbers separated by blanks to be one telephone number."""
QUANTITY = re.compile(r"[-−+]?(?:\d+(?:,\d{3})*(?:\.\d+)?|\d+(?:\.\d{3})*(?:,\d+)?)")
"""A number that is no code, time, date or score."""
_INITIALS = re.compile(rf"(?<!\w){_LETTER}{{1,3}}(?:&{_LETTER}{{1,3}})+(?!\w)")
INDIVISIBLE_NUMBER = re.compile(
    r"(?<![\w-])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![\w-])"
    r"|(?<![\w.])(?:(?<![^\s(])[-−+])?\d++(?:\.\d++)?(?:[eE]|(?:×10)?\^)[-−+]?\d++(?!\w)|[0-9#*]\ufe0f?\u20e3"
)
"""A UUID, a number with an exponent, as `1e-5` and `10^6`, or a keycap."""
ADDRESS = re.compile(
    r"(?:(?<![\w.+-])[\w.+-]{1,64}@[\w-]+\.|(?<![A-Za-z])[A-Za-z]{1,16}://|\bwww\.)[!-~]*[A-Za-z0-9/]", re.ASCII
)


def number_spans(text: str) -> list[Span]:
    """Return the spans of the numbers, codes and addresses of a text, from left to right.

    A number is digits with signs between them (`1,000.50`, `14:30`, `-5`). Small letters behind it are no part of it
    (`12th`, `5km`), nor is a word that a hyphen joins to it (`10-year-old`). Numbers separated by blanks are one if
    they are thousands (`1 000 000`), a whole and a fraction (`1 1/2`), or a telephone number: seven digits or more, in
    three numbers or more, or in a usual form (`06 12 34 56 78`, `555 123-4567`, `+33 123456`).

    A code has letters before or among its digits, or capitals behind them (`A123`, `mp3`, `x86_64`, `5G`), and may have
    parts in capitals (`PG-13`, `COVID-19`). A few capitals around an ampersand are one too (`R&B`). An address is one
    of the Web or of e-mail. A UUID, a number with an exponent (`1e-5`, `10^6`) and a keycap (`1️⃣`) are not split.
    """
    whole = [address.span() for address in ADDRESS.finditer(text)]
    if "&" in text:
        whole = _add_matches(whole, (one for one in _INITIALS.finditer(text) if one[0].isupper()))
    if not _DIGIT.search(text):
        return whole
    whole = _add_matches(whole, INDIVISIBLE_NUMBER.finditer(text))
    whole = _add_matches(whole, filter(_is_one_number, SPACED_NUMBERS.finditer(text)))
    found: list[Span] = []
    place = 0
    for begin, end in [*whole, (len(text), len(text))]:
        for token in _TOKEN.finditer(text, place, begin):
            found += [(token.start() + first, token.start() + last) for first, last in _token_spans(token[0])]
        found += [(begin, end)] if begin < end else []
        place = end
    return found


def _add_matches(spans: Sequence[Span], others: Iterable[re.Match[str]]) -> list[Span]:
    """Return spans from left to right, with the spans of other matches that overlap none of them."""
    own = [one.span() for one in others]
    before = (bisect_left(spans, end, key=lambda span: span[0]) for _, end in own)
    free = [one for one, place in zip(own, before, strict=True) if place == 0 or spans[place - 1][1] <= one[0]]
    return sorted([*spans, *free])


def _is_one_number(groups: re.Match[str]) -> bool:
    """Return whether numbers between blanks are one: in groups of thousands, with a fraction, or a telephone number."""
    if _CONTINUATION.match(groups.string, groups.end()):
        return False
    if any(form.fullmatch(groups[0]) for form in (_GROUPED_THOUSANDS, _MIXED_NUMBER)):
        return True
    is_phone = groups[0][0] in "+(" or len(groups[0].split()) > 2 or _PHONE_NUMBER.fullmatch(groups[0]) is not None
    return is_phone and "," not in groups[0] and sum(map(str.isdecimal, groups[0])) >= MIN_PHONE_DIGITS


def _token_spans(token: str) -> list[Span]:
    """Return the spans of the numbers and codes in a token of letters and digits joined by signs."""
    if not _DIGIT.search(token):
        return []
    found: list[Span] = []
    run: list[re.Match[str]] = []

    def end_run(last: int | None = None) -> None:
        kept = list(run)
        while kept and not _DIGIT.search(kept[-1][2]) and _DIGIT.match(kept[0][2]):
            kept.pop()  # capitals behind a number are a word: `12-CD`
        if any(_DIGIT.search(part[2]) for part in kept):
            sign = kept[0][1] if kept[0].start() == 0 else ""
            found.append((kept[0].start(2) - len(sign), last or kept[-1].end(2)))
        run.clear()

    for part in _PARTS.finditer(token):
        sign, segment = part[1], part[2]
        follows = bool(run) and sign in _joining_signs(run[-1][2], segment)
        ordinal = _ORDINAL.fullmatch(segment)
        if not follows:
            end_run()
        if ordinal and segment == segment.lower():
            run.append(part)
            end_run(part.start(2) + len(ordinal[1]))
        elif _DIGIT.search(segment) or segment.isupper():
            run.append(part)
        else:
            end_run()
    end_run()
    return found


def _joining_signs(segment: str, following: str) -> str:
    """Return the signs that may join two segments to one number or code."""
    if not (segment[-1].isdecimal() and following[0].isdecimal()):
        return "-/"
    return "-./:," if segment.isdecimal() else "-./"


class NumberHabits(NamedTuple):
    """Numbers of the source sentences of a training text, by whether the target sentences keep them."""

    kept: tuple[str, ...]
    """Numbers without letters that at least two lines keep; those that most lines keep come first."""
    rewritten: tuple[str, ...]
    """Numbers that at least four different sentences write otherwise, as in words, and at most a tenth keep; sorted."""

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> NumberHabits:
        """Return the numbers that the target lines of (source, target) pairs keep, and those that they rewrite."""
        kept: Counter[str] = Counter()
        keeping: set[tuple[str, str]] = set()
        rewriting: set[tuple[str, str]] = set()
        for source, target in pairs:
            numbers = {source[begin:end] for begin, end in number_spans(source)}
            if numbers:
                there = {target[begin:end] for begin, end in number_spans(target)}
                kept.update(numbers & there)
                keeping |= {(number, source) for number in numbers & there}
                rewriting |= {(number, source) for number in numbers - there}
        usual = [
            number
            for number, count in sorted(kept.items(), key=lambda item: (-item[1], item[0]))
            if count >= MIN_KEPT and has_no_letters(number)
        ]
        num_keeping, num_rewriting = (Counter(number for number, _ in found) for found in (keeping, rewriting))
        rewritten = [
            number
            for number, count in num_rewriting.items()
            if count >= MIN_REWRITTEN and num_keeping[number] <= MAX_KEPT_SHARE * (num_keeping[number] + count)
        ]
        return cls(tuple(usual[:MAX_KEPT]), tuple(sorted(rewritten)))


def has_no_letters(number: str) -> bool:
    """Return whether a number has no letters."""
    return not any(map(str.isalpha, number))
