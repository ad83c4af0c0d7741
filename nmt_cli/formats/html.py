"""HTML: the text of paragraphs, headings, cells and so on, and of the attributes that people read.

`html.parser` of the standard library tells where each tag, comment and text begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from html import escape
from itertools import pairwise
from typing import NamedTuple

from nmt_cli.formats.encoded_text import EncodedText
from nmt_cli.formats.html_atoms import join_footnote_marks, separate_labels, separate_menu_links
from nmt_cli.formats.html_events import Event, events_of
from nmt_cli.formats.languages import conflicting_language
from nmt_cli.formats.references import attributes_of, escape_markup, parse_references, protected
from nmt_cli.formats.segments import Atom, CodeSyntax, Content, Edit, Kind, Segment, UnreadablePart
from nmt_cli.formats.work import SEGMENT_PARTS, Work
from nmt_cli.formats.xml import XML_ENCODING

MAX_DEPTH = 1000
_BLOCK_ELEMENTS = frozenset(
    ("address", "article", "aside", "audio", "base", "basefont", "bgsound", "blockquote", "body", "br", "canvas",
     "caption", "center", "col", "colgroup", "datalist", "dd", "details", "dialog", "dir", "div", "dl", "dt",
     "embed", "fieldset", "figcaption", "figure", "footer", "form", "frame", "frameset", "h1", "h2", "h3", "h4",
     "h5", "h6", "head", "header", "hgroup", "hr", "html", "iframe", "input", "legend", "li", "link", "listing",
     "main", "marquee", "menu", "menuitem", "meta", "nav", "noembed", "noframes", "noscript", "object", "ol",
     "optgroup", "option", "p", "param", "plaintext", "pre", "search", "section", "select", "source", "summary",
     "table", "tbody", "td", "textarea", "tfoot", "th", "thead", "title", "tr", "track", "ul", "video", "xmp")
)  # fmt: skip
"""Elements that separate texts: those that a page shows as blocks, and fields of forms. All others may be within a
sentence, even those that HTML does not know."""
_HIDDEN = frozenset(("rp", "rt", "rtc", "script", "style", "template"))
"""Elements whose content is no part of the sentence around them. Readings of `ruby` stay in place, untranslated."""
_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr")
)
_UNTRANSLATED_ELEMENTS = _HIDDEN | {"code", "kbd", "math", "pre", "samp", "svg", "textarea", "var"}
"""Elements whose content is not translated; their attributes are, unless they are in `_HIDDEN`."""
_OPTIONAL_END_TAGS = frozenset(
    ("html", "head", "body", "p", "li", "dt", "dd", "option", "optgroup", "thead", "tbody", "tfoot", "tr", "td", "th",
     "colgroup", "caption", "rt", "rp", "rb", "rtc")
)  # fmt: skip
_ENDS_PARAGRAPH = frozenset(
    ("address", "article", "aside", "blockquote", "center", "details", "dialog", "dir", "div", "dl", "fieldset",
     "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hgroup", "hr", "main",
     "menu", "nav", "ol", "p", "pre", "search", "section", "summary", "table", "ul")
)  # fmt: skip
_END_EACH_OTHER = (("dt", "dd"), ("td", "th"), ("thead", "tbody", "tfoot"), ("rb", "rt", "rtc", "rp"))
_TRANSLATABLE_ATTRIBUTES = frozenset(
    ("alt", "aria-description", "aria-label", "aria-placeholder", "aria-roledescription", "aria-valuetext",
     "placeholder", "title")
)  # fmt: skip
_OF_ELEMENT = {
    "optgroup": "label", "option": "label", "track": "label", "th": "abbr", "table": "summary", "meta": "content",
    "input": "value",
}  # fmt: skip
"""By the name of an element, a further attribute of it that people read; for `meta` only with a name in `_META`, for
`input` only with a type in `_BUTTONS`."""
_META = frozenset(
    ("description", "keywords", "application-name", "apple-mobile-web-app-title", "og:title", "og:description",
     "og:site_name", "og:image:alt", "twitter:title", "twitter:description", "twitter:image:alt")
)  # fmt: skip
_BUTTONS = frozenset(("button", "reset", "submit"))
_RELEVANT_ATTRIBUTES = frozenset(("translate", "class", "lang", "xml:lang", "type", "name", "property"))
_PRESCAN = re.compile(rb"<!--(?:-?>|.*?(?:-->|\Z))|<(?P<name>/?[A-Za-z][^\s/>]*)|<[!/?][^>]*(?:>|\Z)", re.S)
"""Pattern of a comment, the beginning of a tag, or a declaration, by which the encoding of a page is searched for."""
_BYTES_OF_ATTRIBUTE = re.compile(rb"""[\s/]*([^\s/>=][^\s/>=]*)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"'][^\s>]*)))?""")
_CHARSET = re.compile(rb"\s*([\w.:-]+)")
_CHARSET_IN_CONTENT = re.compile(rb"""charset\s*=\s*["']?\s*([\w.:-]+)""", re.I)


