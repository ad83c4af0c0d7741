"""Places at which the tags, comments and texts of a page begin, as reported by `html.parser`."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import NamedTuple

from nmt_cli.formats.encoded_text import EncodedText
from nmt_cli.formats.references import ENDLESS
from nmt_cli.formats.work import Work

_MANY_ATTRIBUTES, _WEIGHT = 100, 4
"""Number of attributes of a tag beyond which each further one counts as `_WEIGHT` parts of the work (see `Work`): the
library reads a whole tag at once."""
_COMMENT = re.compile(r"<!--(?:-?>|.*?--!?>)", re.S)
_NAME = re.compile(r"<[a-zA-Z][^\t\n\r\f />\x00]*")
_ATTRIBUTE = re.compile(
    r"""[\s/]*+[^\s/>][^\s/=>]*+(?:\s*+=+\s*+(?:'[^']*'|"[^"]*"|(?!['"])[^>\s]*+)\s*+)?+"""  # as the library reads it
)


class Event(NamedTuple):
    """A tag, text, comment or the like of a page; it ends where the next begins."""

    start: int
    kind: str
    """`text`, `start`, `alone` (a tag that ends in `/>`), `end` or `other`."""
    name: str = ""


def events_of(document: EncodedText, work: Work) -> list[Event]:
    """Return the tags, texts, comments and the like of a page in order, and an empty event at its end.

    Raises:
        InputError: the page ends within a tag, a comment or a script.
    """
    parser = _Parser(work)
    parser.feed(ENDLESS.sub(lambda found: "x" * len(found[0]), document.text))  # only places are asked for
    rest = parser.rawdata
    if parser.cdata_elem or (rest.startswith("<") and rest not in ("<", "</")):  # these two are text at the end
        within = f"<{parser.cdata_elem}>" if parser.cdata_elem else "a tag or a comment"
        document.refuse(len(document.text) - len(rest), f"the page ends within {within}; it is cut off")
    parser.close()
    return [*parser.events, Event(len(document.text), "other")]


class _Parser(HTMLParser):
    """Collects the offset and the kind of each tag, text and comment, by which the text of the page is read later."""

    def __init__(self, work: Work) -> None:
        # True, because what looks like a reference and is none would end the parsing.
        super().__init__(convert_charrefs=True)
        self.events: list[Event] = []
        self._work = work
        self._place = 0
        self._names: dict[str, str] = {}
        """Each tag name, mapped to one shared string, because a page may repeat a name a hundred thousand times."""

    def updatepos(self, i: int, j: int) -> int:
        """Advance the offset by the text from `i` to `j`, and return `j`; the library's line and column are unused."""
        self._place += max(0, j - i)
        return j

    def check_for_whole_start_tag(self, i: int) -> int:
        """Return the end of the start tag at `i`, or -1 if it is cut off; count its attributes before it is read."""
        name = _NAME.match(self.rawdata, i)
        place, number = (name.end() if name else i), 0
        while (attribute := _ATTRIBUTE.match(self.rawdata, place)) is not None:
            place, number = attribute.end(), number + 1
            if number > _MANY_ATTRIBUTES:
                self._work.count(_WEIGHT)
        return super().check_for_whole_start_tag(i)

    def _add(self, kind: str, name: str = "") -> None:
        self._work.count()
        self.events.append(Event(self._place, kind, self._names.setdefault(name, name)))

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

    def parse_comment(self, i: int, report: int = 1) -> int:
        """Return the end of the comment at `i`, or -1 if it is cut off.

        As in the HTML standard, `<!-->` and `<!--->` are whole comments, and `--!>` ends one.
        """
        del report
        comment = _COMMENT.match(self.rawdata, i)
        if comment is None:
            return -1
        self._other()
        return comment.end()

    def parse_marked_section(self, i: int, report: int = 1) -> int:
        """Return the end of the section `<![...]>` at `i`, or -1 if it is cut off.

        The section is one event; the library would fail on names that it does not know.
        """
        del report
        closing = "]]>" if self.rawdata.startswith("<![CDATA[", i) else ">"
        end = self.rawdata.find(closing, i)
        if end < 0:
            return -1
        self._other()
        return end + len(closing)

    handle_data = _text  # type: ignore[assignment]
    handle_comment = handle_decl = handle_pi = unknown_decl = _other  # type: ignore[assignment]
