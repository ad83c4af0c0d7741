"""Words that are no text stay as they are: placeholders, tags, addresses."""

from __future__ import annotations

import re
from collections.abc import Collection

from nmt_cli.normalization.step import Step
from nmt_cli.text.line import Line

_CODE = r"[_@{}<>%\\]|://|\bwww\."
"""Signs of a word that is no text."""
_WORD = re.compile(r"\S+")


def code_pattern(symbols: Collection[str]) -> re.Pattern[str]:
    """Return what is found in a word that is no text; the `symbols` of a tokenizer are such signs too."""
    return re.compile("|".join([_CODE, *map(re.escape, sorted(symbols, key=len, reverse=True))]))


class Codes(Step):
    """Locks words that are no text."""

    name = "codes"

    def __init__(self, code: re.Pattern[str]) -> None:
        """Lock the words in which `code` is found."""
        self._code = code

    def read(self, line: Line) -> Line:
        """Return the line with its codes locked."""
        if not self._code.search(line.text):
            return line
        codes = [word.span() for word in _WORD.finditer(line.text) if self._code.search(word[0])]
        return line.changed(self.name, no_text=codes)
