"""Elements of a line, and the place of each in its translation.

An element is a tag with what it encloses. Elements that stand side by side in the source do so in the translation, and
nested ones stay nested: a page may not have a link within a link.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate

_FEW = 16
"""Elements before one among which that with the same word is searched for."""


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag, and the words of the plain line that it stands between or around."""

    text: str
    closing: str | None
    """The tag that ends it, or None for one that stands alone."""
    start: int
    """The first word it encloses, or the word that follows."""
    end: int
    """After the last word it encloses."""
    opens: int
    """Its number among all tags of the line."""
    closes: int
    """The number of the tag that ends it, or its own."""
    is_after: bool = False
    """It encloses no word and belongs to the word before `start`, as the mark of a footnote does."""
    is_apart: bool = False
    """It encloses no word, and a blank stands between it and the next word."""
    cuts_first: bool = False
    """It begins within its first word, so the punctuation before that word is outside."""
    cuts_last: bool = False
    """It ends within its last word, so the punctuation after that word is outside."""
    is_open: bool = False
    """It began before the words at hand, so only its end belongs among them."""
    head: str = ""
    """Punctuation that stands inside before its first word, where it cuts this."""
    tail: str = ""
    """Punctuation that stands inside behind its last word, where it cuts this."""
    crossing: int | None = None
    """Its own number, where it crosses a tag before it and so begins behind the end of this."""
    needs_words: bool = False
    """It encloses words, so it takes a word of the translation even if none is aligned to these."""

    @property
    def number(self) -> int:
        """The number at which it is written in the line."""
        return self.opens if self.crossing is None else self.crossing

    def encloses(self, other: Tag) -> bool:
        """Return whether the other stands within this one."""
        return self.opens <= other.opens and other.closes < self.closes

    def holds(self, other: Tag | None) -> bool:
        """Return whether the other is this one or stands within it."""
        return other is not None and (other is self or self.encloses(other))

    def is_beside(self, other: Tag) -> bool:
        """Return whether neither stands within the other."""
        return self.closes <= other.opens or other.closes <= self.opens


@dataclass(slots=True)
class Element:
    """A tag at its place in the translation: around the words from `first` to before `last`, or before `first`."""

    tag: Tag
    first: int = 0
    last: int = 0
    is_behind: bool = False
    """It holds no word, and is written right behind the word before it."""
    inner: list[Element] = field(default_factory=list)
    """The elements within it; they are in the order of the translation once they have their places."""


def placed(tags: Sequence[Tag], aligned_to: Sequence[int]) -> Element:
    """Return an element around the whole translation, with the tags at their places within it.

    `aligned_to` has the source word of each word of the translation. A tag goes around the longest run of
    words aligned to what it enclosed, where a run ends at a word aligned to an element beside it. Then the runs of
    two elements that stood side by side cannot overlap. Within a nested element only the words of the outer one count.
    """
    root = _tree(tags)
    root.last = len(aligned_to)
    num_columns = max((tag.end for tag in tags), default=0)
    holders = _holders(root, num_columns)
    aims = [holders[column] if 0 <= column < num_columns else None for column in aligned_to]
    waiting = [root]
    while waiting:  # no recursion: a line may nest its tags deeper than Python's stack is
        outer = waiting.pop()
        _place_within(outer, aims, aligned_to, is_root=outer is root)
        waiting += outer.inner
    return root


def _tree(tags: Sequence[Tag]) -> Element:
    """Return the tree of the elements: open ones nested in the order given, the others nested as in the source."""
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
        max(around, key=lambda one: one.tag.opens).inner.append(element)
        enclosing.append(element)
    return root


def _holders(root: Element, num_columns: int) -> list[Tag | None]:
    """Return the innermost tag around each source word; a word that two elements have a part of belongs to the first.

    What is within an element comes before it, so each word has the first tag that comes to it.
    """
    holders: list[Tag | None] = [None] * num_columns
    free = list(range(num_columns + 1))
    """For each word, itself if it has no tag yet, or else a word behind it up to which all have one."""
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
    """Return the first word from one on that has no tag, and make the way to it shorter."""
    found = min(column, len(free) - 1)
    while free[found] != found:
        free[found] = free[free[found]]
        found = free[found]
    return found


class _Siblings:
    """Elements side by side, of which none stands within another."""

    def __init__(self, elements: Sequence[Element]) -> None:
        self._elements = sorted(elements, key=lambda one: one.tag.opens)
        self._opens = [one.tag.opens for one in self._elements]

    def holder(self, aim: Tag) -> Element | None:
        """Return the element that is a tag or has it within."""
        place = bisect_right(self._opens, aim.opens) - 1
        return self._elements[place] if place >= 0 and self._elements[place].tag.holds(aim) else None

    def runs(self, aims: Sequence[Tag | None], rows: range) -> dict[int, list[list[int]]]:
        """Return the rows aligned to what each element encloses (by its identity), parted where one is aligned to an
        element beside it."""
        found: dict[int, list[list[int]]] = {id(one): [] for one in self._elements}
        last = -1
        """The last row aligned to one of the elements, or at one beside all of them."""
        for row in rows if found else ():
            if (aim := aims[row]) is None:
                continue
            holder = self.holder(aim)
            if holder is None:
                last = row if aim.is_beside(self._elements[0].tag) else last
                continue
            own = found[id(holder)]
            if own and own[-1][-1] == last:
                own[-1].append(row)
            else:
                own.append([row])
            last = row
        return found


