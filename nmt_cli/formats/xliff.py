"""XLIFF 1.2 and 2.x, the exchange format of translation programs.

Each unit is a segment; in 2.x, and where both sides of a unit mark its segments, each of these is.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape

from nmt_cli.formats.encoded_text import EncodedText
from nmt_cli.formats.inline import BREAK_TAG, LINE_ENDS
from nmt_cli.formats.languages import updated_language
from nmt_cli.formats.references import attributes_of, escape_markup, parse_references, protected, unescape
from nmt_cli.formats.segments import (
    Atom,
    CodeSyntax,
    Content,
    DeclaredLanguages,
    Edit,
    Kind,
    Segment,
    State,
    UnreadablePart,
)
from nmt_cli.formats.work import SEGMENT_PARTS, Work
from nmt_cli.formats.xml import XML_ENCODING
from nmt_cli.formats.xml_events import Event, events_of

_UNTRANSLATED = frozenset(("new", "needs-translation", "initial"))
_UNFINISHED = frozenset(
    (
        "needs-adaptation",
        "needs-l10n",
        "needs-review-adaptation",
        "needs-review-l10n",
        "needs-review-translation",
        "x-fuzzy",
    )
)
"""States of translations that somebody has to look at."""
_SUGGESTIONS = frozenset(("fuzzy-match", "mt-suggestion"))
"""Values of `state-qualifier`, the origin of a translation, that say nobody has looked at it, if it has no state."""
_TOOL_STATES = frozenset(
    ("Draft", "RejectedTranslation", "RejectedSignOff", "PartiallyEdited", "Rejected", "unconfirmed")
)
"""States of unfinished translations in Trados (`conf` of a segment) and memoQ (`mq:status` of a unit)."""
_UNITS = ("trans-unit", "segment")
_SIDES = ("source", "seg-source", "target")
"""Children of a unit with its texts. Elsewhere, such elements hold suggestions or former texts."""
_SPANNING_ELEMENTS = frozenset(("g", "mrk", "pc"))
"""Elements around text of the sentence. The content of others, such as `bpt` and `ph`, is markup."""
_DELETED = "x-sdl-deleted"
"""Type of a mark around text that somebody deleted while Trados kept track of changes."""
_MARKUP = re.compile(r"<!\[CDATA\[|\]\]>|<[^<>]*>")
"""Tags and comments, and the marks of a CDATA section without the text in it."""
_SIGNS = re.compile(r"[^<>&]+|[<>&]")
_PAIRED = re.compile(r"(START|CLOSE)_(.*)")
"""Id that Angular gives to an opening (START) or closing (CLOSE) tag of a template, and the name that both share."""
_OPENING_CODES = {"bpt": "id", "bx": "id", "sc": "id", "sm": "id"}
_CLOSING_CODES = {"ept": "id", "ex": "id", "ec": "startRef", "em": "startRef"}


@dataclass(slots=True)
class _Unit:
    """A unit, or a segment of one, with the indices of the events that begin and end its parts."""

    start: Event
    is_translated: bool
    tool_states: dict[str, str] = field(default_factory=dict)
    """The unfinished states in Trados or memoQ, by the id of the segment; that of the unit by an empty text.

    A unit that Phrase marks with `m:confirmed="0"` is `unconfirmed`."""
    is_marked: bool = False
    """True for one of several segments, which are marked in the source and in the target of one unit."""
    source: tuple[int, int] | None = None
    seg_source: tuple[int, int] | None = None
    target: tuple[int, int] | None = None
    state_tag: Event | None = None
    """The start tag for the attribute `state`: that of the target if it has the attribute, else that of the unit."""
    target_tag: Event | None = None
    """The start tag of its target; None if it has no target."""
    old_target: str = ""
    """The content of the target, as the document writes it."""
    opening: str = ""
    closing: str = ""
    """`opening` and `closing` are written around a translation if the unit has no target, or only an empty tag."""
    missing_at: int | None = None
    """The offset for the mark of a segment, and for its translation, if the target lacks this mark."""


class Units(Content):
    """The units of a file. A translation goes into the target of its unit, and its state changes."""

    HAS_REFERENCES = True

    def __init__(self, document: EncodedText, work: Work | None = None) -> None:
        super().__init__(document, work)
        self._named: list[tuple[Event, str, str]] = []
        """The elements that declare the languages, each with its attribute for the target language and its value."""
        self._filled: dict[int, Event] = {}
        """The start tags of the targets that have been translated, by their offsets."""
        self._marked_as_translated: set[Edit] = set()
        """The edits of states that were yielded; the segments of a unit have one state."""

    @staticmethod
    def charset(data: bytes) -> re.Match[bytes] | None:
        """Return a match whose first group is the encoding in the XML declaration, or None."""
        return XML_ENCODING.search(data)

    def segments(self) -> Iterator[Segment]:
        """Yield a segment for each unit that has a source and can be read.

        Raises:
            InputError: the document is not well-formed XML or not XLIFF, declares entities, or is nested beyond reason.
        """
        events, problems = events_of(self.document, self.work)
        if not any(event.name == "xliff" for event in events):
            self.document.refuse(0, "has no element <xliff>, so it is not XLIFF")
        unit: _Unit | None = None
        declared = DeclaredLanguages()
        opened: list[tuple[int, bool]] = []
        for index, event in enumerate(events):
            self.work.step()
            if event.kind == "start":
                inherited = not opened or opened[-1][1]
                is_translated = {"yes": True, "no": False}.get(event.attributes.get("translate", ""), inherited)
                opened.append((index, is_translated))
                declared = self._declared(event) or declared
                if event.name in _UNITS:
                    unit = _Unit(event, is_translated)
                if unit is not None:
                    state = event.attributes.get("mq:status" if event.name in _UNITS else "conf", "")
                    if event.name in _UNITS and event.attributes.get("m:confirmed") == "0":
                        state = "unconfirmed"
                    if state in _TOOL_STATES:
                        unit.tool_states["" if event.name in _UNITS else event.attributes.get("id", "")] = state
            elif event.kind == "end":
                begin, _ = opened.pop()
                if unit is None:
                    continue
                if event.name in _SIDES and events[opened[-1][0]] is unit.start:
                    setattr(unit, event.name.replace("-", "_"), (begin, index))
                elif events[begin] is unit.start:
                    first = bisect_left(problems, (unit.start.start,))
                    if first < len(problems) and problems[first].place < event.end:
                        self.unreadable_parts.append(
                            UnreadablePart(self.line_at(unit.start.start), f"the unit {problems[first].description}")
                        )
                    elif unit.source is not None:
                        unit.state_tag = unit.start
                        if unit.target is not None:
                            unit.target_tag = events[unit.target[0]]
                            unit.state_tag = unit.target_tag if "state" in unit.target_tag.attributes else unit.start
                        for part in _marked_segments(self.document.text, events, unit) or (unit,):
                            yield self._segment(events, part, declared)
                    unit = None

    def language_edits(self, code: str) -> Iterator[Edit]:
        """Yield the edits that set the target language in its declarations, and in translated targets that name it."""
        code = code.replace("_", "-")
        for event, name, declared in self._named:
            yield _attribute_edit(self.document.text, event, name, updated_language(declared, code))
        for event in self._filled.values():
            if own := event.attributes.get("xml:lang"):
                yield _attribute_edit(self.document.text, event, "xml:lang", updated_language(own, code))

    def translation_edits(self, segment: Segment, chunks: Sequence[str]) -> Iterator[Edit]:
        """Yield the edits that write the target, and that mark the unit as translated."""
        unit, text, translation = segment.unit, self.document.text, "".join(chunks)
        assert isinstance(unit, _Unit)
        assert unit.state_tag is not None
        yield Edit(segment.start, segment.end, f"{unit.opening}{translation}{unit.closing}")
        if unit.target_tag is not None:
            self._filled[unit.target_tag.start] = unit.target_tag
        if not translation.strip():
            return
        for edit in _state_edits(
            text, unit, is_new=translation != unit.old_target, is_filled=segment.state is State.NEW
        ):
            if edit not in self._marked_as_translated:
                self._marked_as_translated.add(edit)
                yield edit

    def _declared(self, event: Event) -> DeclaredLanguages | None:
        """Return the languages that an element declares, None if it declares none, and note the declaration."""
        source_name = {"file": "source-language", "xliff": "srcLang"}.get(event.name, "")
        if source_name not in event.attributes:
            return None
        source = event.attributes[source_name]
        name = "target-language" if event.name == "file" else "trgLang"
        self.languages.append(source)
        self._named.append((event, name, event.attributes.get(name, "")))
        return DeclaredLanguages(source, event.attributes.get(name, ""), event.start, name)

    def _segment(self, events: list[Event], unit: _Unit, declared: DeclaredLanguages) -> Segment:
        text = self.document.text
        assert unit.source is not None
        opening_at, closing_at = unit.seg_source or unit.source  # the source again, with marks around its segments
        self.work.count(SEGMENT_PARTS)
        atoms = tuple(self.work.each(_atoms(text, events[opening_at + 1 : closing_at])))
        first, last = self._place(events, unit)
        state, reason, target = self._state(events, unit)
        sides = [events[slice(*side)] for side in (unit.source, unit.target) if side is not None]
        return Segment(
            first,
            last,
            atoms,
            escape_markup,
            codes=CodeSyntax.UNIT,
            line=self.line_at(unit.start.start),
            target=target,
            state=state,
            reason=reason,
            declared=declared,
            unmarked_text=None if unit.seg_source is None else _text_in(text, events, unit.source),
            has_subflow=any(event.name == "sub" for side in sides for event in side),
            unit=unit,
        )

    def _state(self, events: list[Event], unit: _Unit) -> tuple[State, str, str | None]:
        """Return the state of a unit, why it is no pair (else empty), and the text of its target (None without one)."""
        if unit.start.attributes.get("restype") == "x-gettext-domain-header":
            return State.EXCLUDED, "headers of a PO file, which are not text", None
        target = "" if unit.is_marked else None
        if unit.target is not None:
            target = _text_in(self.document.text, events, unit.target)
        assert unit.state_tag is not None
        declared = unit.state_tag.attributes.get("state", "")
        has_text = bool(_MARKUP.sub("", unit.old_target).strip())
        if target is None:
            state, reason = State.NEW, "no target in the unit"
        elif not has_text or declared in _UNTRANSLATED:
            state, reason = State.NEW, f"not translated yet (state {declared})" if has_text else ""
        else:
            origin = unit.target_tag.attributes.get("state-qualifier", "") if unit.target_tag is not None else ""
            if not declared and origin in _SUGGESTIONS and unit.start.attributes.get("approved") != "yes":
                declared = origin
            declared = next(iter(unit.tool_states.values()), declared)
            is_unfinished = declared in _UNFINISHED | _TOOL_STATES | _SUGGESTIONS
            state = State.UNFINISHED if is_unfinished else State.DONE
            reason = f"unfinished (state {declared})" if is_unfinished else ""
        return state if unit.is_translated else State.EXCLUDED, reason, target

    def _place(self, events: list[Event], unit: _Unit) -> tuple[int, int]:
        """Return the range that the translation replaces, and note in the unit the tags that are written around it.

        Without a target, the range is empty, and is after the source.
        """
        text = self.document.text
        assert unit.source is not None
        if unit.missing_at is not None:
            return unit.missing_at, unit.missing_at
        if unit.target is None:
            begin = unit.source[0]
            place = events[(unit.seg_source or unit.source)[1]].end
            start = indented = events[begin].start
            while indented and text[indented - 1] in " \t\r\n":
                indented -= 1
            name = text[start + 1 : text.index("source", start)] + "target"
            space = events[begin].attributes.get("xml:space")
            kept = f' xml:space="{escape(space)}"' if space is not None else ""
            unit.opening, unit.closing = f"{text[indented:start]}<{name}{kept}>", f"</{name}>"
            return place, place
        target_tag, closed = (events[index] for index in unit.target)
        unit.old_target = text[target_tag.end : closed.start]
        if not text[target_tag.start : target_tag.end].endswith("/>"):
            return target_tag.end, closed.start
        found = re.match(r"<([^\s/>]+)", text[target_tag.start : target_tag.end])
        unit.opening, unit.closing = ">", f"</{found[1] if found else 'target'}>"
        return target_tag.end - 2, target_tag.end


def _state_edits(text: str, unit: _Unit, *, is_new: bool, is_filled: bool) -> Iterator[Edit]:
    """Yield the edits that mark a unit as translated, and a new text as not approved.

    `is_filled` is True if there was no translation. Then the other segments of an unfinished unit stay unfinished.
    """
    assert unit.state_tag is not None
    state = unit.state_tag.attributes.get("state")
    is_unfinished = unit.is_marked and is_filled and state in _UNFINISHED
    if state in _UNTRANSLATED or (is_new and not is_unfinished and state not in (None, "translated")):
        yield _attribute_edit(text, unit.state_tag, "state", "translated")
        if "subState" in unit.state_tag.attributes:  # it has no meaning without its state
            found = re.search(
                r"""(?<!\s)\s+subState\s*=\s*(?:"[^"]*"|'[^']*')""", text[unit.state_tag.start : unit.state_tag.end]
            )
            if found is not None:
                yield Edit(unit.state_tag.start + found.start(), unit.state_tag.start + found.end(), "")
    if is_new and unit.start.attributes.get("approved") == "yes":
        yield _attribute_edit(text, unit.start, "approved", "no")
    if is_new and unit.target_tag is not None and "state-qualifier" in unit.target_tag.attributes:
        # It says where the text before came from (XLIFF 1.2).
        yield _attribute_edit(text, unit.target_tag, "state-qualifier", "mt-suggestion")


