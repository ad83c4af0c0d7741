"""Puts the signs of a line that the model has not read into its translation.

The alignment tells where they belong: a pair of brackets around the words that look at what it enclosed, a sign in
front of a word before those that look at this word, and another behind the words that look at the word before it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from nmt_cli.data.tokenizer import CharSpan, replaced
from nmt_cli.text.alignment import Matrix
from nmt_cli.translation.elements import Tag
from nmt_cli.translation.inner_signs import InnerSign, left_out
from nmt_cli.translation.markup import tagged_words
from nmt_cli.translation.prefix import Prefix
from nmt_cli.translation.results import Translation

_COMMAS = ",،、，"
_WORD = re.compile(r"\S+")


class _Reading(NamedTuple):
    """The words that the model reads, and the words of the line."""

    begins: Sequence[int]
    """The place in the line at which each word that is read begins. A comma that stands for a sign is none."""
    words: Sequence[CharSpan]
    """The words of the line."""

    @classmethod
    def of(cls, text: str, signs: Sequence[InnerSign]) -> _Reading:
        read = replaced(text, left_out(signs))
        begins = [read.raw(*word.span())[0] for word in _WORD.finditer(read.text)]
        of_signs = {sign.begin_read for sign in signs}
        return cls([begin for begin in begins if begin not in of_signs], [word.span() for word in _WORD.finditer(text)])

    def number_at(self, place: int) -> int:
        """Return the number of the first word read that does not begin before a place of the line."""
        return bisect_left(self.begins, place)

    def word_at(self, place: int) -> int:
        """Return the number of the line's word that has a place."""
        return bisect_right(self.words, place, key=lambda word: word[0]) - 1

    def looks_at(self, weights: Matrix) -> list[int]:
        """Return the number of the word read that each word of a translation looks at most; -1 for none.

        Where a sign parts a word of the line into several, those that look at it share them in order.
        """
        own = [range(self.number_at(begin), self.number_at(end)) for begin, end in self.words]
        heaviest = [int(row.argmax()) if row.any() else -1 for row in weights]
        total = {word: heaviest.count(word) for word in set(heaviest)}
        seen: dict[int, int] = defaultdict(int)
        found = []
        for word in heaviest:
            parts = own[word] if word >= 0 else ()
            found.append(parts[seen[word] * len(parts) // total[word]] if parts else -1)
            seen[word] += 1
        return found


def with_inner_signs(
    text: str, signs: Sequence[InnerSign], found: Translation, prefix: Prefix | None = None
) -> Translation:
    """Return a translation, which has weights, with the signs of its line in their places.

    A sign that is a word of its own looks at itself. None goes into the prefix, and what the prefix says already is not
    said again. Commas that the model has said for signs are taken out beside them.
    """
    if found.weights is None or not signs:
        return found
    reading = _Reading.of(text, signs)
    begun = "" if prefix is None else prefix.text
    target = list(_WORD.finditer(found.text))
    num_begun = min(len(begun.split()), len(target))
    head = found.text[: max(len(begun), target[num_begun - 1].end() if num_begun else 0)]
    tags, apart = _tags(text, signs, reading)
    own = [word[0] for word in target[num_begun:]]
    looks_at = _between_commas(own, reading.looks_at(found.weights)[num_begun:], text, signs, reading)
    missing = _missing(tags, begun)
    if begun:  # the prefix may have said all words of a pair, which would enclose nothing then
        missing = [
            tag
            for tag in missing
            if tag.closing is None or tag.is_open or any(tag.start <= looks < tag.end for looks in looks_at)
        ]
    items = tagged_words(own, missing, looks_at)
    written: list[str] = []
    words: list[int] = []
    for row, item in enumerate(items, start=num_begun):
        parts = item.split()
        num_own = int(row < len(target))
        for number, part in enumerate(parts):
            is_own = not apart[part] or (num_own > 0 and number == len(parts) - 1)
            num_own -= is_own
            written.append(part)
            if is_own:
                words.append(row if row < len(target) else ~reading.word_at(signs[-1].begin))
            else:
                words.append(~apart[part].popleft())
    commas = [text[sign.begin : sign.end] for sign in signs if sign.is_comma]
    written, words = _without_commas(written, words, commas)
    blank = " " if head and written and not head[-1].isspace() else ""
    return found.with_signs(head + blank + " ".join(written), [*range(num_begun), *words])


def _tags(text: str, signs: Sequence[InnerSign], reading: _Reading) -> tuple[list[Tag], dict[str, deque[int]]]:
    """Return the signs as tags among the words that are read, and the words of the line that are signs alone."""
    tags: list[Tag] = []
    apart: dict[str, deque[int]] = defaultdict(deque)
    for number, sign in enumerate(signs):
        written, place = text[sign.begin : sign.end], reading.number_at(sign.begin)
        if sign.partner is None:
            if sign.is_word:
                apart[written].append(reading.word_at(sign.begin))
            is_in_front = not sign.is_word and not text[sign.begin - 1 : sign.begin].strip()
            if is_in_front:  # of the words that look at the word that it touches
                tags.append(Tag(written, "", place, place + 1, number, number))
                continue
            follows_mark = sign.is_word and not written.startswith("°") and not text[sign.end : sign.end + 1].strip()
            blanks = ("", " " * sign.is_word)
            before, behind = blanks if place == 0 else blanks[::-1]
            tags.append(
                Tag(
                    before + written + behind, None, place, place, number, number,
                    is_after=place > 0, is_apart=sign.is_word, cuts_last=not follows_mark,
                )
            )  # fmt: skip
        elif sign.partner > number:
            end = signs[sign.partner]
            tags.append(
                Tag(
                    written, text[end.begin : end.end], place, reading.number_at(end.begin), number, sign.partner,
                    is_apart=True, cuts_first=text[sign.end].isalnum(), cuts_last=text[end.begin - 1].isalnum(),
                )
            )  # fmt: skip
    return tags, apart


def _between_commas(
    target: Sequence[str], looks_at: Sequence[int], text: str, signs: Sequence[InnerSign], reading: _Reading
) -> list[int]:
    """Return where each word looks, so that a pair of brackets which the model reads as commas goes where it says them.

    A word with a comma in front of those that look into the brackets stands before them, even if it looks there too,
    and words behind the next comma stand behind them, if there is none within the brackets.
    """
    found = list(looks_at)
    for sign in signs:
        if sign.partner is None or sign.begin > signs[sign.partner].begin:
            continue
        end = signs[sign.partner]
        inner = range(reading.number_at(sign.begin), reading.number_at(end.begin))
        rows = [row for row, looks in enumerate(found) if looks in inner]
        follows_comma = bool(rows) and rows[0] > 0 and _ends_in_comma(target[rows[0] - 1])
        if sign.is_comma and len(rows) > 1 and _ends_in_comma(target[rows[0]]) and not follows_comma:
            found[rows.pop(0)] = inner.start - 1
        is_parted = any(other.is_comma for other in signs if sign.begin < other.begin < end.begin)
        if end.is_comma and not is_parted and not set(_COMMAS) & set(text[sign.end : end.begin]):
            comma = next((row for row in range(*_extent(rows)) if _ends_in_comma(target[row])), len(target))
            for row in rows:
                if row > comma or (row == comma and target[row] in _COMMAS):
                    found[row] = inner.stop
    return found


def _extent(rows: Sequence[int]) -> tuple[int, int]:
    """Return the first of some rows, and the row after the last."""
    return (rows[0], rows[-1] + 1) if rows else (0, 0)


def _ends_in_comma(word: str) -> bool:
    return word[-1] in _COMMAS


def _missing(tags: Sequence[Tag], begun: str) -> list[Tag]:
    """Return the tags that the beginning of a translation lacks; one that it opens but does not end is open."""
    missing = []
    for tag in tags:
        said = tag.text.strip()
        if said not in begun:
            missing.append(tag)
            continue
        begun = begun.replace(said, "", 1)
        if tag.closing is not None and tag.closing in begun:
            begun = begun.replace(tag.closing, "", 1)
        elif tag.closing is not None:
            missing.append(replace(tag, is_open=True))
    return missing


def _without_commas(written: Sequence[str], words: Sequence[int], signs: Sequence[str]) -> tuple[list[str], list[int]]:
    """Return words without the commas beside some signs, and the numbers of the words that remain."""
    if not signs or not written:  # all words may be those of a prefix
        return list(written), list(words)
    any_sign = "|".join(map(re.escape, sorted(set(signs), key=len, reverse=True)))
    begins, ends = re.compile(any_sign), re.compile(rf"(?:{any_sign})\Z")
    kept: list[tuple[str, int]] = []
    for word, number, following in zip(written, words, [*written[1:], ""], strict=True):
        bare = re.sub(rf"({any_sign})[{_COMMAS}]\Z", r"\1", word)
        if begins.match(following) or (kept and ends.search(kept[-1][0]) and bare in _COMMAS):
            bare = bare.rstrip(_COMMAS)
        if bare:
            kept.append((bare, number))
    return [word for word, _ in kept], [number for _, number in kept]
