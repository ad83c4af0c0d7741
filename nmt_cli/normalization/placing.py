"""Finds places in a translation for text that the model has not read, by the words aligned to its neighbours.

Tags and symbols are elements of the line (`elements.py`); here their places become changes of the translation.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from nmt_cli.normalization.elements import Element, Tag, place_elements
from nmt_cli.text.edits import Change, Edits, Span, word_spans
from nmt_cli.text.letters import MARKS, WITHOUT_SPACES
from nmt_cli.text.unit_alignment import Alignment

_EDGES = re.compile(r"(\W*)(\w(?:.*\w)?)(\W*)", re.S)
"""A word between the punctuation before it and the punctuation after it."""
COMMAS = ",،、，"
_DEGREES = "°"
"""The degree sign. It belongs to the number before it, whatever punctuation follows that number in the translation."""
_LEADING = "เแโใไເແໂໃໄ"
"""Vowels of Thai and Lao that are written before their consonant, and belong to it."""
_FOLLOWING = "ะาำๅๆະາຳໆ"
"""Vowels of Thai and Lao that are written after their consonant, and are no combining marks."""


def units_of(text: str, begins: Iterable[int] = (), atomic_spans: Iterable[Span] = ()) -> list[Span]:
    """Return the spans of the words of a text; scripts that write no blanks are cut where a piece of the model begins.

    `begins` are the indices of the characters at which pieces, tags and the like begin. A combining mark stays with the
    character before it. A span of `atomic_spans` is never split between two words, even if it has blanks in it.
    """
    whole = list(atomic_spans)
    ends = [end for _, end in whole]

    def is_free(place: int) -> bool:
        number = bisect_right(ends, place)
        return number == len(whole) or whole[number][0] >= place

    places = sorted({place for place in begins if 0 < place < len(text) and _may_cut(text, place) and is_free(place)})
    found: list[Span] = []
    number = 0
    for begin, end in word_spans(text):
        if found and not is_free(begin):
            begin = found.pop()[0]
        while number < len(places) and places[number] <= begin:
            number += 1
        while number < len(places) and places[number] < end:
            found.append((begin, places[number]))
            begin = places[number]
            number += 1
        found.append((begin, end))
    return found


def _may_cut(text: str, place: int) -> bool:
    """Return whether text may be cut before index `place`: in a script without blanks, between two drawn characters."""
    before, after = text[place - 1], text[place]
    is_unspaced = WITHOUT_SPACES.match(before) or WITHOUT_SPACES.match(after)
    return is_unspaced is not None and after not in MARKS and before not in _LEADING and after not in _FOLLOWING


def source_units(
    alignment: Alignment, text: str, cuts: Iterable[int] = (), atomic_spans: Iterable[Span] = ()
) -> list[Span]:
    """Return the spans of the words of the source text.

    In scripts without blanks, these are the pieces of the model instead, which are also cut at the indices `cuts`, the
    borders of tags. A span of `atomic_spans`, such as a placeholder, is never split.
    """
    return units_of(text, [*(begin for begin, _ in alignment.source), *cuts], atomic_spans)


def target_units(alignment: Alignment, text: str, atomic_spans: Iterable[Span] = ()) -> list[Span]:
    """Return the spans of the words of the target text, or in scripts without blanks of the pieces of the model."""
    return units_of(text, (begin for begin, _ in alignment.target), atomic_spans)


def monotonic_alignment(source: str, target: str) -> Alignment:
    """Return an alignment without attention: target word i of m goes to source word i·n/m (rounded down) of n."""
    sources, targets = word_spans(source), word_spans(target)
    looks = tuple(row * len(sources) // max(len(targets), 1) if sources else -1 for row in range(len(targets)))
    return Alignment(tuple(sources), tuple(targets), None, looks)


@dataclass(frozen=True, slots=True)
class AlignedWords:
    """The words of a translation, each with the word of the source that it is aligned to."""

    text: str
    spans: Sequence[Span]
    aligned_to: Sequence[int]
    """For each word, the index of a source word; -1 for none."""
    atomic_spans: Sequence[Span] = ()
    """The placeholders, which must not be split. Each lies within one word."""
    limit: int | None = None
    """Index after the last character that belongs to these words; None for the end of the text."""

    def written(self, row: int) -> str:
        """Return the characters of the word with index `row`."""
        return self.text[slice(*self.spans[row])]

    def core(self, row: int) -> Span:
        """Return the span of a word without the punctuation around it; all of a word that is punctuation alone."""
        begin, end = self.spans[row]
        found = _EDGES.fullmatch(self.text, begin, end)
        core = found.span(2) if found else (begin, end)
        own = self._atomic_spans_within(begin, end) if self.atomic_spans else ()
        if not own:
            return core
        return (min(core[0], own[0][0]), max(core[1], own[-1][1])) if found else (own[0][0], own[-1][1])

    def _atomic_spans_within(self, begin: int, end: int) -> Sequence[Span]:
        first = bisect_left(self.atomic_spans, (begin, begin))
        return self.atomic_spans[first : bisect_left(self.atomic_spans, (end, end))]

    def letter(self, row: int) -> int | None:
        """Return the index in the text of a word's first letter or digit that is in no placeholder, or None."""
        begin, end = self.spans[row]
        atomic_spans = {place for span in self._atomic_spans_within(begin, end) for place in range(*span)}
        return next((at for at in range(begin, end) if self.text[at].isalnum() and at not in atomic_spans), None)

    def has_text(self, row: int) -> bool:
        """Return whether a word has letters or digits."""
        return any(map(str.isalnum, self.written(row)))

    @property
    def has_blanks(self) -> bool:
        """True if blanks separate the words at the end of the text, so the last one is in no script without spaces."""
        return WITHOUT_SPACES.search(self.text, self.spans[-1][0] if self.spans else len(self.text)) is None

    def begin(self, row: int, tag: Tag) -> int:
        """Return the index of the character before which a tag is inserted to begin at word `row`.

        A tag that began within its source word (`cuts_first`) begins after the punctuation before the word.
        """
        begin = self.spans[row][0]
        if not tag.cuts_first:
            return begin
        place = self.core(row)[0]
        return place - len(tag.head) * self.text[begin:place].endswith(tag.head)

    def end(self, row: int, tag: Tag) -> int:
        """Return the index of the character before which a tag's end is inserted to end it after word `row`.

        A tag that ended within its source word (`cuts_last`) ends before the punctuation after the word.
        """
        end = self.spans[row][1]
        if not tag.cuts_last:
            return end
        place = self.core(row)[1]
        return place + len(tag.tail) * self.text[place:end].startswith(tag.tail)

    def from_place(self, place: int) -> AlignedWords:
        """Return only the words that end after index `place` of the text; a word around it is cut to begin there."""
        if not place:
            return self
        own = [row for row, (_, end) in enumerate(self.spans) if end > place]
        spans = [(max(self.spans[row][0], place), self.spans[row][1]) for row in own]
        return AlignedWords(self.text, spans, [self.aligned_to[row] for row in own], self.atomic_spans, self.limit)

    def from_row(self, first: int) -> AlignedWords:
        """Return the words from index `first` on."""
        return AlignedWords(self.text, self.spans[first:], self.aligned_to[first:], self.atomic_spans, self.limit)