def _text_in(text: str, events: Sequence[Event], element: tuple[int, int]) -> str:
    """Return the text of an element without tags; `element` are the indices of the events that begin and end it."""
    return Segment(0, 0, tuple(_atoms(text, events[element[0] + 1 : element[1]]))).text


def _marked_segments(text: str, events: Sequence[Event], unit: _Unit) -> list[_Unit]:
    """Return the segments that the source and the target of a unit mark; the target may lack some of their marks.

    There are none if the target has no text, no marks, or some that the source lacks, or if either side has text
    outside of its marks.
    """
    if unit.seg_source is None or unit.target is None:
        return []
    sides, marks = (unit.seg_source, unit.target), [_marks_in(events, side) for side in (unit.seg_source, unit.target)]
    whole = ["".join(_text_in(text, events, side).split()) for side in sides]
    inside = ["".join("".join(_text_in(text, events, mark) for mark in own.values()).split()) for own in marks]
    if not whole[1] or whole != inside or not marks[1].keys() <= marks[0].keys():
        return []
    segments = []
    before, place = events[unit.seg_source[0]], events[unit.target[0]].end
    for mid, (first, last) in marks[0].items():
        states = {key: state for key, state in unit.tool_states.items() if key in (mid, "")}
        segment = replace(
            unit, source=(first, last), seg_source=None, target=marks[1].get(mid), tool_states=states, is_marked=True
        )
        if segment.target is None:
            between = text[before.end : events[first].start]
            segment.opening = between * between.isspace() + text[events[first].start : events[first].end]
            segment.closing, segment.missing_at = text[events[last].start : events[last].end], place
        else:
            place = events[segment.target[1]].end
        before = events[last]
        segments.append(segment)
    return segments


