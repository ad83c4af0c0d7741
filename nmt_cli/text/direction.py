"""Translation directions, and the tags that tell a model the source and the target language."""

from __future__ import annotations

import re
from typing import NamedTuple

_CODE = re.compile(r"[A-Za-z0-9][\w@]*(-[\w@]+)*")


class Direction(NamedTuple):
    """A source and a target language; as text it is `XX-YY`."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"

    @property
    def options(self) -> tuple[str, ...]:
        """Command-line options that select this direction."""
        return "--source-lang", self.source, "--target-lang", self.target

    @property
    def reverse_direction(self) -> Direction:
        """The opposite direction, from the target to the source language."""
        return Direction(self.target, self.source)

    @property
    def tags(self) -> tuple[str, str]:
        """Tags of the source and of the target language. A model of several directions may know one or both.

        The tag of the target is that of Johnson et al. (2017): `<2fr>`.
        """
        return f"<from:{self.source}>", f"<2{self.target}>"

    @property
    def has_plain_codes(self) -> bool:
        """True if both languages are codes such as `zh` or `zh_TW`, which can be used in tags and in names of files."""
        return all(_CODE.fullmatch(code) for code in self)


def format_directions(directions: tuple[Direction, ...]) -> str:
    """Return directions as a list in words: `vi-en, en-vi`."""
    return ", ".join(map(str, directions))