class UnreadElement(NamedTuple):
    """A tag or symbol that the model has not read."""

    begin: int
    """Index of its first character in the line."""
    end: int
    partner: int | None
    """Index among all elements of the opening or closing one that belongs to it; None if it has none."""


@dataclass(frozen=True)
class Gaps:
    """The gaps between the words that the model reads, and the translation into which their text is put back."""

    edits: Edits
    """Edits from the line to the text that the model reads."""
    read: Sequence[Span]
    """The spans of the words that are read, but not of text that only stands in for an element, such as a comma."""
    words: AlignedWords
    """The words of the translation, which are aligned to the words that are read."""
    elements: Sequence[UnreadElement]

    def verbatim_changes(self, wanted: Collection[int], prefix_length: int) -> list[tuple[list[int], Change]]:
        """Return the changes that bring back the text of gaps, each with the indices of its elements.

        A gap comes back if the words on its two sides still follow each other in the translation, and all its elements
        are `wanted` (indices into `elements`); unwanted ones at its beginning, which the prefix has, are cut off. An
        element comes back only if its partner does. Nothing changes in the first `prefix_length` characters of the
        translation.
        """
        found: dict[int, tuple[list[int], Change]] = {}
        of_gap: dict[int, int] = {}

        def gaps_of_partners(numbers: Sequence[int]) -> list[int]:
            partners = (self.elements[one].partner for one in numbers)
            return [of_gap[partner] for partner in partners if partner is not None]

        begins = [element.begin for element in self.elements]
        for gap, (old, new) in enumerate(self.edits.gaps()):
            all_numbers = range(bisect_left(begins, old[0]), bisect_left(begins, old[1]))
            numbers = [*all_numbers]
            while numbers and numbers[0] not in wanted and numbers[-1] in wanted:  # the prefix has the first ones
                old = self.elements[numbers.pop(0)].end, old[1]
            of_gap.update(dict.fromkeys(numbers, gap))
            change = self._between(old, new) if all(one in wanted for one in numbers) else None
            if change is not None and change.begin < prefix_length <= change.end and len(numbers) < len(all_numbers):
                has_blank = self.words.text[prefix_length - 1].isspace()
                change = change._replace(begin=prefix_length, text=change.text.lstrip() if has_blank else change.text)
            if change is not None and change.begin >= prefix_length:
                found[gap] = numbers, change
        ends = 0
        for gap, (_, change) in sorted(found.items(), key=lambda item: item[1][1][:2]):
            if change.begin < ends:
                del found[gap]
            ends = max(ends, change.end)
        alone = [
            gap for gap, (numbers, _) in found.items() if any(one not in found for one in gaps_of_partners(numbers))
        ]
        while alone:
            gone = found.pop(alone.pop(), None)
            alone += gaps_of_partners(gone[0]) if gone is not None else ()
        return list(found.values())

    @cached_property
    def _first_rows(self) -> dict[int, int]:
        """Index of the first word of the translation aligned to each word that is read, by the latter's index."""
        return {looks: row for row, looks in reversed([*enumerate(self.words.aligned_to)])}

    @cached_property
    def _last_rows(self) -> dict[int, int]:
        return {looks: row for row, looks in enumerate(self.words.aligned_to)}

    def _between(self, old: Span, new: Span) -> Change | None:
        """Return the change that brings back the text of a gap, `old` in the line and `new` in the text that is read.

        Return None if the words on both sides do not follow each other in the translation.
        """
        text, read, words, aligned_to = self.edits.old, self.edits.new, self.words, self.words.aligned_to
        before, after = len(read[: new[0]].rstrip()), len(read) - len(read[new[1] :].lstrip())
        left = self._word_at(before - 1) if before else None
        right = self._word_at(after) if after < len(read) else None
        last = -1 if left is None else self._last_rows.get(left, -1)
        first = len(aligned_to) if right is None else self._first_rows.get(right, len(aligned_to))
        written, as_read = text[slice(*old)], read[slice(*new)]
        if left is not None and left == right:
            at = None if last < 0 or as_read else self._within(left, new, first, last)
            return None if at is None else Change(at, at, written, old)
        is_there = (left is None or last >= 0) and (right is None or first < len(aligned_to))
        if last + 1 != first or left == right or not is_there:
            return None
        begins = words.spans[first][0] if first < len(words.spans) else len(words.text)
        ends = words.spans[last][1] if last >= 0 else 0
        if as_read.strip() and first < len(words.spans) and words.written(first) in COMMAS:
            return Change(ends, words.spans[first][1], written, old)
        if as_read.strip() and last > 0 and words.written(last) in COMMAS:
            return Change(words.spans[last - 1][1], ends, written, old)
        if as_read.strip():
            is_comma = words.text[ends - 1] in COMMAS and ends - words.spans[last][0] > 1
            end = min(begins, ends + len(as_read) - len(as_read.rstrip()))
            return Change(ends - is_comma, end, written, old)
        if as_read:
            return Change(ends, min(begins, ends + len(as_read)), written, old)
        if not before and not begins:  # the blanks between what was left out and the first word
            return Change(0, 0, text[old[0] : old[1] + after - new[1]], (old[0], old[1] + after - new[1]))
        if not new[0] or read[new[0] - 1].isspace():
            return Change(begins, begins, written, old)
        is_glued = not written[0].isspace() and text[old[0] - 1].isalnum()
        if is_glued or (written.lstrip().startswith(_DEGREES) and last >= 0):
            ends = words.core(last)[1]
        return Change(ends, ends, written, old)

    def _within(self, word: int, new: Span, first: int, last: int) -> int | None:
        """Return the index in the translation that corresponds to `new`, an empty span in word `word`, or None.

        Words `first` to `last` of the translation are aligned to this word that the model has read. There is such an
        index if a single one is, and is written the same, or if `new` is among the punctuation around the word.
        """
        read, words = self.edits.new, self.words
        head, tail = read[self.read[word][0] : new[0]], read[new[1] : self.read[word][1]]
        if first == last and words.written(first) == read[slice(*self.read[word])]:
            return words.spans[first][0] + len(head)
        if not any(map(str.isalnum, head)):
            begin = words.spans[first][0] + len(head)
            return begin if words.written(first).startswith(head) else words.core(first)[0]
        if not any(map(str.isalnum, tail)):
            end = words.spans[last][1] - len(tail)
            is_there = words.written(last).endswith(tail)  # perhaps as a word of its own, as in French
            return len(words.text[:end].rstrip()) if is_there else words.core(last)[1]
        return None

    def _word_at(self, place: int) -> int | None:
        """Return the index in `read` of the word at a character of the text that is read; None if it is in none."""
        number = bisect_left(self.read, place + 1, key=_begin) - 1
        return number if number >= 0 and place < self.read[number][1] else None


