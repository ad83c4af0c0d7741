"""The interface of a step: it reads a line on the way in, and changes the translation on the way out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from nmt_cli.text.edits import Change
from nmt_cli.text.line import Line, UndoRecord
from nmt_cli.text.translation import Translation


class Step(ABC):
    """Changes a line on the way in, but not the translation on the way out.

    Only the alignment of the translation is mapped back to the text before the step. A step knows the profile of the
    training text and the languages, but no other step, no tokenizer and no model.
    """

    name: str

    @abstractmethod
    def read(self, line: Line) -> Line:
        """Return the line as the next step reads it, with the record that is needed to undo this step."""


class RestoringStep(Step):
    """A step that also changes the translation on the way out, to restore the text that it has changed in the line."""

    @abstractmethod
    def undo(self, undo: UndoRecord, translation: Translation, /) -> Sequence[Change]:
        """Return the changes that turn the translation of the text after this step into one of the text before it."""
