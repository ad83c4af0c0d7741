"""Blanks before punctuation, as in `Hello !`, are left out if the training text has none there."""

from __future__ import annotations

import re

from nmt_cli.normalization.profile import TextProfile
from nmt_cli.normalization.step import Step
from nmt_cli.text.edits import Change
from nmt_cli.text.line import Line

_MARKS_APART = re.compile(r"(?<=\S)\s+([.,;:!?…]+)(?!\S)")
"""Blanks and the punctuation after them, which does not touch the next word."""


class Spacing(Step):
    """Removes blanks before punctuation as the training text does; the translation is unchanged."""

    name = "spacing"

    def __init__(self, profile: TextProfile) -> None:
        """Remove the blanks before marks that the training text, according to `profile`, joins to their words."""
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
        return line.apply_step(self.name, [Change(mark.start(), mark.start(1), "") for mark in apart])
