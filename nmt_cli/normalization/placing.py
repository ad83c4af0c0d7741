"""Places in a translation for what the model has not read, by the words that look at the words around it.

Tags and symbols are elements of the line (`elements.py`); here their places become changes of the translation.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from nmt_cli.normalization.elements import Tag, placed
from nmt_cli.text.edits import Change, Edits, Span

_EDGES = re.compile(r"(\W*)(\w(?:.*\w)?)(\W*)", re.S)
"""A word between the punctuation before it and the punctuation after it."""
COMMAS = ",،、，"
_DEGREES = "°"
"""Belongs to the number before it, whatever punctuation the translation has behind this number."""


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a translation, and the word of the source that each looks at."""

    text: str
    spans: Sequence[Span]
    looks_at: Sequence[int]
    """The number of a source word, -1 for none."""

    def written(self, row: int) -> str:
        """Return a word."""
        return self.text[slice(*self.spans[row])]

    def core(self, row: int) -> Span:
        """Return a word without the punctuation around it; all of one that is punctuation alone."""
        begin, end = self.spans[row]
        found = _EDGES.fullmatch(self.text, begin, end)
        return found.span(2) if found else (begin, end)

    def behind(self, first: int) -> Words:
        """Return the words from one on."""
        return Words(self.text, self.spans[first:], self.looks_at[first:])


class Element(NamedTuple):
    """A tag or symbol that the model has not read."""

    begin: int
    """Its first character in the line."""
    partner: int | None
    """The number of the other one of its pair."""


@dataclass(frozen=True, slots=True)
class Gaps:
    """What the model has not read, between the words that it has, and a translation."""

    edits: Edits
    """From the line to what is read of it."""
    read: Sequence[Span]
    """The words that are read; text that only stands for an element is none."""
    words: Words
    """The words of the translation, which look at these."""
    elements: Sequence[Element]

    def verbatim(self, wanted: Collection[int], begun: int) -> list[tuple[list[int], Change]]:
        """Return the changes that bring back what stood between words which still follow each other, each with the
        numbers of its elements.

        A pair comes back as a whole or not at all. Only the elements `wanted` come back, none within the first `begun`
        characters of the translation.
        """
        found: dict[int, tuple[list[int], Change]] = {}
        of_gap: dict[int, int] = {}
        for gap, (old, new) in enumerate(self.edits.gaps()):
            numbers = [one for one, element in enumerate(self.elements) if old[0] <= element.begin < old[1]]
            of_gap.update(dict.fromkeys(numbers, gap))
            change = self._between(old, new) if all(one in wanted for one in numbers) else None
            if change is not None and change.begin >= begun:
                found[gap] = numbers, change
        ends = 0
        for gap, (_, change) in sorted(found.items(), key=lambda item: item[1][1][:2]):
            if change.begin < ends:
                del found[gap]
            ends = max(ends, change.end)
        while alone := [gap for gap, (numbers, _) in found.items() if self._lacks_partner(numbers, of_gap, found)]:
            for gap in alone:
                del found[gap]
        return list(found.values())

    def _lacks_partner(self, numbers: Sequence[int], of_gap: Mapping[int, int], found: Collection[int]) -> bool:
        partners = (self.elements[one].partner for one in numbers)
        return any(partner is not None and of_gap[partner] not in found for partner in partners)

    def _between(self, old: Span, new: Span) -> Change | None:
        """Return the change that brings back characters of the line where the words on both sides of them still follow
        each other; None where they do not."""
        text, read, words, looks_at = self.edits.old, self.edits.new, self.words, self.words.looks_at
        before, after = len(read[: new[0]].rstrip()), len(read) - len(read[new[1] :].lstrip())
        left = self._word_at(before - 1) if before else None
        right = self._word_at(after) if after < len(read) else None
        last = max((row for row, looks in enumerate(looks_at) if looks == left), default=-1)
        first = next((row for row, looks in enumerate(looks_at) if looks == right), len(looks_at))
        written, said = text[slice(*old)], read[slice(*new)]
        if left is not None and left == right:
            at = None if last < 0 or said else self._within(left, new, first, last)
            return None if at is None else Change(at, at, written, old)
        is_there = (left is None or last >= 0) and (right is None or first < len(looks_at))
        if last + 1 != first or left == right or not is_there:
            return None
        begins = words.spans[first][0] if first < len(words.spans) else len(words.text)
        ends = words.spans[last][1] if last >= 0 else 0
        if said.strip() and first < len(words.spans) and words.written(first) in COMMAS:
            return Change(ends, words.spans[first][1], written, old)
        if said.strip() and last > 0 and words.written(last) in COMMAS:
            return Change(words.spans[last - 1][1], ends, written, old)
        if said.strip():
            is_comma = words.text[ends - 1] in COMMAS and ends - words.spans[last][0] > 1
            end = min(begins, ends + len(said) - len(said.rstrip()))
            return Change(ends - is_comma, end, written, old)
        if said:
            return Change(ends, min(begins, ends + len(said)), written, old)
        if not before and not begins:  # the blanks between what was left out and the first word
            return Change(0, 0, text[old[0] : old[1] + after - new[1]], (old[0], old[1] + after - new[1]))
        if not new[0] or read[new[0] - 1].isspace():
            return Change(begins, begins, written, old)
        is_glued = not written[0].isspace() and text[old[0] - 1].isalnum()
        if is_glued or (written.lstrip().startswith(_DEGREES) and last >= 0):
            ends = words.core(last)[1]
        return Change(ends, ends, written, old)

    def _within(self, word: int, new: Span, first: int, last: int) -> int | None:
        """Return the place within a word of the translation, of those from `first` to `last`, that is like a place of
        the word that is read: among the punctuation around it."""
        read, words = self.edits.new, self.words
        head, tail = read[self.read[word][0] : new[0]], read[new[1] : self.read[word][1]]
        if not any(map(str.isalnum, head)):
            begin = words.spans[first][0] + len(head)
            return begin if words.written(first).startswith(head) else words.core(first)[0]
        if not any(map(str.isalnum, tail)):
            end = words.spans[last][1] - len(tail)
            return end if words.written(last).endswith(tail) else words.core(last)[1]
        return None

    def _word_at(self, place: int) -> int | None:
        """Return the number of the word that is read at a place; None for text that only stands for an element."""
        number = bisect_left(self.read, place + 1, key=_begin) - 1
        return number if number >= 0 and place < self.read[number][1] else None


