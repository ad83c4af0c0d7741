"""A unit as the model sees it, and its translation with everything that the model did not see or may not change."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from nmt_cli.documents.codes import BY_ORDER, CODE, REFERENCE, TEXT_CODE, counts_of, without_strays
from nmt_cli.documents.division import Shown, divided
from nmt_cli.documents.segments import Atom, Kind
from nmt_cli.documents.sentences import Unit, partners
from nmt_cli.translation.alignment import MAX_WEIGHTS, Link, Matrix
from nmt_cli.translation.elements import Tag
from nmt_cli.translation.markup import put_placeholders, with_tags
from nmt_cli.translation.results import Translation

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


def line_of(unit: Unit, raw: Callable[[Atom], str]) -> Line:
    """Return the line of a unit; `raw` gives what the translated document writes for a tag."""
    atoms = _distinct(unit.atoms)
    seen = [atom.shown for atom in atoms]
    places = list(accumulate(map(len, seen), initial=0))
    text = "".join(seen)
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    tags = []
    closing = partners(atoms)
    for place, atom in enumerate(atoms):
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
    words = [text[start:end] for start, end in spans]
    source = "".join(" " if atom.kind is Kind.SEAM else raw(atom) for atom in atoms)
    return Line(words, tags, seams, [atom for atom in atoms if atom.kind is Kind.PLACEHOLDER], source)


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
    """Return how often each name stands in a text, not within a word, as `_exactly` finds it; names may overlap.

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
            is_within = first.isalnum() and _is_of_word(text[start - 1 : start])
            is_cut = name[-1].isalnum() and first != "%" and _is_of_word(text[end : end + 1])
            if not is_within and not is_cut:
                counts[name] += 1
                ends[name] = end
    return counts


def _is_of_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _is_like_a_word(name: str) -> bool:
    return name.isalpha() and len(name) <= _SHORT_WORD


def _exactly(name: str) -> str:
    """Return a pattern of a placeholder that does not stand within a word."""
    before = r"(?<!\w)" if name[0].isalnum() else ""
    after = r"(?!\w)" if name[-1].isalnum() and not name.startswith("%") else ""
    return before + re.escape(name) + after


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
    if not is_plain and len(translation.text.split()) * len(line.words) > MAX_WEIGHTS:
        return None
    own = _Placeholders(line, raw, TEXT_CODE if signs and "%" not in line.source + brought else codes)
    expected = counts_of(line.source, own.codes) + counts_of(spell(brought), own.codes)
    # Signs that the model wrote may make a placeholder of what stands beside them, so there are three attempts.
    for allowed in dict.fromkeys((own.signs + brought + signs, own.signs + brought, brought)):
        target = own.cleaned(translation.text.split(), allowed, counts_of(brought, own.codes))
        found = _restored(line, target, translation.weights, translation.links or (), own, spell, shown)
        if counts_of(" ".join(found.chunks), own.codes) in (expected, expected + own.parted):
            return found
    return None


def _restored(
    line: Line,
    target: list[str],
    weights: Matrix | None,
    links: Sequence[Link],
    own: _Placeholders,
    spell: Callable[[str], str],
    shown: Sequence[Shown],
) -> Restored:
    if not (line.tags or line.placeholders or line.seams):
        return Restored([spell(" ".join(word for word in target if word))], 0)
    shape = len(target), len(line.words)
    if weights is None or weights.shape != shape:
        weights = _diagonal(*shape) if weights is not None or not links else _of_links(links, *shape)
    num_lost = put_placeholders(line.words, target, weights, own.pattern) if line.placeholders else 0
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


def _diagonal(num_target: int, num_source: int) -> Matrix:
    """Return weights that follow the order of the words, where the model has none."""
    weights = np.zeros((num_target, num_source))
    rows = np.arange(num_target)
    weights[rows, rows * num_source // max(num_target, 1)] = 1.0
    return weights


def _of_links(links: Sequence[Link], num_target: int, num_source: int) -> Matrix:
    """Return weights of 1 for hard links, which long sentences have alone."""
    weights = np.zeros((num_target, num_source))
    for source, target in links:
        if source < num_source and target < num_target:
            weights[target, source] = 1.0
    return weights


class _Placeholders:
    """The placeholders of a line: what the model sees of each, and what the document writes for it."""

    def __init__(self, line: Line, raw: Callable[[Atom], str], codes: re.Pattern[str]) -> None:
        self._raws: dict[str, deque[str]] = defaultdict(deque)
        for atom in line.placeholders:
            self._raws[atom.text].append(raw(atom))
        names = sorted(self._raws, key=len, reverse=True)
        any_name = "|".join(map(_exactly, names)) or "(?!)"
        self.pattern = re.compile(any_name)
        self.codes = codes
        # Text of the document may look like a reference only where references are placeholders.
        references = "|" + REFERENCE.pattern if any(map(REFERENCE.fullmatch, names)) else ""
        self._stray = re.compile(f"({any_name})|{codes.pattern}{references}")
        self._by_order = [atom.text for atom in line.placeholders if BY_ORDER.match(atom.text)]
        self.signs = self.pattern.sub("", " ".join(line.words))
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

        def kept(match: re.Match[str]) -> str:
            name = match[0]
            inner = Counter(self.pattern.findall(name)) - Counter([name])
            if not left[name] or any(left[one] < count for one, count in inner.items()):
                return ""
            left[name] -= 1
            left.subtract(inner)
            return name

        words = []
        for word in target:
            parts, position = [], 0
            text = self._stray.sub(kept, word)
            for match in self.pattern.finditer(text):
                parts += [without_strays(text[position : match.start()], signs), match[0]]
                position = match.end()
            words.append("".join([*parts, without_strays(text[position:], signs)]))
        return words

    def in_order(self, target: Sequence[str]) -> list[str]:
        """Return the words with directives that take the next argument in the order of the source."""
        if len(set(self._by_order)) < 2:
            return list(target)
        waiting = deque(self._by_order)

        def next_one(match: re.Match[str]) -> str:
            return waiting.popleft() if BY_ORDER.match(match[0]) and waiting else match[0]

        return [self.pattern.sub(next_one, word) for word in target]

    def written(self, text: str, spell: Callable[[str], str]) -> str:
        """Return a text as the document writes it; each placeholder is taken once."""
        parts, position = [], 0
        for match in self.pattern.finditer(text):
            raws = self._raws[match[0]]
            # The same name may stand for several elements, which come in their order.
            raws.append(raws[0])
            parts += [spell(text[position : match.start()]), raws.popleft()]
            position = match.end()
        return "".join([*parts, spell(text[position:])])
