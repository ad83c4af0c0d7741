"""Text and attributes as HTML and XML spell them, with references such as `&amp;` and `&#8217;`."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import NamedTuple

from nmt_cli.formats.segments import Atom, Kind

ENDLESS = re.compile(r"(&#[0-9]{1000,};?)")
"""A reference with a number of 1,000 digits or more, which is no character and which Python refuses to read."""

_ATTRIBUTE = re.compile(r"""[\s"'/]([^\s"'<>/=]+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s"'>][^\s>]*))?""")
_REFERENCE = re.compile(r"&(?:#[0-9]+|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);?|[^&]+|&")


class Attribute(NamedTuple):
    """An attribute in the text of a tag."""

    name: str
    raw: str
    """The value, without its quotes."""
    start: int
    end: int
    """End of the value, without quotes, which begins at `start`; both are offsets in the tag."""
    is_quoted: bool


def attributes_of(tag: str) -> Iterator[Attribute]:
    """Yield the attributes of a tag; names are in lower case."""
    for match in _ATTRIBUTE.finditer(tag):
        is_quoted = (match[2] or "")[:1] in ('"', "'") and match[2] is not None
        start, end = match.span(2) if match[2] is not None else (match.end(), match.end())
        start, end = start + is_quoted, end - is_quoted
        yield Attribute(match[1].lower(), tag[start:end], start, end, is_quoted)


def unescape(text: str) -> str:
    """Return a text with its references replaced by the characters; references that match `ENDLESS` stay."""
    if "&" not in text:
        return text
    return "".join(part if place % 2 else html.unescape(part) for place, part in enumerate(ENDLESS.split(text)))


def parse_references(raw: str) -> Iterator[Atom]:
    """Yield the pieces of a text in HTML or XML: each character reference, such as `&amp;`, and the text between."""
    for match in _REFERENCE.finditer(raw):
        yield Atom(match[0], unescape(match[0]))


def protected(raw: str) -> Atom:
    """Return an element whose text the document forbids to translate, with its tags, as one protected atom."""
    return Atom(raw, unescape(re.sub(r"<[^<>]*>", "", raw)), Kind.PROTECTED)


def escape_markup(text: str) -> str:
    """Return a text as it is written in an element, with `&`, `<` and `>` escaped."""
    return html.escape(text, quote=False)
