"""Text and attributes as HTML and XML spell them, with references such as `&amp;` and `&#8217;`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from html import escape
from typing import NamedTuple

from nmt_cli.documents.codes import with_codes
from nmt_cli.documents.segments import Atom, Segment
from nmt_cli.documents.work import SEGMENT, Work
from nmt_cli.formats.references import unescape

_ATTRIBUTE = re.compile(r"""[\s"'/]([^\s"'<>/=]+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s"'>][^\s>]*))?""")
_REFERENCE = re.compile(r"&(?:#[0-9]+|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);?|[^&]+|&")


class Attribute(NamedTuple):
    """An attribute in the text of a tag."""

    name: str
    raw: str
    """The value, without its quotes."""
    start: int
    end: int
    """The range of the value in the tag."""
    is_quoted: bool


def attributes_of(tag: str) -> Iterator[Attribute]:
    """Yield the attributes of a tag; names are in lower case."""
    for match in _ATTRIBUTE.finditer(tag):
        is_quoted = (match[2] or "")[:1] in ('"', "'") and match[2] is not None
        start, end = match.span(2) if match[2] is not None else (match.end(), match.end())
        start, end = start + is_quoted, end - is_quoted
        yield Attribute(match[1].lower(), tag[start:end], start, end, is_quoted)


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


def spelled(raw: str) -> Iterator[Atom]:
    """Yield the atoms of a text, each reference to a character as one."""
    for match in _REFERENCE.finditer(raw):
        yield Atom(match[0], unescape(match[0]))


def written(text: str) -> str:
    """Return a text as an element holds it."""
    return escape(text, quote=False)
