"""Places at which the tags, comments and texts of a page begin, as reported by `html.parser`."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import NamedTuple

from nmt_cli.documents.encoding import Characters, Places
from nmt_cli.formats.references import ENDLESS


class Event(NamedTuple):
    """A piece of the page, which ends where the next begins."""

    start: int
    kind: str
    """`text`, `start`, `alone` (a tag that ends in `/>`), `end` or `other`."""
    name: str = ""


def events_of(document: Characters) -> list[Event]:
    """Return the pieces of a page in order, and one at its end.

    Raises:
        InputError: the page ends within a tag, a comment or a script.
    """
    parser = _Parser(document.text)
    parser.feed(ENDLESS.sub(lambda found: "x" * len(found[0]), document.text))  # only places are asked for
    rest = parser.rawdata
    if rest.startswith("<") or parser.cdata_elem:
        within = f"<{parser.cdata_elem}>" if parser.cdata_elem else "a tag or a comment"
        document.refuse(len(document.text) - len(rest), f"the page ends within {within}; the file is cut off")
    parser.close()
    return [*parser.events, Event(len(document.text), "other")]


class _Parser(HTMLParser):
    """Notes the places. What else it is told by the library lies in the text."""

    def __init__(self, text: str) -> None:
        # True, because what looks like a reference and is none would end the parsing.
        super().__init__(convert_charrefs=True)
        self.events: list[Event] = []
        self._places = Places(text)

    def _add(self, kind: str, name: str = "") -> None:
        self.events.append(Event(self._places.of_line(*self.getpos()), kind, name))

    def handle_starttag(self, tag: str, *_: object) -> None:
        self._add("start", tag)

    def handle_startendtag(self, tag: str, *_: object) -> None:
        self._add("alone", tag)

    def handle_endtag(self, tag: str) -> None:
        self._add("end", tag)

    def _text(self, *_: object) -> None:
        self._add("text")

    def _other(self, *_: object) -> None:
        self._add("other")

    def parse_marked_section(self, i: int, report: int = 1) -> int:
        """Take `<![...]>` for a piece of its own; the library fails on names that it does not know."""
        del report
        closing = "]]>" if self.rawdata.startswith("<![CDATA[", i) else ">"
        end = self.rawdata.find(closing, i)
        if end < 0:
            return -1
        self._other()
        return end + len(closing)

    handle_data = _text  # type: ignore[assignment]
    handle_comment = handle_decl = handle_pi = unknown_decl = _other  # type: ignore[assignment]
