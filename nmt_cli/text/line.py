"""A line on its way to the tokenizer: the user's text, the text for the model, and records to undo the changes."""

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
    """Kinds of codes, which are the characters of a line that are not text."""

    OPEN = auto()
    """The beginning of an element that encloses text, such as an opening tag; `CLOSE` is its end."""
    CLOSE = auto()
    ALONE = auto()
    """A code that encloses nothing, and that the model does not read."""
    LINE_END = auto()
    """The end of a line or the like; no sentence continues across it."""
    PLACEHOLDER = auto()
    """A code that the model reads, and that the translation must contain unchanged."""
    ESCAPE = auto()
    """A code for another character, which the model reads instead."""
    ACCELERATOR = auto()
    """A sign such as `_` before the letter that is the keyboard shortcut; the model reads the word without it."""


class Code(NamedTuple):
    """Characters of a line that are not text: a tag, a placeholder or the like."""

    begin: int
    end: int
    kind: CodeKind
    name: str = ""
    """The name that the beginning and the end of an element share."""


class Constraint(NamedTuple):
    """Characters of the source text whose translation must contain one of some given forms."""

    begin: int
    end: int
    forms: tuple[str, ...]
    """The forms, the preferred one first."""
    step: str
    """Name of the step that requires it."""
    key: int = 0
    """Index of the number or term among all that the step has found in the line."""
    is_known: bool = False
    """True if the training text has the form, so that the model may be trusted to generate it."""
    may_be_glued: bool = False
    """True if the target language may have no blank before the form."""


class Undo(NamedTuple):
    """The record of a step, with which the step is undone in the translation."""

    step: str
    edits: Edits
    """Edits from the text before the step to the text after it."""
    data: Any = None
    """Values that the step itself needs to be undone; they can be pickled."""
    prefix_edits: Edits | None = None
    """Edits that the step has made to the prefix; None if it has not changed it."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line between two steps. All spans refer to `text`; `changed` moves them, so that no step has to."""

    raw: str
    """The line as the user wrote it."""
    text: str
    """The line as the next step, or at last the tokenizer, reads it."""
    locked: tuple[Span, ...] = ()
    """Spans that no step may change, from left to right; none overlap."""
    no_text: tuple[Span, ...] = ()
    """The locked spans that are not text, such as placeholders and addresses; the other locked spans are numbers."""
    constraints: tuple[Constraint, ...] = ()
    undos: tuple[Undo, ...] = ()
    """Records of the steps that have changed the line, in the order of the steps."""
    prefix: str = ""
    """The given beginning of the translation, which the model is to continue."""
    needs_alignment: bool = False
    """True if the attention is needed to undo a step."""
    keeps_digits: bool = False
    """True if the translation may contain only the digits of its constraints and its prefix."""
    codes: tuple[Code, ...] | None = None
    """Codes of the text from left to right, found by a file format or by a step; None if no search has been made."""

    @classmethod
    def of(cls, raw: str, prefix: str = "", codes: Sequence[Code] | None = None) -> Line:
        """Return a line before its first step."""
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
            changes: changes of the text; each is within free characters, and none overlap.
            data: values that the step needs to be undone.
            lock: spans of the text before `changes` that no later step may change; they may contain some of `changes`.
            no_text: spans that are locked likewise because they are not text.
            constraints: new constraints, with spans of the text before `changes`.
            prefix_changes: changes of the prefix.
            goes_on: characters that the translation must have right after the prefix; they are not removed by undoing.
            needs_alignment: whether the attention is needed to undo the step.
            keeps_digits: whether the translation may contain only the digits of its constraints and its prefix.
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
        """The edits of all steps together, from the raw line to the text."""
        found = Edits.none(self.raw)
        for undo in self.undos:
            found = found.then(undo.edits)
        return found

    def is_free(self, begin: int, end: int) -> bool:
        """Return whether a span overlaps no locked span, so it may be changed; an empty one must not be within one."""
        place = bisect_right(self.locked, begin, key=_end)
        return place == len(self.locked) or self.locked[place][0] >= end

    def kept(self) -> list[Span]:
        """Return the spans that are locked or that have a constraint, from left to right."""
        return sorted([*self.locked, *((one.begin, one.end) for one in self.constraints)])

    def words(self) -> Iterator[re.Match[str]]:
        """Yield the white-space words of the text, except those that contain characters of `no_text`."""
        found = _WORD.finditer(self.text)
        return found if not self.no_text else (word for word in found if self.is_text(*word.span()))

    def plain(self) -> str:
        """Return the text without words that contain characters of `no_text`; steps judge case and length by it."""
        return self.text if not self.no_text else " ".join(word[0] for word in self.words())

    def is_text(self, begin: int, end: int) -> bool:
        """Return whether a span overlaps no characters of `no_text`, such as placeholders."""
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
    """Return constraints with their spans mapped from the old text of some edits to the new one."""
    spans = edits.new_spans([(one.begin, one.end) for one in constraints])
    return tuple(one._replace(begin=begin, end=end) for one, (begin, end) in zip(constraints, spans, strict=True))


def _codes_at(codes: Sequence[Code], edits: Edits) -> tuple[Code, ...]:
    spans = edits.new_spans([(code.begin, code.end) for code in codes])
    return tuple(code._replace(begin=begin, end=end) for code, (begin, end) in zip(codes, spans, strict=True))


def _joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return spans from left to right, with overlapping ones merged."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin < found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return tuple(found)