def _marks_in(events: Sequence[Event], element: tuple[int, int]) -> dict[str, tuple[int, int]]:
    """Return the segments that `<mrk mtype="seg">` marks in an element, by the attribute `mid` of the mark.

    `element` and each segment are the indices of the events that begin and end it.
    """
    found: dict[str, tuple[int, int]] = {}
    opened: list[int] = []
    mark: int | None = None
    for index in range(element[0] + 1, element[1]):
        event = events[index]
        if event.kind == "start":
            opened.append(index)
            if mark is None and event.attributes.get("mtype") == "seg" and "mid" in event.attributes:
                mark = index
        elif event.kind == "end" and opened.pop() == mark:
            found[events[mark].attributes["mid"]] = mark, index
            mark = None
    return found


def _atoms(text: str, events: Sequence[Event]) -> Iterator[Atom]:
    """Yield the atoms of a source or target; an element that holds codes is one tag with all its content."""
    index = 0
    in_cdata = False
    around: list[Kind] = []
    """The kind of the end tag of each element that is open, the innermost last."""
    while index < len(events):
        event = events[index]
        raw = text[event.start : event.end]
        index += 1
        if event.kind == "cdata":
            in_cdata = not in_cdata
        elif event.kind == "text" and in_cdata:  # its text has no references; the target is no CDATA section
            yield from (Atom(escape_markup(part), part) for part in (sign[0] for sign in _SIGNS.finditer(raw)))
        elif event.kind in ("text", "other"):
            yield from (Atom(raw, "", Kind.STANDALONE),) if raw.startswith("<") else parse_references(raw)
        elif event.kind == "end":
            kind = around.pop()
            yield Atom(raw, "" if kind is Kind.BREAK else event.name, kind)
        elif (
            event.name in _SPANNING_ELEMENTS and not _is_protected(event) and event.attributes.get("mtype") != _DELETED
        ):
            is_segment = event.attributes.get("mtype") == "seg"
            around.append(Kind.BREAK if is_segment else Kind.CLOSE)
            yield Atom(raw, "", Kind.BREAK) if is_segment else Atom(raw, event.name, Kind.OPEN)
        else:
            depth = 1
            while depth:
                depth += {"start": 1, "end": -1}.get(events[index].kind, 0)
                index += 1
            whole = text[event.start : events[index - 1].end]
            yield protected(whole) if _is_protected(event) else _tag(whole, event)


