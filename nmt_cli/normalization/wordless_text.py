"""A text without words is copied: a time, an address, a version, a smiley. A model would make a sentence of it."""

from __future__ import annotations

import re
from dataclasses import replace

from nmt_cli.normalization.number_spans import number_spans
from nmt_cli.normalization.step import RestoringStep
from nmt_cli.text.edits import Change
from nmt_cli.text.line import Line, UndoRecord
from nmt_cli.text.translation import Translation

_AM_PM = re.compile(r"(?<=\d)\s?[ap]\.?m\b\.?", re.IGNORECASE)
_PLAIN_WORD = re.compile(r"(?<!\S)[^\W\d_]{3,}(?!\S)")
"""At least three letters, and nothing else, between blanks or line ends. A text with a match has words; most have
one, and need no closer look."""
MAX_LENGTH = 200
"""Most characters of a text that is copied; a longer one, such as a table of numbers, is read by the model as usual."""


class WordlessText(RestoringStep):
    """Takes the text of a line without words away, and copies it into the translation."""

    name = "wordless"

    def read(self, line: Line) -> Line:
        """Return the line with an empty text if it is short and has no words, terms or prefix; else the line itself."""
        text = line.text
        if not text.strip() or len(text) > MAX_LENGTH or line.prefix or line.constraints or _has_words(line):
            return line
        begin = len(text) - len(text.lstrip())
        nothing = replace(line, locked_spans=(), non_text_spans=())  # of placeholders, which come back with the text
        return nothing.apply_step(self.name, [Change(0, len(text), "")], (begin, begin + len(text.strip())))

    def undo(self, undo: UndoRecord, translation: Translation) -> list[Change]:
        """Return the change that replaces the generated text by the text of the line."""
        begin, end = undo.data
        return [Change(0, len(translation.text), undo.edits.old[begin:end], (begin, end))]


def _has_words(line: Line) -> bool:
    text = line.plain_text()
    if _PLAIN_WORD.search(text):
        return True
    if not any(map(str.isalpha, text)):
        return False
    rest, position = [], 0
    for begin, end in number_spans(text):
        rest.append(text[position:begin] + "0")
        position = end
    rest.append(text[position:])
    return any(map(str.isalpha, _AM_PM.sub("", "".join(rest))))
