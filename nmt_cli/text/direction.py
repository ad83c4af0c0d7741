"""The directions in which a model translates, and the tags by which it is told the target."""

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
        """The options of a command that choose it."""
        return "--source-lang", self.source, "--target-lang", self.target

    @property
    def exchanged(self) -> Direction:
        """The direction of the opposite way."""
        return Direction(self.target, self.source)

    @property
    def tags(self) -> tuple[str, str]:
        """The marks of its source and of its target, of which a model of several directions may know one or both.

        The mark of the target is the one of Johnson et al. (2017): `<2fr>`.
        """
        return f"<from:{self.source}>", f"<2{self.target}>"

    @property
    def has_plain_codes(self) -> bool:
        """True if both languages are codes such as `zh` or `zh_TW`, of which tags and names of files can be made."""
        return all(_CODE.fullmatch(code) for code in self)


def listed(directions: tuple[Direction, ...]) -> str:
    """Return directions as a list in words: `vi-en, en-vi`."""
    return ", ".join(map(str, directions))
