"""Numbers, codes and addresses in a text, which a translation keeps as they are.

A model learns the translation of a number from the lines that have it. Most numbers stand in none: of these the model
knows the digits, but not that they are to be kept. So the search treats them as terms that are their own translation
(`translation/terms.py`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable

from nmt_cli.data.tokenizer import Span
from nmt_cli.translation.glossary import WITHOUT_SPACES

MIN_REWRITTEN = 3
"""Lines of a training text that write a number otherwise in the target, from which a model may do so too."""
LANGUAGES_WITHOUT_SPACES = frozenset(("zh", "yue", "wuu", "lzh", "ja", "th", "lo", "my", "km"))
_LETTER = rf"(?:(?!{WITHOUT_SPACES.pattern})[^\W\d_])"
_SEGMENT = rf"(?:{_LETTER}|[\d_])+"
_TOKEN = re.compile(rf"(?:(?<!\S)[-−+](?=\d))?{_SEGMENT}(?:[-./:,]{_SEGMENT})*")
_PARTS = re.compile(rf"([-−+./:,]?)({_SEGMENT})")
_ORDINAL = re.compile(r"(\d+)[^\W\d_]+")
"""Digits with letters behind them: `12th`, `1990s`, `5km`."""
_DIGIT = re.compile(r"\d")
_ADDRESS = re.compile(r"(?:[\w.+-]+@[\w-]+\.|[A-Za-z]+://|\bwww\.)[!-~]*[A-Za-z0-9/]", re.ASCII)
_NO_TEXT = r"__|[<>{}\\]|%\w"
"""Signs of a word that is a placeholder or a tag, and not a number that people read."""


def number_spans(text: str) -> list[Span]:
    """Return the numbers, codes and addresses of a text from left to right, each as begin and end.

    A number is digits with signs between them (`1,000.50`, `14:30`, `-5`). Small letters behind it are no part of it
    (`12th`, `5km`), nor is what a hyphen joins to it (`10-year-old`). A code has letters before or among its digits, or
    capitals behind them (`A123`, `mp3`, `x86_64`, `5G`), and may have parts in capitals (`PG-13`, `COVID-19`). An
    address is one of the Web or of e-mail.
    """
    found: list[Span] = []
    for address in _ADDRESS.finditer(text):
        found.append(address.span())
    if not _DIGIT.search(text):
        return found
    addresses = tuple(found)
    for token in _TOKEN.finditer(text):
        begin, end = token.span()
        if not any(begin < other[1] and end > other[0] for other in addresses):
            found += [(begin + first, begin + last) for first, last in _of_token(token[0])]
    return sorted(found)


def _of_token(token: str) -> list[Span]:
    """Return the numbers and codes of letters and digits that signs join."""
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


def rewritten_numbers(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Return the numbers that the targets of a text mostly write otherwise than its sources, as in words.

    Args:
        pairs: source and target lines.

    Returns:
        Numbers that at least three targets lack, and at least as many as have them; sorted.
    """
    kept: Counter[str] = Counter()
    rewritten: Counter[str] = Counter()
    for source, target in pairs:
        numbers = {source[begin:end] for begin, end in number_spans(source)}
        if numbers:
            there = {target[begin:end] for begin, end in number_spans(target)}
            kept.update(numbers & there)
            rewritten.update(numbers - there)
    return sorted(one for one, count in rewritten.items() if count >= max(MIN_REWRITTEN, kept[one]))


class Numbers:
    """Finds the numbers, codes and addresses that a translation must keep."""

    def __init__(self, rewritten: Collection[str], *, target_lang: str, symbols: Collection[str] = ()) -> None:
        """Take the numbers that the model may write otherwise, and the symbols of its tokenizer, which stay alone."""
        self._rewritten = frozenset(rewritten)
        self._no_text = re.compile("|".join([_NO_TEXT, *map(re.escape, sorted(symbols, key=len, reverse=True))]))
        self.may_be_glued = re.split("[-_]", target_lang.lower())[0] in LANGUAGES_WITHOUT_SPACES
        """True if the target language writes no space before a number."""

    def has_rewritten(self, text: str) -> bool:
        """Return whether a text has numbers that its translation may write otherwise."""
        return any(text[begin:end] in self._rewritten for begin, end in number_spans(text))

    def spans(self, text: str) -> list[Span]:
        """Return the places of these numbers from left to right, each as begin and end."""
        found = [span for span in number_spans(text) if text[slice(*span)] not in self._rewritten]
        if not found:
            return []
        words = [word.span() for word in re.finditer(r"\S+", text) if self._no_text.search(word[0])]
        # An address may hold such signs itself.
        return [
            (begin, end)
            for begin, end in found
            if not any(first <= begin and end <= last for first, last in words) or _ADDRESS.match(text, begin, end)
        ]
