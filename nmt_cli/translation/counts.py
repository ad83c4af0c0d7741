"""Counts of lines and pieces for the report of a translation, without a library: the parent of workers adds them up."""

from __future__ import annotations

from dataclasses import dataclass

from nmt_cli.system.console import counted, warn


@dataclass(slots=True)
class Counts:
    """Numbers of lines and pieces for the report at the end."""

    lines: int = 0
    blank: int = 0
    empty: int = 0
    """Lines that are not blank and have an empty translation."""
    repeated: int = 0
    """Lines whose translation has been cut where the model repeated the same words."""
    invalid: int = 0
    cut: int = 0
    without_weights: int = 0
    unpaired_tags: int = 0
    """Lines with a tag that has no partner."""
    source_pieces: int = 0
    target_pieces: int = 0

    def add(self, other: Counts) -> None:
        """Add the counts of another translator."""
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def report(self, max_source_pieces: int) -> None:
        """Log the numbers of long, cut and unusual lines."""
        with_text = self.lines - self.blank
        if self.empty > with_text / 2:
            warn(
                f"{self.empty:,} of {with_text:,} translations are empty: the model has learnt too little. Train it "
                "for longer"
            )
        if self.repeated:
            warn(
                f"in {self.repeated:,} of {with_text:,} translations the model repeated the same words over and over; "
                "they end where that begins. The model has learnt too little for these lines: train it for longer, or "
                "with more text like them"
            )
        if self.invalid:
            warn(f"{counted(self.invalid, 'line')} not valid UTF-8; U+FFFD stands for their invalid bytes")
        if self.cut:
            warn(f"{counted(self.cut, 'line')} of more than {max_source_pieces} pieces translated in parts")
        if self.without_weights:
            warn(
                f"{counted(self.without_weights, 'line')} too long for a matrix of weights. They have hard links but "
                "no soft alignment, and no unknown words carried across"
            )
        if self.unpaired_tags:
            warn(
                f"{counted(self.unpaired_tags, 'line')} with a tag that is not closed, or closed but not opened. Such "
                "a tag is kept, but it encloses no words"
            )
