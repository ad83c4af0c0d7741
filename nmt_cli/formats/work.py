"""Counts the work that a document needs, in parts, so that it can be limited and stopped while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
CHECK_INTERVAL = 1_000
"""Number of parts, or of steps that make no part, after which the work asks whether it may continue."""
SEGMENT_PARTS = SENTENCE_PARTS = 2
"""Number of parts that a segment or a sentence counts as, in addition to its atoms, because of the memory it takes."""


def _nothing(*_: object) -> None:
    """Do nothing, so that the work continues without limits."""


class Work:
    """Counts the parts of a document that are held in memory: tags, texts, attributes, entities, lines, sentences.

    A part takes some 200 bytes, and 20 microseconds until the document is translated, whatever the format.
    """

    def __init__(self, check: Callable[[], None] = _nothing, grow: Callable[[int], None] = _nothing) -> None:
        """Call `check` after at most `CHECK_INTERVAL` parts or steps, and `grow` with the number of new parts.

        What either of them raises ends the work.
        """
        self._check, self._grow = check, grow
        self._num_new = self._num_steps = 0

    def count(self, num_parts: int = 1) -> None:
        """Count parts that are made now; after `CHECK_INTERVAL` of them, report them, and call `check`."""
        self._num_new += num_parts
        if self._num_new >= CHECK_INTERVAL:
            num_new, self._num_new = self._num_new, 0
            self._grow(num_new)
            self.check()

    def step(self, num_steps: int = 1) -> None:
        """Count steps that take time and make no part; after `CHECK_INTERVAL` of them, call `check`."""
        self._num_steps += num_steps
        if self._num_steps >= CHECK_INTERVAL:
            self.check()

    def check(self) -> None:
        """Ask at once whether the work may continue; the function given as `check` raises an error if not."""
        self._num_steps = 0
        self._check()

    def each(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the items, and count each as a part of the document before it is used."""
        for item in items:
            self.count()
            yield item
