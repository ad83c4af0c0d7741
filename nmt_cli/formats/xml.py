"""Reads XML as a stream of events, in bounded memory, without declared entities and without fetching anything."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from html.entities import html5
from typing import NoReturn, Protocol, TypeVar
from xml.parsers import expat

from nmt_cli.formats.encoding import TextFacts
from nmt_cli.formats.opening import Input
from nmt_cli.system.errors import InputError

XML_ENCODING = re.compile(rb"""<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z0-9._:-]+)["']""")
FORBIDDEN_CHARACTER = re.compile("[\\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""A character that XML does not allow."""
PREDEFINED_ENTITIES = frozenset(("amp", "lt", "gt", "quot", "apos"))
"""Names of the references that XML itself defines."""
_NUMBER = re.compile("&#(?:[0-9]{1,7}|[xX][0-9a-fA-F]{1,6});")
_ODD = re.compile(rf"{FORBIDDEN_CHARACTER.pattern}|{_NUMBER.pattern}|&#?\w{{0,40}};?")
"""A character that is not allowed, or what looks like a reference."""
INVALID_MARKER = "\U0001fffe"
"""Character in place of a character or reference that XML does not allow; Unicode reserves it for such uses."""
_NEXT_MARK = {
    "": re.compile(r"<!\[CDATA\[|<!--|<\?"),
    "<![CDATA[": re.compile("]]>"),
    "<!--": re.compile("-->"),
    "<?": re.compile(r"\?>"),
}
"""By the mark that begins a CDATA section, a comment or an instruction, a pattern of its end; by an empty text, a
pattern of these marks. After a mark, `&` is an ordinary character."""
_UNFINISHED = re.compile(r"[&<\]?-]")
"""A character with which a reference or a mark begins."""
_MAX_MARK_LENGTH = 43
"""Largest number of characters in a reference or mark."""
_CUT_OFF_ERRORS = frozenset(
    (expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS], expat.errors.codes[expat.errors.XML_ERROR_UNCLOSED_TOKEN])
)
MAX_DEPTH = 1000
"""Largest depth of elements within elements."""


Item = TypeVar("Item")


class EventHandler(Protocol[Item]):
    """Takes the events of a document and collects pairs or rows."""

    items: list[Item]
    """Pairs or rows that have been read. The reader takes them out."""

    def start(self, name: str, attributes: dict[str, str], line: int, /) -> None:
        """Handle the beginning of an element; its name has no prefix of a namespace."""

    def end(self, name: str) -> None:
        """Handle the end of an element."""

    def text(self, data: str) -> None:
        """Handle a piece of character data."""


def forbidden_character(text: str) -> str | None:
    """Return the name of a character that XML does not allow, `U+000B` or `the byte 0xE9`; None if it is allowed.

    `text` is the character or a numeric reference to it. A byte that could not be decoded is a lone surrogate.
    """
    is_hexadecimal = text[2:3] in ("x", "X")
    code = ord(text) if len(text) == 1 else int(text[3:-1], 16) if is_hexadecimal else int(text[2:-1])
    is_allowed = code in (9, 10, 13) or 0x20 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or 0x10000 <= code < 0x110000
    if 0xDC80 <= code <= 0xDCFF:
        return f"the byte 0x{code - 0xDC00:02X}"
    return None if is_allowed else f"U+{code:04X}"


def _allowed_form(found: re.Match[str]) -> str:
    """Return a character or reference in a form that XML knows; `INVALID_MARKER` if neither XML nor HTML knows it."""
    sign = found[0]
    if not sign.startswith("&") or _NUMBER.fullmatch(sign):
        return sign if forbidden_character(sign) is None else INVALID_MARKER
    if sign[1:-1] in PREDEFINED_ENTITIES and sign.endswith(";"):
        return sign
    return (
        "".join(f"&#{ord(one)};" for one in html5[sign[1:]])
        if sign.endswith(";") and sign[1:] in html5
        else INVALID_MARKER
    )


def guarded_parser(name: str) -> expat.XMLParserType:
    """Return a parser that raises `InputError` for declarations of entities, which can expand to gigabytes of text."""
    parser = expat.ParserCreate()
    parser.EntityDeclHandler = lambda entity, *_: _refuse(
        name, parser.CurrentLineNumber, f"declares the entity {entity}; take the declaration out"
    )
    return parser


def _texts(input_file: Input, facts: TextFacts) -> Iterator[tuple[str, bool]]:
    """Yield the decoded parts of a text, each with whether it is the last."""
    decoder = codecs.getincrementaldecoder(facts.codec)("surrogateescape" if facts.is_broken else "strict")
    for chunk in input_file.chunks():
        yield decoder.decode(chunk), False
    yield decoder.decode(b"", final=True), True


def _clean_texts(texts: Iterable[tuple[str, bool]]) -> Iterator[tuple[str, bool]]:
    """Yield the text in pieces that a parser can read (see `_allowed_form`), each with whether it is the last."""
    rest = mark = ""
    for text, is_last in texts:
        text, begin, cleaned = rest + text, 0, []
        while begin < len(text):
            ending = _NEXT_MARK[mark].search(text, begin)
            end = len(text) if ending is None else ending.end()
            if ending is None and not is_last:
                unfinished = _UNFINISHED.search(text, max(begin, end - _MAX_MARK_LENGTH))
                end = end if unfinished is None else unfinished.start()
            cleaned.append((FORBIDDEN_CHARACTER if mark else _ODD).sub(_allowed_form, text[begin:end]))
            begin = end
            if ending is None:
                break
            mark = "" if mark else ending[0]
        rest = text[begin:]
        yield "".join(cleaned), is_last


def read_events(input_file: Input, facts: TextFacts, handler: EventHandler[Item]) -> Iterator[Item]:
    """Parse a document, send its events to `handler`, and yield the pairs or rows that it collects.

    A character that XML does not allow, a byte that is not valid, and an `&` that begins no reference which XML or HTML
    knows, come as `INVALID_MARKER`.

    Raises:
        InputError: the document is not well-formed or not valid in its encoding, or declares entities.
    """
    parser = guarded_parser(input_file.name)
    parser.buffer_text = True
    depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            _refuse(
                input_file.name,
                parser.CurrentLineNumber,
                f"elements are nested more than {MAX_DEPTH:,} deep; nest them less",
            )
        handler.start(name.rpartition(":")[2], attributes, parser.CurrentLineNumber)

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        handler.end(name.rpartition(":")[2])

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = handler.text
    try:
        for text, is_last in _clean_texts(_texts(input_file, facts)):
            parser.Parse(text, is_last)
            yield from handler.items
            handler.items.clear()
    except expat.ExpatError as error:
        is_cut = error.code in _CUT_OFF_ERRORS
        told = (
            "ends within an element; the file is cut off"
            if is_cut
            else f"{expat.ErrorString(error.code)}; fix the line"
        )
        _refuse(input_file.name, error.lineno, f"is not well-formed XML: {told}")
    except UnicodeError as error:
        line, reason = parser.CurrentLineNumber, getattr(error, "reason", error)
        _refuse(input_file.name, line, f"is not valid {facts.encoding} after this line ({reason}); give --encoding")


def _refuse(name: str, line: int, problem: str) -> NoReturn:
    raise InputError(f"{name}:{line}: {problem}")
