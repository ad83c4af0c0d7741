"""Finds the names of placeholders in a text, many at once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator

from nmt_cli.text.edits import Span
from nmt_cli.text.letters import OTHER_SCRIPTS


def count_names(text: str, names: Iterable[str]) -> Counter[str]:
    """Return how often each name occurs in a text, but not within a longer word; names may overlap.

    The text is read once, and not for each name: where a name may begin, the lengths of such names are tried.
    """
    groups: dict[tuple[str, int], set[str]] = defaultdict(set)
    for name in names:
        groups[name[0], len(name)].add(name)
    places: dict[str, list[int]] = {first: [] for first, _ in groups}
    for place, character in enumerate(text if places else ""):
        if character in places:
            places[character].append(place)
    counts: Counter[str] = Counter()
    for (first, length), some in groups.items():
        ends: dict[str, int] = {}
        for start in places[first]:
            name, end = text[start : start + length], start + length
            if name not in some or start < ends.get(name, 0):
                continue
            if not _is_within_word(text, start, end):
                counts[name] += 1
                ends[name] = end
    return counts


class NameFinder:
    """Finds the names of placeholders in a text, but not within a longer word; of several at a place, the longest.

    They are looked up by their first character and their length. A pattern of them all would have to be compiled for
    each sentence, which takes a millisecond for each name.
    """

    def __init__(self, names: Collection[str]) -> None:
        """Look for these names, none of which is empty."""
        self._names = frozenset(names)
        lengths: dict[str, set[int]] = defaultdict(set)
        for name in names:
            lengths[name[0]].add(len(name))
        self._lengths = {first: sorted(of_first, reverse=True) for first, of_first in lengths.items()}

    def spans(self, text: str, start: int = 0) -> Iterator[Span]:
        """Yield the begin and the end of each name, from left to right; they do not overlap."""
        if not self._names:
            return
        place = start
        while place < len(text):
            end = self._end_at(text, place)
            if end is not None:
                yield place, end
            place = place + 1 if end is None else end

    def _end_at(self, text: str, place: int) -> int | None:
        for length in self._lengths.get(text[place], ()):
            end = place + length
            if end <= len(text) and text[place:end] in self._names and not _is_within_word(text, place, end):
                return end
        return None


def _is_one_word(inner: str, outer: str) -> bool:
    """Return whether a character at the edge of a name and the one outside belong to one word.

    Scripts that are not like Latin write a name in Latin letters without a blank beside it.
    """
    if not inner.isalnum() or not (outer == "_" or outer.isalnum()):
        return False
    return bool(OTHER_SCRIPTS.match(inner)) == bool(OTHER_SCRIPTS.match(outer))


def _is_within_word(text: str, start: int, end: int) -> bool:
    """Return whether a name at a place in a text is a part of a longer word."""
    goes_on = text[start] != "%" and _is_one_word(text[end - 1], text[end : end + 1])
    return goes_on or (start > 0 and _is_one_word(text[start], text[start - 1]))
