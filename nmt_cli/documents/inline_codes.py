"""Cuts the tags and placeholders out of the text of a document: `%s`, `{name}`, `<0>`, `[b]`, addresses.

The table of conventions (`normalization/conventions.py`) tells them from text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from nmt_cli.formats.references import unescape
from nmt_cli.formats.segments import Atom, Kind
from nmt_cli.formats.work import Work
from nmt_cli.normalization.code_finder import CodeFinder
from nmt_cli.normalization.conventions import CHARACTER_REFERENCE
from nmt_cli.normalization.placeholders import default_name
from nmt_cli.text.line import CodeKind

DEFAULT_FINDER = CodeFinder()
"""Finder of tags and placeholders in a text of which neither gettext flags nor used conventions are known."""
_REFERENCE = re.compile(CHARACTER_REFERENCE)
_KINDS = {
    CodeKind.OPEN: Kind.OPEN,
    CodeKind.CLOSE: Kind.CLOSE,
    CodeKind.STANDALONE: Kind.STANDALONE,
    CodeKind.LINE_END: Kind.BREAK,
    CodeKind.ACCELERATOR: Kind.ACCELERATOR,
}


def split_codes(
    atoms: Iterable[Atom], finder: CodeFinder = DEFAULT_FINDER, *, work: Work, has_line_ends: bool = True
) -> tuple[Atom, ...]:
    """Return the atoms with each tag and placeholder in their text as an atom of its own.

    With `has_line_ends`, `<br>` in the text ends a line. Without, as for a page, whose text has it only escaped, it is
    a tag that encloses nothing.
    """
    result: list[Atom] = []
    run: list[Atom] = []
    for atom in [*atoms, None]:
        if atom is not None and atom.kind is Kind.TEXT:
            run.append(atom)
            continue
        for code in _cut_out(run, finder, work):
            is_line_end = code.kind is Kind.BREAK and not has_line_ends
            result.append(Atom(code.raw, "", Kind.STANDALONE) if is_line_end else code)
        run = []
        if atom is not None:
            result.append(atom)
    return tuple(result)


def _cut_out(run: Sequence[Atom], finder: CodeFinder, work: Work) -> Iterator[Atom]:
    text = "".join(atom.text for atom in run)
    is_plain = [atom.raw == atom.text for atom in run]
    number = offset = 0
    """Index of the next atom, and the characters of its text that are taken; the rest is not copied, because an atom
    may hold many codes."""

    def take(length: int) -> list[Atom]:
        nonlocal number, offset
        taken = []
        while length > 0 and number < len(run):
            atom = run[number]
            end = min(offset + length, len(atom.text))
            if is_plain[number]:
                atom = Atom(atom.raw[offset:end], atom.text[offset:end])
            taken.append(atom)
            length -= len(atom.text)
            offset += len(atom.text)
            if offset >= len(run[number].text):
                number, offset = number + 1, 0
        return taken

    position = 0
    for code in finder.codes(text, work.each):
        work.count(2)  # this, and the text after it
        if code.begin < position:  # within what is spelled as one
            continue
        yield from take(code.begin - position)
        inside = take(code.end - code.begin)
        own = "".join(atom.text for atom in inside)
        position = code.begin + len(own)
        yield _as_code("".join(atom.raw for atom in inside), own, code.kind, code.name)
    yield from take(len(text))


def _as_code(raw: str, text: str, kind: CodeKind, name: str) -> Atom:
    """Return the atom of a tag or placeholder that is spelled `raw` in the document and reads `text`.

    `name` is the name of a tag. An escaped sign or a reference to a blank becomes text.
    """
    if kind in _KINDS:
        return Atom(raw, name if kind in (CodeKind.OPEN, CodeKind.CLOSE) else "", _KINDS[kind])
    if kind is CodeKind.ESCAPE:
        return Atom(raw, text[-1:])
    # A blank may be lost, and as a placeholder it would hold two words together.
    if _REFERENCE.fullmatch(text) and unescape(text).isspace():
        return Atom(raw, unescape(text))
    return Atom(raw, default_name(text), Kind.PLACEHOLDER)


def untranslated_atom(atom: Atom) -> Atom:
    """Return a protected atom as a placeholder, or as a tag that encloses nothing if it has no text."""
    kind = Kind.PLACEHOLDER if atom.text.strip() else Kind.STANDALONE
    return replace(atom, text=default_name(atom.text), kind=kind)
