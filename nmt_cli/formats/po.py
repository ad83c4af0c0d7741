"""PO, the message catalogues of gettext. A translation changes nothing but its entry and the header."""

from __future__ import annotations

import gettext
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from nmt_cli.formats.encoded_text import EncodedText
from nmt_cli.formats.languages import updated_language
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

_NUM_RULE_SAMPLES = 200
"""The plural form is computed for this many numbers from 0 on, to see if the form for 1 is used for others too."""
_FIELD = r'(?:(?<=")|(?<=\\n))'
"""Pattern of the place at which a field of the header may begin: after a quote or an escaped line feed."""
_HEADER = re.compile(rb'(?:^|\r)[ \t]*msgid\s*""\s*msgstr\s*((?:"(?:[^"\\]|\\.)*+"\s*)+)', re.M | re.I)
_CONTENT_TYPE = re.compile(rf"{_FIELD}Content-Type:".encode(), re.I)
_CHARSET = re.compile(rb'(?:[^"\\]|"\s*")*charset=([\w.:-]+)', re.I)
"""Pattern of the rest of a field Content-Type up to its charset; the field may continue on the next line."""
_TEMPLATE_CHARSETS = frozenset(("CHARSET", "ASCII", "US-ASCII"))
"""Values of `charset` that do not count as a declaration: templates, and the catalogues made of them, have these."""
_LANGUAGE = re.compile(rf'{_FIELD}Language:[ \t]*(.*?)(?=\\n|")')
_TOKEN = re.compile(
    r"""(?P<space>[^\S\r\n]*+[\r\n]+|[^\S\r\n]++(?!\#)|\ufeff)
    |(?P<comment>[^\S\r\n]*+\#[^\r\n]*+(?:\r\n|\r|\n)?)
    |(?P<name>msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)(?!\w)
    |(?P<string>"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+")""",
    re.X,
)
_LINE_END = re.compile(r"\r\n?|\n")
_REST_OF_LINE = re.compile(r"[^\r\n]*")
_OBSOLETE = re.compile(r"\s*#~\s*msgid[\s\"]")
_BYTES = r"(?:\\(?:x[89a-fA-F][0-9a-fA-F]|[23][0-7]{2}))+"
"""Pattern of bytes from 0x80 on in hexadecimal or octal escapes, as some programs write characters beyond ASCII."""
_ESCAPE = re.compile(rf"(?P<bytes>{_BYTES})|\\(?:x[0-9a-fA-F]{{1,2}}|[0-7]{{1,3}}|.)|[^\\]+", re.S)
_CONTROLS = {"n": "\n", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
"""Escapes of control characters, which are no part of a sentence."""
_ARGUMENT = re.compile(r"%(?:\d++\$)?[-+#0 ]*+\d*+(?:\.\d++)?[a-zA-Z]|%\(\w++\)|%L?\d++|\{[^{}]*+\}")
_WIDTH = 78
_ENTRY = 1
"""Parts of the work (see `Work`) that an entry counts as, in addition to its segment."""
_MANY_LINES = 100
"""Number of lines of a text beyond which each further line counts as a part of the work (see `Work`): an ordinary entry
needs little memory."""
_INVALID_LINE = "is not a line of a PO file (msgid, msgstr, a text in quotes, or a comment); fix it"


@dataclass(slots=True)
class _Text:
    """A string of an entry: the range of its quoted lines, and the text within the quotes of each line."""

    start: int
    end: int
    lines: list[str]

    @property
    def raw(self) -> str:
        """The text within the quotes of all lines."""
        return "".join(self.lines)


@dataclass(slots=True)
class _Entry:
    """A message with its flags, and its strings by their keywords, such as `msgid` and `msgstr[1]`."""

    place: int
    flags: set[str] = field(default_factory=set)
    flag_lines: list[tuple[int, int]] = field(default_factory=list)
    previous_lines: list[tuple[int, int]] = field(default_factory=list)
    """Ranges of the lines `#|`, which have the former message, for which the fuzzy translation was made."""
    texts: dict[str, _Text] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """True if the entry has a `msgid` and at least one `msgstr`, which may be empty."""
        return "msgid" in self.texts and any(name.startswith("msgstr") for name in self.texts)


class _Form(NamedTuple):
    """One form of a message (singular or a plural), with the place of its translation."""

    entry: _Entry
    translation: _Text
    missing_keyword: str
    """The keyword to write before a plural form that the entry lacks, such as `msgstr[1]`; empty if it has the form."""
    is_multiline: bool


class PluralRule(NamedTuple):
    """The plural forms that the header of a catalogue declares for its language."""

    num_forms: int | None
    """Number of forms; None in an unfilled template, or if it has more than two digits: no language has seven forms."""
    singular_form: int
    """Index of the form for 1; -1 if 1, 2 and 3 have the same form."""
    is_singular_only: bool
    """True if the form for 1 is used for 1 only, or for 0 and 1 only."""


class Catalogue(Content):
    """The messages of a catalogue. Each plural form of a message is a segment."""

    def __init__(self, document: EncodedText, work: Work | None = None) -> None:
        super().__init__(document, work)
        self._rule = plural_rule("")
        self._header: _Entry | None = None
        self._language: re.Match[str] | None = None
        self._declared = DeclaredLanguages()

    @staticmethod
    def charset(data: bytes) -> re.Match[bytes] | None:
        """Return a match whose first group is the charset in the header, or None."""
        header = _HEADER.search(data)
        found = header and _CONTENT_TYPE.search(data, *header.span(1))
        named = _CHARSET.match(data, found.end(), header.end(1)) if header and found else None
        return None if named is None or named[1].decode("ascii", "replace").upper() in _TEMPLATE_CHARSETS else named

    def segments(self) -> Iterator[Segment]:
        """Yield a segment for each form of each message, and an empty one for each obsolete message.

        Damaged entries are left out.

        Raises:
            InputError: there are damaged entries and no others.
        """
        num_messages = 0
        for entry in self._entries():
            if not entry.texts:
                yield Segment(entry.place, entry.place, (), line=self.line_at(entry.place), state=State.EXCLUDED,
                              reason="obsolete")  # fmt: skip
                continue
            if not entry.is_whole:
                self._skip(entry.place, "the entry has no msgid with a msgstr; the catalogue is damaged or cut off")
                continue
            if not entry.texts["msgid"].raw and "msgctxt" not in entry.texts:
                self._read_header(entry)
                continue
            num_messages += 1
            yield from self._segments_of(entry)
        if self.unreadable_parts and not num_messages:
            first = min(self.unreadable_parts)
            self.document.refuse_line(first.line, first.problem)

    def language_edits(self, code: str) -> Iterator[Edit]:
        """Yield the edits that set the language in the header, and the charset if the header has none yet."""
        if self._header is None or (header := self._header.texts.get("msgstr")) is None:
            return
        code = code.replace("-", "_")
        raw = self.document.text[header.start : header.end]
        if self._language is not None:
            named = updated_language(self._language[1], code)
            is_same = self._language[1] == named
            yield Edit(*self._language.span(), self._language[0] if is_same else f"Language: {named}")
        else:
            line_end = _line_end(self.document.text, header.start)
            missing = "\\n" if header.raw and not header.raw.endswith("\\n") else ""
            yield Edit(header.end - 1, header.end, f'{missing}"{line_end}"Language: {code}\\n"')
        charset = re.search(r"charset=([\w-]+)", raw)
        if charset is not None and charset[1] in _TEMPLATE_CHARSETS:
            yield Edit(header.start + charset.start(1), header.start + charset.end(1), self.document.codec.upper())
            if charset[1] == "CHARSET":  # it is no template any more, so not fuzzy
                yield from self._without_fuzzy(self._header)
        if "nplurals=INTEGER" in header.raw:
            self.notes.append(
                "Plural-Forms in the header belongs to a template, so gettext cannot load the translated file. Make a "
                f"catalogue of the template with msginit -l {code}, and translate that"
            )

    def translation_edits(self, segment: Segment, chunks: Sequence[str]) -> Iterator[Edit]:
        """Yield the edits that write the translation in quotes, and that remove the flag `fuzzy`.

        The translation is on one line, or on as many as it needs if its source has several.
        """
        form = segment.unit
        assert isinstance(form, _Form)
        raw = "".join(chunks)
        text = self.document.text
        line_end = _line_end(text, form.entry.texts["msgid"].end)
        lines = [raw]
        if form.is_multiline:
            lines = ["", *(part for line in re.finditer(r".*?\\n|.+$", raw) for part in _wrapped(line[0]))]
        old = form.translation
        is_same = old.lines and old.raw == raw
        new = text[old.start : old.end] if is_same else line_end.join(f'"{line}"' for line in lines)
        new = f"{line_end}{form.missing_keyword}{new}" if form.missing_keyword else new
        yield Edit(segment.start, segment.end, new)
        if "fuzzy" in form.entry.flags:
            yield from self._without_fuzzy(form.entry)

    def _skip(self, place: int, what: str) -> None:
        self.unreadable_parts.append(UnreadablePart(self.line_at(place), what))

    def _entries(self) -> Iterator[_Entry]:
        """Yield the entries; an obsolete entry has its place only. An entry with an invalid line is left out."""
        text, position = self.document.text, 0
        entry: _Entry | None = None
        last: _Text | None = None
        is_over = is_lost = False
        """`is_over`: the entry has a translation. `is_lost`: it is damaged, so all up to the next entry is skipped."""
        while position < len(text):
            self.work.step()
            start, found = position, _TOKEN.match(text, position)
            kind = None if found is None else found.lastgroup
            position = _REST_OF_LINE.match(text, position).end() if found is None else found.end()  # type: ignore[union-attr]
            if kind == "space":
                continue
            token = text[start:position]
            if (entry is not None and is_over and (kind == "comment" or token in ("msgctxt", "msgid"))) or (
                is_lost and (kind == "comment" or token in ("msgctxt", "msgid"))
            ):
                if entry is not None and not is_lost:
                    yield entry
                entry, last, is_over, is_lost = None, None, False, False
            if kind == "comment":
                last = None
                mark = token.lstrip()[:2]
                if mark == "#~":
                    if entry is not None and not entry.texts:  # its comments belong to the obsolete entry
                        entry = None
                    if _OBSOLETE.match(token):
                        yield _Entry(start)
                    continue
                entry = entry or _Entry(start)
                if mark == "#,":
                    entry.flags |= {flag.strip() for flag in token.strip()[2:].split(",")}
                    entry.flag_lines.append((start, position))
                    self.work.count(len(entry.flag_lines) > _MANY_LINES)
                elif mark == "#|":
                    entry.previous_lines.append((start, position))
                    self.work.count(len(entry.previous_lines) > _MANY_LINES)
            elif is_lost:
                continue
            elif kind is None:
                self._skip(start, _INVALID_LINE)
                is_lost = True
            elif kind == "name":
                if entry is not None and token in entry.texts:
                    self._skip(start, f"{token} is given twice in an entry; fix it")
                    entry, is_over, is_lost = None, False, token not in ("msgctxt", "msgid")
                    if is_lost:
                        continue
                entry = entry or _Entry(start)
                is_over |= token.startswith("msgstr")
                last = entry.texts[token] = _Text(position, position, [])
            elif last is None:
                self._skip(start, "a text in quotes belongs to no msgid or msgstr; fix it")
                is_lost = True
            else:
                last.start = last.start if last.lines else start
                last.end = position
                last.lines.append(token[1:-1])
                self.work.count(len(last.lines) > _MANY_LINES)
        if entry is not None and entry.texts and not is_lost:
            yield entry

    def _read_header(self, entry: _Entry) -> None:
        if (header := entry.texts.get("msgstr")) is None:
            return
        self._header, self._rule = entry, plural_rule(header.raw)
        self._language = _LANGUAGE.search(self.document.text, header.start, header.end)
        if self._language is not None:
            self._declared = DeclaredLanguages("", self._language[1].strip(), self._language.start(), "Language")

    def _segments_of(self, entry: _Entry) -> Iterator[Segment]:
        """Yield a segment for each form of a message.

        The source of the form for 1 is the singular if it can be; the source of all others is the plural.
        """
        texts = entry.texts
        singular, plural = texts["msgid"], texts.get("msgid_plural")
        names = [name for name in texts if name.startswith("msgstr")]
        is_new = not any(texts[name].raw for name in names)
        is_fuzzy = "fuzzy" in entry.flags
        state = State.NEW if is_new else State.UNFINISHED if is_fuzzy else State.DONE
        line = self.line_at(entry.place)
        if plural is None or "msgstr" in texts:
            yield self._segment(_Form(entry, texts[names[0]], "", len(singular.lines) > 1), singular, state, line)
            return
        last = texts[names[-1]]
        # A form for many numbers needs the placeholders of the plural.
        is_alike = self._rule.is_singular_only or _count_specifiers(singular.raw) == _count_specifiers(plural.raw)
        for number in range(self._rule.num_forms or len(names)):
            source = (
                singular if number == self._rule.singular_form and self._rule.num_forms != 1 and is_alike else plural
            )
            translation = texts.get(f"msgstr[{number}]")
            missing_keyword = "" if translation is not None else f"msgstr[{number}] "
            form = _Form(entry, translation or _Text(last.end, last.end, []), missing_keyword, len(source.lines) > 1)
            # gettext shows nothing for a form that is empty beside one that is not.
            is_missing = not (is_fuzzy or form.translation.raw)
            yield replace(self._segment(form, source, State.NEW if is_missing else state, line), group=entry)

    def _segment(self, form: _Form, source: _Text, state: State, line: int) -> Segment:
        self.work.count(SEGMENT_PARTS + _ENTRY)
        translation = form.translation
        return Segment(
            translation.start,
            translation.end,
            tuple(self.work.each(_atoms(source.raw))),
            _escape_string,
            line=line,
            target=None if form.missing_keyword else "".join(atom.text for atom in _atoms(translation.raw)),
            state=state,
            reason="fuzzy" if "fuzzy" in form.entry.flags else "",
            declared=self._declared,
            context=form.entry.texts["msgctxt"].raw if "msgctxt" in form.entry.texts else "",
            format_flags=frozenset(form.entry.flags),
            codes=CodeSyntax.MESSAGE,
            unit=form,
        )

    def _without_fuzzy(self, entry: _Entry) -> Iterator[Edit]:
        """Yield the edits that remove the flag `fuzzy` and the former message, which only fuzzy entries have."""
        for start, end in entry.previous_lines:
            yield Edit(start, end, "")
        for start, end in entry.flag_lines:
            line = self.document.text[start:end]
            others = [flag.strip() for flag in line.strip()[2:].split(",") if flag.strip() not in ("fuzzy", "")]
            kept = line[len(line.rstrip()) :]
            if "fuzzy" in line:
                yield Edit(start, end, f"#, {', '.join(others)}{kept}" if others else "")


def _line_end(text: str, begin: int = 0) -> str:
    """Return the first line end of a text from a place on; a line feed if there is none."""
    found = _LINE_END.search(text, begin)
    return "\n" if found is None else found[0]


def plural_rule(header: str) -> PluralRule:
    """Return the plural forms that the header of a catalogue declares."""
    found = re.search(r"nplurals\s*=\s*(\d{1,2})\s*;\s*plural\s*=([^;\\]*)", header)
    if found is None:
        return PluralRule(None, 0, is_singular_only=True)
    try:
        form = gettext.c2py(found[2].strip())
        forms = [form(number) for number in range(_NUM_RULE_SAMPLES)]
    except (ValueError, ArithmeticError, RecursionError):
        return PluralRule(int(found[1]), 0, is_singular_only=False)
    if forms[1] == forms[2] == forms[3]:
        return PluralRule(int(found[1]), -1, is_singular_only=False)
    return PluralRule(int(found[1]), forms[1], is_singular_only=forms[1] not in forms[2:])


def _count_specifiers(raw: str) -> Counter[str]:
    return Counter(_ARGUMENT.findall(raw))


def _atoms(raw: str) -> Iterator[Atom]:
    """Yield the atoms of a string; its line ends and other control characters are breaks, which no sentence crosses."""
    for match in _ESCAPE.finditer(raw):
        piece = match[0]
        if not piece.startswith("\\"):
            yield Atom(piece, piece)
        elif found := _characters(match["bytes"]):
            yield Atom(piece, found)
        elif piece[1:] in _CONTROLS:
            yield Atom(piece, _CONTROLS[piece[1:]], Kind.BREAK)
        elif len(piece) > 2 or piece[1] in "01234567":
            code = int(piece[2:], 16) if piece[1] == "x" else int(piece[1:], 8)
            yield Atom(piece, chr(code) if code < 128 else "", Kind.BREAK)
        else:
            yield Atom(piece, "\t" if piece == "\\t" else piece[1:])


def _characters(escapes: str | None) -> str:
    """Return the characters of escaped bytes in UTF-8; an empty text if the bytes are not valid UTF-8."""
    codes = re.findall(r"\\x(..)|\\([0-7]{3})", escapes or "")
    try:
        return bytes(int(high, 16) if high else int(octal, 8) for high, octal in codes).decode("utf-8")
    except ValueError:
        return ""


def _escape_string(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")


def _wrapped(line: str) -> list[str]:
    parts = [""]
    for found in re.finditer(r"\S*\s*", line):
        if parts[-1] and len(parts[-1]) + len(found[0]) > _WIDTH:
            parts.append("")
        parts[-1] += found[0]
    return parts