class Mark(NamedTuple):
    """The beginning or the end of an element, written at a place of the translation."""

    place: int
    text: str
    number: int
    """Index of the tag or symbol in the source."""


class _Edge(NamedTuple):
    text: str
    number: int
    place: int


def marks_of(words: AlignedWords, tags: Sequence[Tag]) -> list[Mark]:
    """Return the marks of the beginning and the end of each tag, in the order in which they are written.

    Tags with `is_open`, which have begun before these words, must come first, the outermost foremost; each ends after
    at least one word.
    """
    num_words = len(words.spans)
    before: list[list[_Edge]] = [[] for _ in range(num_words + 1)]
    after: list[list[_Edge]] = [[] for _ in range(num_words)]
    behind: list[_Edge] = []
    """The edges after all words."""
    ends: dict[int, int] = {}
    """For each element with words, by its `id`, the index of its last word."""
    end = len(words.text) if words.limit is None else words.limit
    ends_apart = not words.text[end - 1 : end].strip()
    root = place_elements(tags, [*words.aligned_to, *[-1] * (num_words - len(words.aligned_to))])
    waiting = [(inner, root, False) for inner in reversed(root.inner)]
    while waiting:
        element, outer, is_end = waiting.pop()
        tag = element.tag
        if not is_end:
            waiting.append((element, outer, True))
            waiting += [(inner, element, False) for inner in reversed(element.inner)]
        text = (tag.closing or "") if is_end else "" if tag.is_open else tag.text
        number = tag.close_index if is_end else tag.number
        if element.is_behind:
            row = element.first - 1
            is_apart = not is_end and not tag.is_after and not outer.is_behind
            blank = " " * (is_apart and words.has_blanks and words.end(row, tag) == words.spans[row][1])
            after[row].append(_Edge(blank + text, number, words.end(row, tag)))
        elif is_end and element.first < element.last:
            row = max([_last_word(words, element), *(ends[id(inner)] for inner in element.inner if id(inner) in ends)])
            ends[id(element)] = row
            after[row].append(_Edge(text, number, words.end(row, tag)))
        elif element.first == num_words:
            is_first = not any(edge.text for edge in behind) and not tag.is_open
            is_apart = ends_apart or text[:1].isspace()
            blank = " " * (is_first and bool(text) and words.has_blanks and not is_apart)
            behind.append(_Edge(blank * bool(words.spans) + text, number, end))
        else:
            blank = " " * (is_end and tag.is_apart and outer.first < outer.last)
            before[element.first].append(_Edge(text + blank, number, words.begin(element.first, tag)))
    found: list[Mark] = []
    for row in range(num_words):
        opening, closing = before[row], after[row]
        begins = [*accumulate((edge.place for edge in reversed(opening)), min)][::-1]
        found += [Mark(place, edge.text, edge.number) for place, edge in zip(begins, opening, strict=True)]
        places = accumulate((edge.place for edge in closing), max)
        found += [Mark(place, edge.text, edge.number) for place, edge in zip(places, closing, strict=True)]
    found += [Mark(end, edge.text, edge.number) for edge in behind]
    return [mark for mark in found if mark.text.strip()]


