"""Read XML as a stream of events, in bounded memory, without entities of its own and without fetching anything."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from html.entities import name2codepoint
from typing import NoReturn, Protocol, TypeVar
from xml.parsers import expat

from nmt_cli.formats.encoding import TextFacts, asked_codec, declared_codec, text_codec
from nmt_cli.formats.opening import Input
from nmt_cli.formats.recognise import utf16_encoding
from nmt_cli.system.errors import InputError

DECLARED = re.compile(rb"""<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z0-9._:-]+)["']""")
MAX_DEPTH = 1000
"""Elements within elements."""


Item = TypeVar("Item")


class Events(Protocol[Item]):
    """Takes the events of a document and collects pairs or rows."""

    found: list[Item]
    """Pairs that have been read. The reader takes them out."""

    def start(self, name: str, attributes: dict[str, str], line: int, /) -> None:
        """An element begins; its name has no prefix."""

    def end(self, name: str) -> None:
        """An element ends."""

    def text(self, data: str) -> None:
        """A piece of character data."""


def declared_encoding(given: Input, asked: str | None) -> TextFacts:
    """Return the encoding that the document declares, or UTF-8, or the one that is asked for."""
    head = given.head(1 << 12)
    marked = utf16_encoding(head)
    declared = DECLARED.search(head)
    if marked and marked.endswith("E") and asked and asked_codec(asked) == "utf-16":
        asked = None  # it has no mark, but zero bytes, which tell the order
    encoding = asked or marked or (declared[1].decode("ascii") if declared else "UTF-8")
    try:
        codec = asked_codec(asked) if asked else text_codec(marked) if marked else declared_codec(encoding)
    except LookupError:
        raise InputError(
            f"{given.name}: declares the encoding {encoding}, which is not known; give --encoding"
        ) from None
    if codec == "utf-8":
        has_mark = head.startswith(codecs.BOM_UTF8)
        return TextFacts("UTF-8", "utf-8-sig", "none", has_mark)
    return TextFacts(encoding, codec, "none", marked is not None and not marked.endswith("E"))


def guarded_parser(name: str) -> expat.XMLParserType:
    """Return a parser that refuses declarations of entities, which can stand for gigabytes of text."""
    parser = expat.ParserCreate()
    parser.EntityDeclHandler = lambda entity, *_: _refuse(
        name, parser.CurrentLineNumber, f"declares the entity {entity}; take the declaration out"
    )
    return parser


def read_events(given: Input, facts: TextFacts, events: Events[Item]) -> Iterator[Item]:
    """Send the document to `events`, and yield what it collects.

    Raises:
        InputError: the document is not well-formed or not valid in its encoding, or declares entities.
    """
    parser = guarded_parser(given.name)
    parser.buffer_text = True
    depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            _refuse(given.name, parser.CurrentLineNumber, "has elements within elements a thousand deep")
        events.start(name.rpartition(":")[2], attributes, parser.CurrentLineNumber)

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        events.end(name.rpartition(":")[2])

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = events.text
    parser.SkippedEntityHandler = lambda name, is_parameter: _named(given, parser, events.text, name, is_parameter)
    decoder = codecs.getincrementaldecoder(facts.codec)("strict")
    try:
        for chunk in given.chunks():
            parser.Parse(decoder.decode(chunk), False)
            yield from events.found
            events.found.clear()
        parser.Parse(decoder.decode(b"", final=True), True)
    except expat.ExpatError as error:
        _refuse(given.name, error.lineno, f"is not well-formed XML: {expat.ErrorString(error.code)}; mend the line")
    except UnicodeError as error:
        line, reason = parser.CurrentLineNumber, getattr(error, "reason", error)
        _refuse(given.name, line, f"is not valid {facts.encoding} after this line ({reason}); give --encoding")
    yield from events.found
    events.found.clear()


def _named(
    given: Input, parser: expat.XMLParserType, text: Callable[[str], None], name: str, is_parameter: bool
) -> None:
    """Take an entity of HTML, such as `&nbsp;`, for its character; others have no known text."""
    if is_parameter:
        return
    if name not in name2codepoint:
        _refuse(given.name, parser.CurrentLineNumber, f"uses the entity &{name};, whose text is not in the file")
    text(chr(name2codepoint[name]))


def _refuse(name: str, line: int, problem: str) -> NoReturn:
    raise InputError(f"{name}:{line}: {problem}")
