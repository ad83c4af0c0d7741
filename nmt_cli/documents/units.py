"""A unit as the model sees it, and its translation with everything that the model did not see or may not change."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt_cli.documents.codes import (
    BY_ORDER,
    CODE,
    REFERENCE,
    TEXT_CODE,
    counts_of,
    with_references_last,
    without_strays,
)
from nmt_cli.documents.division import Shown, divided
from nmt_cli.documents.sentences import Unit
from nmt_cli.formats.segments import Atom, Kind, partners
from nmt_cli.formats.work import Work
from nmt_cli.normalization.elements import Tag
from nmt_cli.text.alignment import MAX_WEIGHTS, Link, Matrix
from nmt_cli.translation.markup import put_placeholders, with_tags
from nmt_cli.translation.results import Translation

_MANY_WORDS = 1_000
"""Words of a sentence from which on they are counted as parts: those of an ordinary one are soon forgotten."""
_MAX_WORD = 1_000_000
"""Characters of a word beyond which its sentence stays as it is: no other thread runs while it is searched."""
_SHORT_WORD = 3
"""Letters of a placeholder that may well be a word of the other language."""


class Restored(NamedTuple):
    """A unit in the target language."""

    chunks: list[str]
    """Text between the seams, in the document's own spelling; one more than there are seams."""
    num_lost: int
    """Placeholders that the model lost."""


@dataclass(frozen=True, slots=True)
class Line:
    """The line of a unit: the words that the model sees, and the places of all else among them."""

    words: list[str]
    tags: list[Tag]
    seams: list[int]
    """The number of the word that follows each."""
    placeholders: list[Atom]
    source: str
    """The unit as the document writes it."""

    @property
    def text(self) -> str:
        """Text for the model."""
        return " ".join(self.words)


def line_of(unit: Unit, raw: Callable[[Atom], str], work: Work) -> Line:
    """Return the line of a unit; `raw` gives what the translated document writes for a tag."""
    atoms = _distinct(unit.atoms)
    seen = [atom.shown for atom in atoms]
    places = list(accumulate(map(len, seen), initial=0))
    text = "".join(seen)
    words = re.finditer(r"\S+", text)
    spans = [word.span() for word in chain(islice(words, _MANY_WORDS), work.each(words))]
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    tags = []
    closing = partners(atoms)
    for place, atom in enumerate(atoms):
        work.step()
        at = places[place]
        first = bisect_right(ends, at)  # the word that ends after it
        if atom.kind not in (Kind.OPEN, Kind.ALONE):
            continue
        closes = closing.get(place, place)
        end_at = places[closes]
        last = bisect_left(starts, end_at)
        is_within = first < len(spans) and starts[first] < at
        close = raw(atoms[closes]) if atom.kind is Kind.OPEN else None
        if first < last and at < end_at:
            is_cut = ends[last - 1] > end_at
            tags.append(Tag(raw(atom), close, first, last, place, closes, cuts_first=is_within, cuts_last=is_cut))
            continue
        is_after = is_within or (first > 0 and ends[first - 1] == at)
        is_apart = not is_after and (first == len(spans) or starts[first] > end_at)
        start = first + is_within
        alone = Tag(raw(atom), close, start, start, place, closes, cuts_last=is_within)
        tags.append(replace(alone, is_after=is_after, is_apart=is_apart))
    seams = [bisect_right(ends, at) for atom, at in zip(atoms, places, strict=False) if atom.kind is Kind.SEAM]
    source = "".join(" " if atom.kind is Kind.SEAM else raw(atom) for atom in atoms)
    return Line(
        [text[begin:end] for begin, end in spans],
        tags,
        seams,
        [atom for atom in atoms if atom.kind is Kind.PLACEHOLDER],
        source,
    )


def _distinct(atoms: Sequence[Atom]) -> list[Atom]:
    """Return the atoms with other names for placeholders that could be taken for words of the text, as `__1__`."""
    counts = Counter(atom.text for atom in atoms if atom.kind is Kind.PLACEHOLDER)
    text = "".join(atom.shown for atom in atoms) if counts else ""
    there = _counts_in(text, counts)
    names = {
        name: f"__{number}__" if _is_like_a_word(name) or there[name] != count else name
        for number, (name, count) in enumerate(counts.items(), start=1)
    }
    return [replace(atom, text=names[atom.text]) if atom.kind is Kind.PLACEHOLDER else atom for atom in atoms]


