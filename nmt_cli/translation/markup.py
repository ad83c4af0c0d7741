"""What a translation must not change, carried across by the alignment: tags, placeholders, words unknown to the model.

Tags (`<b>`, `</b>`, `<br/>`) are taken out before the model sees a line and put around the target words that look at
what they enclosed. Placeholders (`__URL__`) and unknown words stand in the place of the target word that looks at them
most. Nothing is lost: what has no place goes where its neighbours went, or to the end.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nmt_cli.translation.alignment import Matrix

_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_PLACEHOLDER = re.compile(r"__[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*__")
_VOID = re.compile("area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr", re.IGNORECASE)
"""Names of HTML tags that stand alone without a slash."""
UNKNOWN = "⁇"
"""How SentencePiece writes a piece that it does not know."""


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


@dataclass(frozen=True, slots=True)
class PlainLine:
    """A line without its tags."""

    text: str
    tags: tuple[Tag, ...]
    """In the order of their beginning."""

    @property
    def has_unpaired_tag(self) -> bool:
        """True if a tag that should enclose text is never closed, or is closed but never opened."""
        alone = [tag.text for tag in self.tags if tag.closing is None and not tag.text.endswith("/>")]
        return any(text.startswith("</") or not _VOID.fullmatch(_name(text)) for text in alone)


def strip_tags(line: str, symbols: Collection[str] = ()) -> PlainLine:
    """Take the tags out of a line, but for `symbols`, which the model knows; tags without a partner stand alone."""
    plain: list[str] = []
    place = 0
    open_tags: list[tuple[str, str, int, int]] = []
    tags: list[tuple[int, Tag]] = []
    position = 0
    for order, match in enumerate(match for match in _TAG.finditer(line) if match[0] not in symbols):
        plain.append(line[position : match.start()])
        place += len(plain[-1].split())
        position = match.end()
        text = match[0]
        name = _name(text)
        if text.startswith("</") and any(opened[1] == name for opened in open_tags):
            index = max(i for i, opened in enumerate(open_tags) if opened[1] == name)
            begin, _, start, first = open_tags.pop(index)
            tags.append((first, Tag(begin, text, start, place)))
        elif text.startswith("</") or text.endswith("/>"):
            tags.append((order, Tag(text, None, place, place)))
        else:
            open_tags.append((text, name, place, order))
    tags.extend((order, Tag(text, None, start, start)) for text, _, start, order in open_tags)
    plain.append(line[position:])
    # A tag inside a word parts it: "<b>a</b>b" is two words to the model, and to whoever counts them.
    text = line if not tags else " ".join(" ".join(plain).split())
    return PlainLine(text, tuple(tag for _, tag in sorted(tags, key=lambda item: item[0])))


def restore(
    plain: PlainLine,
    translation: str,
    weights: Matrix,
    *,
    keep_markup: bool = True,
    copy_unknown: bool = False,
    unknown_runs: Mapping[int, int] | None = None,
) -> str:
    """The translation with placeholders and tags, unknown words, or both, of the source in their places.

    `weights` (target words, source words) are those of the plain line and its translation; `unknown_runs` has the
    source words that are one unknown piece, the first of each run with its end, which are copied together.
    """
    source, target = plain.text.split(), translation.split()
    if copy_unknown and source:
        for row, word in enumerate(target):
            if UNKNOWN in word:
                first = _heaviest(weights[row])
                target[row] = " ".join(source[first : (unknown_runs or {}).get(first, first + 1)])
    if keep_markup:
        _put_placeholders(source, target, weights)
    if not plain.tags:
        return " ".join(target) if target != translation.split() else translation
    looks_at = [_heaviest(row) for row in weights] if source else []
    before: list[list[_Placed]] = [[] for _ in range(len(target) + 1)]
    after: list[list[_Placed]] = [[] for _ in target]
    placed: list[_Placed] = []
    for tag in plain.tags:
        rows = [row for row, column in enumerate(looks_at) if tag.start <= column < tag.end]
        if tag.closing is not None and rows:
            around = _nested(_Placed(tag.text, tag.closing, rows[0], rows[-1]), rows, placed)
            placed.append(around)
            before[around.first].append(around)
            after[around.last].insert(0, around)
            continue
        place = next((row for row, column in enumerate(looks_at) if column >= tag.start), len(target))
        # Alone it keeps its place among those that open here, inside the one before it.
        last = before[place][-1].last if before[place] else len(target)
        before[place].append(_Placed(tag.text + (tag.closing or ""), "", place, last))
    for opening in before:
        opening.sort(key=lambda tag: -tag.last)
    for closing in after:
        closing.sort(key=lambda tag: -tag.first)
    words = [
        "".join(tag.text for tag in opening) + word + "".join(tag.closing for tag in closing)
        for opening, word, closing in zip(before, target, after, strict=False)
    ]
    return " ".join([*words, *(["".join(tag.text for tag in before[-1])] if before[-1] else [])])


class _Placed(NamedTuple):
    """A tag around words of the target."""

    text: str
    closing: str
    first: int
    last: int


def _nested(tag: _Placed, rows: Sequence[int], placed: Sequence[_Placed]) -> _Placed:
    """The tag around as many of its rows as it can hold without crossing one that has its place: words that look at
    what it enclosed may stand on both sides of another's."""
    while crossed := next((other for other in placed if _cross(tag, other)), None):
        if tag.first < crossed.first:
            cuts = (tag._replace(last=crossed.first - 1), tag._replace(first=crossed.first))
        else:
            cuts = (tag._replace(last=crossed.last), tag._replace(first=crossed.last + 1))
        held = [[row for row in rows if cut.first <= row <= cut.last] for cut in cuts]
        best = max(held, key=len)
        tag = tag._replace(first=best[0], last=best[-1])
    return tag


def _cross(one: _Placed, other: _Placed) -> bool:
    return one.first < other.first <= one.last < other.last or other.first < one.first <= other.last < one.last


def _put_placeholders(source: list[str], target: list[str], weights: Matrix) -> None:
    """Have each placeholder as often in the target as in the source; none takes the place of another."""
    there = Counter(placeholder for word in target for placeholder in _PLACEHOLDER.findall(word))
    free = [row for row, word in enumerate(target) if not _PLACEHOLDER.search(word)]
    for column, word in enumerate(source):
        placeholders = _PLACEHOLDER.findall(word)
        missing = []
        for placeholder in placeholders:
            if there[placeholder]:
                there[placeholder] -= 1
            else:
                missing.append(placeholder)
        if not missing:
            continue
        written = word if missing == placeholders else " ".join(missing)
        if free:
            row = free.pop(_heaviest(weights[free, column]))
            target[row] = written
        else:
            target.append(written)


def _name(tag: str) -> str:
    found = re.match(r"</?([A-Za-z][^\s/>]*)", tag)
    return found[1] if found else ""


def _heaviest(weights: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> int:
    return int(weights.argmax())
