"""Maps characters and words of a text to those of its edited version, and back."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

Span = tuple[int, int]
"""Index of the first of some characters, and of the character after the last."""
Value = TypeVar("Value")
_WORD = re.compile(r"\S+")


class Change(NamedTuple):
    """Replaces the characters of a text from `begin` to before `end` by `text`.

    It is an insertion if `begin` equals `end`, and a deletion if `text` is empty.
    """

    begin: int
    end: int
    text: str
    origin: Span | None = None
    """Characters of the source that `text` copies, if it brings back something that the model has not read."""
    one_to_one: bool = False
    """True if character i of `text` corresponds to the i-th replaced one, as where only case changes."""


class Run(NamedTuple):
    """Characters of the old and the new text that correspond one to one."""

    old: int
    """Index of the first one in the old text; `new` is its index in the new text."""
    new: int
    length: int


@dataclass(frozen=True, slots=True)
class Edits:
    """A text, its edited version, and the characters of both that correspond.

    Runs are characters that correspond one to one, in order. Between two runs is a gap: characters that are replaced,
    deleted or inserted as a whole. Composition joins gaps that touch, so spans are best mapped step by step.
    """

    old: str
    new: str
    runs: tuple[Run, ...]
    """The runs from left to right; none is empty, and no two touch in both texts."""

    @classmethod
    def identity(cls, text: str) -> Edits:
        """Return the edits that leave a text as it is."""
        return cls(text, text, (Run(0, 0, len(text)),) if text else ())

    @classmethod
    def of(cls, text: str, changes: Iterable[Change]) -> Edits:
        """Return the edits that some changes of a text make; the changes may come in any order.

        Insertions at the same place are written in the order in which they are given.

        Raises:
            ValueError: two changes overlap, or one lies outside of the text.
        """
        written: list[str] = []
        runs: list[Run] = []
        place = length = 0
        for change in sorted(changes, key=lambda one: (one.begin, one.end)):
            if not place <= change.begin <= change.end <= len(text):
                raise ValueError(f"the change {change} lies outside of the text, or overlaps one before it")
            _add(runs, Run(place, length, change.begin - place))
            written += [text[place : change.begin], change.text]
            length += change.begin - place
            is_same = change.one_to_one or text[change.begin : change.end] == change.text
            if is_same and len(change.text) == change.end - change.begin:
                _add(runs, Run(change.begin, length, len(change.text)))
            length += len(change.text)
            place = change.end
        _add(runs, Run(place, length, len(text) - place))
        return cls(text, "".join([*written, text[place:]]), tuple(runs))

    @property
    def is_identity(self) -> bool:
        """True if the texts are the same, character by character."""
        return self.old == self.new and self == Edits.identity(self.old)

    def compose(self, after: Edits) -> Edits:
        """Return the composition of these edits and of `after`, which edits the new text of these.

        Raises:
            ValueError: `after` edits another text.
        """
        if self.new != after.old:
            raise ValueError(f"edits of {after.old!r} cannot follow those that make {self.new!r}")
        runs: list[Run] = []
        following = iter(after.runs)
        other = next(following, None)
        for run in self.runs:
            while other is not None and other.old < run.new + run.length:
                begin = max(run.new, other.old)
                end = min(run.new + run.length, other.old + other.length)
                _add(runs, Run(run.old + begin - run.new, other.new + begin - other.old, end - begin))
                if other.old + other.length > run.new + run.length:
                    break
                other = next(following, None)
        return Edits(self.old, after.new, tuple(runs))

    def inverse(self) -> Edits:
        """Return the edits that turn the new text back into the old one."""
        return Edits(self.new, self.old, tuple(Run(run.new, run.old, run.length) for run in self.runs))

    def new_span(self, begin: int, end: int) -> Span:
        """Return the span of the new text for a span of the old one; a gap that it touches counts as a whole.

        Deleted text has an empty span at its place. An empty span stays empty, and right after the character before it.
        """
        if begin == end:
            place = self._new_end(begin - 1) if begin else 0
            return place, place
        return self._new_begin(begin), self._new_end(end - 1)

    def new_spans(self, spans: Iterable[Span]) -> list[Span]:
        """Return `new_span` of each span."""
        return list(spans) if self.is_identity else [self.new_span(*span) for span in spans]

    def old_span(self, begin: int, end: int) -> Span:
        """Return the span of the old text for a span of the new one; inserted text has an empty span."""
        return self.inverse().new_span(begin, end)

    def gaps(self) -> Iterator[tuple[Span, Span]]:
        """Yield the gaps between the runs, from left to right: the span of each in the old and in the new text."""
        old = new = 0
        for run in (*self.runs, Run(len(self.old), len(self.new), 0)):
            if (old, new) != (run.old, run.new):
                yield (old, run.old), (new, run.new)
            old, new = run.old + run.length, run.new + run.length

    def changes(self) -> list[Change]:
        """Return the changes of the old text that make these edits."""
        gaps = [Change(*old, self.new[slice(*new)]) for old, new in self.gaps()]
        runs = [
            Change(run.old, run.old + run.length, self.new[run.new : run.new + run.length], one_to_one=True)
            for run in self.runs
        ]
        return sorted([*gaps, *(run for run in runs if self.old[run.begin : run.end] != run.text)])

    def old_words(self) -> list[int | None]:
        """Return, for each word of the new text, the index of the old word with most of its characters, or None."""
        inverse, olds, found = self.inverse(), word_spans(self.old), list[int | None]()
        ends = [end for _, end in olds]
        for span in word_spans(self.new):
            begin, end = inverse.new_span(*span)
            best, most = None, 0
            for number in range(bisect_right(ends, begin), len(olds)):
                shared = min(end, olds[number][1]) - max(begin, olds[number][0])
                if olds[number][0] >= end:
                    break
                if shared > most:
                    best, most = number, shared
            found.append(best)
        return found

    def map_word_values(self, values: Sequence[Value], new: Value) -> list[Value]:
        """Return one value for each word of the new text, from `values` of the words of the old one.

        A word gets the value of the old word that has most of its characters, or `new` if there is none.
        """
        return [new if word is None else values[word] for word in self.old_words()]

    def _run_before(self, place: int) -> int:
        """Return the index of the last run that begins at or before a place of the old text; -1 if there is none."""
        return bisect_right(self.runs, place, key=_old) - 1

    def _new_begin(self, place: int) -> int:
        number = self._run_before(place)
        if number < 0:
            return 0
        run = self.runs[number]
        return run.new + min(place - run.old, run.length)

    def _new_end(self, place: int) -> int:
        """Return the place in the new text after the characters that correspond to a character of the old text."""
        number = self._run_before(place)
        if number >= 0 and place < self.runs[number].old + self.runs[number].length:
            return self.runs[number].new + place - self.runs[number].old + 1
        return self.runs[number + 1].new if number + 1 < len(self.runs) else len(self.new)


def word_spans(text: str) -> list[Span]:
    """Return the spans of the white-space words of a text."""
    return [word.span() for word in _WORD.finditer(text)]


def _old(run: Run) -> int:
    return run.old


def _add(runs: list[Run], run: Run) -> None:
    """Append a run to `runs`, unless it is empty; it is merged with the last one if they touch in both texts."""
    if run.length <= 0:
        return
    if runs and (last := runs[-1]).old + last.length == run.old and last.new + last.length == run.new:
        runs[-1] = last._replace(length=last.length + run.length)
    else:
        runs.append(run)