def _counts_in(text: str, names: Iterable[str]) -> Counter[str]:
    """Return how often each name stands in a text, not within a word; names may overlap.

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


def _is_of_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _is_like_a_word(name: str) -> bool:
    return name.isalpha() and len(name) <= _SHORT_WORD


class _Names:
    """The names of placeholders, as they stand in a text and not within a word; of several at a place the longest.

    They are looked up by their first character and their length. A pattern of them all would have to be compiled for
    each sentence, which takes a millisecond for each name.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)
        lengths: dict[str, set[int]] = defaultdict(set)
        for name in names:
            lengths[name[0]].add(len(name))
        self._lengths = {first: sorted(of_first, reverse=True) for first, of_first in lengths.items()}

    def spans(self, text: str, start: int = 0) -> Iterator[tuple[int, int]]:
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

    def findall(self, text: str) -> list[str]:
        """Return the names in a text."""
        return [text[start:end] for start, end in self.spans(text)]

    def sub(self, new: Callable[[str], str], text: str) -> str:
        """Return a text with other words for the names in it."""
        parts, position = [], 0
        for start, end in self.spans(text):
            parts += [text[position:start], new(text[start:end])]
            position = end
        return "".join([*parts, text[position:]])


def _is_within_word(text: str, start: int, end: int) -> bool:
    """Return whether a name at a place in a text is a part of a longer word."""
    goes_on = text[end - 1].isalnum() and text[start] != "%" and _is_of_word(text[end : end + 1])
    return goes_on or (text[start].isalnum() and _is_of_word(text[start - 1 : start]) and start > 0)


def restored(
    line: Line,
    translation: Translation,
    spell: Callable[[str], str],
    shown: Sequence[Shown],
    raw: Callable[[Atom], str],
    signs: str = "",
    codes: re.Pattern[str] = CODE,
) -> Restored | None:
    """Return the translation with the tags, placeholders and seams of its line; None if that is not possible.

    It also has the placeholders of the terms that a glossary has brought in. `signs` are those that it may have though
    the line lacks them, `codes` the tags and placeholders to count. `shown` has the time and the text of each part
    between the seams, if there are seams.
    """
    is_plain = not (line.tags or line.placeholders or line.seams)
    brought = " ".join(use.translation for use in translation.terms if use.translation is not None)
    words = translation.text.split()
    if not is_plain and len(words) * len(line.words) > MAX_WEIGHTS:
        return None
    if max(map(len, words), default=0) > _MAX_WORD:
        return None
    own = _Placeholders(line, raw, TEXT_CODE if signs and "%" not in line.source + brought else codes)
    expected = counts_of(line.source, own.codes) + counts_of(spell(brought), own.codes)
    # Signs that the model wrote may make a placeholder of what stands beside them, so there are three attempts.
    for allowed in dict.fromkeys((own.signs + brought + signs, own.signs + brought, brought)):
        target = own.cleaned(words, allowed, counts_of(brought, own.codes))
        found = _restored(line, target, translation.weights, translation.links or (), own, spell, shown)
        if counts_of(" ".join(found.chunks), own.codes) in (expected, expected + own.parted):
            return found
    return None


def _restored(
    line: Line,
    target: list[str],
    given: Matrix | None,
    links: Sequence[Link],
    own: _Placeholders,
    spell: Callable[[str], str],
    shown: Sequence[Shown],
) -> Restored:
    if not (line.tags or line.placeholders or line.seams):
        return Restored([spell(" ".join(word for word in target if word))], 0)
    shape = len(target), len(line.words)
    weights: Matrix | NDArray[np.uint8]
    if given is not None and given.shape == shape:
        weights = given
    else:
        weights = _diagonal(*shape) if given is not None or not links else _of_links(links, *shape)
    num_lost = put_placeholders(line.words, target, weights, own.names) if line.placeholders else 0
    looks_at = [int(row.argmax()) for row in weights]
    looks_at += [len(line.words) - 1] * (len(target) - len(looks_at))
    target = own.in_order(target)
    cuts = [0, *divided(target, looks_at, line.seams, shown), len(target)]
    columns = [0, *line.seams, len(line.words)]
    chunks = []
    for part in range(len(cuts) - 1):
        rows, first, last = slice(cuts[part], cuts[part + 1]), columns[part], columns[part + 1]
        is_last = part == len(cuts) - 2
        tags = [tag for tag in line.tags if first <= tag.start and (tag.start < last or is_last)]
        inside = [min(max(column, first), max(first, last - 1)) for column in looks_at[rows]]
        chunks.append(with_tags(target[rows], tags, inside, lambda text: own.written(text, spell)))
    return Restored(chunks, num_lost)