def _is_protected(event: Event) -> bool:
    """Return whether an event begins a mark that forbids translation, in XLIFF 1.2 or 2."""
    attributes = event.attributes
    return event.name == "mrk" and (attributes.get("mtype") == "protected" or attributes.get("translate") == "no")


def _tag(raw: str, event: Event) -> Atom:
    """Return the atom of an element that stands for a tag; two that belong together share a name."""
    attributes = event.attributes
    if event.name == "x" and (found := _PAIRED.match(attributes.get("id", ""))):
        return Atom(raw, f"x {found[2]}", Kind.OPEN if found[1] == "START" else Kind.CLOSE)
    for names, kind in ((_OPENING_CODES, Kind.OPEN), (_CLOSING_CODES, Kind.CLOSE)):
        if event.name in names:
            return Atom(raw, attributes.get("rid", attributes.get(names[event.name], "")), kind)
    return Atom(raw, "\n", Kind.BREAK) if _is_line_end(raw, attributes) else Atom(raw, "", Kind.STANDALONE)


def _is_line_end(raw: str, attributes: Mapping[str, str]) -> bool:
    """Return whether a code ends a line: by its type, by the name that Angular gives it, or by its content."""
    if not LINE_ENDS.isdisjoint(attributes.get(key) for key in ("type", "ctype", "subType")):
        return True
    held = attributes.get("equiv-text") or attributes.get("equiv") or unescape(_MARKUP.sub("", raw))
    return attributes.get("id", "").startswith("LINE_BREAK") or BREAK_TAG.match(held) is not None


def _attribute_edit(text: str, event: Event, name: str, value: str) -> Edit:
    """Return the edit that sets an attribute of an element, or adds it."""
    raw = text[event.start : event.end]
    for attribute in attributes_of(raw):
        if attribute.name == name.lower():
            return Edit(event.start + attribute.start, event.start + attribute.end, value)
    end = re.match(r"<[^\s/>]+", raw)
    place = event.start + (end.end() if end else 0)
    return Edit(place, place, f' {name}="{value}"')
