"""The attributes of tags that are to be translated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from html import escape

from nmt_cli.documents.codes import with_codes
from nmt_cli.formats.references import attributes_of, spelled
from nmt_cli.formats.segments import Segment
from nmt_cli.formats.work import SEGMENT, Work


def segments_of(tag: str, names: frozenset[str], work: Work) -> Iterator[Segment]:
    """Yield the values of a tag's attributes that are to be translated, at their places in it."""
    for attribute in attributes_of(tag):
        if attribute.name in names and attribute.raw.strip():
            finish = "".join if attribute.is_quoted else partial(_in_quotes, attribute.raw)
            work.count(SEGMENT)
            atoms = with_codes(work.each(spelled(attribute.raw)), work=work)
            yield Segment(attribute.start, attribute.end, atoms, escape, finish)


def _in_quotes(before: str, chunks: Sequence[str]) -> str:
    """Return a value that had no quotes, in quotes if it needs them now."""
    value = "".join(chunks)
    is_bare = value == before or re.fullmatch(r"[^\s\"'=<>`]+", value)
    return value if is_bare else '"{}"'.format(value.replace('"', "&quot;"))
