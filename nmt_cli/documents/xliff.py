"""XLIFF 1.2 and 2.x: the translation of each unit's source goes into its target."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from nmt_cli.documents import encoding
from nmt_cli.documents.codes import ANY_CODE, REFERENCE, untranslated, with_codes
from nmt_cli.documents.languages import refuse_mixture
from nmt_cli.documents.xml_events import Event, events_of
from nmt_cli.formats.characters import Characters
from nmt_cli.formats.inline import BREAK, LINE_ENDS
from nmt_cli.formats.languages import language_after
from nmt_cli.formats.references import attributes_of, spelled, unescape, written
from nmt_cli.formats.segments import FREE_SIGNS, Atom, Edit, Kind, Located, Segment
from nmt_cli.formats.work import SEGMENT, Work
from nmt_cli.formats.xliff import SIDES, UNITS, UNTRANSLATED
from nmt_cli.formats.xml import DECLARED
from nmt_cli.system.console import counted

HAS_REFERENCES = True
_AROUND = frozenset(("g", "mrk", "pc"))
_MARKUP = re.compile(r"<!\[CDATA\[|\]\]>|<[^<>]*>")
"""Tags and comments, and the marks of a CDATA section without the text in it."""
_SIGNS = re.compile(r"[^<>&]+|[<>&]")
_PAIRED = re.compile(r"(START|CLOSE)_(.*)")
"""Names that Angular gives to the tags of a template."""
_CODES = re.compile(f"{REFERENCE.pattern}|{ANY_CODE.pattern}")
_OPENS = {"bpt": "id", "bx": "id", "sc": "id", "sm": "id"}
_CLOSES = {"ept": "id", "ex": "id", "ec": "startRef", "em": "startRef"}


@dataclass(slots=True)
class _Unit:
    """A unit, or a segment of one in 2.x; the events that begin its parts, and those that end them."""

    start: Event
    source: tuple[int, int] | None = None
    seg_source: tuple[int, int] | None = None
    target: tuple[int, int] | None = None


def decoded(name: str, data: bytes) -> Characters:
    """Return the characters of a file, in the encoding that it declares."""
    found = DECLARED.search(data[:4096])
    return encoding.decoded(name, data, found[1].decode("ascii") if found else None)


def locate(document: Characters, target_lang: str | None, work: Work, *, overwrite: bool) -> Located:
    """Return the sources to translate with the ranges of their targets, and the target language as edits.

    Units with a translation are left out unless `overwrite` is given, and so are those with `translate="no"`, or
    within an element that has it.

    Raises:
        InputError: it is not well-formed XML, declares entities, is nested beyond reason, or translations that stay
            are in another language.
    """
    located = Located()
    events = events_of(document, work)
    unit: _Unit | None = None
    opened: list[tuple[int, bool]] = []
    if not any(event.name == "xliff" for event in events):
        document.refuse(0, "has no element <xliff>, so it is not XLIFF")
    place, name, declared = 0, "", ""
    """Place of the element that declares the languages, and its attribute for the target language."""
    num_subflows = 0
    for index, event in enumerate(events):
        work.step()
        if event.kind == "start":
            inherited = not opened or opened[-1][1]
            is_translated = {"yes": True, "no": False}.get(event.attributes.get("translate", ""), inherited)
            opened.append((index, is_translated))
            source_name = {"file": "source-language", "xliff": "srcLang"}.get(event.name)
            if source_name in event.attributes:
                located.languages.append(event.attributes[source_name])
                name = "target-language" if event.name == "file" else "trgLang"
                place, declared = event.start, event.attributes.get(name, "")
                if target_lang is not None:
                    language = language_after(declared, target_lang.replace("_", "-"))
                    located.edits.append(_attribute(document.text, event, name, language))
            if event.name in UNITS and is_translated:
                unit = _Unit(event)
        elif event.kind == "end":
            begin, _ = opened.pop()
            if unit is None:
                continue
            if event.name in SIDES and events[opened[-1][0]] is unit.start:
                setattr(unit, event.name.replace("-", "_"), (begin, index))
            elif events[begin] is unit.start:
                num_segments = len(located.segments)
                if not _add(located, document.text, events, unit, target_lang, work, overwrite=overwrite):
                    refuse_mixture(document, place, name, declared, target_lang)
                num_subflows += len(located.segments) > num_segments and any(
                    inner.name == "sub" for inner in events[slice(*unit.source or (0, 0))]
                )
                unit = None
    if num_subflows:
        located.notes.append(
            f"{counted(num_subflows, 'text')} with a footnote or the like inside a code (sub), which stays in the "
            "source language"
        )
    return located


def _add(
    located: Located,
    text: str,
    events: list[Event],
    unit: _Unit,
    target_lang: str | None,
    work: Work,
    *,
    overwrite: bool,
) -> bool:
    """Add the segment of a unit, and what its target needs beside; return False if the unit keeps a translation."""
    if unit.source is None or unit.start.attributes.get("restype") == "x-gettext-domain-header":
        return True
    begin, _ = unit.source
    opening_at, closing_at = unit.seg_source or unit.source  # the source again, with marks around its segments
    work.count(SEGMENT)
    atoms = with_codes(work.each(_atoms(text, events[opening_at + 1 : closing_at])), _CODES, work=work)
    has_arguments = any(atom.kind is Kind.PLACEHOLDER and atom.text.startswith("%") for atom in atoms)
    holder, qualified, old = unit.start, None, ""
    if unit.target is None:
        place = events[(unit.seg_source or unit.source)[1]].end
        start = indented = events[begin].start
        while indented and text[indented - 1] in " \t\r\n":
            indented -= 1
        indent = text[indented:start]
        name = text[start + 1 : text.index("source", start)] + "target"
        space = events[begin].attributes.get("xml:space")
        kept = f' xml:space="{escape(space)}"' if space is not None else ""
        first, last, opening, closing = place, place, f"{indent}<{name}{kept}>", f"</{name}>"
    else:
        opened, closed = (events[index] for index in unit.target)
        if "state" in opened.attributes:
            holder = opened
        if "state-qualifier" in opened.attributes:
            qualified = opened
        old = text[opened.end : closed.start]
        state = holder.attributes.get("state", "")
        if _MARKUP.sub("", old).strip() and state not in UNTRANSLATED and not overwrite:
            return False
        if target_lang is not None and (declared := opened.attributes.get("xml:lang")):
            language = language_after(declared, target_lang.replace("_", "-"))
            located.edits.append(_attribute(text, opened, "xml:lang", language))
        first, last, opening, closing = opened.end, closed.start, "", ""
        if text[opened.start : opened.end].endswith("/>"):
            found = re.match(r"<([^\s/>]+)", text[opened.start : opened.end])
            first, last = opened.end - 2, opened.end
            opening, closing = ">", f"</{found[1] if found else 'target'}>"

    def finished(chunks: Sequence[str]) -> str:
        """Return the target, whose state changes if there is a translation."""
        translation = "".join(chunks)
        if translation.strip():
            located.edits.extend(_states(text, unit.start, holder, is_new=translation != old))
            if qualified is not None and translation != old:  # it says where the text before came from (XLIFF 1.2)
                located.edits.append(_attribute(text, qualified, "state-qualifier", "mt-suggestion"))
        return f"{opening}{translation}{closing}"

    signs = "" if has_arguments else FREE_SIGNS
    located.segments.append(Segment(first, last, atoms, written, finished, signs=signs, codes=ANY_CODE))
    return True


def _states(text: str, start: Event, holder: Event, *, is_new: bool) -> Iterator[Edit]:
    """Yield what says that a unit is translated, and that nobody has approved a new text."""
    state = holder.attributes.get("state")
    if state in UNTRANSLATED or (is_new and state not in (None, "translated")):
        yield _attribute(text, holder, "state", "translated")
        if "subState" in holder.attributes:  # it has no meaning without its state
            found = re.search(r"""\s+subState\s*=\s*(?:"[^"]*"|'[^']*')""", text[holder.start : holder.end])
            if found is not None:
                yield Edit(holder.start + found.start(), holder.start + found.end(), "")
    if is_new and start.attributes.get("approved") == "yes":
        yield _attribute(text, start, "approved", "no")


