"""Adds a full stop to a sentence that lacks one, and removes it from the translation."""

from __future__ import annotations

import re

from nmt_cli.normalization.profile import TextProfile
from nmt_cli.normalization.step import RestoringStep
from nmt_cli.text.edits import Change
from nmt_cli.text.letters import WORD
from nmt_cli.text.line import Line, UndoRecord
from nmt_cli.text.translation import Translation

MIN_SENTENCE = 3
"""Least number of words of a line that is taken for a sentence."""
MAX_SENTENCE = 2_000
"""Most characters of a line that is taken for a sentence; parts of longer ones may end anywhere."""
_STOP = re.compile(r"(?<=\w)[.。।]\Z")


class FullStop(RestoringStep):
    """Adds a missing full stop to a sentence, if training lines have one, and removes it from the translation."""

    name = "full stop"

    def __init__(self, profile: TextProfile) -> None:
        """Add a full stop if `profile` says that most lines of the training text end in one."""
        self._is_usual = profile.ends_with_stop

    def read(self, line: Line) -> Line:
        """Return the line with a full stop, if it has enough words for a sentence and lacks one."""
        end = len(line.text.rstrip())
        if not self._is_usual or not line.text[end - 1 : end].isalpha() or end > MAX_SENTENCE:
            return line
        last = line.text[:end].rsplit(maxsplit=1)[-1]
        # A stop that touches a word which is no text would become a part of it.
        if not line.is_text(end - len(last), end) or len(WORD.findall(line.plain_text())) < MIN_SENTENCE:
            return line
        return line.apply_step(self.name, [Change(end, end, ".")])

    def undo(self, _: UndoRecord, translation: Translation) -> list[Change]:
        """Return the change that deletes the full stop at the end of the translation, unless it is in the prefix."""
        end = len(translation.text)
        return [Change(end - 1, end, "")] if end > translation.prefix_length and _STOP.search(translation.text) else []
