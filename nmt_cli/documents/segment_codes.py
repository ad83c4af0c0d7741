"""Finds placeholders and tags in the text of a segment; in catalogues, flags such as `c-format` tell their kinds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from nmt_cli.documents.addresses import with_whole_addresses
from nmt_cli.documents.inline_codes import split_codes, untranslated_atom
from nmt_cli.formats.segments import Atom, CodeSyntax, Kind, Segment
from nmt_cli.formats.work import Work
from nmt_cli.normalization.code_finder import CodeFinder, is_format

_FREE_SIGNS = "%"
"""Signs of placeholders that are common in text too: one language writes `percent`, another `%`."""
_COLUMNS = re.compile(r" {2,}| ?[^ ]++(?: [^ ]++)*+(?: (?! ))?| ")
"""Several blanks, by which texts for terminals are set in columns, or the text between them."""


def cut_codes(segment: Segment, work: Work, habits: frozenset[str] = frozenset()) -> tuple[Atom, ...]:
    """Return the atoms of a segment with each placeholder, tag and gap between columns in its text as its own atom.

    `habits` are the names of the placeholder conventions that the text of the document shows.
    """
    atoms = [untranslated_atom(atom) if atom.kind is Kind.PROTECTED else atom for atom in segment.atoms]
    finder = finder_of(segment, habits)
    if segment.codes is CodeSyntax.PAGE:
        return split_codes(with_whole_addresses(atoms, work), finder, has_line_ends=False, work=work)
    if segment.codes is CodeSyntax.TEXT:
        return split_codes(atoms, finder, work=work)
    cut = split_codes(atoms, replace(finder, references="first"), work=work)
    if segment.codes is CodeSyntax.UNIT:
        return cut
    return tuple(part for atom in cut for part in _columns_of(atom, work))


def _columns_of(atom: Atom, work: Work) -> Iterator[Atom]:
    """Yield an atom with the blanks and tabs between columns of its text as breaks, which no sentence crosses."""
    if atom.kind is not Kind.TEXT or (atom.text != "\t" and atom.raw != atom.text):
        yield atom
    elif atom.text == "\t":
        yield Atom(atom.raw, "", Kind.BREAK)
    else:
        for column in work.each(_COLUMNS.finditer(atom.text)):
            yield Atom(column[0], "", Kind.BREAK) if column[0].startswith("  ") else Atom(column[0], column[0])


def signs_of(segment: Segment, atoms: Iterable[Atom]) -> str:
    """Return the signs of placeholders, such as `%`, that a translation may have though the segment has none."""
    has_arguments = segment.codes is CodeSyntax.UNIT and any(
        atom.kind is Kind.PLACEHOLDER and atom.text.startswith("%") for atom in atoms
    )
    return "" if has_arguments or any(map(is_format, segment.format_flags)) else _FREE_SIGNS


def finder_of(segment: Segment, habits: frozenset[str] = frozenset()) -> CodeFinder:
    """Return the finder of placeholders and tags for a segment, set up by its flags and its kind of text.

    `habits` are the names of the placeholder conventions that the text of the document shows.
    """
    if segment.codes is CodeSyntax.MESSAGE:
        return CodeFinder.of_flags(segment.format_flags, habits)
    return CodeFinder(habits=habits, has_numbered=segment.codes is CodeSyntax.UNIT)
