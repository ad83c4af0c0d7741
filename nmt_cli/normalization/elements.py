"""Elements of a line, and the place of each in its translation.

An element is a tag with the words that it encloses. Elements that are side by side in the source stay so in the
translation, and nested ones stay nested: a page may not have a link within a link.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate

_MAX_EARLIER_SIBLINGS = 16
"""Number of preceding elements among which one that encloses the same word is searched for."""


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag, and the words of the line without tags that it encloses, or between which it is."""

    text: str
    closing: str | None
    """The text of the tag that ends it; None for a tag that stands alone."""
    start: int
    """Index of the first word that it encloses, or of the word after it."""
    end: int
    """Index after the last word that it encloses."""
    open_index: int
    """Its index among all tags of the line. For a crossing tag, see `crossing_index`."""
    close_index: int
    """Index of its end tag among all tags of the line; its own index if the tag stands alone."""
    is_after: bool = False
    """True if it encloses no word and belongs to the word before `start`, as the mark of a footnote does."""
    is_apart: bool = False
    """True if it encloses no word, and a blank separates it from the next word."""
    cuts_first: bool = False
    """True if it begins within its first word, so the punctuation before that word is outside."""
    cuts_last: bool = False
    """True if it ends within its last word, so the punctuation after that word is outside."""
    is_open: bool = False
    """True if it has begun before the words to be tagged, as in a prefix, so that only its end is to be placed."""
    head: str = ""
    """Punctuation inside the tag before its first word, if `cuts_first`."""
    tail: str = ""
    """Punctuation inside the tag after its last word, if `cuts_last`."""
    crossing_index: int | None = None
    """Its own index, if it overlaps an earlier tag; `open_index` is then the end of that tag, after which it begins."""
    needs_words: bool = False
    """True if it encloses text, so that it gets a word of the translation even if none is aligned to its words."""

    @property
    def number(self) -> int:
        """Its own index among all tags of the line, also if it is crossing."""
        return self.open_index if self.crossing_index is None else self.crossing_index

    def encloses(self, other: Tag) -> bool:
        """Return whether the other tag is within this one."""
        return self.open_index <= other.open_index and other.close_index < self.close_index

    def holds(self, other: Tag | None) -> bool:
        """Return whether the other tag is this one or within it."""
        return other is not None and (other is self or self.encloses(other))

    def is_beside(self, other: Tag) -> bool:
        """Return whether neither tag is within the other."""
        return self.close_index <= other.open_index or other.close_index <= self.open_index


@dataclass(slots=True)
class Element:
    """A tag at its place in the translation: around the words from `first` to before `last`, or before `first`."""

    tag: Tag
    first: int = 0
    last: int = 0
    is_behind: bool = False
    """True if it holds no word, and is written right after the word before it."""
    inner: list[Element] = field(default_factory=list)
    """The elements directly within it; once placed, in the order of the translation."""


def place_elements(tags: Sequence[Tag], aligned_to: Sequence[int]) -> Element:
    """Return an element around the whole translation, with the tags at their places within it.

    `aligned_to` has, for each word of the translation, the index of the source word that it is aligned to. A tag is put
    around one run of words aligned to the words that it enclosed. A run ends at a word aligned to a sibling element, so
    the runs of two siblings cannot overlap. Of several runs, the one whose words are aligned to most nested elements is
    taken, and of those the longest. A nested element is placed among the words of the outer one.
    """
    root = _tree(tags)
    root.last = len(aligned_to)
    num_columns = max((tag.end for tag in tags), default=0)
    holders = _holders(root, num_columns)
    aligned_tags = [holders[column] if 0 <= column < num_columns else None for column in aligned_to]
    waiting = [root]
    while waiting:  # no recursion: a line may nest its tags deeper than Python's stack is
        outer = waiting.pop()
        _place_within(outer, aligned_tags, aligned_to, is_root=outer is root)
        waiting += outer.inner
    return root


def _tree(tags: Sequence[Tag]) -> Element:
    """Return the root of a tree with one element for each tag.

    Tags with `is_open` are nested in the given order, the others as in the source.
    """
    root = Element(Tag("", "", 0, 0, -1, 1 << 60))
    opened = [root]
    enclosing: list[Element] = []
    for tag in tags:
        element = Element(tag)
        if tag.is_open:
            opened[-1].inner.append(element)
            opened.append(element)
            continue
        while enclosing and not enclosing[-1].tag.encloses(tag):
            enclosing.pop()
        around = [*(one for one in opened if one.tag.encloses(tag)), *enclosing[-1:]]
        max(around, key=lambda one: one.tag.open_index).inner.append(element)
        enclosing.append(element)
    return root


