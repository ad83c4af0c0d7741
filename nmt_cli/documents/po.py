"""PO, the message catalogues of gettext. polib and others write a file anew; here its lines stay where they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial

from nmt_cli.documents import encoding
from nmt_cli.documents.codes import counts_of, with_codes
from nmt_cli.documents.encoding import Characters
from nmt_cli.documents.languages import language_after, refuse_mixture
from nmt_cli.documents.po_codes import codes_by, is_format, with_references
from nmt_cli.documents.po_entries import Entry, Text, entries_of
from nmt_cli.documents.segments import FREE_SIGNS, Atom, Edit, Kind, Located, Segment
from nmt_cli.documents.work import SEGMENT, Work
from nmt_cli.formats.po import FIELD, PluralRule, declared_charset, plural_rule
from nmt_cli.system.console import counted

HAS_REFERENCES = False
_UNSET = frozenset(("CHARSET", "ASCII", "US-ASCII"))
"""Charsets of a template, and of the catalogue that msginit makes of one; translations need more than ASCII has."""
_LANGUAGE = re.compile(rf'{FIELD}Language:[ \t]*(.*?)(?=\\n|")')
_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)|[^\\]+")
_COLUMNS = re.compile(r" {2,}| ?[^ ]++(?: [^ ]++)*+(?: (?! ))?| ")
"""Texts for terminals are set in columns by several blanks."""
_CONTROLS = tuple(f"\\{letter}" for letter in "nrabfv")
"""Escapes of control characters, which stand in no sentence."""
_WIDTH = 78
_ENTRY = 1
"""Parts for which an entry counts beside its segment."""


def decoded(name: str, data: bytes) -> Characters:
    """Return the characters of a catalogue, in the encoding of its header."""
    declared = declared_charset(data)
    return encoding.decoded(name, data, None if declared in _UNSET else declared)


def locate(document: Characters, target_lang: str | None, work: Work, *, overwrite: bool) -> Located:
    """Return the messages to translate, and the language of the catalogue as an edit.

    Messages that have a translation are left out unless `overwrite` is given.

    Raises:
        InputError: a line is not one of a catalogue, an entry lacks its translation, or translations that stay are in
            another language.
    """
    located = Located()
    rule = plural_rule("")
    declared: re.Match[str] | None = None
    num_fuzzy = 0
    for entry in entries_of(document, work):
        if "msgid" not in entry.texts or not any(name.startswith("msgstr") for name in entry.texts):
            document.refuse(entry.place, "the entry has no msgid with a msgstr; the catalogue is damaged or cut off")
        if not entry.texts["msgid"].raw and "msgctxt" not in entry.texts:
            header = entry.texts.get("msgstr")
            if header is not None:
                rule = plural_rule(header.raw)
            if header is not None and target_lang is not None:
                code = target_lang.replace("-", "_")
                declared = _LANGUAGE.search(document.text, header.start, header.end)
                located.edits.append(_language(document, header, declared, code))
                located.edits.extend(_charset(document, entry, header))
                if "nplurals=INTEGER" in header.raw:
                    located.notes.append(
                        "Plural-Forms in the header belongs to a template, so gettext cannot load the translated file. "
                        f"Make a catalogue of the template with msginit -l {code}, and translate that"
                    )
            continue
        forms = [text for name, text in entry.texts.items() if name.startswith("msgstr")]
        if any(form.raw for form in forms) and not overwrite:
            num_fuzzy += "fuzzy" in entry.flags
            if declared is not None:
                refuse_mixture(document, declared.start(), "Language", declared[1], target_lang)
            continue
        located.segments.extend(_segments(document, entry, rule, work))
        if "fuzzy" in entry.flags:
            located.edits.extend(_without_fuzzy(document.text, entry))
    if num_fuzzy:
        located.notes.append(
            f"{counted(num_fuzzy, 'fuzzy message')} left as it stands; --overwrite translates such too"
        )
    return located


def _segments(document: Characters, entry: Entry, rule: PluralRule, work: Work) -> Iterator[Segment]:
    """Yield a segment for each string to fill: the form for 1 from the singular, others from the plural."""
    texts = entry.texts
    pattern = codes_by(entry.flags)
    singular, plural = texts["msgid"], texts.get("msgid_plural")
    line_end = "\r\n" if document.text.startswith("\r\n", singular.end) else "\n"
    signs = "" if is_format(entry.flags) else FREE_SIGNS
    layout = partial(_segment, document, pattern=pattern, line_end=line_end, signs=signs, work=work)
    names = [name for name in texts if name.startswith("msgstr")]
    if plural is None:
        yield layout(texts[names[0]], singular)
        return
    last = texts[names[-1]]
    # A form for many numbers needs the placeholders of the plural.
    same = rule.is_for_few or counts_of(singular.raw, pattern) == counts_of(plural.raw, pattern)
    for number in range(rule.num_forms or len(names)):
        source = singular if number == rule.one and rule.num_forms != 1 and same else plural
        own = texts.get(f"msgstr[{number}]")
        begin = "" if own is not None else f"{line_end}msgstr[{number}] "
        yield layout(own or Text(last.end, last.end, []), source, begin=begin)


def _segment(
    document: Characters,
    own: Text,
    source: Text,
    *,
    pattern: re.Pattern[str],
    line_end: str,
    signs: str,
    work: Work,
    begin: str = "",
) -> Segment:
    work.count(SEGMENT + _ENTRY)
    old = document.text[own.start : own.end] if own.lines else ""
    finish = partial(_quoted, old, own.raw, begin, line_end, is_long=len(source.lines) > 1)
    atoms = tuple(
        part
        for atom in with_codes(work.each(_atoms(source.raw)), with_references(pattern), work=work)
        for part in _columns_of(atom, work)
    )
    return Segment(own.start, own.end, atoms, _spelled, finish, signs=signs, codes=pattern)


def _quoted(old: str, old_raw: str, begin: str, line_end: str, chunks: Sequence[str], *, is_long: bool) -> str:
    """Return a string in quotes, on as many lines as it needs if its source stands on several."""
    raw = "".join(chunks)
    if old and old_raw == raw:
        return old
    lines = [raw]
    if is_long:
        lines = ["", *(part for line in re.finditer(r".*?\\n|.+$", raw) for part in _wrapped(line[0]))]
    return begin + line_end.join(f'"{line}"' for line in lines)


def _atoms(raw: str) -> Iterator[Atom]:
    """Yield the atoms of a string; no sentence goes across the end of a line in it, or another control character."""
    for match in _ESCAPE.finditer(raw):
        if not match[0].startswith("\\"):
            yield Atom(match[0], match[0])
        elif match[0] in _CONTROLS or len(match[0]) > 2:
            yield Atom(match[0], "", Kind.BREAK)
        else:
            yield Atom(match[0], "\t" if match[0] == "\\t" else match[0][1:])


def _columns_of(atom: Atom, work: Work) -> Iterator[Atom]:
    """Yield an atom with the blanks between columns of its text as atoms that no sentence goes across."""
    if atom.kind is not Kind.TEXT or (atom.text != "\t" and atom.raw != atom.text):
        yield atom
    elif atom.text == "\t":
        yield Atom(atom.raw, "", Kind.BREAK)
    else:
        for column in work.each(_COLUMNS.finditer(atom.text)):
            yield Atom(column[0], "", Kind.BREAK) if column[0].startswith("  ") else Atom(column[0], column[0])


def _spelled(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")


def _wrapped(line: str) -> list[str]:
    parts = [""]
    for found in re.finditer(r"\S*\s*", line):
        if parts[-1] and len(parts[-1]) + len(found[0]) > _WIDTH:
            parts.append("")
        parts[-1] += found[0]
    return parts


def _language(document: Characters, header: Text, declared: re.Match[str] | None, code: str) -> Edit:
    if declared is not None:
        language = language_after(declared[1], code)
        return Edit(*declared.span(), declared[0] if declared[1] == language else f"Language: {language}")
    raw = document.text[header.start : header.end]
    line_end = "\r\n" if "\r\n" in raw else "\n"
    missing = "\\n" if header.raw and not header.raw.endswith("\\n") else ""
    return Edit(header.end - 1, header.end, f'{missing}"{line_end}"Language: {code}\\n"')


def _charset(document: Characters, entry: Entry, header: Text) -> Iterator[Edit]:
    """Yield what sets the charset where the header has none yet; a template is then no longer one, so not fuzzy."""
    found = re.search(r"charset=([\w-]+)", document.text[header.start : header.end])
    if found is not None and found[1] in _UNSET:
        yield Edit(header.start + found.start(1), header.start + found.end(1), document.codec.upper())
        if found[1] == "CHARSET":
            yield from _without_fuzzy(document.text, entry)


def _without_fuzzy(text: str, entry: Entry) -> Iterator[Edit]:
    """Yield what takes out the flag, and the former message, which only fuzzy entries have."""
    for start, end in entry.previous_lines:
        yield Edit(start, end, "")
    for start, end in entry.flag_lines:
        line = text[start:end]
        others = [flag.strip() for flag in line.strip()[2:].split(",") if flag.strip() not in ("fuzzy", "")]
        kept = line[len(line.rstrip()) :]
        if "fuzzy" in line:
            yield Edit(start, end, f"#, {', '.join(others)}{kept}" if others else "")