def _place_within(outer: Element, aims: Sequence[Tag | None], aligned_to: Sequence[int], *, is_root: bool) -> None:
    """Give the elements that are directly within one their places; `aims` has the holder of each word's source word."""
    start = outer.first
    for element in outer.inner:
        if element.tag.is_open:  # it is the only one, and the first
            runs = _Siblings(outer.inner).runs(aims, range(start, outer.last))[id(element)]
            element.last = start = min(max([*(runs[0] if runs else ()), 0]) + 1, outer.last)
    siblings = [element for element in outer.inner if not element.tag.is_open]
    rows = range(start, outer.last)
    runs_of_each = _Siblings(siblings).runs(aims, rows)
    without: list[Element] = []
    for element in siblings:
        runs = runs_of_each[id(element)]
        if not runs:
            without.append(element)
            continue
        own = runs[0] if len(runs) == 1 else max(runs, key=partial(_weight, aims, _Siblings(element.inner)))
        element.first, element.last = own[0], own[-1] + 1
    if any(element.tag.needs_words for element in without):
        without = _WordAssignment(siblings, aligned_to, rows).rest_of(without, outer)
    if without:
        _place_without_words(outer, without, _Gaps(aligned_to, rows), is_root=is_root)
    outer.inner.sort(key=lambda one: (not one.tag.is_open, one.first, one.last, one.tag.opens))


class _WordAssignment:
    """Gives words to elements that need some, though no word of the translation is aligned to theirs."""

    def __init__(self, siblings: Sequence[Element], aligned_to: Sequence[int], rows: range) -> None:
        self._siblings = sorted(siblings, key=_opens)
        taken = {row for one in siblings for row in range(one.first, one.last)}
        self._free = sorted((aligned_to[row], row) for row in rows if row not in taken)
        self._large = [one for one in self._siblings if one.last - one.first > 1]

    def rest_of(self, without: Sequence[Element], outer: Element) -> list[Element]:
        """Return the elements that get no words: they need none, or those beside them have one word each."""
        rest, moved = list[Element](), set[int]()
        for element in without:
            if element.tag.needs_words and (other := self._with_the_same_word(element)) is not None:
                other.inner.append(element)
                moved.add(id(element))
            elif not element.tag.needs_words or not self._take(element):
                rest.append(element)
        outer.inner = [element for element in outer.inner if id(element) not in moved]
        return rest

    def _with_the_same_word(self, element: Element) -> Element | None:
        """Return the element before it that has its word too, as in `<b>one</b><i>word</i>`."""
        tag = element.tag
        place = bisect_left(self._siblings, tag.opens, key=_opens) - 1
        for other in reversed(self._siblings[max(place - _FEW, 0) : place + 1]):
            if other.tag.start <= tag.start and tag.end <= other.tag.end and other.first < other.last:
                return None if other.tag.closing == tag.closing else other
        return None

    def _take(self, element: Element) -> bool:
        """Give an element the free row that looks nearest to its words, or else one of an element beside it."""
        tag = element.tag
        if self._free:
            place = bisect_left(self._free, (tag.start, -1))
            near = [one for one in (place - 1, place) if 0 <= one < len(self._free)]
            place = min(
                near, key=lambda one: abs(self._free[one][0] - tag.start) if self._free[one][0] >= 0 else 1 << 60
            )
            row = self._free.pop(place)[1]
        elif self._large:
            place = bisect_left(self._large, tag.opens, key=_opens)
            other = self._large[max(place - 1, 0)]
            is_before = other.tag.opens < tag.opens
            row = other.last - 1 if is_before else other.first
            other.first, other.last = (other.first, row) if is_before else (row + 1, other.last)
            if other.last - other.first == 1:
                del self._large[max(place - 1, 0)]
        else:
            return False
        element.first, element.last = row, row + 1
        return True


def _opens(element: Element) -> int:
    return element.tag.opens


def _weight(aims: Sequence[Tag | None], inner: _Siblings, run: Sequence[int]) -> tuple[int, int]:
    """Return how many of the elements within one have a word in a run aligned to them, and the length of the run."""
    holders = (inner.holder(aim) for row in run if (aim := aims[row]) is not None)
    return len({id(holder) for holder in holders if holder is not None}), len(run)


def _place_without_words(outer: Element, without: Sequence[Element], gaps: _Gaps, *, is_root: bool) -> None:
    """Give the elements that no word is aligned to their places, within none of those beside them that have words."""
    around = [element for element in outer.inner if element.first < element.last]
    order = {id(element): place for place, element in enumerate(around)}
    by_row = sorted(around, key=lambda one: one.first)
    firsts = [element.first for element in by_row]
    for element in without:
        tag = element.tag
        gap, last = gaps.of(tag), -1
        while (place := bisect_right(firsts, gap) - 1) >= 0:
            other = by_row[place]
            is_behind = other.tag.opens < tag.opens
            if not other.first + (not is_behind) <= gap < other.last or order[id(other)] <= last:
                break
            gap, last = other.last if is_behind else other.first, order[id(other)]
        element.first = element.last = gap
        is_at_end = gap == outer.last and not is_root
        element.is_behind = outer.is_behind or (gap > outer.first and (is_at_end or tag.is_after))


class _Gaps:
    """The places between words at which tags without words stand."""

    def __init__(self, aligned_to: Sequence[int], rows: range) -> None:
        self._rows = rows
        self._first = {aligned_to[row]: row for row in reversed(rows)}
        self._last = {aligned_to[row]: row for row in rows}
        self._highest = list(accumulate((aligned_to[row] for row in rows), max))
        """The last source word that the words up to each row are aligned to."""

    def of(self, tag: Tag) -> int:
        """Return the row before which a tag stands."""
        if tag.is_after and (own := self._last.get(tag.start - 1)) is not None:
            return own + 1
        shared = [self._first[column] for column in range(tag.start, tag.end) if column in self._first]
        if shared:  # with an element beside it, which has the word
            return min(shared)
        return self._rows.start + bisect_left(self._highest, tag.start)