def _holders(root: Element, num_columns: int) -> list[Tag | None]:
    """Return the innermost tag around each source word; a word that is partly in two elements belongs to the first.

    Inner elements are visited before the outer ones, and each word keeps the first tag that it gets.
    """
    holders: list[Tag | None] = [None] * num_columns
    free = list(range(num_columns + 1))
    """For each word, its own index if it has no tag yet, or else that of a later word before which all have one."""
    waiting = [(element, False) for element in reversed(root.inner)]
    while waiting:
        element, is_end = waiting.pop()
        if not is_end:
            waiting.append((element, True))
            waiting += [(inner, False) for inner in reversed(element.inner)]
            continue
        column = _next_free(free, element.tag.start)
        while column < min(element.tag.end, num_columns):
            holders[column], free[column] = element.tag, column + 1
            column = _next_free(free, column)
    return holders


def _next_free(free: list[int], column: int) -> int:
    """Return the first word at or after `column` that has no tag, and shorten the path to it in `free` (union-find)."""
    found = min(column, len(free) - 1)
    while free[found] != found:
        free[found] = free[free[found]]
        found = free[found]
    return found


class _Siblings:
    """Elements side by side: none is within another."""

    def __init__(self, elements: Sequence[Element]) -> None:
        self._elements = sorted(elements, key=lambda one: one.tag.open_index)
        self._open_indices = [one.tag.open_index for one in self._elements]

    def holder(self, aligned_tag: Tag) -> Element | None:
        """Return the element whose tag is `aligned_tag` or contains it; None if there is none."""
        place = bisect_right(self._open_indices, aligned_tag.open_index) - 1
        return self._elements[place] if place >= 0 and self._elements[place].tag.holds(aligned_tag) else None

    def runs(self, aligned_tags: Sequence[Tag | None], rows: range) -> dict[int, list[list[int]]]:
        """Return, by the `id()` of each element, the runs of words aligned to it, each a list of their indices.

        A word aligned to a sibling ends a run.
        """
        found: dict[int, list[list[int]]] = {id(one): [] for one in self._elements}
        last = -1
        """Index of the last word aligned to one of these elements, or to an element beside all of them."""
        for row in rows if found else ():
            if (aligned_tag := aligned_tags[row]) is None:
                continue
            holder = self.holder(aligned_tag)
            if holder is None:
                last = row if aligned_tag.is_beside(self._elements[0].tag) else last
                continue
            own = found[id(holder)]
            if own and own[-1][-1] == last:
                own[-1].append(row)
            else:
                own.append([row])
            last = row
        return found


def _place_within(
    outer: Element, aligned_tags: Sequence[Tag | None], aligned_to: Sequence[int], *, is_root: bool
) -> None:
    """Set the places of the elements directly within `outer`.

    `aligned_tags` has the innermost tag around the source word of each word of the translation, or None.
    """
    start = outer.first
    for element in outer.inner:
        if element.tag.is_open:  # it is the only one, and the first
            runs = _Siblings(outer.inner).runs(aligned_tags, range(start, outer.last))[id(element)]
            element.last = start = min(max([*(runs[0] if runs else ()), 0]) + 1, outer.last)
    siblings = [element for element in outer.inner if not element.tag.is_open]
    rows = range(start, outer.last)
    runs_of_each = _Siblings(siblings).runs(aligned_tags, rows)
    unaligned: list[Element] = []
    for element in siblings:
        runs = runs_of_each[id(element)]
        if not runs:
            unaligned.append(element)
            continue
        own = runs[0] if len(runs) == 1 else max(runs, key=partial(_weight, aligned_tags, _Siblings(element.inner)))
        element.first, element.last = own[0], own[-1] + 1
    if any(element.tag.needs_words for element in unaligned):
        unaligned = _WordAssignment(siblings, aligned_to, rows).assign(unaligned, outer)
    if unaligned:
        _place_unaligned(outer, unaligned, _Gaps(aligned_to, rows), is_root=is_root)
    outer.inner.sort(key=lambda one: (not one.tag.is_open, one.first, one.last, one.tag.open_index))


