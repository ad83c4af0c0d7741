"""HTML: the text of paragraphs, headings, cells and so on, and of the attributes that people read.

`html.parser` of the standard library tells where each tag, comment and text begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from nmt_cli.documents import encoding
from nmt_cli.documents.codes import untranslated, with_codes
from nmt_cli.documents.html_atoms import with_labels_apart, with_marks_alone, with_whole_addresses
from nmt_cli.documents.html_events import Event, events_of
from nmt_cli.documents.references import segments_of
from nmt_cli.formats.characters import Characters
from nmt_cli.formats.encoding import text_codec
from nmt_cli.formats.references import attributes_of, spelled, written
from nmt_cli.formats.segments import Atom, Edit, Kind, Located, Segment
from nmt_cli.formats.work import SEGMENT, Work

HAS_REFERENCES = True
MAX_DEPTH = 1000
_INLINE = frozenset(
    ("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i", "img",
     "ins", "kbd", "label", "mark", "math", "nobr", "output", "q", "s", "samp", "small", "span", "strike", "strong",
     "sub", "sup", "svg", "time", "tt", "u", "var", "wbr")
)  # fmt: skip
_OF_WORD = re.compile(r"(?:o|st\d+):")
_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr")
)
_UNTOUCHED = frozenset(("code", "kbd", "math", "pre", "samp", "script", "style", "svg", "template", "textarea", "var"))
_END_MAY_LACK = frozenset(
    ("html", "head", "body", "p", "li", "dt", "dd", "option", "optgroup", "thead", "tbody", "tfoot", "tr", "td", "th",
     "colgroup", "caption", "rt", "rp", "rb", "rtc")
)  # fmt: skip
_ENDS_PARAGRAPH = frozenset(
    ("address", "article", "aside", "blockquote", "center", "details", "dialog", "dir", "div", "dl", "fieldset",
     "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hgroup", "hr", "main",
     "menu", "nav", "ol", "p", "pre", "search", "section", "summary", "table", "ul")
)  # fmt: skip
_END_EACH_OTHER = (("dt", "dd"), ("td", "th"), ("thead", "tbody", "tfoot"), ("rb", "rt", "rtc", "rp"))
_TRANSLATED = frozenset(("alt", "title", "placeholder"))
_NOTED = frozenset(("translate", "class", "lang", "xml:lang"))
_OTHER_NAMES = {"x-sjis": "cp932", "windows-31j": "cp932", "windows-874": "cp874", "x-gbk": "gbk", "x-cp1252": "cp1252"}
_WIDER = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949",
}  # fmt: skip
"""By the Encoding Standard of WHATWG, for names that Python reads more narrowly."""
_CHARSET = re.compile(
    rb"""<\?xml[^>]*?\bencoding\s*=\s*["']([\w.:-]+)|<meta[^>]*?\bcharset\s*=\s*["']?\s*([\w.:-]+)""", re.I
)


def decoded(name: str, data: bytes) -> Characters:
    """Return the characters of a page, in the encoding that it declares."""
    found = _CHARSET.search(data[:4096])
    declared = (found[1] or found[2]).decode("ascii", errors="replace") if found else None
    return encoding.decoded(name, data, _as_browsers_read(data, declared) if declared else None)


def _as_browsers_read(data: bytes, declared: str) -> str:
    """Return the encoding in which a browser reads a page, where the declared one does not have all that it holds.

    Browsers take the names of some encodings for larger ones: a page in "iso-8859-1" may have the quotes of cp1252.
    """
    name = _OTHER_NAMES.get(declared.lower(), declared)
    try:
        codec = text_codec(name)
    except LookupError:
        return name
    wider = _WIDER.get(codec)
    if wider is not None and not _has_all(data, codec) and _has_all(data, wider):
        return wider
    return "latin-1" if codec == "ascii" else name


def _has_all(data: bytes, codec: str) -> bool:
    """Return whether a page can be read in an encoding, without control characters."""
    try:
        return re.search("[\x80-\x9f]", data.decode(codec)) is None
    except UnicodeDecodeError:
        return False


