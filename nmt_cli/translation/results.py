"""The values that a line becomes on its way through translation.

A line of bytes becomes `Part`s (pieces to translate together), each part becomes `Translation`s, and these are joined
to the `Translation`s of the line, which leave as a `Translated`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nmt_cli.console import counted, warn
from nmt_cli.translation.alignment import Link, Matrix, hard_links


@dataclass(frozen=True, slots=True)
class Part:
    """Pieces to translate together: a line, or a part of a long one."""

    line: int
    """The number of the line in its window, from 0."""
    number: int
    """The number of the line in the whole input, from 0."""
    part: int
    """The number of this part in its line, from 0."""
    ids: tuple[int, ...]
    words: tuple[int, ...]
    """For each piece, the number of its word in the line; empty where no alignment is wanted."""

    @property
    def first_word(self) -> int:
        """The number of its first word in the line."""
        return self.words[0] if self.words else 0


@dataclass(frozen=True, slots=True)
class Translation:
    """One translation of a part or of a whole line."""

    text: str
    log_prob: float
    score: float
    weights_with_end: Matrix | None = None
    """All attention (target words, source words and `</s>`); None where it was not asked for, or would be too large."""
    links: tuple[Link, ...] | None = None
    """Each target word with its heaviest source word; None where it was not asked for."""
    num_words: int = 0
    """Words of the text; 0 where no alignment was asked for."""

    @property
    def weights(self) -> Matrix | None:
        """Attention between words (target words, source words)."""
        return None if self.weights_with_end is None else self.weights_with_end[:, :-1]

    def without_weights(self) -> Translation:
        """Return the translation with its links alone, which take far less memory."""
        weights = self.weights
        return self if weights is None else replace(self, weights_with_end=None, links=tuple(hard_links(weights)))


@dataclass(frozen=True, slots=True)
class Translated:
    """A line and its translations, best first, or as they were drawn; there is always one."""

    source: str
    translations: tuple[Translation, ...]


@dataclass(slots=True)
class Counts:
    """Numbers of lines and pieces for the report at the end."""

    lines: int = 0
    blank: int = 0
    invalid: int = 0
    cut: int = 0
    without_weights: int = 0
    unpaired_tags: int = 0
    """Lines with a tag that has no partner."""
    source_pieces: int = 0
    target_pieces: int = 0

    def add(self, other: Counts) -> None:
        """Count in what another translator counted."""
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def report(self, max_source_pieces: int) -> None:
        """Say on stderr what happened to lines that were not ordinary."""
        if self.invalid:
            warn(f"{counted(self.invalid, 'line')} not valid UTF-8; U+FFFD stands for their invalid bytes")
        if self.cut:
            warn(f"{counted(self.cut, 'line')} of more than {max_source_pieces} pieces translated in parts")
        if self.without_weights:
            warn(
                f"{counted(self.without_weights, 'line')} too long for a matrix of weights, with hard links but "
                "no soft alignment, and neither markup nor unknown words carried across"
            )
        if self.unpaired_tags:
            warn(
                f"{counted(self.unpaired_tags, 'line')} with a tag that is not closed, or closed but not opened; such "
                "a tag is kept, but encloses no words"
            )
