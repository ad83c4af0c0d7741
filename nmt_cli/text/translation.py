"""A translation on its way back to the user: at first of the text that the model has read, at last of the raw line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nmt_cli.text.edits import Change, Edits, Span, word_spans
from nmt_cli.text.line import Constraint, UndoRecord
from nmt_cli.text.unit_alignment import Alignment


@dataclass(frozen=True, slots=True)
class Translation:
    """A translation of `source`: the text that the model has read, or after each undo the text before that step."""

    source: str
    text: str
    log_prob: float = 0.0
    score: float = 0.0
    alignment: Alignment | None = None
    """Attention between pieces; None where it is not needed."""
    terms: tuple[tuple[Constraint, Span | None], ...] = ()
    """Each constraint, with the characters of the text that meet it; None if the text does not meet it."""
    prefix_length: int = 0
    """Number of characters at the beginning of the text that are the given prefix, which no step changes."""
    confidence: float | None = None
    """Probability that the whole text is correct; None where it was not asked for."""
    word_confidence: tuple[float, ...] | None = None
    """Probability of each white-space word of the text."""
    features: NDArray[np.float64] | None = None
    """Features of the words (words, features), from which confidence follows. NaN for words that no model generated."""
    repeated: bool = False
    """True if the model repeated the same words without end, and the text has been cut there."""

    def with_changes(self, changes: Sequence[Change]) -> Translation:
        """Return this translation of the same source, with some changes of its text."""
        if not changes:
            return self
        return self._apply_edits(Edits.identity(self.source), Edits.of(self.text, changes), changes, self.prefix_length)

    def undo_step(self, undo: UndoRecord, changes: Sequence[Change] = ()) -> Translation:
        """Return this as a translation of the text before a step, with the changes that the step makes to undo itself.

        The prefix becomes what it was before the step.
        """
        assert self.source == undo.edits.new, f"{undo.step} read {undo.edits.new!r}, and not {self.source!r}"
        assert all(change.begin >= self.prefix_length for change in changes), f"{undo.step} must not change the prefix"
        of_prefix = [] if undo.prefix_edits is None else undo.prefix_edits.inverse().changes()
        prefix_length = self.prefix_length if undo.prefix_edits is None else len(undo.prefix_edits.old)
        if not of_prefix and not changes:
            unchanged = Edits.identity(self.text)
            return self if undo.edits.is_identity else self._apply_edits(undo.edits, unchanged, (), prefix_length)
        own = [*of_prefix, *changes]
        return self._apply_edits(undo.edits, Edits.of(self.text, own), own, prefix_length)

    def _apply_edits(self, source: Edits, target: Edits, changes: Sequence[Change], prefix_length: int) -> Translation:
        back = source.inverse()
        copied_spans = _copied_spans(source.old, changes)
        confidence = self.word_confidence
        features = self.features
        if confidence is not None and self.confidence is not None and target.old != target.new:
            confidence = tuple(target.map_word_values(confidence, self.confidence))
        if features is not None and target.old != target.new:
            unknown = np.full(features.shape[1:], np.nan)
            rows = target.map_word_values(list(features), unknown)
            features = np.array(rows).reshape(-1, *features.shape[1:])
        return replace(
            self,
            source=source.old,
            text=target.new,
            alignment=None if self.alignment is None else self.alignment.apply_edits(back, target, copied_spans),
            terms=self._terms_at(back, target),
            prefix_length=prefix_length,
            word_confidence=confidence,
            features=features,
        )

    def _terms_at(self, source: Edits, target: Edits) -> tuple[tuple[Constraint, Span | None], ...]:
        if not self.terms:
            return ()
        spans = source.new_spans([(term.begin, term.end) for term, _ in self.terms])
        return tuple(
            (term._replace(begin=begin, end=end), None if place is None else target.new_span(*place))
            for (term, place), (begin, end) in zip(self.terms, spans, strict=True)
        )


def _copied_spans(source: str, changes: Sequence[Change]) -> list[tuple[Span, Span]]:
    """Return the source spans that changes copy, each with its span in the new text; word by word if copied exactly."""
    found: list[tuple[Span, Span]] = []
    grown = 0
    for change in sorted(changes, key=lambda one: (one.begin, one.end)):
        begin = change.begin + grown
        if change.origin is not None and source[slice(*change.origin)] == change.text:
            first = change.origin[0]
            found += [((first + one, first + end), (begin + one, begin + end)) for one, end in word_spans(change.text)]
        elif change.origin is not None:
            found.append((change.origin, (begin, begin + len(change.text))))
        grown += len(change.text) - (change.end - change.begin)
    return found
