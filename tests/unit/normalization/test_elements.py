"""Places of elements in a translation, compared with a search of all words for each element."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from marks import some_or_all

from nmt_cli.normalization import elements
from nmt_cli.normalization.elements import Element, Tag
from nmt_cli.normalization.tags import TaggedLine, Tags
from nmt_cli.text.edits import word_spans
from nmt_cli.text.line import Line
from nmt_cli.text.unit_alignment import Alignment


def holders_of(tags: Sequence[Tag]) -> dict[int, Tag]:
    """Return the innermost tag around each word; a word that two elements have a part of belongs to the first."""
    holders: dict[int, Tag] = {}
    for tag in sorted(tags, key=lambda tag: tag.open_index):
        for column in range(tag.start, tag.end):
            if column not in holders or holders[column].encloses(tag):
                holders[column] = tag
    return holders


def runs_of(tag: Tag, aims: Sequence[Tag | None], rows: range) -> list[list[int]]:
    """Return the rows that look at what a tag encloses, parted where one looks at an element beside it."""
    runs: list[list[int]] = [[]]
    for row in rows:
        aim = aims[row]
        if tag.holds(aim):
            runs[-1].append(row)
        elif aim is not None and aim.is_beside(tag) and runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def gap_of(tag: Tag, aligned_to: Sequence[int], rows: range) -> int:
    """Return the row before which a tag stands that has no words."""
    if tag.is_after and (own := [row for row in rows if aligned_to[row] == tag.start - 1]):
        return own[-1] + 1
    shared = next((row for row in rows if tag.start <= aligned_to[row] < tag.end), None)
    return next((row for row in rows if aligned_to[row] >= tag.start), rows.stop) if shared is None else shared


def place_within(outer: Element, aims: Sequence[Tag | None], aligned_to: Sequence[int], *, is_root: bool) -> None:
    """Give the elements that are directly within one their places, and those within them."""
    rows = range(outer.first, outer.last)
    for element in outer.inner:
        if runs := runs_of(element.tag, aims, rows):

            def weight(run: Sequence[int], inner: Sequence[Element] = element.inner) -> tuple[int, int]:
                return sum(any(one.tag.holds(aims[row]) for row in run) for one in inner), len(run)

            own = max(runs, key=weight)
            element.first, element.last = own[0], own[-1] + 1
    around = [element for element in outer.inner if element.first < element.last]
    for element in outer.inner:
        if element in around:
            continue
        gap = gap_of(element.tag, aligned_to, rows)
        for other in around:
            is_behind = other.tag.open_index < element.tag.open_index
            if other.first + (not is_behind) <= gap < other.last:
                gap = other.last if is_behind else other.first
        element.first = element.last = gap
        is_at_end = gap == outer.last and not is_root
        element.is_behind = outer.is_behind or (gap > outer.first and (is_at_end or element.tag.is_after))
    outer.inner.sort(key=lambda one: (one.first, one.last, one.tag.open_index))
    for element in outer.inner:
        place_within(element, aims, aligned_to, is_root=False)


def shown(element: Element) -> tuple[object, ...]:
    own = (element.tag.open_index, element.first, element.last, element.is_behind)
    return (*own, *map(shown, element.inner))


def read(raw: str) -> tuple[list[Tag], int]:
    """The tags of a line among the words that are read, none of which needs a word, and the number of words."""
    line = Tags().read(Line.of(raw))
    spans = tuple(word_spans(line.text))
    if not line.undo_records:
        return [], len(spans)
    reading = TaggedLine.of(line.undo_records[0].edits, line.undo_records[0].data, Alignment(spans, spans, None, ()))
    return [replace(tag, needs_words=False) for tag in reading.tags], len(spans)


@some_or_all(1_500)
def test_elements_have_the_places_that_a_search_of_all_words_finds(num: int):
    draw = random.Random(0)
    parts = ["a", "b ", "c d ", " ", "<b>", "</b>", "<i>", "</i>", "<u>", "</u>", "<br/>", ". "]
    for _ in range(num):
        tags, num_words = read("".join(draw.choices(parts, k=draw.randint(2, 30))))
        if not num_words:
            continue
        aligned_to = [draw.choice([min(row, num_words - 1), draw.randrange(num_words)]) for row in range(num_words + 2)]
        aligned_to = [*aligned_to[: draw.randint(0, num_words + 2)], *[-1] * draw.randint(0, 1)]
        root = elements._tree(tags)
        root.last = len(aligned_to)
        holders = holders_of(tags)
        place_within(root, [holders.get(column) for column in aligned_to], aligned_to, is_root=True)
        assert shown(elements.place_elements(tags, aligned_to)) == shown(root)