def locate(document: Characters, target_lang: str | None, work: Work, *, overwrite: bool) -> Located:
    """Return the text and the attributes to translate, and the language of the page as an edit.

    Raises:
        InputError: the page ends within a tag or with elements open, or is nested beyond reason.
    """
    del overwrite
    located = Located()
    _Walk(document, located, target_lang, work).through(events_of(document, work))
    return located


class _Walk:
    """Goes through the events, with the elements that are open and the atoms of the text so far."""

    def __init__(self, document: Characters, located: Located, target_lang: str | None, work: Work) -> None:
        self._document, self._text, self._located = document, document.text, located
        self._target_lang, self._work = target_lang, work
        self._open: list[tuple[str, int]] = []
        self._places: dict[str, list[int]] = {}
        """The places of each name among the elements that are open."""
        self._not_inline: list[int] = []
        """The places of the elements that a tag may end, or that keep a tag from ending those around them."""
        self._atoms: list[Atom] = []
        self._start = 0
        self._untouched: tuple[int, int, str] | None = None
        """Depth, place and name of the enclosing element that is not translated."""
        self._within: list[tuple[int, tuple[int, int, str]]] = []
        """Depth of each enclosing element that is translated within one that is not, with that one."""
        self._ends: set[str] = set()

    def through(self, events: list[Event]) -> None:
        """Find all that the page holds."""
        for event, following in pairwise(events):
            self._work.step()
            raw = self._text[event.start : following.start]
            if event.kind == "start":
                self._end_others(event)
            if event.kind == "end":
                self._end(event, raw)
            elif self._untouched is None or self._is_translated_again(event, raw):
                self._outside(event, raw)
            elif event.kind == "start" and event.name not in _VOID:
                self._push(event)
        still = [(name, place) for name, place in self._open if name not in _END_MAY_LACK]
        if still and {"html", "body"} & {name for name, _ in self._open} and not {"html", "body"} & self._ends:
            name, place = still[-1]
            line = self._text.count("\n", 0, place) + 1
            self._document.refuse(
                len(self._text), f"the page ends before </{name}>, which belongs to line {line}; the file is cut off"
            )
        self._open.clear()
        self._leave(len(self._text))
        self._flush(len(self._text))

    def _outside(self, event: Event, raw: str) -> None:
        """Take an event that is not within an element without translation."""
        if event.kind == "text":
            num_marks = int(event.start == 0 and raw.startswith("\ufeff"))  # a byte order mark stays outside
            self._add(event.start + num_marks, *self._work.each(spelled(raw[num_marks:])))
        elif event.kind == "other":
            self._work.count()
            self._add(event.start, Atom(raw, "", Kind.ALONE if raw.startswith("<!--") else Kind.BREAK))
        else:
            self._tag(event, raw)

    def _tag(self, event: Event, raw: str) -> None:
        name, start = event.name, event.start
        self._work.count()
        values = {one.name: one.raw for one in attributes_of(raw) if one.name in _NOTED}
        is_void = name in _VOID or event.kind == "alone"
        is_untouched = name in _UNTOUCHED or values.get("translate", "").lower() == "no"
        is_untouched |= "notranslate" in values.get("class", "").split()
        inner = () if is_untouched else tuple(segments_of(raw, _TRANSLATED, self._work))
        if name == "html":
            self._located.languages.extend(values[name] for name in ("lang", "xml:lang") if values.get(name))
            if self._target_lang is not None:
                self._located.edits.extend(_language(raw, start, self._target_lang))
        if not is_void:
            self._push(event)
        if _is_inline(name) and is_untouched and not is_void:
            self._untouched = (len(self._open), start, name)
        elif _is_inline(name):
            kind = Kind.ALONE if is_void else Kind.OPEN
            self._add(start, Atom(raw, "" if is_void else name, kind, inner))
        else:
            self._flush(start)
            self._located.segments.extend(
                Segment(start + one.start, start + one.end, one.atoms, one.spell, one.finish) for one in inner
            )
            if is_untouched and not is_void:
                self._untouched = (len(self._open), start, name)

    def _end_others(self, event: Event) -> None:
        """End the element whose end tag may lack before this tag, such as the paragraph before, with what is in it."""
        for place in reversed(self._not_inline):
            name = self._open[place][0]
            if _is_ended_by(name, event.name):
                self._close(place)
                self._leave(event.start)
                break
            if name not in _END_MAY_LACK and not _is_inline(name):
                break

    def _push(self, event: Event) -> None:
        self._places.setdefault(event.name, []).append(len(self._open))
        if event.name == "a" or not _is_inline(event.name):
            self._not_inline.append(len(self._open))
        self._open.append((event.name, event.start))
        if len(self._open) > MAX_DEPTH:
            self._document.refuse(event.start, f"elements lie within elements more than {MAX_DEPTH:,} deep")

    def _close(self, place: int) -> None:
        """End the element at a place among those that are open, and all within it."""
        for name, _ in self._open[place:]:
            self._places[name].pop()
        del self._open[place:]
        while self._not_inline and self._not_inline[-1] >= place:
            self._not_inline.pop()

    def _end(self, event: Event, raw: str) -> None:
        self._ends.add(event.name)
        if places := self._places.get(event.name):
            self._close(places[-1])
        if self._untouched is not None:
            is_its_own = self._untouched[2] == event.name
            self._leave(event.start + len(raw) * is_its_own)
            if is_its_own or self._untouched is not None:
                return
        if _is_inline(event.name):
            self._add(event.start, Atom(raw, event.name, Kind.CLOSE))
        else:
            self._flush(event.start)
        self._leave(event.start + len(raw))

    def _is_translated_again(self, event: Event, raw: str) -> bool:
        """Return whether a tag says that its element is translated, though one around it is not."""
        assert self._untouched is not None
        outer = self._untouched[2]
        if event.kind != "start" or {event.name, outer} & (_UNTOUCHED | _VOID) or _is_inline(outer):
            return False
        if not any(one.name == "translate" and one.raw.lower() in ("yes", "") for one in attributes_of(raw)):
            return False
        self._within.append((len(self._open) + 1, self._untouched))
        self._untouched = None
        return True

    def _leave(self, end: int) -> None:
        """Go on as around the elements that are translated, or are not, and that have ended here."""
        while True:
            if self._untouched is not None and len(self._open) < self._untouched[0]:
                _, begin, name = self._untouched
                self._untouched = None
                if _is_inline(name):
                    self._add(begin, untranslated(self._text[begin:end]))
            elif self._untouched is None and self._within and len(self._open) < self._within[-1][0]:
                self._flush(end)
                _, self._untouched = self._within.pop()
            else:
                return

    def _add(self, start: int, *atoms: Atom) -> None:
        if not self._atoms:
            self._start = start
        self._atoms += atoms

    def _flush(self, end: int) -> None:
        """End the text that is being collected."""
        if any(atom.kind is Kind.TEXT and not atom.text.isspace() for atom in self._atoms) or any(
            atom.inner for atom in self._atoms
        ):
            work = self._work
            atoms = with_marks_alone(self._atoms, work)
            atoms = with_whole_addresses(with_labels_apart(atoms, work), work)
            own = with_codes(atoms, has_line_ends=False, work=work)
            work.count(SEGMENT)
            self._located.segments.append(Segment(self._start, end, own, written))
        self._atoms = []


def _is_inline(name: str) -> bool:
    """Return whether an element stands within a sentence, as do those that Word writes (`st1:place`)."""
    return name in _INLINE or _OF_WORD.match(name) is not None


def _is_ended_by(name: str, following: str) -> bool:
    """Return whether an open element ends where a tag of the other name begins, by the rules of HTML."""
    if name == "p":
        return following in _ENDS_PARAGRAPH
    is_same = name == following and (name in _END_MAY_LACK or name == "a")
    return is_same or any(name in names and following in names for names in _END_EACH_OTHER)


def _language(tag: str, start: int, language: str) -> Iterator[Edit]:
    """Yield what sets the language of the page."""
    code = language.replace("_", "-")
    found = [attribute for attribute in attributes_of(tag) if attribute.name in ("lang", "xml:lang")]
    for attribute in found:
        has_value = attribute.is_quoted or attribute.raw
        yield Edit(start + attribute.start, start + attribute.end, code if has_value else f'="{code}"')
    if not found:
        yield Edit(start + len("<html"), start + len("<html"), f' lang="{code}"')
