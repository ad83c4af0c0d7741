"""Extracts the text of a segment in TMX from between its inline codes, which hold the markup of other formats."""

from __future__ import annotations

import re

_CODES = frozenset(("bpt", "ept", "it", "ph", "ut", "x", "bx", "ex", "sc", "ec"))
"""Names of elements of TMX and XLIFF that hold or stand for markup, and have no text of the sentence."""
LINE_ENDS = frozenset(("lb", "pb", "br", "xlf:lb", "xlf:pb", "x-br", "x-lb", "x-LineBreak", "x-linebreak"))
"""Values of `type` (TMX), `ctype` (XLIFF 1.2) and `subType` (XLIFF 2) of codes that end a line or a page."""
SUBFLOW_NOTE = "texts with a footnote or the like inside a code (sub), which was left out"
BREAK_TAG = re.compile(r"\s*<br\b", re.I)


class SegmentText:
    """Collects the text of a segment outside of inline codes.

    A code that is a line break gives a line end, so that words do not run together. Text that somebody deleted while
    Trados kept track of changes is left out too.
    """

    def __init__(self) -> None:
        self.has_subflow = False
        """True if a code holds text of its own (`sub`), such as a footnote. It is left out with the code."""
        self._parts: list[str] = []
        self._code: list[str] = []
        self._opened: list[bool] = []
        """For each open element, outermost first, whether its text is left out."""
        self._num_hidden = 0
        self._is_break = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Begin an inline element."""
        is_hidden = name in _CODES or attributes.get("mtype") == "x-sdl-deleted"
        if is_hidden and not self._num_hidden:
            self._is_break = not LINE_ENDS.isdisjoint(attributes.get(key) for key in ("type", "ctype", "subType"))
            self._code = [attributes.get("equiv-text", attributes.get("equiv", ""))]
        self._num_hidden += is_hidden
        self.has_subflow |= name == "sub"
        self._opened.append(is_hidden)

    def end(self) -> None:
        """End the inline element that was begun last."""
        was_hidden = self._opened.pop()
        self._num_hidden -= was_hidden
        if was_hidden and not self._num_hidden and (self._is_break or BREAK_TAG.match("".join(self._code))):
            self._parts.append("\n")

    def add(self, data: str) -> None:
        """Add character data."""
        (self._code if self._num_hidden else self._parts).append(data)

    def __str__(self) -> str:
        return "".join(self._parts)
