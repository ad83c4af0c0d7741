"""Placeholders stay as they are, and the translation has each as often as the line.

The model reads each as one word, its name, and may generate it. A placeholder that it has lost takes the place of the
word that is most aligned to it; in scripts without blanks, it is put before the characters most aligned to it.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from nmt_cli.normalization.codes import code_pattern
from nmt_cli.normalization.placeholder_names import NameFinder, count_names
from nmt_cli.normalization.placing import AlignedWords, monotonic_alignment, source_units, target_units
from nmt_cli.normalization.step import RestoringStep
from nmt_cli.text.edits import Change, Span
from nmt_cli.text.letters import WITHOUT_SPACES
from nmt_cli.text.line import CodeKind, Line, UndoRecord
from nmt_cli.text.translation import Translation
from nmt_cli.text.unit_alignment import Alignment

_NAMED = r"<\w|[{\[(]|\d+[$:]|L?(?:\d+|n)$|[\w.-]+%$|(?!(?:hh|ll|[hlLqjzt])[A-Za-z]$)[A-Za-z][\w-]+$"
"""Text after `%` that gives the name or number of the argument. `%lld` has a length, and `%user` has a name."""
SEQUENTIAL_DIRECTIVE = re.compile(rf"%(?!%|{_NAMED})|~(?![%&~])|\{{(?:[:!][^{{}}]*)?\}}$")
"""Beginning of a directive that takes the next argument; the order of such directives must not change."""
_NO_TEXT = code_pattern(())
_MAX_NAME_LENGTH = 40
_SHORT_WORD = 3
"""Letters of the longest name that may well be a word of the other language."""
_LONG_WORD = 15
"""Most characters around placeholders that are written with them. More are text, as in scripts without spaces."""
_DIGIT = re.compile(r"\d")
"""A word with a digit is a number, whose place no placeholder takes."""
_MARKS = ".,;:!?…"
_NUMBERED_NAME = re.compile(r"(?=__([0-9]{1,9})__)")
_LIKE_A_WORD = re.compile(r"[:!][A-Za-z]")


class Placeholder(NamedTuple):
    """The span of a placeholder in a line, and the word that the model reads in its place."""

    name: str
    """The word that the model reads in its place."""
    begin: int
    end: int
    """Index after its last character in the line whose placeholders have not been replaced yet."""


class Placeholders(RestoringStep):
    """Replaces each placeholder by a name of one word, and puts the placeholders into the translation."""

    name = "placeholders"

    def read(self, line: Line) -> Line:
        """Return the line with each placeholder replaced by its name, a word that no later step may change."""
        own = [code for code in line.codes or () if code.kind is CodeKind.PLACEHOLDER and code.begin < code.end]
        if not own:
            return line
        names = choose_names(line.text, [(code.begin, code.end, code.name) for code in own])
        found = tuple(Placeholder(name, code.begin, code.end) for name, code in zip(names, own, strict=True))
        spans = [(one.begin, one.end) for one in found]
        words = [*_words_around(line.text, spans)]
        return line.apply_step(
            self.name,
            [Change(one.begin, one.end, one.name) for one in found],
            found,
            non_text_spans=[span for span in words if line.is_free(*span)] or spans,
            needs_alignment=True,
        )

    def undo(self, undo: UndoRecord, translation: Translation) -> list[Change]:
        """Return the changes that write each placeholder as often as the line has it; none within a prefix."""
        return restore_placeholders(undo, translation)[0]


def restore_placeholders(
    undo: UndoRecord, translation: Translation, strays: Callable[[str, Sequence[Span]], Iterable[Span]] | None = None
) -> tuple[list[Change], int]:
    """Return the changes that bring placeholders back into a translation, and the number that the model had lost.

    `strays` gets a text and the spans of its known names, and yields the spans that look like placeholders and must go.
    """
    placeholders: Sequence[Placeholder] = undo.data
    names = NameFinder({one.name for one in placeholders})
    waiting: dict[str, deque[int]] = defaultdict(deque)
    for number, one in enumerate(placeholders):
        waiting[one.name].append(number)
    there: list[tuple[Span, int]] = []
    removed: list[Span] = []
    for begin, end in names.spans(translation.text):
        own = waiting[translation.text[begin:end]]
        if own:
            number = own.popleft()
            if begin >= translation.prefix_length:
                there.append(((begin, end), number))
        elif begin >= translation.prefix_length:
            removed.append((begin, end))
    if strays is not None:
        kept = sorted([*(span for span, _ in there), *removed])
        removed += [span for span in strays(translation.text, kept) if span[0] >= translation.prefix_length]
    missing = sorted(number for numbers in waiting.values() for number in numbers)
    finder = _PlaceFinder(undo, translation, placeholders, [span for span, _ in there], removed)
    placed = [*finder.places_of(missing)]
    filled = sorted(span for span, *_ in placed)  # perhaps the place of what is removed
    removed = [one for one in removed if not _overlapping(filled, *one)]
    insertions = _insertions(undo.edits.old, placeholders, [*there, *placed])
    return [*insertions, *_removals(translation.text, removed)], len(missing)


def _insertions(
    text: str, placeholders: Sequence[Placeholder], places: Iterable[tuple[Span, int, str, str] | tuple[Span, int]]
) -> Iterator[Change]:
    """Yield the change that writes a placeholder at each place.

    A place is a span, the index of the placeholder, and perhaps the text before and after it. Directives that take the
    next argument are written in the order of the line.
    """
    found = sorted(((*one, "", "")[:4] for one in places), key=lambda one: (one[0], one[1]))
    by_order = {number for _, number, _, _ in found if SEQUENTIAL_DIRECTIVE.match(_raw(text, placeholders[number]))}
    ordered = deque(sorted(by_order)) if len({_raw(text, placeholders[number]) for number in by_order}) > 1 else deque()
    for (begin, end), number, before, after in found:
        if ordered and number in by_order:
            number = ordered.popleft()
        own = placeholders[number]
        yield Change(begin, end, before + _raw(text, own) + after, (own.begin, own.end))


def _raw(text: str, own: Placeholder) -> str:
    return text[own.begin : own.end]


def _removals(text: str, spans: Iterable[Span]) -> Iterator[Change]:
    """Yield the changes that delete the given spans, a whole word with the blank after it.

    A span that overlaps an earlier one is left out.
    """
    last = 0
    for begin, end in sorted(spans):
        if begin < last:
            continue
        last = end
        is_word = not text[begin - 1 : begin].strip() and not text[end : end + 1].strip()
        yield Change(begin, end + (is_word and end < len(text)), "")


class _PlaceFinder:
    """Finds places for placeholders that the model has lost."""

    def __init__(
        self,
        undo: UndoRecord,
        translation: Translation,
        placeholders: Sequence[Placeholder],
        taken: Sequence[Span],
        removed: Sequence[Span],
    ) -> None:
        self._places = undo.edits.new_spans([(one.begin, one.end) for one in placeholders])
        self._source, self._translation = undo.edits.new, translation
        self._taken, self._removed = sorted(taken), sorted(removed)
        self._of_unit: dict[int, list[int]] = defaultdict(list)
        """Indices of all placeholders within each source word, by the index of the word."""

    def places_of(self, missing: Sequence[int]) -> Iterator[tuple[Span, int, str, str]]:
        """Yield, for each missing placeholder, the span to replace, its index, and the text before and after it."""
        if not missing:
            return
        translation = self._translation
        alignment = translation.alignment or monotonic_alignment(self._source, translation.text)
        sources = source_units(alignment, self._source, [place for span in self._places for place in span])
        targets = target_units(alignment, translation.text)
        words = AlignedWords(translation.text, targets, ())
        ends = [end for _, end in sources]
        units = [min(bisect_right(ends, begin), max(len(sources) - 1, 0)) for begin, _ in self._places]
        for number, unit in enumerate(units):
            self._of_unit[unit].append(number)
        free = _FreeWords(
            alignment, sources, targets, [row for row, span in enumerate(targets) if self._is_free(*span)]
        )
        of_unit: dict[int, list[int]] = defaultdict(list)
        for number in missing:
            of_unit[units[number]].append(number)
        for unit, numbers in of_unit.items():
            yield from self._places_for_unit(
                free.take_word_for(unit), words, sources[unit], self._of_unit[unit], numbers
            )

    def _is_free(self, begin: int, end: int) -> bool:
        """Return whether a lost placeholder may take the place of the word of the translation with this span."""
        if begin < self._translation.prefix_length or _overlapping(self._taken, begin, end):
            return False
        own = _overlapping(self._removed, begin, end)
        if any(first < begin or end < last for first, last in own):
            return False
        left, place = "", begin
        for first, last in own:
            left, place = left + self._translation.text[place:first], last
        return not _DIGIT.search(left + self._translation.text[place:end])

    def _places_for_unit(
        self, row: int | None, words: AlignedWords, unit: Span, own: Sequence[int], numbers: Sequence[int]
    ) -> Iterator[tuple[Span, int, str, str]]:
        """Yield places as `places_of` does, for the missing placeholders `numbers` of one source word (span `unit`).

        They replace the word `row` of the translation. In scripts without spaces they are put before it, and without a
        `row` at the end.
        """
        text = self._translation.text
        before, after, blank = self._text_around(unit, own, numbers)
        if row is None:
            begin = end = len(text)
            before = " " * (bool(text) and words.has_blanks and not text[-1].isspace()) + before
        else:
            begin, end = words.spans[row]
            if WITHOUT_SPACES.search(text, begin, end):  # perhaps a part of a longer word
                end, before, after = begin, "", ""
            else:
                gone = [last for _, last in _overlapping(self._removed, begin, end)]
                end = max([begin + len(text[begin:end].rstrip(_MARKS)), *gone])
                end = words.spans[row][1] if end == begin else end
        for place, number in enumerate(numbers):
            span = (begin, end) if not place else (end, end)
            yield span, number, blank if place else before, after * (place + 1 == len(numbers))

    def _text_around(self, unit: Span, own: Sequence[int], numbers: Sequence[int]) -> tuple[str, str, str]:
        """Return the text before, after and between the placeholders of a source word, to be written around them.

        Final marks are left out. It is two empty texts and a blank if some placeholders of the word are not missing, or
        the text is more than punctuation.
        """
        if own != list(numbers):
            return "", "", " "
        (begin, end), text = unit, self._source
        first, last = self._places[own[0]][0], self._places[own[-1]][1]
        inner = [text[self._places[one][1] : self._places[other][0]] for one, other in itertools.pairwise(own)]
        rest = text[begin:first] + "".join(inner) + text[last:end]
        if len(rest) > _LONG_WORD or WITHOUT_SPACES.search(rest) or len(set(inner)) > 1:
            return "", "", " "
        return text[begin:first], text[last:end].rstrip(_MARKS), inner[0] if inner else " "


class _FreeWords:
    """The words of a translation that lost placeholders may replace; each word is given out once."""

    def __init__(
        self, alignment: Alignment, sources: Sequence[Span], targets: Sequence[Span], rows: Sequence[int]
    ) -> None:
        self._rows = list(rows)
        self._weights = (
            None if alignment.weights is None or not rows else alignment.word_weights(sources, targets)[rows]
        )
        aligned_to = alignment.aligned_to(sources, targets) if alignment.weights is None else ()
        self._rows_by_unit: dict[int, deque[int]] = defaultdict(deque)
        for row in rows if aligned_to else ():
            self._rows_by_unit[aligned_to[row]].append(row)

    def take_word_for(self, unit: int) -> int | None:
        """Take the free word most aligned to source word `unit`, and return its index; None if none is left.

        Without weights, take the first free word that is aligned to it, or else the nearest one.
        """
        if not self._rows:
            return None
        if self._weights is not None:
            place = int(self._weights[:, unit].argmax())
            if self._weights[place, unit] < 0:
                return None
            self._weights[place] = -1.0
            return self._rows[place]
        looking = self._rows_by_unit[unit]
        while looking:
            place = bisect_left(self._rows, looking[0])
            row = looking.popleft()
            if place < len(self._rows) and self._rows[place] == row:
                return self._rows.pop(place)
        place = bisect_left(self._rows, unit)
        is_before = place == len(self._rows) or (place > 0 and unit - self._rows[place - 1] < self._rows[place] - unit)
        return self._rows.pop(place - is_before)


def _overlapping(spans: Sequence[Span], begin: int, end: int) -> Sequence[Span]:
    """Return the spans that overlap a given one; `spans` are sorted, and do not overlap each other."""
    first = bisect_right(spans, begin, key=_end)
    return spans[first : bisect_left(spans, end, key=_begin)]


def _begin(span: Span) -> int:
    return span[0]


def _end(span: Span) -> int:
    return span[1]


def _words_around(text: str, spans: Iterable[Span]) -> Iterator[Span]:
    """Yield the span of the white-space word around each given span; it does not extend over scripts without spaces."""
    first = last = 0
    for begin, end in spans:
        if first <= begin and end <= last:
            yield first, last
            continue
        first, last = begin, end
        while first and not text[first - 1].isspace() and not WITHOUT_SPACES.match(text[first - 1]):
            first -= 1
        while last < len(text) and not text[last].isspace() and not WITHOUT_SPACES.match(text[last]):
            last += 1
        yield first, last


def choose_names(text: str, spans: Sequence[tuple[int, int, str]]) -> list[str]:
    """Return the word that the model reads for each placeholder, given by its span and its name, which may be empty.

    A placeholder that could be taken for a word of the text is read as `__1__` or the like.
    """
    own = [name or default_name(text[begin:end]) for begin, end, name in spans]
    counts = Counter(own)
    parts, position = [], 0
    for (begin, end, _), name in zip(spans, own, strict=True):
        parts += [text[position:begin], name]
        position = end
    there = count_names("".join([*parts, text[position:]]), counts)
    given = {name for name, (_, _, own_name) in zip(own, spans, strict=True) if own_name}
    # Two names that touch would look like one word.
    touching = {
        name
        for n, (one, other) in enumerate(itertools.pairwise(spans))
        if one[1] == other[0]
        for name in own[n : n + 2]
    }

    def is_clear(name: str) -> bool:
        if (name.isalpha() and len(name) <= _SHORT_WORD) or _LIKE_A_WORD.match(name):
            return False
        if name in touching and (name[0].isalnum() or name[-1].isalnum()):
            return False
        return name in given or _NO_TEXT.search(name) is not None

    taken = set(_NUMBERED_NAME.findall(text))
    numbered_names = (f"__{number}__" for number in itertools.count(1) if str(number) not in taken)
    read = {}
    for (name, count), numbered_name in zip(counts.items(), numbered_names, strict=False):
        read[name] = name if is_clear(name) and there[name] == count else numbered_name
    return [read[name] for name in own]


def default_name(text: str) -> str:
    """Return the word that the model reads for a placeholder without a name.

    It is the beginning of the placeholder, with `_` for blanks, or of an ICU plural its argument: `{count}`.
    """
    if plural := re.match(r"\{\s*(\w+)\s*,", text):
        return f"{{{plural[1]}}}"
    return re.sub(r"\s+", "_", text.strip())[:_MAX_NAME_LENGTH]
