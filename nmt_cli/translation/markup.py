"""Carries tags, placeholders and words unknown to the model across by the alignment, so that they stay unchanged.

Tags (`<b>`, `</b>`, `<br/>`) are taken out before the model sees a line and put around the target words that look at
what they enclosed. Placeholders (`__URL__`) and unknown words stand in the place of the target word that looks at them
most. Nothing is lost: what has no place goes where its neighbours went, or to the end.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nmt_cli.translation.alignment import Matrix

TAG = re.compile(r"</?[A-Za-z][^<>]*>")
PLACEHOLDER = re.compile(r"__[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*__")
_EDGES = re.compile(r"(\W*)(.*\w)(\W*)", re.S)
"""A word between the punctuation before it and the punctuation after it."""
_LONG_WORD = 15
"""Characters around a placeholder beyond which they are text, as where a script writes no spaces."""
_VOID = re.compile("area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr", re.IGNORECASE)
"""Names of HTML tags that stand alone without a slash."""
UNKNOWN = "⁇"
"""The sign that SentencePiece writes for a piece that it does not know."""


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
    is_after: bool = False
    """It stands alone and belongs to the word before `start`, as the mark of a footnote does."""
    cuts_first: bool = False
    """It begins within its first word, so the punctuation before that word is outside."""
    cuts_last: bool = False
    """It ends within its last word, so the punctuation after that word is outside."""
    is_open: bool = False
    """It began before the words at hand, so only its end belongs among them."""


@dataclass(frozen=True, slots=True)
class PlainLine:
    """A line without its tags."""

    text: str
    tags: tuple[Tag, ...]
    """Tags in the order of their beginning."""

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
    for order, match in enumerate(match for match in TAG.finditer(line) if match[0] not in symbols):
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


def restored_words(
    plain: PlainLine,
    translation: str,
    weights: Matrix,
    *,
    keep_markup: bool = True,
    copy_unknown: bool = False,
    unknown_runs: Mapping[int, int] | None = None,
) -> list[str]:
    """Return the words of the translation with placeholders and tags, unknown words, or both, of the source in their
    places. An item stands for a word of the translation and may hold several words; items after these are added.

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
        put_placeholders(source, target, weights, PLACEHOLDER)
    if not plain.tags:
        return target
    return tagged_words(target, plain.tags, [_heaviest(row) for row in weights] if source else [])


def with_tags(
    target: Sequence[str], tags: Sequence[Tag], looks_at: Sequence[int], spell: Callable[[str], str] = str
) -> str:
    """Return the words as `tagged_words` writes them, in one text."""
    return " ".join(word for word in tagged_words(target, tags, looks_at, spell) if word)


def tagged_words(
    target: Sequence[str], tags: Sequence[Tag], looks_at: Sequence[int], spell: Callable[[str], str] = str
) -> list[str]:
    """Return the words with each tag once, in its place, and last the tags that stand behind all words, or "".

    `looks_at` has the source word that each looks at most. Tags that are open come first, the outermost foremost; each
    ends behind at least one word. `spell` writes the text between the tags, as with `&amp;` for an ampersand.
    """
    before: list[list[_Placed]] = [[] for _ in range(len(target) + 1)]
    after: list[list[_Placed]] = [[] for _ in target]
    placed: list[_Placed] = []
    end = len(target) - 1
    for tag in tags:
        rows = [row for row, column in enumerate(looks_at) if tag.start <= column < tag.end]
        if tag.is_open and tag.closing is not None:
            end = min(max(rows, default=0), end)  # inside those that were opened before it
            if end < 0:
                before[0].insert(0, _Placed(tag, tag.closing, "", 0, 0))
                continue
            placed.append(_Placed(tag, "", tag.closing, -1, end))
            after[end].insert(0, placed[-1])
            continue
        if tag.closing is not None and rows:
            around = _nested(_Placed(tag, tag.text, tag.closing, rows[0], rows[-1]), rows, placed)
            placed.append(around)
            before[around.first].append(around)
            after[around.last].insert(0, around)
            continue
        text = tag.text + (tag.closing or "")
        if tag.is_after and (own := [row for row, column in enumerate(looks_at) if column == tag.start - 1]):
            after[own[-1]].append(_Placed(tag, "", text, own[-1], own[-1]))
            continue
        place = next((row for row, column in enumerate(looks_at) if column >= tag.start), len(target))
        # Alone it keeps its place among those that open here, inside the one before it.
        last = before[place][-1].last if before[place] else len(target)
        before[place].append(_Placed(tag, text, "", place, last))
    for opening in before:
        opening.sort(key=lambda placed: -placed.last)
    for closing in after:
        closing.sort(key=lambda placed: -placed.first)
    words = [
        _tagged(word, opening, closing, spell) for opening, word, closing in zip(before, target, after, strict=False)
    ]
    return [*words, "".join(placed.text for placed in before[-1])]


def _tagged(word: str, opening: Sequence[_Placed], closing: Sequence[_Placed], spell: Callable[[str], str]) -> str:
    """Return a word between its tags, the outermost first in `opening` and last in `closing`."""
    found = _EDGES.fullmatch(word)
    head, core, tail = found.groups() if found else ("", word, "")
    if not any(placed.tag.cuts_first for placed in opening):
        head, core = "", head + core
    if not any(placed.tag.cuts_last for placed in closing):
        core, tail = core + tail, ""
    written = spell(core)
    for placed in reversed(opening):
        if not placed.tag.cuts_first:
            head, written = "", spell(head) + written
        written = placed.text + written
    for placed in closing:
        if not placed.tag.cuts_last:
            written, tail = written + spell(tail), ""
        written += placed.closing
    return spell(head) + written + spell(tail)


class _Placed(NamedTuple):
    """A tag around words of the target."""

    tag: Tag
    text: str
    closing: str
    first: int
    last: int


def _nested(tag: _Placed, rows: Sequence[int], placed: Sequence[_Placed]) -> _Placed:
    """Return the tag around as many of its rows as it can hold without crossing a tag that has its place.

    Words that look at what the tag enclosed may stand on both sides of the words of another tag.
    """
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


def put_placeholders(source: Sequence[str], target: list[str], weights: Matrix, pattern: re.Pattern[str]) -> int:
    """Make each placeholder, a match of `pattern`, stand in the target as often as in the source, or more often.

    None takes the place of another. Returns how many were missing.
    """
    there = Counter(placeholder for word in target for placeholder in pattern.findall(word))
    free = [row for row, word in enumerate(target) if not pattern.search(word)]
    num_missing = 0
    for column, word in enumerate(source):
        placeholders = pattern.findall(word)
        missing = []
        for placeholder in placeholders:
            if there[placeholder]:
                there[placeholder] -= 1
            else:
                missing.append(placeholder)
        if not missing:
            continue
        num_missing += len(missing)
        is_whole = missing == placeholders and len(pattern.sub("", word)) <= _LONG_WORD
        written = word if is_whole else " ".join(missing)
        if free:
            row = free.pop(_heaviest(weights[free, column]))
            target[row] = written
        else:
            target.append(written)
    return num_missing


def _name(tag: str) -> str:
    found = re.match(r"</?([A-Za-z][^\s/>]*)", tag)
    return found[1] if found else ""


def _heaviest(weights: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> int:
    return int(weights.argmax())
