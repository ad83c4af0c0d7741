"""Counts of lines and pieces for the report of a translation.

The parent process adds up the counts of its workers, so this module needs no torch.
"""

from __future__ import annotations

from dataclasses import dataclass

from nmt_cli.data.lines import warn_of_invalid
from nmt_cli.system.console import format_count, warn


@dataclass(slots=True)
class Counts:
    """Numbers of translated lines and pieces, and of unusual lines, for the report at the end."""

    lines: int = 0
    blank: int = 0
    empty: int = 0
    """Lines that are not blank and have an empty translation."""
    repeated: int = 0
    """Lines whose translation was cut because the model repeated the same words without end."""
    invalid: int = 0
    cut: int = 0
    without_weights: int = 0
    unpaired_tags: int = 0
    """Lines with an opening tag without a closing one, or the other way round."""
    source_pieces: int = 0
    target_pieces: int = 0

    def add(self, other: Counts) -> None:
        """Add the counts of another translator to these."""
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def report(self, max_source_pieces: int) -> None:
        """Warn of empty and repetitive translations, and of lines that are invalid, cut or otherwise unusual.

        `max_source_pieces` is the number of pieces beyond which lines were cut into parts.
        """
        with_text = self.lines - self.blank
        if self.empty:
            are = "is" if self.empty == 1 else "are"
            message = f"{self.empty:,} of {with_text:,} translations {are} empty: the model"
            if self.empty > with_text / 2:
                warn(f"{message} has learned too little. Train it for longer")
            else:
                warn(f"{message} finds no words there. Train it with more text like those lines")
        if self.repeated:
            warn(
                f"in {self.repeated:,} of {with_text:,} translations the model repeated the same words over and over; "
                "they end where that begins. The model has learned too little for these lines: train it for longer, or "
                "with more text like them"
            )
        if self.invalid:
            warn_of_invalid("", self.invalid)
        if self.cut:
            have, were = ("has", "was") if self.cut == 1 else ("have", "were")
            warn(
                f"{format_count(self.cut, 'line')} {have} more than {max_source_pieces} pieces and {were} translated "
                "in parts, which may read worse; split long lines into sentences"
            )
        if self.without_weights:
            warn(
                f"{format_count(self.without_weights, 'line')} {'is' if self.without_weights == 1 else 'are'} too long "
                "for attention weights, so there was no soft alignment and no copying of unknown words there"
            )
        if self.unpaired_tags:
            warn(
                f"{format_count(self.unpaired_tags, 'line')} {'has' if self.unpaired_tags == 1 else 'have'} an opening "
                "tag without a closing one, or the other way round. Such tags are kept, but enclose no words"
            )
