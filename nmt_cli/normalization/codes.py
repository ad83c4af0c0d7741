"""Words that are not text, such as placeholders, tags and addresses, are locked, so they stay as they are."""

from __future__ import annotations

import re
from collections.abc import Collection

from nmt_cli.normalization.step import Step
from nmt_cli.text.line import Line

_CODE = r"[_@{}<>%\\]|://|\bwww\."
"""Signs of a word that is no text."""
_WORD = re.compile(r"\S+")


def code_pattern(symbols: Collection[str]) -> re.Pattern[str]:
    """Return the pattern of signs that show a word not to be text, among them the `symbols` of a tokenizer."""
    return re.compile("|".join([_CODE, *map(re.escape, sorted(symbols, key=len, reverse=True))]))


class Codes(Step):
    """Locks words that are not text, so that no later step changes them."""

    name = "codes"

    def __init__(self, code: re.Pattern[str]) -> None:
        """Lock the words in which `code` is found."""
        self._code = code

    def read(self, line: Line) -> Line:
        """Return the line with all words locked in which the pattern is found, such as addresses."""
        if not self._code.search(line.text):
            return line
        codes = [word.span() for word in _WORD.finditer(line.text) if self._code.search(word[0])]
        return line.apply_step(self.name, non_text_spans=codes)