class Page(Content):
    """The texts of a page: each paragraph, heading, cell and so on, and the attributes that people read."""

    HAS_REFERENCES = True

    def __init__(self, document: EncodedText, work: Work | None = None) -> None:
        super().__init__(document, work)
        self._roots: list[tuple[str, int]] = []
        """The `<html>` tags of the page, each as (the tag as it is written, its offset in the document)."""

    @staticmethod
    def charset(data: bytes) -> re.Match[bytes] | None:
        """Return a match whose first group is the encoding that a page declares, or None.

        It is searched for as the HTML standard says ("prescan a byte stream to determine its encoding").
        """
        position = 0
        while (tag := _PRESCAN.search(data, position)) is not None:
            position = tag.end()
            values: dict[bytes, tuple[int, int]] = {}
            while tag["name"] is not None and (found := _BYTES_OF_ATTRIBUTE.match(data, position)) is not None:
                position = found.end()
                values.setdefault(found[1].lower(), found.span(found.lastindex or 1))
            if (tag["name"] or b"").lower() != b"meta":
                continue
            if b"charset" in values:
                return _CHARSET.match(data, *values[b"charset"])
            is_pragma = data[slice(*values.get(b"http-equiv", (0, 0)))].lower() == b"content-type"
            if is_pragma and (named := _CHARSET_IN_CONTENT.search(data, *values.get(b"content", (0, 0)))) is not None:
                return named
        return XML_ENCODING.match(data)

    def segments(self) -> Iterator[Segment]:
        """Yield a segment for each text of the page: a paragraph, a heading, a cell, an attribute and so on.

        Raises:
            InputError: the page ends within a tag or with elements open, or is nested beyond reason.
        """
        walk = _Walk(self.document, self.work, self.source_lang)
        walk.collect(events_of(self.document, self.work))
        self.languages += walk.languages
        self._roots = walk.roots
        problem = f"declares another language than {self.source_lang}"
        self.unreadable_parts += [UnreadablePart(self.line_at(place), problem) for place in walk.foreign]
        for segment in walk.found:
            yield replace(segment, line=self.line_at(segment.start))

    def language_edits(self, code: str) -> Iterator[Edit]:
        """Yield the edits that set the attributes `lang` and `xml:lang` of `<html>`, or add `lang`."""
        code = code.replace("_", "-")
        for tag, start in self._roots:
            found = [attribute for attribute in attributes_of(tag) if attribute.name in ("lang", "xml:lang")]
            for attribute in found:
                has_value = attribute.is_quoted or attribute.raw
                yield Edit(start + attribute.start, start + attribute.end, code if has_value else f'="{code}"')
            if not found:
                yield Edit(start + len("<html"), start + len("<html"), f' lang="{code}"')


class _Untouched(NamedTuple):
    """An element that is not translated."""

    depth: int
    start: int
    """Offset of its start tag in the document."""
    name: str
    inner: tuple[Segment, ...]
    """Attributes of its start tag that are translated all the same."""
    is_foreign: bool
    """True if nothing but its language forbids to translate it."""


