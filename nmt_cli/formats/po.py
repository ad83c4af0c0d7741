"""PO, the message catalogues of gettext, read with polib."""

from __future__ import annotations

import gettext
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from nmt_cli.formats.encoding import TextFacts, read_lines
from nmt_cli.formats.languages import Languages, warn_of_region
from nmt_cli.formats.opening import Input
from nmt_cli.formats.report import Found, ImportReport
from nmt_cli.system.errors import InputError
from nmt_cli.text.language_codes import primary

MAX_BYTES = 1 << 29
_SOME = 200
"""Numbers for which the plural form is looked up. They show whether the form of 1 stands for many numbers."""
FIELD = r'(?:(?<=")|(?<=\\n))'
"""Beginning of a field of the header, of which several may stand in one line."""
_HEADER = re.compile(rb'^[ \t]*msgid\s*""\s*msgstr\s*((?:"(?:[^"\\]|\\.)*+"\s*)+)', re.M | re.I)
_CONTENT_TYPE = re.compile(rf"{FIELD}Content-Type:".encode(), re.I)
_CHARSET = re.compile(rb'(?:[^"\\]|"\s*")*charset=([\w.:-]+)', re.I)
"""The rest of a field up to its charset; the field may go on in the next line."""
_TEXT_LINE = re.compile(r'(?:#~(?!\|)\s*)?(?:msg(?:id_plural|id|ctxt|str(?:\[\d+\])?)\s*|(?="))')
_WHOLE = re.compile(r'"(?:[^"\\]|\\.)*"')


def read_po(given: Input, facts: TextFacts, languages: Languages, report: ImportReport) -> Iterator[Found]:
    """Yield the translated messages; those that are fuzzy, obsolete or not translated are counted.

    Of a message with plural forms, the singular goes with the form for 1 and the plural with each other one.

    Raises:
        InputError: the catalogue is damaged or very large, or it translates into another language.
    """
    polib = load_polib(given.name)
    if sum(map(len, given.chunks())) > MAX_BYTES:
        raise InputError(f"{given.name}: is larger than {MAX_BYTES:,} bytes; cut the catalogue into parts")
    text = re.sub(r"\r\n?", "\n", "".join(read_lines(given, facts, universal=True)))
    _refuse_unquoted(text, given.name)
    try:
        catalogue = polib.pofile(text + "\n", encoding="utf-8")  # without a line end it would be a file name
    except (OSError, ValueError) as error:
        raise InputError(f"{given.name}: is not a PO file as gettext reads it: {error}") from None
    is_swapped = _is_swapped(catalogue.metadata.get("Language", ""), given.name, languages)
    report.inputs[-1]["languages"] = catalogue.metadata.get("Language", "")
    rule = plural_rule(f"Plural-Forms: {catalogue.metadata.get('Plural-Forms', '')}")
    for entry in catalogue:
        place = f"{given.name}:{entry.linenum}"
        if entry.obsolete:
            report.skip("obsolete", place)
            continue
        if entry.fuzzy:
            report.skip("fuzzy", place)
            continue
        for source, target in _pairs(entry.msgid, entry.msgid_plural, entry.msgstr, entry.msgstr_plural, rule.one):
            yield Found(entry.linenum, *((target, source) if is_swapped else (source, target)))


def declared_charset(data: bytes) -> str | None:
    """Return the charset that the header of a catalogue names, or None."""
    found = _charset_in(data)
    return found[1].decode("ascii", errors="replace") if found else None


def _charset_in(data: bytes) -> re.Match[bytes] | None:
    header = _HEADER.search(data)
    field = header and _CONTENT_TYPE.search(data, *header.span(1))
    return _CHARSET.match(data, field.end(), header.end(1)) if header and field else None


def load_polib(name: str) -> Any:
    """Return the library; `InputError` where the extra is not installed."""
    try:
        import polib
    except ImportError:
        raise InputError(f"{name}: reading PO files needs polib: pip install 'nmt-cli[formats]'") from None
    return polib


def _refuse_unquoted(text: str, name: str) -> None:
    """Refuse a text that is not within quotes: polib, for which U+2028 too ends a line, would take letters from it."""
    for number, line in enumerate(text.split("\n"), start=1):
        for part in map(str.strip, line.splitlines()):
            if (begin := _TEXT_LINE.match(part)) and not _WHOLE.fullmatch(part, begin.end()):
                raise InputError(
                    f"{name}:{number}: the text does not stand between two quotes; mend the line, and write a quote in "
                    'the text as \\"'
                )


def _pairs(singular: str, plural: str, translation: str, forms: dict[int, str], one: int) -> list[tuple[str, str]]:
    if not plural or not forms:
        return [(singular, translation)]
    if len(forms) == 1:  # one form for any number
        return [(plural, text) for text in forms.values()]
    return [(singular if number == one else plural, forms[number]) for number in sorted(forms)]


class PluralRule(NamedTuple):
    """The plural forms of a language."""

    num_forms: int | None
    """None in a template that is not filled in, or where the number has more than two digits: no language has seven."""
    one: int
    """The form for 1; -1 where 2 and 3 have the same form."""
    is_for_few: bool
    """True if this form stands for 1 alone, or for 0 and 1."""


def plural_rule(header: str) -> PluralRule:
    """Return what a catalogue's header says of plural forms."""
    found = re.search(r"nplurals\s*=\s*(\d{1,2})\s*;\s*plural\s*=([^;\\]*)", header)
    if found is None:
        return PluralRule(None, 0, is_for_few=True)
    try:
        form = gettext.c2py(found[2].strip())
        forms = [form(number) for number in range(_SOME)]
    except (ValueError, ArithmeticError, RecursionError):
        return PluralRule(int(found[1]), 0, is_for_few=False)
    if forms[1] == forms[2] == forms[3]:
        return PluralRule(int(found[1]), -1, is_for_few=False)
    return PluralRule(int(found[1]), forms[1], is_for_few=forms[1] not in forms[2:])


def in_utf8(text: str) -> bytes:
    """Return the bytes of a catalogue in UTF-8, with a header that says so."""
    data = text.encode("utf-8")
    found = _charset_in(data)
    return data if found is None else data[: found.start(1)] + b"UTF-8" + data[found.end(1) :]


def _is_swapped(declared: str, name: str, languages: Languages) -> bool:
    language = primary(declared) if declared else primary(languages.target)
    if language not in (primary(languages.source), primary(languages.target)):
        raise InputError(
            f"{name}: translates into {declared}, which is neither {languages.source} nor {languages.target}; give "
            "its language as --target-lang"
        )
    is_swapped = language != primary(languages.target)
    warn_of_region(name, declared, languages.source if is_swapped else languages.target)
    return is_swapped