class _WordAssignment:
    """Gives words of the translation to elements that need some, though none is aligned to their words."""

    def __init__(self, siblings: Sequence[Element], aligned_to: Sequence[int], rows: range) -> None:
        self._siblings = sorted(siblings, key=_open_index)
        taken = {row for one in siblings for row in range(one.first, one.last)}
        self._free = sorted((aligned_to[row], row) for row in rows if row not in taken)
        self._large = [one for one in self._siblings if one.last - one.first > 1]

    def assign(self, unaligned: Sequence[Element], outer: Element) -> list[Element]:
        """Give words to the elements that need some, and return those that get none.

        An element gets none if it needs none, or if no word is free and its siblings have one word each. An element
        that shares its word with an earlier sibling moves into that one instead.
        """
        rest, moved = list[Element](), set[int]()
        for element in unaligned:
            if element.tag.needs_words and (other := self._sibling_with_same_word(element)) is not None:
                other.inner.append(element)
                moved.add(id(element))
            elif not element.tag.needs_words or not self._assign_word(element):
                rest.append(element)
        outer.inner = [element for element in outer.inner if id(element) not in moved]
        return rest

    def _sibling_with_same_word(self, element: Element) -> Element | None:
        """Return an earlier sibling, of another tag, that has its word too, as in `<b>one</b><i>word</i>`; or None."""
        tag = element.tag
        place = bisect_left(self._siblings, tag.open_index, key=_open_index) - 1
        for other in reversed(self._siblings[max(place - _MAX_EARLIER_SIBLINGS, 0) : place + 1]):
            if other.tag.start <= tag.start and tag.end <= other.tag.end and other.first < other.last:
                return None if other.tag.closing == tag.closing else other
        return None

    def _assign_word(self, element: Element) -> bool:
        """Give an element the free word aligned nearest to its words, or a sibling's word; return False if neither."""
        tag = element.tag
        if self._free:
            place = bisect_left(self._free, (tag.start, -1))
            near = [one for one in (place - 1, place) if 0 <= one < len(self._free)]
            place = min(
                near, key=lambda one: abs(self._free[one][0] - tag.start) if self._free[one][0] >= 0 else 1 << 60
            )
            row = self._free.pop(place)[1]
        elif self._large:
            place = bisect_left(self._large, tag.open_index, key=_open_index)
            other = self._large[max(place - 1, 0)]
            is_before = other.tag.open_index < tag.open_index
            row = other.last - 1 if is_before else other.first
            other.first, other.last = (other.first, row) if is_before else (row + 1, other.last)
            if other.last - other.first == 1:
                del self._large[max(place - 1, 0)]
        else:
            return False
        element.first, element.last = row, row + 1
        return True


def _open_index(element: Element) -> int:
    return element.tag.open_index


def _weight(aligned_tags: Sequence[Tag | None], inner: _Siblings, run: Sequence[int]) -> tuple[int, int]:
    """Return the number of elements in `inner` to which words of a run are aligned, and the length of the run."""
    holders = (inner.holder(aligned_tag) for row in run if (aligned_tag := aligned_tags[row]) is not None)
    return len({id(holder) for holder in holders if holder is not None}), len(run)


def _place_unaligned(outer: Element, unaligned: Sequence[Element], gaps: _Gaps, *, is_root: bool) -> None:
    """Set the places of the elements to which no word is aligned, outside of their siblings that have words."""
    around = [element for element in outer.inner if element.first < element.last]
    order = {id(element): place for place, element in enumerate(around)}
    by_row = sorted(around, key=lambda one: one.first)
    firsts = [element.first for element in by_row]
    for element in unaligned:
        tag = element.tag
        gap, last = gaps.of(tag), -1
        while (place := bisect_right(firsts, gap) - 1) >= 0:
            other = by_row[place]
            is_behind = other.tag.open_index < tag.open_index
            if not other.first + (not is_behind) <= gap < other.last or order[id(other)] <= last:
                break
            gap, last = other.last if is_behind else other.first, order[id(other)]
        element.first = element.last = gap
        is_at_end = gap == outer.last and not is_root
        element.is_behind = outer.is_behind or (gap > outer.first and (is_at_end or tag.is_after))


class _Gaps:
    """Finds the gaps between words of the translation for tags without words."""

    def __init__(self, aligned_to: Sequence[int], rows: range) -> None:
        self._rows = rows
        self._first = {aligned_to[row]: row for row in reversed(rows)}
        self._last = {aligned_to[row]: row for row in rows}
        self._highest = list(accumulate((aligned_to[row] for row in rows), max))
        """For each word in `rows`, the index of the last source word to which it or an earlier one is aligned."""

    def of(self, tag: Tag) -> int:
        """Return the index of the word of the translation before which a tag is to be put."""
        if tag.is_after and (own := self._last.get(tag.start - 1)) is not None:
            return own + 1
        shared = [self._first[column] for column in range(tag.start, tag.end) if column in self._first]
        if shared:  # with an element beside it, which has the word
            return min(shared)
        return self._rows.start + bisect_left(self._highest, tag.start)