class _Walk:
    """Collects the segments from the events of a page; keeps the open elements and the atoms of the current text."""

    def __init__(self, document: EncodedText, work: Work, source_lang: str) -> None:
        self.found: list[Segment] = []
        self.foreign: list[int] = []
        """Offsets of the elements that are not translated because they declare another language."""
        self.languages: list[str] = []
        self.roots: list[tuple[str, int]] = []
        self._document, self._text, self._work, self._source_lang = document, document.text, work, source_lang
        self._open: list[tuple[str, int]] = []
        self._places: dict[str, list[int]] = {}
        """By the name of an element, its indices in `_open`, the list of the open elements."""
        self._not_inline: list[int] = []
        """Indices in `_open`, the list of the open elements, of blocks and links. A start tag may end one of them, such
        as `<p>`; other blocks protect the elements around them from that."""
        self._atoms: list[Atom] = []
        self._start = 0
        self._untouched: _Untouched | None = None
        """The enclosing element that is not translated; None outside of such elements."""
        self._within: list[tuple[int, _Untouched]] = []
        """Depth of each open element that is translated though an element around it is not, with the value that
        `_untouched` had for the latter."""
        self._ends: set[str] = set()

    def collect(self, events: list[Event]) -> None:
        """Collect the segments of the page, and the languages that it declares."""
        for event, following in pairwise(events):
            self._work.step()
            raw = self._text[event.start : following.start]
            if event.kind == "start":
                self._end_others(event)
            if event.kind == "end":
                self._end(event, raw)
            elif self._untouched is None or self._resume_translation(event, raw):
                self._add_event(event, raw)
            elif event.kind == "start" and event.name not in _VOID:
                self._push(event)
        still = [(name, place) for name, place in self._open if name not in _OPTIONAL_END_TAGS]
        if still and {"html", "body"} & {name for name, _ in self._open} and not {"html", "body"} & self._ends:
            name, place = still[-1]
            line = self._text.count("\n", 0, place) + 1
            self._document.refuse(
                len(self._text), f"the page ends before </{name}>, which belongs to line {line}; it is cut off"
            )
        self._open.clear()
        self._leave(len(self._text))
        self._flush(len(self._text))

    def _add_event(self, event: Event, raw: str) -> None:
        """Add an event outside of untranslated elements to the text that is being collected, or end that text at it."""
        if event.kind == "text":
            num_marks = int(event.start == 0 and raw.startswith("\ufeff"))  # a byte order mark stays outside
            self._add(event.start + num_marks, *self._work.each(parse_references(raw[num_marks:])))
        elif event.kind == "other":
            self._work.count()
            self._add(event.start, Atom(raw, "", Kind.STANDALONE if raw.startswith("<!--") else Kind.BREAK))
        else:
            self._tag(event, raw)

    def _tag(self, event: Event, raw: str) -> None:
        name, start = event.name, event.start
        self._work.count()
        values = {one.name: one.raw for one in attributes_of(raw) if one.name in _RELEVANT_ATTRIBUTES}
        is_void = name in _VOID or event.kind == "alone"
        is_forbidden = values.get("translate", "").lower() == "no" or "notranslate" in values.get("class", "").split()
        is_untouched = is_forbidden or name in _UNTRANSLATED_ELEMENTS
        is_foreign = not is_untouched and name not in ("html", "body") and self._is_in_source_lang(values) is False
        if is_foreign:
            is_forbidden = is_untouched = True
            self.foreign.append(start)
        inner: tuple[Segment, ...] = ()
        if not is_forbidden and name not in _HIDDEN:
            inner = tuple(_attributes(raw, _translatable_attributes(name, values), self._work))
        if name == "html":
            self.languages.extend(values[name] for name in ("lang", "xml:lang") if values.get(name))
            self.roots.append((raw, start))
        if not is_void:
            self._push(event)
        if _is_inline(name) and is_untouched and not is_void:
            self._untouched = _Untouched(len(self._open), start, name, inner, is_foreign)
        elif _is_inline(name):
            kind = Kind.STANDALONE if is_void else Kind.OPEN
            self._add(start, Atom(raw, "" if is_void else name, kind, inner))
        else:
            self._flush(start)
            self.found += [replace(one, start=start + one.start, end=start + one.end) for one in inner]
            if is_untouched and not is_void:
                self._untouched = _Untouched(len(self._open), start, name, inner, is_foreign)

    def _is_in_source_lang(self, values: Mapping[str, str]) -> bool | None:
        """Return whether an element with these attributes declares the source language; None if that is not known."""
        declared = values.get("lang") or values.get("xml:lang", "")
        if not self._source_lang or not declared.strip():
            return None
        return conflicting_language([declared], self._source_lang) is None

    def _end_others(self, event: Event) -> None:
        """End the open element that this start tag ends without an end tag, such as a paragraph, and all within it."""
        for place in reversed(self._not_inline):
            name = self._open[place][0]
            if _is_ended_by(name, event.name):
                self._close(place)
                self._leave(event.start)
                break
            if name not in _OPTIONAL_END_TAGS and not _is_inline(name):
                break

    def _push(self, event: Event) -> None:
        self._places.setdefault(event.name, []).append(len(self._open))
        if event.name == "a" or not _is_inline(event.name):
            self._not_inline.append(len(self._open))
        self._open.append((event.name, event.start))
        if len(self._open) > MAX_DEPTH:
            self._document.refuse(event.start, f"elements are nested more than {MAX_DEPTH:,} deep; nest them less")

    def _close(self, place: int) -> None:
        """Remove the element at an index of `_open`, the list of the open elements, and all elements within it."""
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
            is_its_own = self._untouched.name == event.name
            self._leave(event.start + len(raw) * is_its_own)
            if is_its_own or self._untouched is not None:
                return
        if _is_inline(event.name):
            self._add(event.start, Atom(raw, event.name, Kind.CLOSE))
        else:
            self._flush(event.start)
        self._leave(event.start + len(raw))

    def _resume_translation(self, event: Event, raw: str) -> bool:
        """Return whether a tag turns translation on again within an untranslated element, and turn it on if so."""
        assert self._untouched is not None
        outer = self._untouched.name
        if event.kind != "start" or {event.name, outer} & (_UNTRANSLATED_ELEMENTS | _VOID) or _is_inline(outer):
            return False
        values = {one.name: one.raw for one in attributes_of(raw)}
        if not (self._is_in_source_lang(values) if self._untouched.is_foreign else _is_yes(values.get("translate"))):
            return False
        self._within.append((len(self._open) + 1, self._untouched))
        self._untouched = None
        return True

    def _leave(self, end: int) -> None:
        """Restore the state around the elements that have ended at `end` and had turned translation off or on.

        An untranslated element within a sentence becomes one atom.
        """
        while True:
            if self._untouched is not None and len(self._open) < self._untouched.depth:
                left, self._untouched = self._untouched, None
                if _is_inline(left.name):
                    raw = self._text[left.start : end]
                    atom = Atom(raw, "", Kind.STANDALONE) if left.name in _HIDDEN else protected(raw)
                    self._add(left.start, replace(atom, inner=left.inner))
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
        """End the text that is being collected, and keep it as a segment if there is anything to translate in it."""
        if any(atom.kind is Kind.TEXT and not atom.text.isspace() for atom in self._atoms) or any(
            atom.inner for atom in self._atoms
        ):
            atoms = separate_menu_links(join_footnote_marks(self._atoms, self._work), self._work)
            atoms = separate_labels(atoms, self._work)
            self._work.count(SEGMENT_PARTS)
            self.found.append(Segment(self._start, end, tuple(atoms), escape_markup, codes=CodeSyntax.PAGE))
        self._atoms = []


