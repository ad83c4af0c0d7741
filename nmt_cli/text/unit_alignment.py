"""The attention between the units (pieces) of a source and of its translation, each with its characters.

When the texts change, the spans of the units are moved, and the weights stay. They are merged to words only when words
are asked for.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nmt_cli.text.alignment import AlignmentMatrix, Link
from nmt_cli.text.edits import Edits, Span


@dataclass(frozen=True, slots=True)
class Alignment:
    """Units of a source and a target text, and the weights of the alignment of target units to source units."""

    source: tuple[Span, ...]
    """The span of each unit in the source text; empty for a unit that was inserted for the model alone."""
    target: tuple[Span, ...]
    """The span of each unit in the target text; they overlap where a change has joined units."""
    weights: NDArray[np.floating] | None
    """Attention (target units, source units and `</s>`); None where it would be too large."""
    aligned_units: tuple[int, ...] = ()
    """Index of the source unit that each target unit is aligned to most, -1 for none; empty if there are weights."""
    num_copied: int = 0
    """Number of last units on both sides that are text copied from the source, unread; each is aligned to its copy."""

    @classmethod
    def concatenate(cls, parts: Sequence[Alignment], begins: Sequence[int]) -> Alignment:
        """Return the alignment of a source whose parts were translated one by one.

        It has weights if all parts have them.

        Args:
            parts: the alignments of the parts; their source spans refer to the whole source already.
            begins: for each part, the index of the first character of its translation in the whole translation.
        """
        if len(parts) == 1 and begins[0] == 0:
            return parts[0]
        source = tuple(span for part in parts for span in part.source)
        target = tuple(
            (begin + at, end + at) for part, at in zip(parts, begins, strict=True) for begin, end in part.target
        )
        column = row = 0
        if any(part.weights is None for part in parts):
            aligned_units: list[int] = []
            for part in parts:
                aligned_units += [unit + column if unit >= 0 else -1 for unit in part._hard_alignment()]
                column += len(part.source)
            return cls(source, target, None, tuple(aligned_units))
        weights = np.zeros((len(target), len(source) + 1), np.float32)
        for part in parts:
            assert part.weights is not None
            rows = slice(row, row + len(part.target))
            weights[rows, column : column + len(part.source)] = part.weights[:, :-1]
            weights[rows, -1] = part.weights[:, -1]
            row, column = row + len(part.target), column + len(part.source)
        return cls(source, target, weights)

    def of_words(self, source: Sequence[Span], target: Sequence[Span]) -> Alignment:
        """Return this alignment merged to words, which are given by their spans.

        To save memory it has no weights, but for each target word the source word that it is aligned to most.
        """
        return Alignment(tuple(source), tuple(target), None, tuple(self.aligned_to(source, target)))

    def _hard_alignment(self) -> Sequence[int]:
        if self.weights is None:
            return self.aligned_units
        own = self.weights[:, :-1]
        return [int(row.argmax()) if row.any() else -1 for row in own]

    def apply_edits(self, source: Edits, target: Edits, inserted: Sequence[tuple[Span, Span]] = ()) -> Alignment:
        """Return this alignment between the edited source and the edited target.

        Args:
            source: edits of the present source text.
            target: edits of the present target text.
            inserted: spans of the new source, such as tags and symbols, each with the span of its copy in the new
                target. Both become units of their own, aligned to each other.
        """
        sources, targets = tuple(source.new_spans(self.source)), tuple(target.new_spans(self.target))
        if not inserted:
            return Alignment(sources, targets, self.weights, self.aligned_units, self.num_copied)
        num_own, num_new = len(sources), len(inserted)
        sources += tuple(origin for origin, _ in inserted)
        targets += tuple(place for _, place in inserted)
        if self.weights is None:
            aligned_units = (*self.aligned_units, *range(num_own, num_own + num_new))
            return Alignment(sources, targets, None, aligned_units, self.num_copied + num_new)
        weights = np.zeros((len(targets), len(sources) + 1))
        weights[:-num_new, :num_own] = self.weights[:, :-1]
        weights[:-num_new, -1] = self.weights[:, -1]
        weights[-num_new:, num_own : num_own + num_new] = np.eye(num_new)
        return Alignment(sources, targets, weights, (), self.num_copied + num_new)

    def word_weights(self, source: Sequence[Span], target: Sequence[Span]) -> AlignmentMatrix:
        """Return the attention between words (target words, source words and `</s>`).

        The words are given by their spans, from left to right. Weights are summed over source units and averaged over
        target units. A unit belongs to the word at its first character, or to the next word; a unit without characters
        belongs to the word before it. A unit that was copied from the source counts only in a target word that has none
        of the other units.
        """
        columns = np.array([*word_indices(self.source, source), len(source)])
        rows = np.array(self._rows(target), dtype=int)
        weights = self._weights()
        by_source = np.zeros((len(rows), len(source) + 1))
        np.add.at(by_source.T, columns, weights.T)
        merged, counts = np.zeros((len(target), len(source) + 1)), np.zeros(len(target))
        inside = rows < len(target)
        np.add.at(merged, rows[inside], by_source[inside])
        np.add.at(counts, rows[inside], 1)
        return merged / np.maximum(counts, 1)[:, None]

    def aligned_to(self, source: Sequence[Span], target: Sequence[Span]) -> list[int]:
        """Return the index of the source word that each target word is aligned to most; -1 for none."""
        if self.weights is not None:
            weights = self.word_weights(source, target)[:, :-1]
            return [int(row.argmax()) if row.any() else -1 for row in weights]
        columns, rows = word_indices(self.source, source), self._rows(target)
        found: list[Counter[int]] = [Counter() for _ in target]
        for row, unit in zip(rows, self.aligned_units, strict=True):
            if row < len(target) and unit >= 0 and columns[unit] < len(source):
                found[row][columns[unit]] += 1
        return [min(own, key=lambda word: (-own[word], word)) if own else -1 for own in found]

    def links(self, source: Sequence[Span], target: Sequence[Span]) -> list[Link]:
        """Return a link from each target word to the source word that it is aligned to most, in target order."""
        return [(word, row) for row, word in enumerate(self.aligned_to(source, target)) if word >= 0]

    def _rows(self, target: Sequence[Span]) -> list[int]:
        """Return the index of the word of each target unit; the number of words for a unit that counts in none."""
        rows = word_indices(self.target, target)
        num_own = len(rows) - self.num_copied
        taken = set(rows[:num_own])
        return [*rows[:num_own], *(len(target) if row in taken else row for row in rows[num_own:])]

    def _weights(self) -> NDArray[np.floating]:
        if self.weights is not None:
            return self.weights
        weights = np.zeros((len(self.target), len(self.source) + 1))
        for row, unit in enumerate(self.aligned_units):
            weights[row, unit] = unit >= 0
        return weights


def word_indices(units: Sequence[Span], words: Sequence[Span]) -> list[int]:
    """Return the index of the word that each unit belongs to (see `Alignment.word_weights`); 0 without any words."""
    begins, ends = [begin for begin, _ in words], [end for _, end in words]
    last = max(len(words) - 1, 0)
    return [
        min(bisect_right(ends, begin), last) if begin < end else max(bisect_left(begins, begin) - 1, 0)
        for begin, end in units
    ]
