"""Carries tags and placeholders across by the alignment, so that they stay unchanged.

Tags (`<b>`, `</b>`, `<br/>`) are taken out before the model sees a line and put around the target words that look at
what they enclosed. Placeholders (`__URL__`) stand in the place of the target word that looks at them most. Nothing is
lost: what has no place goes where its neighbours went, or to the end.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from nmt_cli.normalization.elements import Tag, placed
from nmt_cli.text.alignment import Matrix
from nmt_cli.text.letters import WITHOUT_SPACES
from nmt_cli.translation.results import Translation

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
_TAG_OR_PLACEHOLDER = re.compile(f"{TAG.pattern}|{PLACEHOLDER.pattern}")


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


def with_markup(
    line: PlainLine, translations: Sequence[Translation], prefix: str, shown: str
) -> tuple[Translation, ...]:
    """Return the translations of a line with its placeholders and tags in their places, which their weights tell.

    `prefix` has no tags, and `shown` is the prefix as it was given. Alignments count no tags.
    """
    return tuple(found.rewritten(*_written(line, found, prefix, shown)) for found in translations)


def _written(line: PlainLine, found: Translation, prefix: str, shown: str) -> tuple[str, list[int]]:
    """Return the text of a translation with what is put back, and how many words stand for each of its words."""
    if shown:
        return _restored_after(prefix, shown, line, found)
    words = found.text.split() if found.weights is None else restored_words(line, found.text, found.weights)
    text = found.text if words == found.text.split() else " ".join(word for word in words if word)
    return text, [len(word.split()) for word in words]


def restored_words(plain: PlainLine, translation: str, weights: Matrix) -> list[str]:
    """Return the words of the translation with placeholders and tags of the source in their places. An item stands for
    a word of the translation and may hold several words; items after these are added.

    `weights` (target words, source words) belong to the plain line and its translation.
    """
    source, target = plain.text.split(), translation.split()
    put_placeholders(source, target, weights, PLACEHOLDER)
    if not plain.tags:
        return target
    return tagged_words(target, plain.tags, [_heaviest(row) for row in weights] if source else [])


def _restored_after(prefix: str, shown: str, line: PlainLine, found: Translation) -> tuple[str, list[int]]:
    """Return the text of a translation that begins with a prefix, with the tags and words that the prefix lacks put in
    behind it, and how many words of it stand for each word of the translation.

    `prefix` has no tags, and `shown` is the prefix as it was given.
    """
    going_on = found.text[len(prefix) :]
    begins = going_on.lstrip()
    blank = going_on[: len(going_on) - len(begins)]
    goes_on_at_once = not blank and not shown[-1:].isspace()
    num_own = len(prefix.split())
    is_in_a_word = bool(begins) and goes_on_at_once and num_own > 0
    there = Counter(_TAG_OR_PLACEHOLDER.findall(shown))
    tags = tuple(_missing_tags(line.tags, shown, there))
    source = line.text
    for placeholder, count in there.items():
        source = source.replace(placeholder, "_", count)
    words = begins.split()
    if found.weights is not None:
        words = restored_words(PlainLine(source, tags), begins, found.weights[num_own - is_in_a_word :])
    going_on = begins if words == begins.split() else " ".join(word for word in words if word)
    counts = [len(word.split()) for word in words]
    own = _shared_out(len(shown.split()), num_own)
    if num_own == 0:  # tags alone belong to the word that follows
        first = counts.pop(0) if counts else 0
        own = [len(shown.split()) + first - (bool(begins) and goes_on_at_once)]
    elif going_on and goes_on_at_once:  # the first word that goes on is the end of the last one of the prefix
        own[-1] += counts.pop(0) - 1
    return shown + blank + going_on, [*own, *counts]


def _missing_tags(tags: Iterable[Tag], shown: str, there: Counter[str]) -> list[Tag]:
    """Return the tags that a prefix opens but does not end, outermost first, and those that it lacks.

    What it has is taken from `there`.
    """
    opened, missing = [], []
    for tag in tags:
        if there[tag.text] == 0:
            missing.append(tag)
            continue
        there[tag.text] -= 1
        if tag.closing is None:
            continue
        if there[tag.closing] == 0:
            opened.append(replace(tag, is_open=True))
        else:
            there[tag.closing] -= 1
    return [*sorted(opened, key=lambda tag: shown.rindex(tag.text)), *missing]


def _shared_out(num_shown: int, num_own: int) -> list[int]:
    """Return how many words of a prefix as it was given stand for each of its words without tags."""
    shares = [int(number < num_shown) for number in range(num_own)]
    return [*shares[:-1], shares[-1] + max(num_shown - num_own, 0)] if shares else []


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
