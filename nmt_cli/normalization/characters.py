"""Characters that the training text lacks are replaced by similar ones that it has: quotes, dashes, accents, blanks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nmt_cli.normalization.known_characters import DASHES, KnownCharacters
from nmt_cli.normalization.step import Step
from nmt_cli.text.edits import Change
from nmt_cli.text.line import Line

_CLUSTER = re.compile("[^\u0300-\u036f]?[\u0300-\u036f]*", re.DOTALL)
"""A character with the accents that follow it."""
_BLANKS_OR_WORD = re.compile(r"\s+|\S+")


class Characters(Step):
    """Replaces characters that the training text lacks by similar ones that it has; the translation is unchanged."""

    name = "characters"

    def __init__(self, known: KnownCharacters) -> None:
        """Replace the characters that are not `known` in the training text."""
        self._known = known

    def read(self, line: Line) -> Line:
        """Return the line with similar characters of the training text for those that the training text lacks."""
        return line if self._known.has_all(line.text) else line.apply_step(self.name, self._changes(line))

    def _changes(self, line: Line) -> Iterator[Change]:
        for word in _BLANKS_OR_WORD.finditer(line.text):
            if self._known.has_all(word[0]):
                continue
            is_opening = True
            for cluster in _CLUSTER.finditer(line.text, *word.span()):
                begin, end = cluster.span()
                if begin == end:
                    continue
                before, after = (
                    line.text[max(begin - 1, word.start()) : begin],
                    line.text[end : min(end + 1, word.end())],
                )
                read = self._known.equivalent(cluster[0], is_opening=is_opening)
                is_opening = is_opening and not any(map(str.isalnum, cluster[0]))
                is_between = before.isalpha() and after.isalpha()
                if cluster[0] in "—―" and is_between and read in DASHES and read not in "—―":
                    read = f" {read} "  # a hyphen would make one word of two
                if read != cluster[0] and line.is_free(begin, end):
                    yield Change(begin, end, read, one_to_one=len(read) == end - begin)