class Mark(NamedTuple):
    """The beginning or the end of an element, written at a place of the translation."""

    place: int
    text: str
    number: int
    """The number of the tag or symbol in the source."""


class _Edge(NamedTuple):
    text: str
    number: int
    is_cut: bool
    """The punctuation at this edge of the word is outside."""


def marks_of(words: Words, tags: Sequence[Tag]) -> list[Mark]:
    """Return where each tag begins and ends, in the order in which they are written.

    Tags that are open come first, the outermost foremost; each ends behind at least one word.
    """
    num_words = len(words.spans)
    before: list[list[_Edge]] = [[] for _ in range(num_words + 1)]
    after: list[list[_Edge]] = [[] for _ in range(num_words)]
    root = placed(tags, [*words.looks_at, *[-1] * (num_words - len(words.looks_at))])
    waiting = [(inner, root, False) for inner in reversed(root.inner)]
    while waiting:
        element, outer, is_end = waiting.pop()
        tag = element.tag
        if not is_end:
            waiting.append((element, outer, True))
            waiting += [(inner, element, False) for inner in reversed(element.inner)]
        text = (tag.closing or "") if is_end else "" if tag.is_open else tag.text
        number = tag.closes if is_end else tag.opens
        if element.is_behind:
            blank = " " * (not is_end and not tag.is_after and not outer.is_behind)
            after[element.first - 1].append(_Edge(blank + text, number, tag.cuts_last))
        elif is_end and element.first < element.last:
            after[element.last - 1].append(_Edge(text, number, tag.cuts_last))
        else:
            blank = " " * (is_end and tag.is_apart and outer.first < outer.last)
            before[element.first].append(_Edge(text + blank, number, tag.cuts_first))
    found: list[Mark] = []
    for row in range(num_words):
        (begin, end), core = words.spans[row], words.core(row)
        opening, closing = before[row], after[row]
        last = max((number for number, edge in enumerate(opening) if not edge.is_cut), default=-1)
        first = next((number for number, edge in enumerate(closing) if not edge.is_cut), len(closing))
        found += [Mark(begin if at <= last else core[0], edge.text, edge.number) for at, edge in enumerate(opening)]
        found += [Mark(core[1] if at < first else end, edge.text, edge.number) for at, edge in enumerate(closing)]
    if any(edge.text for edge in before[-1]):  # a word of their own, behind all others
        is_apart = not words.text or words.text[-1].isspace() or before[-1][0].text[:1].isspace()
        blank = "" if is_apart else " "
        found += [
            Mark(len(words.text), blank * (not at) + edge.text, edge.number) for at, edge in enumerate(before[-1])
        ]
    return [mark for mark in found if mark.text.strip()]


def missing_tags(tags: Sequence[Tag], begun: str) -> list[Tag]:
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


def apart_from(changes: Sequence[Change], others: Sequence[Change]) -> list[Change]:
    """Return changes beside others: none stands within characters that another replaces."""
    found = []
    for change in changes:
        around = [
            other for other in others if other.begin < max(change.end, change.begin + 1) and change.begin < other.end
        ]
        if change.begin == change.end:
            place = max((other.end for other in around if other.begin < change.begin), default=change.begin)
            found.append(change._replace(begin=place, end=place))
        elif not around:
            found.append(change)
    return found


def _begin(span: Span) -> int:
    return span[0]
