"""Elements of a line, and the place of each in its translation.

An element is a tag with what it encloses. Elements that stand side by side in the source do so in the translation, and
nested ones stay nested: a page may not have a link within a link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


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


def placed(tags: Sequence[Tag], looks_at: Sequence[int]) -> Element:
    """Return an element around the whole translation, with the tags at their places within it.

    `looks_at` has the source word that each word of the translation looks at. A tag goes around the longest run of
    words that look at what it enclosed, where a run ends at a word that looks at an element beside it. Then the runs of
    two elements that stood side by side cannot overlap. Within a nested element only the words of the outer one count.
    """
    root = _tree(tags)
    root.last = len(looks_at)
    holders = _holders(tags)
    aims = [holders.get(column) for column in looks_at]
    waiting = [root]
    while waiting:  # no recursion: a line may nest its tags deeper than Python's stack is
        outer = waiting.pop()
        _place_within(outer, aims, looks_at, is_root=outer is root)
        waiting += outer.inner
    return root


def _tree(tags: Sequence[Tag]) -> Element:
    """Return the elements within each other: those that are open in the order given, the others as in the source."""
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


def _holders(tags: Sequence[Tag]) -> dict[int, Tag]:
    """Return the innermost tag around each word; a word that two elements have a part of belongs to the first."""
    holders: dict[int, Tag] = {}
    for tag in sorted(tags, key=lambda tag: tag.opens):
        for column in range(tag.start, tag.end):
            if column not in holders or holders[column].encloses(tag):
                holders[column] = tag
    return holders


def _place_within(outer: Element, aims: Sequence[Tag | None], looks_at: Sequence[int], *, is_root: bool) -> None:
    """Give the elements that are directly within one their places; `aims` has the holder of each word's source word."""
    start = outer.first
    without: list[Element] = []
    for element in outer.inner:
        runs = _runs(element.tag, aims, range(start, outer.last))
        if element.tag.is_open:
            own = runs[0] if runs else []
            element.last = start = min(max([*own, 0]) + 1, outer.last)
        elif runs:
            own = max(runs, key=lambda run: (_num_held(element, [aims[row] for row in run]), len(run)))
            element.first, element.last = own[0], own[-1] + 1
        else:
            without.append(element)
    around = [element for element in outer.inner if element.first < element.last]
    for element in without:
        tag = element.tag
        gap = _gap(tag, looks_at, range(start, outer.last))
        for other in around:
            is_behind = other.tag.opens < tag.opens
            if other.first + (not is_behind) <= gap < other.last:
                gap = other.last if is_behind else other.first
        element.first = element.last = gap
        is_at_end = gap == outer.last and not is_root
        element.is_behind = outer.is_behind or (gap > outer.first and (is_at_end or tag.is_after))
    outer.inner.sort(key=lambda one: (not one.tag.is_open, one.first, one.last, one.tag.opens))


def _runs(tag: Tag, aims: Sequence[Tag | None], rows: range) -> list[list[int]]:
    """Return the rows that look at what a tag encloses, parted where one looks at an element beside it."""
    runs: list[list[int]] = [[]]
    for row in rows:
        aim = aims[row]
        if tag.holds(aim):
            runs[-1].append(row)
        elif aim is not None and aim.is_beside(tag) and runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _num_held(element: Element, aims: Sequence[Tag | None]) -> int:
    """Return how many of the elements within one have a word that looks at them."""
    return sum(any(inner.tag.holds(aim) for aim in aims) for inner in element.inner)


def _gap(tag: Tag, looks_at: Sequence[int], rows: range) -> int:
    """Return the row before which a tag stands that has no words."""
    if tag.is_after and (own := [row for row in rows if looks_at[row] == tag.start - 1]):
        return own[-1] + 1
    shared = next((row for row in rows if tag.start <= looks_at[row] < tag.end), None)
    if shared is not None:  # with an element beside it, which has the word
        return shared
    return next((row for row in rows if looks_at[row] >= tag.start), rows.stop)
