"""Reads plain text, in which each line is a paragraph that is translated as one segment."""

from __future__ import annotations

from collections.abc import Iterator

from nmt_cli.formats.encoding import LINE
from nmt_cli.formats.segments import Atom, Content, Segment
from nmt_cli.formats.work import SEGMENT_PARTS


class Paragraphs(Content):
    """The lines of a text that are not blank, without their line ends."""

    HAS_CODES = False

    def segments(self) -> Iterator[Segment]:
        """Yield a segment for each line that is not blank."""
        lines = self.document.text.split("\n") if self.document.newline == "\n" else LINE.findall(self.document.text)
        start = int(self.document.text.startswith("\ufeff"))  # a byte order mark is no text
        lines[:1] = [line[start:] for line in lines[:1]]
        for number, line in enumerate(lines, start=1):
            self.work.count(1 + SEGMENT_PARTS)
            bare = line.removesuffix("\r")
            if bare.strip():
                yield Segment(start, start + len(bare), (Atom(bare, bare),), line=number)
            start += len(line) + (self.document.newline == "\n")
