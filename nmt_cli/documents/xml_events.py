"""Places at which the tags, comments and texts of an XML document begin, as reported by expat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from xml.parsers import expat

from nmt_cli.documents.encoding import Characters
from nmt_cli.formats.xml import MAX_DEPTH, guarded_parser


class Event(NamedTuple):
    """A piece of the document."""

    kind: str
    """`start`, `end`, `cdata` (either mark of a CDATA section) or `other`, which includes the text in one."""
    name: str
    attributes: dict[str, str]
    start: int
    end: int
    """Place at which the next event begins."""


def events_of(document: Characters) -> list[Event]:
    """Return the pieces of a document in order; names have no prefix.

    Raises:
        InputError: it is not well-formed, declares entities, or is nested beyond reason.
    """
    parser = guarded_parser(document.name)
    found: list[tuple[str, str, dict[str, str], int]] = []
    depth = 0

    def add(kind: str, name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        found.append((kind, name.rpartition(":")[2], attributes, parser.CurrentByteIndex))
        depth += (kind == "start") - (kind == "end")
        if depth > MAX_DEPTH:
            place = _characters(document.text, [parser.CurrentByteIndex])[0]
            document.refuse(place, f"elements lie within elements more than {MAX_DEPTH:,} deep")

    def other(*_: object) -> None:
        add("other", "", {})

    parser.StartElementHandler = lambda name, attributes: add("start", name, attributes)
    parser.EndElementHandler = lambda name: add("end", name, {})
    parser.StartCdataSectionHandler = lambda: add("cdata", "", {})
    parser.EndCdataSectionHandler = lambda: add("cdata", "", {})
    parser.StartDoctypeDeclHandler = parser.XmlDeclHandler = other
    parser.CommentHandler = parser.ProcessingInstructionHandler = parser.CharacterDataHandler = other
    parser.SkippedEntityHandler = other
    try:
        parser.Parse(document.text, True)
    except expat.ExpatError as error:
        place = _characters(document.text, [parser.ErrorByteIndex])[0]
        reason = expat.ErrorString(error.code)
        document.refuse(place, f"is not well-formed XML: {reason}; the file is damaged or cut off")
    places = [*_characters(document.text, [place for *_, place in found]), len(document.text)]
    return [Event(*event[:3], *places[i : i + 2]) for i, event in enumerate(found)]


def _characters(text: str, places: Sequence[int]) -> list[int]:
    """Return offsets in characters from those in UTF-8, which rise."""
    if text.isascii():
        return list(places)
    data = text.encode("utf-8")
    result, last, characters = [], 0, 0
    for place in places:
        characters += len(data[last:place].decode("utf-8", errors="ignore"))
        last = place
        result.append(characters)
    return result