def _atoms(text: str, events: Sequence[Event]) -> Iterator[Atom]:
    """Yield what a source holds; an element that holds codes is one tag with all that is in it."""
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
            yield from (Atom(written(part), part) for part in (sign[0] for sign in _SIGNS.finditer(raw)))
        elif event.kind in ("text", "other"):
            yield from (Atom(raw, "", Kind.ALONE),) if raw.startswith("<") else spelled(raw)
        elif event.kind == "end":
            yield Atom(raw, event.name, around.pop())
        elif event.name in _AROUND and not _is_protected(event):
            is_segment = event.attributes.get("mtype") == "seg"
            around.append(Kind.BREAK if is_segment else Kind.CLOSE)
            yield Atom(raw, event.name, Kind.BREAK if is_segment else Kind.OPEN)
        else:
            depth = 1
            while depth:
                depth += {"start": 1, "end": -1}.get(events[index].kind, 0)
                index += 1
            whole = text[event.start : events[index - 1].end]
            yield untranslated(whole) if _is_protected(event) else _tag(whole, event)


def _is_protected(event: Event) -> bool:
    """Return True for the beginning of a mark that forbids translation, in XLIFF 1.2 or 2."""
    attributes = event.attributes
    return event.name == "mrk" and (attributes.get("mtype") == "protected" or attributes.get("translate") == "no")


def _tag(raw: str, event: Event) -> Atom:
    """Return the atom of an element that stands for a tag; two that belong together share a name."""
    attributes = event.attributes
    if event.name == "x" and (found := _PAIRED.match(attributes.get("id", ""))):
        return Atom(raw, f"x {found[2]}", Kind.OPEN if found[1] == "START" else Kind.CLOSE)
    for names, kind in ((_OPENS, Kind.OPEN), (_CLOSES, Kind.CLOSE)):
        if event.name in names:
            return Atom(raw, attributes.get("rid", attributes.get(names[event.name], "")), kind)
    return Atom(raw, "", Kind.BREAK if _is_line_end(raw, attributes) else Kind.ALONE)


def _is_line_end(raw: str, attributes: Mapping[str, str]) -> bool:
    """Return True for a code that ends a line: by its type, by the name that Angular gives it, or by what it holds."""
    if not LINE_ENDS.isdisjoint(attributes.get(key) for key in ("type", "ctype", "subType")):
        return True
    held = attributes.get("equiv-text") or attributes.get("equiv") or unescape(_MARKUP.sub("", raw))
    return attributes.get("id", "").startswith("LINE_BREAK") or BREAK.match(held) is not None


def _attribute(text: str, event: Event, name: str, value: str) -> Edit:
    """Return what sets an attribute of an element."""
    raw = text[event.start : event.end]
    for attribute in attributes_of(raw):
        if attribute.name == name.lower():
            return Edit(event.start + attribute.start, event.start + attribute.end, value)
    end = re.match(r"<[^\s/>]+", raw)
    place = event.start + (end.end() if end else 0)
    return Edit(place, place, f' {name}="{value}"')
