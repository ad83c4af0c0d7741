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
    STANDALONE = auto()
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
    """The name that an opening and its closing code share, or the word that a model reads for a placeholder.

    It is empty for other codes, and for a placeholder without a given name.
    """


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
    may_lack_blank_before: bool = False
    """True if the target language may have no blank before the form."""


class UndoRecord(NamedTuple):
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
    """A line between two steps. All spans refer to `text`; `apply_step` moves them, so that no step has to."""

    raw: str
    """The line as the user wrote it."""
    text: str
    """The line as the next step, or at last the tokenizer, reads it."""
    locked_spans: tuple[Span, ...] = ()
    """Spans that no step may change, from left to right; none overlap."""
    non_text_spans: tuple[Span, ...] = ()
    """The locked spans that are not text, such as placeholders and addresses; the other locked spans are numbers."""
    constraints: tuple[Constraint, ...] = ()
    undo_records: tuple[UndoRecord, ...] = ()
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
        """Return the line of a raw text before its first step; `codes` are those that a file format has marked."""
        return cls(raw, raw, prefix=prefix, codes=None if codes is None else tuple(codes))

    def apply_step(
        self,
        step: str,
        changes: Iterable[Change] = (),
        data: Any = None,
        *,
        lock: Sequence[Span] = (),
        non_text_spans: Sequence[Span] = (),
        constraints: Sequence[Constraint] = (),
        prefix_changes: Sequence[Change] = (),
        prefix_continuation: str = "",
        needs_alignment: bool = False,
        keeps_digits: bool = False,
    ) -> Line:
        """Return the line after a step.

        Args:
            step: the name of the step.
            changes: changes of the text; each is within free characters, and none overlap.
            data: values that the step needs to be undone.
            lock: spans of the text before `changes` that no later step may change; they may contain some of `changes`.
            non_text_spans: spans that are locked likewise because they are not text.
            constraints: new constraints, with spans of the text before `changes`.
            prefix_changes: changes of the prefix.
            prefix_continuation: characters that the translation must have right after the prefix; undoing keeps them.
            needs_alignment: whether the attention is needed to undo the step.
            keeps_digits: whether the translation may contain only the digits of its constraints and its prefix.
        """
        own = [change for change in changes if self.text[change.begin : change.end] != change.text]
        for change in own:
            assert self.is_free(change.begin, change.end), f"{step} must not change {change}: it is locked"
        edits = Edits.of(self.text, own) if own else Edits.identity(self.text)
        line = self if not own else self._apply_edits(edits)
        if lock or non_text_spans:
            hidden = edits.new_spans(non_text_spans)
            line = replace(
                line,
                locked_spans=_merge_spans([*line.locked_spans, *edits.new_spans(lock), *hidden]),
                non_text_spans=_merge_spans([*line.non_text_spans, *hidden]),
            )
        if constraints:
            line = replace(line, constraints=tuple(sorted([*line.constraints, *_map_constraints(constraints, edits)])))
        prefix_edits = Edits.of(self.prefix, prefix_changes) if prefix_changes else None
        if not own and data is None and prefix_edits is None and not prefix_continuation:
            return line
        return replace(
            line,
            undo_records=(*self.undo_records, UndoRecord(step, edits, data, prefix_edits)),
            prefix=(self.prefix if prefix_edits is None else prefix_edits.new) + prefix_continuation,
            needs_alignment=self.needs_alignment or needs_alignment,
            keeps_digits=self.keeps_digits or keeps_digits,
        )

    @property
    def edits(self) -> Edits:
        """The edits of all steps together, from the raw line to the text."""
        found = Edits.identity(self.raw)
        for undo in self.undo_records:
            found = found.compose(undo.edits)
        return found

    def is_free(self, begin: int, end: int) -> bool:
        """Return whether a span overlaps no locked span, so it may be changed; an empty one must not be within one."""
        place = bisect_right(self.locked_spans, begin, key=_end)
        return place == len(self.locked_spans) or self.locked_spans[place][0] >= end

    def protected_spans(self) -> list[Span]:
        """Return the spans that are locked or that have a constraint, from left to right."""
        return sorted([*self.locked_spans, *((one.begin, one.end) for one in self.constraints)])

    def words(self) -> Iterator[re.Match[str]]:
        """Yield the white-space words of the text, except those that contain characters of `non_text_spans`."""
        found = _WORD.finditer(self.text)
        return found if not self.non_text_spans else (word for word in found if self.is_text(*word.span()))

    def plain_text(self) -> str:
        """Return the text without the words that `words` leaves out; steps judge case and length by it."""
        return self.text if not self.non_text_spans else " ".join(word[0] for word in self.words())

    def is_text(self, begin: int, end: int) -> bool:
        """Return whether a span overlaps no characters of `non_text_spans`, such as placeholders."""
        place = bisect_right(self.non_text_spans, begin, key=_end)
        return place == len(self.non_text_spans) or self.non_text_spans[place][0] >= end

    def _apply_edits(self, edits: Edits) -> Line:
        return replace(
            self,
            text=edits.new,
            locked_spans=tuple(edits.new_spans(self.locked_spans)),
            non_text_spans=tuple(edits.new_spans(self.non_text_spans)),
            constraints=_map_constraints(self.constraints, edits),
            codes=None if self.codes is None else _codes_at(self.codes, edits),
        )


def _end(span: Span) -> int:
    return span[1]


def _map_constraints(constraints: Sequence[Constraint], edits: Edits) -> tuple[Constraint, ...]:
    """Return constraints with their spans mapped from the old text of some edits to the new one."""
    spans = edits.new_spans([(one.begin, one.end) for one in constraints])
    return tuple(one._replace(begin=begin, end=end) for one, (begin, end) in zip(constraints, spans, strict=True))


def _codes_at(codes: Sequence[Code], edits: Edits) -> tuple[Code, ...]:
    spans = edits.new_spans([(code.begin, code.end) for code in codes])
    return tuple(code._replace(begin=begin, end=end) for code, (begin, end) in zip(codes, spans, strict=True))


def _merge_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return spans from left to right, with overlapping ones merged."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin < found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return tuple(found)
