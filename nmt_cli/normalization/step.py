"""The interface of a step: it reads a line on the way in, and changes the translation on the way out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from nmt_cli.text.edits import Change
from nmt_cli.text.line import Line, Undo
from nmt_cli.text.translation import Translation


class Step(ABC):
    """Reads a line on the way in. The translation stays; only the attention goes back to the text before the step.

    It knows the profile of the training text and the languages, but no other step, no tokenizer and no model.
    """

    name: str

    @abstractmethod
    def read(self, line: Line) -> Line:
        """Return the line as the next step reads it, with what is needed to undo this one."""


class RestoringStep(Step):
    """A step that gives the translation back what it took from the line."""

    @abstractmethod
    def undo(self, undo: Undo, found: Translation, /) -> Sequence[Change]:
        """Return the changes of a translation by which it is one of the text before this step."""
