"""PO, the message catalogues of gettext, read with polib."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nmt_cli.errors import InputError
from nmt_cli.formats.encoding import TextFacts, read_lines
from nmt_cli.formats.languages import Languages, primary, warn_of_region
from nmt_cli.formats.opening import Input
from nmt_cli.formats.report import Found, ImportReport

MAX_BYTES = 1 << 29
FIELD = r'(?:(?<=")|(?<=\\n))'
"""Beginning of a field of the header, of which several may stand in one line."""
_CHARSET = re.compile(
    rf'^[ \t]*msgid\s*""\s*msgstr\s*"(?:[^"\\]|\\.|"\s*")*?{FIELD}Content-Type:'.encode()
    + rb'(?:[^"\\]|"\s*")*charset=([\w.:-]+)',
    re.M | re.I,
)
_TEXT_LINE = re.compile(r'(?:#~(?!\|)\s*)?(?:msg(?:id_plural|id|ctxt|str(?:\[\d+\])?)\s*|(?="))')
_WHOLE = re.compile(r'"(?:[^"\\]|\\.)*"')


def read_po(given: Input, facts: TextFacts, languages: Languages, report: ImportReport) -> Iterator[Found]:
    """Yield the translated messages; those that are fuzzy, obsolete or not translated are counted.

    Of a message with plural forms, the singular goes with the first form and the plural with each other one.

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
    for entry in catalogue:
        place = f"{given.name}:{entry.linenum}"
        if entry.obsolete:
            report.skip("obsolete", place)
            continue
        if entry.fuzzy:
            report.skip("fuzzy", place)
            continue
        for source, target in _pairs(entry.msgid, entry.msgid_plural, entry.msgstr, entry.msgstr_plural):
            yield Found(entry.linenum, *((target, source) if is_swapped else (source, target)))


def declared_charset(data: bytes) -> str | None:
    """Return the charset that the header of a catalogue names, or None."""
    found = _CHARSET.search(data)
    return found[1].decode("ascii", errors="replace") if found else None


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


def _pairs(singular: str, plural: str, translation: str, forms: dict[int, str]) -> list[tuple[str, str]]:
    if not plural or not forms:
        return [(singular, translation)]
    texts = [forms[number] for number in sorted(forms)]
    if len(texts) == 1:  # one form for any number
        return [(plural, texts[0])]
    return [(singular, texts[0]), *((plural, text) for text in texts[1:])]


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
