"""Places at which the tags, comments and texts of an XML document begin, as reported by expat."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.entities import html5
from typing import NamedTuple
from xml.parsers import expat

from nmt_cli.formats.encoded_text import EncodedText
from nmt_cli.formats.work import Work
from nmt_cli.formats.xml import FORBIDDEN_CHARACTER, MAX_DEPTH, PREDEFINED_ENTITIES, forbidden_character, guarded_parser

_LONG = re.compile(r"<(?=[^<]{1000})(?:[^<>\"']|\"[^<\"]*\"|'[^<']*')*+>")
"""A tag that may have many attributes: at least 1,000 characters lie between its `<` and the next. Mostly it is a short
tag with much text after it."""
_SUSPECT = re.compile(
    r"<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)"
    r"|&#(?:[0-9]{1,7}|[xX][0-9a-fA-F]{1,6});|&#?\w{0,40};?",
    re.S,
)
"""A reference, or a part of a document in which `&` is text. A part without an end is taken to reach the end of the
document, so that nothing is read twice."""
_ATTRIBUTE = re.compile(r"\"[^\"]*\"|'[^']*'")


class Event(NamedTuple):
    """A tag, text, comment or the like, with its range in the document."""

    kind: str
    """`start`, `end`, `text`, `cdata` (either mark of a CDATA section) or `other`."""
    name: str
    attributes: dict[str, str]
    start: int
    end: int
    """Offset at which the next event begins, in characters."""


class Problem(NamedTuple):
    """A place where a document is not valid XML, though its tags can be read."""

    place: int
    description: str


def events_of(document: EncodedText, work: Work) -> tuple[list[Event], list[Problem]]:
    """Return the tags, texts and the like of a document in order, and the places in it that are not valid XML.

    The names of elements have no prefix of a namespace.

    Raises:
        InputError: the document is not well-formed, declares entities, or is nested beyond reason.
    """
    parser = guarded_parser(document.name)
    found: list[tuple[str, str, dict[str, str], int]] = []
    nothing: dict[str, str] = {}
    names: dict[str, str] = {}
    depth = 0

    def add(kind: str, name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        work.count(1 + len(attributes))
        name = name.rpartition(":")[2]
        found.append((kind, names.setdefault(name, name), attributes or nothing, parser.CurrentByteIndex))
        depth += (kind == "start") - (kind == "end")
        if depth > MAX_DEPTH:
            place = _character_offsets(cleaned, [parser.CurrentByteIndex])[0]
            document.refuse(place, f"elements are nested more than {MAX_DEPTH:,} deep; nest them less")

    def other(*_: object) -> None:
        add("other", "", nothing)

    def text(*_: object) -> None:  # expat reports each line end and each reference apart
        work.step()
        if not found or found[-1][0] != "text":
            add("text", "", nothing)

    parser.StartElementHandler = lambda name, attributes: add("start", name, attributes)
    parser.EndElementHandler = lambda name: add("end", name, nothing)
    parser.StartCdataSectionHandler = lambda: add("cdata", "", nothing)
    parser.EndCdataSectionHandler = lambda: add("cdata", "", nothing)
    parser.StartDoctypeDeclHandler = parser.XmlDeclHandler = other
    parser.CommentHandler = parser.ProcessingInstructionHandler = parser.SkippedEntityHandler = other
    parser.CharacterDataHandler = text
    _count_attributes(document.text, work)
    cleaned, problems = _clean_text(document.text)
    try:
        parser.Parse(cleaned, True)
    except expat.ExpatError as error:
        place = _character_offsets(cleaned, [parser.ErrorByteIndex])[0]
        reason = expat.ErrorString(error.code)
        document.refuse(place, f"is not well-formed XML: {reason}; the file is damaged or cut off")
    places = [*_character_offsets(cleaned, [place for *_, place in found]), len(document.text)]
    return [Event(*event[:3], *places[i : i + 2]) for i, event in enumerate(found)], problems


def _clean_text(text: str) -> tuple[str, list[Problem]]:
    """Return a text of the same length that a parser can read, and the places in the text that are not valid XML.

    References by the names of HTML, such as `&nbsp;`, are known without a declaration.
    """
    problems: list[Problem] = []

    def clean(found: re.Match[str]) -> str:
        part = found[0]
        if part.startswith("<"):  # there, `&` is text
            return part
        if len(part) == 1 and part != "&":
            what = f"has {forbidden_character(part)}, which XML does not allow"
        elif part.startswith("&#") and part.endswith(";"):
            if (name := forbidden_character(part)) is None:
                return part
            what = f"has {name}, which XML does not allow"
        elif part[1:] in html5 and part.endswith(";"):
            return part if part[1:-1] in PREDEFINED_ENTITIES else "\ufffd" * len(part)
        else:
            what = f"has {part[:20]}, which is not a reference that is known here; & is written &amp; in XML"
        problems.append(Problem(found.start(), what))
        return "\ufffd" * len(part)

    cleaned = _SUSPECT.sub(clean, FORBIDDEN_CHARACTER.sub(clean, text))
    return cleaned, sorted(problems)


def _count_attributes(text: str, work: Work) -> None:
    """Count the attributes of long tags, because expat makes objects of all attributes of a tag at once."""
    for tag in _LONG.finditer(text):
        for _ in work.each(_ATTRIBUTE.finditer(text, *tag.span())):
            pass


def _character_offsets(text: str, places: Sequence[int]) -> list[int]:
    """Return offsets in the characters of a text for offsets in its bytes in UTF-8, which are in ascending order."""
    if text.isascii():
        return list(places)
    data = text.encode("utf-8")
    result, last, characters = [], 0, 0
    for place in places:
        characters += len(data[last:place].decode("utf-8", errors="ignore"))
        last = place
        result.append(characters)
    return result
