"""Numbers, codes and addresses in a text, which a translation keeps as they are.

A model learns the translation of a number from the lines that have it. Most numbers stand in none: of these the model
knows the digits, but not that they are to be kept. So the search treats them as terms that are their own translation
(`translation/terms.py`). The model reads and says another number in their place, one that it has often seen kept.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from copy import copy
from typing import NamedTuple

from nmt_cli.data.tokenizer import CharSpan
from nmt_cli.text.language_codes import writes_spaces
from nmt_cli.translation.glossary import WITHOUT_SPACES, Glossary

MIN_REWRITTEN = 4
"""Different sentences of a training text whose translation writes a number otherwise, from which a model may too."""
MAX_KEPT_SHARE = 0.1
"""Largest share of the sentences with such a number that may keep it."""
MIN_KEPT = 2
"""Lines that keep a number, from which it may stand for others."""
MAX_KEPT = 1_000
"""Such numbers of a training text."""
_LETTER = rf"(?:(?!{WITHOUT_SPACES.pattern})[^\W\d_])"
_SEGMENT = rf"(?:{_LETTER}|[\d_])+"
_TOKEN = re.compile(rf"(?:(?<!\S)[-−+](?=\d))?{_SEGMENT}(?:[-./:,]{_SEGMENT})*")
_PARTS = re.compile(rf"([-−+./:,]?)({_SEGMENT})")
_ORDINAL = re.compile(r"(\d+)[^\W\d_]+")
"""Digits with letters behind them: `12th`, `1990s`, `5km`."""
_DIGIT = re.compile(r"\d")
_BLANK = r"[ \u00a0\u2009\u202f]"
_GROUP = r"(?:\(\d++\)\d*+|\d++)(?:[-./]\d++)*+"
_GROUPS = re.compile(rf"(?:(?<![^\s(:])[-−+]|(?<![\w.,/@&#-])(?<!\d:)){_GROUP}(?:{_BLANK}{_GROUP})++(?:[.,]\d++)?+")
"""Two or more numbers between blanks, of which `_is_one_number` tells whether they are one."""
_GOES_ON = re.compile(r"[.,]\d|[:&_]\w")
"""A sign and what follows it, if they belong to the number before them, as `:30` in `12:30`."""
_IN_GROUPS = re.compile(rf"[-−+]?\d{{1,3}}(?:{_BLANK}\d{{3}})+(?:[.,]\d+)?")
"""Thousands: `1 000 000`, `2 500,75`."""
_MIXED = re.compile(rf"[-−+]?\d+{_BLANK}\d+/\d+")
"""A whole and a fraction: `1 1/2`."""
_DIALLED = re.compile(rf"\d{{3}}{_BLANK}(?:\d{{3}}-)?\d{{4}}")
"""The form of telephone numbers in North America; the area may be missing."""
MIN_DIALLED = 7
"""Digits from which numbers between blanks are dialled as one."""
_QUANTITY = re.compile(r"[-−+]?(?:\d+(?:,\d{3})*(?:\.\d+)?|\d+(?:\.\d{3})*(?:,\d+)?)")
"""A number that is no code, time, date or score."""
_INITIALS = re.compile(rf"(?<!\w){_LETTER}{{1,3}}(?:&{_LETTER}{{1,3}})+(?!\w)")
_ADDRESS = re.compile(
    r"(?:(?<![\w.+-])[\w.+-]{1,64}@[\w-]+\.|(?<![A-Za-z])[A-Za-z]{1,16}://|\bwww\.)[!-~]*[A-Za-z0-9/]", re.ASCII
)
_NO_TEXT = r"__|[<>{}\\]|%\w"
"""Signs of a word that is a placeholder or a tag, and not a number that people read."""


def number_spans(text: str) -> list[CharSpan]:
    """Return the numbers, codes and addresses of a text from left to right, each as begin and end.

    A number is digits with signs between them (`1,000.50`, `14:30`, `-5`). Small letters behind it are no part of it
    (`12th`, `5km`), nor is what a hyphen joins to it (`10-year-old`). Numbers between blanks are one if they are
    thousands (`1 000 000`), a whole and a fraction (`1 1/2`), or three and more with seven digits, and in the forms of
    telephone numbers (`06 12 34 56 78`, `555 123-4567`, `+33 123456`).

    A code has letters before or among its digits, or capitals behind them (`A123`, `mp3`, `x86_64`, `5G`), and may have
    parts in capitals (`PG-13`, `COVID-19`). A few capitals around an ampersand are one too (`R&B`). An address is one
    of the Web or of e-mail.
    """
    whole = [address.span() for address in _ADDRESS.finditer(text)]
    if "&" in text:
        whole = _with_others(whole, (one for one in _INITIALS.finditer(text) if one[0].isupper()))
    if not _DIGIT.search(text):
        return whole
    whole = _with_others(whole, filter(_is_one_number, _GROUPS.finditer(text)))
    found: list[CharSpan] = []
    place = 0
    for begin, end in [*whole, (len(text), len(text))]:
        for token in _TOKEN.finditer(text, place, begin):
            found += [(token.start() + first, token.start() + last) for first, last in _of_token(token[0])]
        found += [(begin, end)] if begin < end else []
        place = end
    return found


def _with_others(spans: Sequence[CharSpan], others: Iterable[re.Match[str]]) -> list[CharSpan]:
    """Return spans from left to right, with the spans of other matches that overlap none of them."""
    own = [one.span() for one in others]
    before = (bisect_left(spans, end, key=lambda span: span[0]) for _, end in own)
    free = [one for one, place in zip(own, before, strict=True) if place == 0 or spans[place - 1][1] <= one[0]]
    return sorted([*spans, *free])


def _is_one_number(groups: re.Match[str]) -> bool:
    """Return whether numbers between blanks are one: thousands, a whole and a fraction, or dialled."""
    if _GOES_ON.match(groups.string, groups.end()):
        return False
    if any(form.fullmatch(groups[0]) for form in (_IN_GROUPS, _MIXED)):
        return True
    is_dialled = groups[0][0] in "+(" or len(groups[0].split()) > 2 or _DIALLED.fullmatch(groups[0]) is not None
    return is_dialled and "," not in groups[0] and sum(map(str.isdecimal, groups[0])) >= MIN_DIALLED


def _of_token(token: str) -> list[CharSpan]:
    """Return the numbers and codes of letters and digits that signs join."""
    if not _DIGIT.search(token):
        return []
    found: list[CharSpan] = []
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
        follows = bool(run) and sign in _joining(run[-1][2], segment)
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


def _joining(segment: str, following: str) -> str:
    """Return the signs that make one number or code of two segments."""
    if not (segment[-1].isdecimal() and following[0].isdecimal()):
        return "-/"
    return "-./:," if segment.isdecimal() else "-./"


class NumberHabits(NamedTuple):
    """The numbers of a training text by what becomes of them in its target."""

    kept: tuple[str, ...]
    """Numbers without letters that at least two lines keep; those that most keep come first."""
    rewritten: tuple[str, ...]
    """Numbers that at least four different sentences write otherwise, as in words, and at most a tenth keep; sorted."""

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> NumberHabits:
        """Return the habits of pairs of source and target lines."""
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
            if count >= MIN_KEPT and _is_plain(number)
        ]
        num_keeping, num_rewriting = (Counter(number for number, _ in found) for found in (keeping, rewriting))
        rewritten = [
            number
            for number, count in num_rewriting.items()
            if count >= MIN_REWRITTEN and num_keeping[number] <= MAX_KEPT_SHARE * (num_keeping[number] + count)
        ]
        return cls(tuple(usual[:MAX_KEPT]), tuple(sorted(rewritten)))


class NumberFound(NamedTuple):
    """A number that a translation must keep, in a text."""

    begin: int
    """Its first character."""
    end: int
    stand_in: str
    """The number that the model reads and says in its place, perhaps the same."""
    is_known: bool = False
    """True if the training text keeps the stand-in."""


class Numbers:
    """Finds the numbers, codes and addresses that a translation must keep."""

    def __init__(
        self,
        habits: NumberHabits,
        *,
        target_lang: str,
        symbols: Collection[str] = (),
        is_rare: Callable[[str], bool] = frozenset[str]().__contains__,
    ) -> None:
        """Take the habits of the training text.

        Words with one of the `symbols` of its tokenizer have no numbers. `is_rare` tells of a character whether it is
        the sign of a currency that the training text hardly has; then it is a part of its number.
        """
        self._is_rare = is_rare
        self._glossary: Glossary | None = None
        self._rewritten = frozenset(habits.rewritten)
        self._by_signs: dict[str, list[str]] = {}
        self._kept = frozenset(habits.kept)
        for number in habits.kept:
            self._by_signs.setdefault(_signs(number), []).append(number)
        self._no_text = re.compile("|".join([_NO_TEXT, *map(re.escape, sorted(symbols, key=len, reverse=True))]))
        self.may_be_glued = not writes_spaces(target_lang)
        """True if the target language writes no space before a number."""

    def beside(self, glossary: Glossary | None) -> Numbers:
        """Return the same without the numbers that terms of a glossary touch."""
        other = copy(self)
        other._glossary = glossary
        return other

    def has_rewritten(self, text: str) -> bool:
        """Return whether a text has numbers that its translation may write otherwise."""
        return any(
            text[slice(*number)] in self._rewritten for number, amount in self._amounts(text) if number == amount
        )

    def found(self, text: str) -> list[NumberFound]:
        """Return the numbers to keep from left to right, each with a stand-in of its own as far as there are some."""
        everything = self._amounts(text)
        if not everything:
            return []
        terms = [] if self._glossary is None else self._glossary.matches(text)
        ends = [term.end for term in terms]

        def is_free(span: CharSpan) -> bool:
            following = bisect_right(ends, span[0])
            return following == len(terms) or terms[following].begin >= span[1]

        everything = [(one, both if is_free(both) else one) for one, both in everything if is_free(one)]
        blocked = bytearray(len(text))
        for word in re.finditer(r"\S+", text):
            if self._no_text.search(word[0]):
                blocked[word.start() : word.end()] = b"\1" * len(word[0])
        taken = {text[slice(*number)] for number, _ in everything} & self._rewritten
        own = {text[slice(*number)] for number, _ in everything} & self._kept
        found: list[NumberFound] = []
        for number, amount in everything:
            # An address may hold such signs itself.
            is_blocked = blocked[number[0]] and not _ADDRESS.match(text, *number)
            if is_blocked or (number == amount and text[slice(*number)] in self._rewritten):
                continue
            stand_in = self._stand_in(text[slice(*number)], taken, own)
            taken.add(stand_in)
            found.append(NumberFound(*amount, stand_in, stand_in in self._kept))
        return found

    def rest_of(self, text: str, begun: str) -> str:
        """Return what is missing of the number of a text that the last word of a prefix begins; nothing if none does,
        or if several may."""
        last = "" if begun[-1:].isspace() else begun.rpartition(" ")[2]
        if not _DIGIT.search(last):
            return ""
        numbers = {text[found.begin : found.end] for found in self.found(text)}
        rests = {number[len(last) :] for number in numbers if number.startswith(last)}
        return rests.pop() if len(rests) == 1 else ""

    def _amounts(self, text: str) -> list[tuple[CharSpan, CharSpan]]:
        """Return the numbers of a text, each alone and with the rare sign of a currency beside it: `€50`, `50 €`."""
        found: list[tuple[CharSpan, CharSpan]] = []
        last = 0
        for begin, end in number_spans(text):
            before = begin - 1 - (text[begin - 1 : begin] == " ")
            after = end + (text[end : end + 1] == " ")
            amount = (begin, end)
            if before >= last and self._is_rare(text[before]) and not text[before - 1 : before].isalnum():
                amount = (before, end)
            elif after < len(text) and self._is_rare(text[after]) and not text[after + 1 : after + 2].isalnum():
                amount = (begin, after + 1)
            found.append(((begin, end), amount))
            last = amount[1]
        return found

    def _stand_in(self, number: str, taken: Collection[str], own: Collection[str]) -> str:
        """Return the kept number with the same signs whose length is nearest, or the number itself.

        Of several the most frequent one is returned. Where no kept number has its signs, one without signs stands for a
        quantity or a number in groups. A code, and a time or a date whose signs no kept number has, stays.
        """
        if number in self._kept and number not in taken:
            return number
        signs = _signs(number)
        if signs not in self._by_signs and (_QUANTITY.fullmatch(number) or _GROUPS.fullmatch(number)):
            signs = "0"
        kept = [one for one in self._by_signs.get(signs, ()) if one not in taken and one not in own]
        if not kept or not _is_plain(number):
            return number
        return min(kept, key=lambda one: abs(len(one) - len(number)))


def _is_plain(number: str) -> bool:
    return not any(map(str.isalpha, number))


def _signs(number: str) -> str:
    """Return a number with one 0 for each run of digits: 0:0 for 14:30."""
    return re.sub(r"\d+", "0", number)
