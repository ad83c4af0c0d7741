"""Blanks before a mark that the training text joins to its word are not read, as in `Hello !`."""

from __future__ import annotations

import re

from nmt_cli.normalization.profile import TextProfile
from nmt_cli.normalization.step import Step
from nmt_cli.text.edits import Change
from nmt_cli.text.line import Line

_MARKS_APART = re.compile(r"(?<=\S)\s+([.,;:!?…]+)(?!\S)")
"""Blanks, and the marks behind them, which do not touch the next word."""


class Spacing(Step):
    """Reads marks as the training text has them, behind a blank or not; the translation stays."""

    name = "spacing"

    def __init__(self, profile: TextProfile) -> None:
        """Space marks as `profile` says that the training text does."""
        self._profile = profile

    def read(self, line: Line) -> Line:
        """Return the line without the blanks before marks that the training text joins to their words."""
        if self._profile.sign_words is None:
            return line
        apart = (
            mark
            for mark in _MARKS_APART.finditer(line.text)
            if not self._profile.is_usually_apart(mark[1]) and line.is_free(mark.start(), mark.start(1))
        )
        return line.changed(self.name, [Change(mark.start(), mark.start(1), "") for mark in apart])
