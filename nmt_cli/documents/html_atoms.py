"""Inline elements that are not words of the sentence around them: the marks of footnotes, and links side by side."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from nmt_cli.documents.segments import Atom, Kind, Segment
from nmt_cli.documents.sentences import partners

_LABELS = frozenset(("a", "label"))
_SHOWN = (Kind.TEXT, Kind.PLACEHOLDER)


def with_marks_alone(atoms: Sequence[Atom]) -> list[Atom]:
    """Return the atoms with each raised mark without letters, such as `<sup>[1]</sup>`, as one tag that stands alone.

    The model does not see it, and it stays behind its word. A mark within a word, as in `x<sup>2</sup>y`, stays text.
    """
    obstacles = list(accumulate((_has_letter(atom) or atom.kind is Kind.BREAK for atom in atoms), initial=0))
    starts = {
        end: start
        for start, end in partners(atoms).items()
        if atoms[start].text == "sup" and obstacles[start] == obstacles[end]
    }
    before = _characters_before(atoms)
    result: list[Atom] = []
    place = len(atoms)
    is_followed = is_within_word = False
    while place:
        place -= 1
        atom = atoms[place]
        start = starts.get(place)
        if start is not None and not is_within_word and not (is_followed and before[start].isspace()):
            result.append(_joined(atoms[start : place + 1]))
            place = start
            continue
        result.append(atom)
        if atom.kind in _SHOWN or atom.kind is Kind.BREAK:
            head = re.split(r"\s", atom.text, maxsplit=1)[0]
            is_whole = head == atom.text and atom.kind is not Kind.BREAK
            is_followed = bool(head) or (is_whole and is_followed)
            is_within_word = any(map(str.isalnum, head)) or (is_whole and is_within_word)
    return result[::-1]


def with_labels_apart(atoms: Sequence[Atom]) -> list[Atom]:
    """Return the atoms with a break between two links with text, or form labels, that no text parts.

    A page shows them as two, as in a menu. Other elements without text between them may style two parts of one word.
    """
    pairs = partners(atoms)
    letters = list(accumulate(map(_has_letter, atoms), initial=0))
    labels = {
        place
        for start, end in pairs.items()
        if atoms[start].text in _LABELS and letters[start] < letters[end]
        for place in (start, end)
    }
    result: list[Atom] = []
    behind: int | None = None
    """Place behind the last label and the tags that end with it, until text follows."""
    for place, atom in enumerate(atoms):
        if atom.kind is Kind.OPEN and place in labels and behind is not None:
            result.insert(behind, Atom("", "", Kind.BREAK))
        if (atom.kind is Kind.OPEN and place in labels) or atom.kind in (*_SHOWN, Kind.BREAK):
            behind = None
        elif atom.kind is Kind.CLOSE and (place in labels or behind == len(result)):
            behind = len(result) + 1
        result.append(atom)
    return result


def _has_letter(atom: Atom) -> bool:
    return atom.kind in _SHOWN and any(map(str.isalpha, atom.text))


def _characters_before(atoms: Sequence[Atom]) -> list[str]:
    """Return the character that a page shows before each atom; a blank at the beginning of a text."""
    characters = [" "]
    for atom in atoms:
        shown = " " if atom.kind is Kind.BREAK else atom.text if atom.kind in _SHOWN else ""
        characters.append(shown[-1:] or characters[-1])
    return characters


def _joined(atoms: Sequence[Atom]) -> Atom:
    """Return the atoms as one tag that stands alone."""
    inner: list[Segment] = []
    offset = 0
    for atom in atoms:
        inner += [replace(one, start=one.start + offset, end=one.end + offset) for one in atom.inner]
        offset += len(atom.raw)
    return Atom("".join(atom.raw for atom in atoms), "", Kind.ALONE, tuple(inner))
