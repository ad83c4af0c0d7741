"""Placeholders and tags in the text of a segment; in catalogues, flags such as `c-format` tell which there are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import cache

from nmt_cli.documents.addresses import with_whole_addresses
from nmt_cli.documents.codes import (
    ANY_CODE,
    CODE,
    FORMAT_CODE,
    NUMBERED_CODE,
    REFERENCE,
    untranslated,
    with_codes,
)
from nmt_cli.formats.segments import Atom, Codes, Kind, Segment
from nmt_cli.formats.work import Work

_FREE_SIGNS = "%"
"""Signs of placeholders that are common in text too: one language writes `percent`, another `%`."""
_UNIT_CODE = re.compile(f"{REFERENCE.pattern}|{ANY_CODE.pattern}")
_COLUMNS = re.compile(r" {2,}| ?[^ ]++(?: [^ ]++)*+(?: (?! ))?| ")
"""Texts for terminals are set in columns by several blanks."""
_NUMBERED = frozenset(
    ("qt-format", "qt-plural-format", "kde-format", "kde-kuit-format", "smalltalk-format", "ycp-format")
)
"""Flags of messages in which `%1` stands for the first argument."""
_BRACED = frozenset(
    ("python-brace-format", "perl-brace-format", "csharp-format", "java-format", "rust-format", "c++-format",
     "sh-format")
)  # fmt: skip
"""Flags of messages with braces or `$name`, in which `%` is text."""
_LISP = (
    r"~[:@#\d]*+\{.{0,400}?~[:@]*+\}|~[:@#\d]*+\[.{0,400}?~\]"  # a list, or a choice, as a whole
    r"|~(?:[-+]?\d++|'.|[,:@#])*+[vV]?(?:[A-Za-z]|[%&~$*?()^|_<>])|~[vV]"
)
_GCC = r"%(?:\d++\$)?[-+#0q]*+(?:\d++|\*)?(?:\.(?:\d++|\*))?(?:ll?|w|h|z|t)?[A-Za-z]|%[<>'}]"
_OWN = {
    "lisp-format": _LISP,
    "scheme-format": _LISP,
    "gcc-internal-format": _GCC,
    "gfc-internal-format": _GCC,
    "java-printf-format": r"%(?:\d++\$|<)?[-+#0 ,(]*+\d*+(?:\.\d++)?(?:[tT][A-Za-z]|[A-Za-z%])",
    "perl-format": r"%(?:\d++\$)?[-+#0 ]*+(?:\*(?:\d++\$)?)?v\d*+(?:\.\d++)?[diouxXb]",
    "go-format": r"%[-+#0 ]*+(?:\d++(?:\.\d++)?)?\[\d++\][A-Za-z]",
}
"""Patterns of the directives that printf does not have, by the flag of their language."""


def cut_codes(segment: Segment, work: Work) -> tuple[Atom, ...]:
    """Return the atoms of a segment with the placeholders and tags in its text, and columns, as atoms of their own."""
    atoms = [untranslated(atom) if atom.kind is Kind.PROTECTED else atom for atom in segment.atoms]
    if segment.codes is Codes.PAGE:
        return with_codes(with_whole_addresses(atoms, work), has_line_ends=False, work=work)
    if segment.codes is not Codes.MESSAGE:
        return with_codes(atoms, _UNIT_CODE if segment.codes is Codes.UNIT else CODE, work=work)
    cut = with_codes(atoms, with_references(codes_by(segment.syntax)), work=work)
    return tuple(part for atom in cut for part in _columns_of(atom, work))


def _columns_of(atom: Atom, work: Work) -> Iterator[Atom]:
    """Yield an atom with the blanks between columns of its text as atoms that no sentence goes across."""
    if atom.kind is not Kind.TEXT or (atom.text != "\t" and atom.raw != atom.text):
        yield atom
    elif atom.text == "\t":
        yield Atom(atom.raw, "", Kind.BREAK)
    else:
        for column in work.each(_COLUMNS.finditer(atom.text)):
            yield Atom(column[0], "", Kind.BREAK) if column[0].startswith("  ") else Atom(column[0], column[0])


def signs_of(segment: Segment, atoms: Iterable[Atom]) -> str:
    """Return the signs of placeholders that the translation of a segment may have though its text lacks them."""
    has_arguments = segment.codes is Codes.UNIT and any(
        atom.kind is Kind.PLACEHOLDER and atom.text.startswith("%") for atom in atoms
    )
    return "" if has_arguments or any(map(_is_format, segment.syntax)) else _FREE_SIGNS


def codes_of_segment(segment: Segment) -> re.Pattern[str]:
    """Return the pattern of the tags and placeholders that the translation of a segment must have as often."""
    if segment.codes is Codes.MESSAGE:
        return codes_by(segment.syntax)
    return ANY_CODE if segment.codes is Codes.UNIT else CODE


def codes_by(flags: AbstractSet[str]) -> re.Pattern[str]:
    """Return the pattern of the placeholders in a message with these flags."""
    return _pattern(frozenset(filter(_is_format, flags)))


@cache
def with_references(pattern: re.Pattern[str]) -> re.Pattern[str]:
    """Return a pattern of placeholders that finds references to characters too."""
    return re.compile(f"{REFERENCE.pattern}|{pattern.pattern}")


def _is_format(flag: str) -> bool:
    return flag.endswith("-format") and not flag.startswith("no-")


@cache
def _pattern(formats: frozenset[str]) -> re.Pattern[str]:
    own: list[str] = []
    base = FORMAT_CODE
    if formats & _NUMBERED:
        base = NUMBERED_CODE
    elif not formats or "python-brace-format" in formats or formats <= _BRACED:
        base = CODE
    else:
        own = [_OWN[name] for name in sorted(formats) if name in _OWN]
    return re.compile("|".join([*own, base.pattern]))
