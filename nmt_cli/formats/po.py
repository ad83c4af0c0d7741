"""PO, the message catalogues of gettext, read with polib."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nmt_cli.errors import InputError
from nmt_cli.formats.encoding import TextFacts, read_lines
from nmt_cli.formats.languages import Languages, primary
from nmt_cli.formats.opening import Input
from nmt_cli.formats.report import Found, ImportReport

MAX_BYTES = 1 << 29


def read_po(given: Input, facts: TextFacts, languages: Languages, report: ImportReport) -> Iterator[Found]:
    """Yield the translated messages; those that are fuzzy, obsolete or not translated are counted.

    Of a message with plural forms, the singular goes with the first form and the plural with each other one.

    Raises:
        InputError: the catalogue is damaged or very large, or it translates into another language.
    """
    polib = load_polib(given.name)
    if sum(map(len, given.chunks())) > MAX_BYTES:
        raise InputError(f"{given.name}: is larger than {MAX_BYTES:,} bytes; cut the catalogue into parts")
    text = "".join(read_lines(given, facts, universal=True))
    try:
        # polib takes a text without a line end for a file name.
        catalogue = polib.pofile(re.sub(r"\r\n?", "\n", text) + "\n", encoding="utf-8")
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


def load_polib(name: str) -> Any:
    """Return the library; `InputError` where the extra is not installed."""
    try:
        import polib
    except ImportError:
        raise InputError(f"{name}: reading PO files needs polib: pip install 'nmt-cli[formats]'") from None
    return polib


def _pairs(singular: str, plural: str, translation: str, forms: dict[int, str]) -> list[tuple[str, str]]:
    if not plural:
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
    return language != primary(languages.target)
