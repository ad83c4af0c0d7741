"""A line on its way to the tokenizer: what the user wrote, what the model is to read, and how to go back."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, NamedTuple

from nmt_cli.text.edits import Change, Edits, Span

_WORD = re.compile(r"\S+")


class CodeKind(Enum):
    """Kinds of codes: what a line holds beside text."""

    OPEN = auto()
    """It begins to enclose text."""
    CLOSE = auto()
    ALONE = auto()
    """It encloses nothing, and the model does not read it."""
    LINE_END = auto()
    """It ends a line, so a sentence does not go across it."""
    PLACEHOLDER = auto()
    """The model reads it, and the translation has it unchanged."""
    ESCAPE = auto()
    """It stands for another character, which the model reads."""
    ACCELERATOR = auto()
    """A sign before the letter of a word that is its key; the model reads the word without it."""


class Code(NamedTuple):
    """Characters of a line that are no text."""

    begin: int
    end: int
    kind: CodeKind
    name: str = ""
    """The name that the beginning and the end of an element share."""


class Constraint(NamedTuple):
    """Characters of the text for which the translation must have one of some forms."""

    begin: int
    end: int
    forms: tuple[str, ...]
    """The preferred one first."""
    step: str
    """The step that asks for it."""
    key: int = 0
    """Its number among those of the step."""
    is_known: bool = False
    """True if the training text has it, so that the model may be trusted to generate it."""
    may_be_glued: bool = False
    """True if the target language may write no blank before it."""


class Undo(NamedTuple):
    """The record of a step, by which it is undone in the translation."""

    step: str
    edits: Edits
    """From the text before the step to the text after it."""
    data: Any = None
    """Values of the step's own, which may be pickled."""
    prefix_edits: Edits | None = None
    """Edits of the prefix; None if the step has not changed it."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line between two steps. All spans are of `text`; `changed` moves them, and no step does."""

    raw: str
    """The line as the user wrote it."""
    text: str
    """The line as it is read."""
    locked: tuple[Span, ...] = ()
    """Characters that no step may change, from left to right; none overlap."""
    no_text: tuple[Span, ...] = ()
    """The locked characters that are no text, as placeholders and addresses; the other locked ones are numbers."""
    constraints: tuple[Constraint, ...] = ()
    undos: tuple[Undo, ...] = ()
    """In the order of the steps."""
    prefix: str = ""
    """The beginning of the translation, from which the model is to go on."""
    needs_alignment: bool = False
    """True if a step needs the attention to be undone."""
    keeps_digits: bool = False
    """True if the translation may have only the digits of its constraints and its prefix."""
    codes: tuple[Code, ...] | None = None
    """Codes of the text from left to right, as a format or a step has found them; None where nobody has looked."""

    @classmethod
    def of(cls, raw: str, prefix: str = "", codes: Sequence[Code] | None = None) -> Line:
        """Return a line that no step has read."""
        return cls(raw, raw, prefix=prefix, codes=None if codes is None else tuple(codes))

    def changed(
        self,
        step: str,
        changes: Iterable[Change] = (),
        data: Any = None,
        *,
        lock: Sequence[Span] = (),
        no_text: Sequence[Span] = (),
        constraints: Sequence[Constraint] = (),
        prefix_changes: Sequence[Change] = (),
        goes_on: str = "",
        needs_alignment: bool = False,
        keeps_digits: bool = False,
    ) -> Line:
        """Return the line after a step.

        Args:
            step: the name of the step.
            changes: of the text; each touches free characters only, and none overlap.
            data: what the step needs to be undone.
            lock: characters of this text that stay for good; a change of this step may be within.
            no_text: the same of what is no text.
            constraints: their characters are those of this text, too.
            prefix_changes: of the prefix.
            goes_on: what the translation must have right behind the prefix; this is not undone.
            needs_alignment: the step needs the attention to be undone.
            keeps_digits: see there.
        """
        own = [change for change in changes if self.text[change.begin : change.end] != change.text]
        for change in own:
            assert self.is_free(change.begin, change.end), f"{step} must not change {change}: it is locked"
        edits = Edits.of(self.text, own) if own else Edits.none(self.text)
        line = self if not own else self._moved(edits)
        if lock or no_text:
            hidden = edits.new_spans(no_text)
            line = replace(
                line,
                locked=_joined([*line.locked, *edits.new_spans(lock), *hidden]),
                no_text=_joined([*line.no_text, *hidden]),
            )
        if constraints:
            line = replace(line, constraints=tuple(sorted([*line.constraints, *_at(constraints, edits)])))
        prefix_edits = Edits.of(self.prefix, prefix_changes) if prefix_changes else None
        if not own and data is None and prefix_edits is None and not goes_on:
            return line
        return replace(
            line,
            undos=(*self.undos, Undo(step, edits, data, prefix_edits)),
            prefix=(self.prefix if prefix_edits is None else prefix_edits.new) + goes_on,
            needs_alignment=self.needs_alignment or needs_alignment,
            keeps_digits=self.keeps_digits or keeps_digits,
        )

    @property
    def edits(self) -> Edits:
        """The edits from the raw line to the text."""
        found = Edits.none(self.raw)
        for undo in self.undos:
            found = found.then(undo.edits)
        return found

    def is_free(self, begin: int, end: int) -> bool:
        """Return whether some characters may be changed; an empty span may if it is not within a lock."""
        place = bisect_right(self.locked, begin, key=_end)
        return place == len(self.locked) or self.locked[place][0] >= end

    def kept(self) -> list[Span]:
        """Return the characters that are locked, or for which the translation must have one of some forms."""
        return sorted([*self.locked, *((one.begin, one.end) for one in self.constraints)])

    def words(self) -> Iterator[re.Match[str]]:
        """Yield the words of the text, which white space parts, but for those with a part that is no text."""
        found = _WORD.finditer(self.text)
        return found if not self.no_text else (word for word in found if self.is_text(*word.span()))

    def plain(self) -> str:
        """Return the text without the other words: what its case and its length are judged by."""
        return self.text if not self.no_text else " ".join(word[0] for word in self.words())

    def is_text(self, begin: int, end: int) -> bool:
        """Return whether a span is clear of words that are no text, such as placeholders."""
        place = bisect_right(self.no_text, begin, key=_end)
        return place == len(self.no_text) or self.no_text[place][0] >= end

    def _moved(self, edits: Edits) -> Line:
        return replace(
            self,
            text=edits.new,
            locked=tuple(edits.new_spans(self.locked)),
            no_text=tuple(edits.new_spans(self.no_text)),
            constraints=_at(self.constraints, edits),
            codes=None if self.codes is None else _codes_at(self.codes, edits),
        )


def _end(span: Span) -> int:
    return span[1]


def _at(constraints: Sequence[Constraint], edits: Edits) -> tuple[Constraint, ...]:
    """Return constraints of the old text of some edits as those of the new one."""
    spans = edits.new_spans([(one.begin, one.end) for one in constraints])
    return tuple(one._replace(begin=begin, end=end) for one, (begin, end) in zip(constraints, spans, strict=True))


def _codes_at(codes: Sequence[Code], edits: Edits) -> tuple[Code, ...]:
    spans = edits.new_spans([(code.begin, code.end) for code in codes])
    return tuple(code._replace(begin=begin, end=end) for code, (begin, end) in zip(codes, spans, strict=True))


def _joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return spans from left to right, those that overlap as one."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin < found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return tuple(found)