def _is_inline(name: str) -> bool:
    """Return whether an element may be within a sentence, as is the `o:p` that Word writes."""
    return name.startswith("o:") or name.rpartition(":")[2] not in _BLOCK_ELEMENTS


def _is_yes(translate: str | None) -> bool:
    """Return whether an element is translated by its attribute `translate`, whose value may be left out."""
    return translate is not None and translate.lower() in ("yes", "")


def _translatable_attributes(name: str, values: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the attributes that people read in a tag `name` whose attributes have these values."""
    own = _OF_ELEMENT.get(name)
    is_named = {values.get("name", "").lower(), values.get("property", "").lower()} & _META
    if own is None or (name == "meta" and not is_named):
        return _TRANSLATABLE_ATTRIBUTES
    if name == "input" and values.get("type", "").lower() not in _BUTTONS:
        return _TRANSLATABLE_ATTRIBUTES
    return _TRANSLATABLE_ATTRIBUTES | {own}


def _is_ended_by(name: str, following: str) -> bool:
    """Return whether, by the rules of HTML, the start tag `following` ends an open element `name`."""
    if name == "p":
        return following in _ENDS_PARAGRAPH
    is_same = name == following and (name in _OPTIONAL_END_TAGS or name == "a")
    return is_same or any(name in names and following in names for names in _END_EACH_OTHER)


def _attributes(tag: str, names: frozenset[str], work: Work) -> Iterator[Segment]:
    """Yield the value of each of the named attributes of a tag as a segment, with offsets in the tag."""
    for attribute in attributes_of(tag):
        if attribute.name in names and attribute.raw.strip():
            join_chunks = "".join if attribute.is_quoted else partial(_in_quotes, attribute.raw)
            work.count(SEGMENT_PARTS)
            yield Segment(
                attribute.start, attribute.end, tuple(work.each(parse_references(attribute.raw))), escape, join_chunks
            )


def _in_quotes(before: str, chunks: Sequence[str]) -> str:
    """Return the new value of an attribute that had the value `before` without quotes; in quotes if it needs them."""
    value = "".join(chunks)
    is_bare = value == before or re.fullmatch(r"[^\s\"'=<>`]+", value)
    return value if is_bare else '"{}"'.format(value.replace('"', "&quot;"))
