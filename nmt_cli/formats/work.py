"""The work that a document makes, counted in parts, so that it can be bounded and ended while it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
STEP = 1_000
"""Parts, or steps without a part, after which the work asks whether it may go on."""
SEGMENT = SENTENCE = 2
"""Parts for which a segment and a sentence count beside what they are made of: they take as much memory."""


def _nothing(*_: object) -> None:
    """Let the work go on."""


class Work:
    """Counts the parts of a document that are held in memory: tags, texts, attributes, entities, lines, sentences.

    A part takes some 200 bytes, and 20 microseconds until the document is translated, whatever the format.
    """

    def __init__(self, check: Callable[[], None] = _nothing, grow: Callable[[int], None] = _nothing) -> None:
        """Call `check` after at most `STEP` parts or steps, and `grow` with the number of new parts.

        What either of them raises ends the work.
        """
        self._check, self._grow = check, grow
        self._num_new = self._num_steps = 0

    def count(self, num_parts: int = 1) -> None:
        """Count parts that are made now."""
        self._num_new += num_parts
        if self._num_new >= STEP:
            num_new, self._num_new = self._num_new, 0
            self._grow(num_new)
            self.check()

    def step(self, num_steps: int = 1) -> None:
        """Count steps that take time and make no part."""
        self._num_steps += num_steps
        if self._num_steps >= STEP:
            self.check()

    def check(self) -> None:
        """Ask at once whether the work may go on."""
        self._num_steps = 0
        self._check()

    def each(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield items, each of them counted as a part."""
        for item in items:
            self.count()
            yield item