def _last_word(words: AlignedWords, element: Element) -> int:
    """Return the index of the last word of an element, or of one before it if words of punctuation must be outside."""
    row = element.last - 1
    while element.tag.cuts_last and not element.tag.tail and row > element.first and not words.has_text(row):
        row -= 1
    return row


def missing_tags(tags: Sequence[Tag], prefix: str) -> list[Tag]:
    """Return the tags that the prefix of a translation lacks, and with `is_open` those that it does not end."""
    missing = []
    for tag in tags:
        opening = tag.text.strip()
        if opening not in prefix:
            missing.append(tag)
            continue
        prefix = prefix.replace(opening, "", 1)
        if tag.closing is not None and tag.closing in prefix:
            prefix = prefix.replace(tag.closing, "", 1)
        elif tag.closing is not None:
            missing.append(replace(tag, is_open=True))
    return missing


def without_overlaps(changes: Sequence[Change], others: Sequence[Change]) -> list[Change]:
    """Return the changes that do not overlap `others`; an insertion within one of them moves to its end."""
    others = sorted(others, key=lambda other: (other.begin, other.end))
    begins, ends = [other.begin for other in others], [other.end for other in others]
    found = []
    for change in changes:
        around = others[bisect_right(ends, change.begin) : bisect_left(begins, max(change.end, change.begin + 1))]
        if change.begin == change.end:
            place = max((other.end for other in around if other.begin < change.begin), default=change.begin)
            found.append(change._replace(begin=place, end=place))
        elif not around:
            found.append(change)
    return found


def _begin(span: Span) -> int:
    return span[0]
