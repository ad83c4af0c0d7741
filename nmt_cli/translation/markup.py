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
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from nmt_cli.text.alignment import Matrix
from nmt_cli.translation.elements import Tag, placed
from nmt_cli.translation.glossary import WITHOUT_SPACES

TAG = re.compile(r"</?[A-Za-z][^<>]*>")
PLACEHOLDER = re.compile(r"__[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*__")
_EDGES = re.compile(r"(\W*)(\w(?:.*\w)?)(\W*)", re.S)
"""A word between the punctuation before it and the punctuation after it."""
_LONG_WORD = 15
"""Characters around a placeholder beyond which they are text, as where a script writes no spaces."""
_NOT_FREE = re.compile(rf"\d|{WITHOUT_SPACES.pattern}")
"""A digit, or a character of a script that writes no spaces: the word is a number, or perhaps a whole sentence."""
_VOID = re.compile("area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr", re.IGNORECASE)
"""Names of HTML tags that stand alone without a slash."""
UNKNOWN = "⁇"
"""The sign that SentencePiece writes for a piece that it does not know."""


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
    """Take the tags out of a line, except `symbols`, which the model knows; tags without a partner stand alone.

    Where two elements cross, the second begins behind the first.
    """
    plain: list[str] = []
    place = 0
    open_tags: list[tuple[str, str, int, int]] = []
    num_open: Counter[str] = Counter()
    tags: list[Tag] = []
    begins: dict[int, tuple[int, int]] = {}
    position = 0
    for order, match in enumerate(match for match in TAG.finditer(line) if match[0] not in symbols):
        plain.append(line[position : match.start()])
        place += len(plain[-1].split())
        position = match.end()
        text = match[0]
        name = _name(text)
        if text.startswith("</") and num_open[name]:
            index = next(i for i in reversed(range(len(open_tags))) if open_tags[i][1] == name)
            num_open[name] -= 1
            begins.update((crossing[3], (place, order)) for crossing in open_tags[index + 1 :])
            begin, _, start, first = open_tags.pop(index)
            start, opens = begins.get(first, (start, first))
            tags.append(Tag(begin, text, start, place, opens, order))
        elif text.startswith("</") or text.endswith("/>"):
            tags.append(Tag(text, None, place, place, order, order))
        else:
            open_tags.append((text, name, place, order))
            num_open[name] += 1
    tags.extend(Tag(text, None, start, start, order, order) for text, _, start, order in open_tags)
    plain.append(line[position:])
    # A tag inside a word parts it: "<b>a</b>b" is two words to the model, and to whoever counts them.
    text = line if not tags else " ".join(" ".join(plain).split())
    return PlainLine(text, tuple(sorted(tags, key=lambda tag: (tag.opens, -tag.closes))))


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

    `weights` (target words, source words) belong to the plain line and its translation; `unknown_runs` has the
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
    before: list[list[_Mark]] = [[] for _ in range(len(target) + 1)]
    after: list[list[_Mark]] = [[] for _ in target]
    root = placed(tags, [*looks_at, *[-1] * (len(target) - len(looks_at))])
    waiting = [(inner, root, False) for inner in reversed(root.inner)]
    while waiting:
        element, outer, is_end = waiting.pop()
        tag = element.tag
        if not is_end:
            waiting.append((element, outer, True))
            waiting += [(inner, element, False) for inner in reversed(element.inner)]
        text = (tag.closing or "") if is_end else "" if tag.is_open else tag.text
        if element.is_behind:
            blank = " " * (not is_end and not tag.is_after and not outer.is_behind)
            after[element.first - 1].append(_Mark(blank + text, is_cut=tag.cuts_last))
        elif is_end and element.first < element.last:
            after[element.last - 1].append(_Mark(text, is_cut=tag.cuts_last))
        else:
            blank = " " * (is_end and tag.is_apart and outer.first < outer.last)
            before[element.first].append(_Mark(text + blank, is_cut=tag.cuts_first))
    words = [
        _tagged(word, opening, closing, spell) for opening, word, closing in zip(before, target, after, strict=False)
    ]
    return [*words, "".join(mark.text for mark in before[-1])]


class _Mark(NamedTuple):
    """An opening or closing tag at the edge of a word."""

    text: str
    is_cut: bool
    """The punctuation at this edge of the word is outside."""


def _tagged(word: str, opening: Sequence[_Mark], closing: Sequence[_Mark], spell: Callable[[str], str]) -> str:
    """Return a word between its tags, in the order in which they are written."""
    found = _EDGES.fullmatch(word)
    head, core, tail = found.groups() if found else ("", word, "")
    if not any(mark.is_cut for mark in opening):
        head, core = "", head + core
    if not any(mark.is_cut for mark in closing):
        core, tail = core + tail, ""
    written = spell(core)
    for mark in reversed(opening):
        if not mark.is_cut:
            head, written = "", spell(head) + written
        written = mark.text + written
    for mark in closing:
        if not mark.is_cut:
            written, tail = written + spell(tail), ""
        written += mark.text
    return spell(head) + written + spell(tail)


class Placeholders(Protocol):
    """Finds the placeholders of a text, as a pattern does."""

    def findall(self, text: str, /) -> list[str]:
        """Return all placeholders of a text."""


def put_placeholders(
    source: Sequence[str], target: list[str], weights: NDArray[Any], placeholders: Placeholders
) -> int:
    """Make each placeholder stand in the target as often as in the source, or more often.

    None takes the place of another, of a number, or of a word that may be a whole sentence, as where a script writes no
    spaces. Returns how many were missing.
    """
    own = [placeholders.findall(word) for word in target]
    there = Counter(placeholder for of_word in own for placeholder in of_word)
    free = [row for row, word in enumerate(target) if not own[row] and not _NOT_FREE.search(word)]
    num_missing = 0
    for column, word in enumerate(source):
        of_word = placeholders.findall(word)
        missing = []
        for placeholder in of_word:
            if there[placeholder]:
                there[placeholder] -= 1
            else:
                missing.append(placeholder)
        if not missing:
            continue
        num_missing += len(missing)
        rest = _without(word, of_word)
        is_whole = missing == of_word and len(rest) <= _LONG_WORD and not WITHOUT_SPACES.search(rest)
        written = word if is_whole else " ".join(missing)
        if free:
            row = free.pop(_heaviest(weights[free, column]))
            target[row] = written
        else:
            target.append(written)
    return num_missing


def _without(word: str, placeholders: Sequence[str]) -> str:
    """Return a word without the placeholders in it, which are given in their order."""
    parts, position = [], 0
    for placeholder in placeholders:
        begin = word.index(placeholder, position)
        parts.append(word[position:begin])
        position = begin + len(placeholder)
    return "".join([*parts, word[position:]])


def _name(tag: str) -> str:
    found = re.match(r"</?([A-Za-z][^\s/>]*)", tag)
    return found[1] if found else ""


def _heaviest(weights: NDArray[Any]) -> int:
    return int(weights.argmax())