def _diagonal(num_target: int, num_source: int) -> NDArray[np.uint8]:
    """Return weights that follow the order of the words, where the model has none."""
    weights = np.zeros((num_target, num_source), dtype=np.uint8)
    rows = np.arange(num_target)
    weights[rows, rows * num_source // max(num_target, 1)] = 1
    return weights


def _of_links(links: Sequence[Link], num_target: int, num_source: int) -> NDArray[np.uint8]:
    """Return weights of 1 for hard links, which long sentences have alone."""
    weights = np.zeros((num_target, num_source), dtype=np.uint8)
    for source, target in links:
        if source < num_source and target < num_target:
            weights[target, source] = 1
    return weights


class _Placeholders:
    """The placeholders of a line: what the model sees of each, and what the document writes for it."""

    def __init__(self, line: Line, raw: Callable[[Atom], str], codes: re.Pattern[str]) -> None:
        self._raws: dict[str, deque[str]] = defaultdict(deque)
        for atom in line.placeholders:
            self._raws[atom.text].append(raw(atom))
        self.names = _Names(self._raws)
        self.codes = codes
        # Text of the document may look like a reference only where references are placeholders.
        self._stray = with_references_last(codes) if any(map(REFERENCE.fullmatch, self._raws)) else codes
        self._by_order = [atom.text for atom in line.placeholders if BY_ORDER.match(atom.text)]
        self.signs = self.names.sub(lambda _: "", " ".join(line.words))
        """The text beside the placeholders, whose signs may stand in the translation too."""
        self.parted = (
            counts_of(line.text, codes)
            - Counter(atom.text for atom in line.placeholders)
            - counts_of(line.source, codes)
        )
        """Placeholders that the model sees because the tags within them are gone, such as the address in `a@<b>x.org`.
        They may stand in the translation, and need not."""

    def cleaned(self, target: Sequence[str], signs: str, brought: Counter[str]) -> list[str]:
        """Return the words without placeholders that neither the source nor a glossary has, or not as often."""
        left = Counter({name: len(raws) for name, raws in self._raws.items()}) + brought + self.parted

        def kept(name: str) -> str:
            inner = Counter(self.names.findall(name)) - Counter([name])
            if not left[name] or any(left[one] < count for one, count in inner.items()):
                return ""
            left[name] -= 1
            left.subtract(inner)
            return name

        words = []
        for word in target:
            parts, position = [], 0
            text = self._without_strays(word, kept)
            for start, end in self.names.spans(text):
                parts += [without_strays(text[position:start], signs), text[start:end]]
                position = end
            words.append("".join([*parts, without_strays(text[position:], signs)]))
        return words

    def _without_strays(self, word: str, kept: Callable[[str], str]) -> str:
        """Return a word with what `kept` returns for each placeholder in it; the names of the line come first."""
        parts, position = [], 0
        stray = self._stray.search(word)
        name = next(self.names.spans(word), None)
        while stray is not None or name is not None:
            span = name if stray is None or (name is not None and name[0] <= stray.start()) else stray.span()
            assert span is not None
            parts += [word[position : span[0]], kept(word[span[0] : span[1]])]
            position = span[1]
            if stray is not None and stray.start() < position:
                stray = self._stray.search(word, position)
            if name is not None and name[0] < position:
                name = next(self.names.spans(word, position), None)
        return "".join([*parts, word[position:]])

    def in_order(self, target: Sequence[str]) -> list[str]:
        """Return the words with directives that take the next argument in the order of the source."""
        if len(set(self._by_order)) < 2:
            return list(target)
        waiting = deque(self._by_order)

        def next_one(name: str) -> str:
            return waiting.popleft() if BY_ORDER.match(name) and waiting else name

        return [self.names.sub(next_one, word) for word in target]

    def written(self, text: str, spell: Callable[[str], str]) -> str:
        """Return a text as the document writes it; each placeholder is taken once."""
        parts, position = [], 0
        for start, end in self.names.spans(text):
            raws = self._raws[text[start:end]]
            # The same name may stand for several elements, which come in their order.
            raws.append(raws[0])
            parts += [spell(text[position:start]), raws.popleft()]
            position = end
        return "".join([*parts, spell(text[position:])])
