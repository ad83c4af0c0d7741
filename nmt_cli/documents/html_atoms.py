"""Inline elements that are no words of the sentence around them: marks of footnotes, links, parts of an address."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from nmt_cli.documents.codes import addresses_of, shown
from nmt_cli.documents.sentences import partners
from nmt_cli.formats.segments import Atom, Kind, Segment
from nmt_cli.formats.work import Work

_LABELS = frozenset(("a", "label"))


def with_marks_alone(atoms: Sequence[Atom], work: Work) -> list[Atom]:
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
        work.step()
        place -= 1
        atom = atoms[place]
        start = starts.get(place)
        if start is not None and not is_within_word and not (is_followed and before[start].isspace()):
            result.append(_joined(atoms[start : place + 1]))
            place = start
            continue
        result.append(atom)
        if atom.is_shown or atom.kind is Kind.BREAK:
            head = re.split(r"\s", atom.text, maxsplit=1)[0]
            is_whole = head == atom.text and atom.kind is not Kind.BREAK
            is_followed = bool(head) or (is_whole and is_followed)
            is_within_word = any(map(str.isalnum, head)) or (is_whole and is_within_word)
    return result[::-1]


def with_whole_addresses(atoms: Sequence[Atom], work: Work) -> list[Atom]:
    """Return the atoms with each address that tags part, as `joe@<wbr>example.org`, as one placeholder with its tags.

    A page shows it as one. If an element around a part of it holds other text too, its parts stay as they are.
    """
    text = "".join(atom.text for atom in atoms if atom.kind is Kind.TEXT)
    if "@" not in text and "://" not in text:
        return list(atoms)
    result = list(atoms)
    pairs = partners(atoms)
    other = pairs | {end: start for start, end in pairs.items()}
    for begin, end in reversed(_parted_addresses(atoms)):
        work.step(10)
        first, last = begin[0], end[0]
        while outside := [
            other[place] for place in range(first, last + 1) if place in other and not first <= other[place] <= last
        ]:
            first, last = min(first, *outside), max(last, *outside)
        before, own = result[begin[0]].cut(begin[1]) if begin[1] else (Atom(""), result[begin[0]])
        last_own, after = result[end[0]].cut(end[1])
        has_other = any(atom.kind is Kind.TEXT for atom in (*result[first : begin[0]], *result[end[0] + 1 : last + 1]))
        if has_other or (before.raw and first < begin[0]) or (after.raw and last > end[0]):
            continue
        while not before.raw and not after.raw and first and pairs.get(first - 1) == last + 1:  # a link goes with it
            first, last = first - 1, last + 1
        whole = [
            *result[first : begin[0]],
            own,
            *result[begin[0] + 1 : end[0]],
            last_own,
            *result[end[0] + 1 : last + 1],
        ]
        word = "".join(atom.text for atom in whole if atom.kind is Kind.TEXT)
        result[first : last + 1] = [atom for atom in (before, _joined(whole, shown(word)), after) if atom.raw]
    return result


def _parted_addresses(atoms: Sequence[Atom]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return where the addresses begin and end that have tags within: each as an atom's number, and a place in it."""
    found = []
    for start, stop in _runs(atoms):
        lengths = [len(atom.text) if atom.kind is Kind.TEXT else 0 for atom in atoms[start:stop]]
        ends = list(accumulate(lengths))
        text = "".join(atom.text for atom in atoms[start:stop] if atom.kind is Kind.TEXT)
        for match in addresses_of(text):
            first, last = bisect_right(ends, match.start()), bisect_left(ends, match.end())
            if any(atom.kind is not Kind.TEXT for atom in atoms[start + first : start + last]):
                begins = (start + first, match.start() - ends[first] + lengths[first])
                found.append((begins, (start + last, match.end() - ends[last] + lengths[last])))
    return found


def _runs(atoms: Sequence[Atom]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of atoms without a break or a placeholder between them."""
    start = 0
    for place, atom in enumerate([*atoms, Atom("", "", Kind.BREAK)]):
        if atom.kind in (Kind.BREAK, Kind.PLACEHOLDER, Kind.SEAM):
            yield start, place
            start = place + 1


def with_labels_apart(atoms: Sequence[Atom], work: Work) -> list[Atom]:
    """Return the atoms with a break between two links with text, or form labels, that no text parts but signs.

    A page shows them as two, as in a menu; `|` between them stays as it is. Other elements without text between them
    may style two parts of one word.
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
    """Place behind the last label and the tags that end with it, until a word or white space follows."""
    signs_end = 0
    """Place behind the signs that follow it, and the tags that end with them."""
    for place, atom in enumerate(atoms):
        work.step()
        is_shown, is_close = atom.is_shown, atom.kind is Kind.CLOSE
        if atom.kind is Kind.OPEN and place in labels:
            if behind is not None:
                places = (signs_end, behind) if signs_end > behind else (behind,)
                for border in places:
                    result.insert(border, Atom("", "", Kind.BREAK))
            behind = None
        elif atom.kind is Kind.BREAK or (is_shown and any(map(_is_no_border, atom.text))):
            behind = None
        elif is_close and (place in labels or behind == len(result)):
            behind = len(result) + 1
        elif is_shown or (is_close and signs_end == len(result)):
            signs_end = len(result) + 1
        result.append(atom)
    return result


def _is_no_border(character: str) -> bool:
    """Return whether two labels with this character between them are one text; `@` may belong to an address."""
    return character.isalpha() or character.isspace() or character == "@"


def _has_letter(atom: Atom) -> bool:
    return atom.is_shown and any(map(str.isalpha, atom.text))


def _characters_before(atoms: Sequence[Atom]) -> list[str]:
    """Return the character that a page shows before each atom; a blank at the beginning of a text."""
    characters = [" "]
    for atom in atoms:
        shown = " " if atom.kind is Kind.BREAK else atom.text if atom.is_shown else ""
        characters.append(shown[-1:] or characters[-1])
    return characters


def _joined(atoms: Sequence[Atom], name: str = "") -> Atom:
    """Return the atoms as one tag that stands alone, or as a placeholder that the model sees by a name."""
    inner: list[Segment] = []
    offset = 0
    for atom in atoms:
        inner += [replace(one, start=one.start + offset, end=one.end + offset) for one in atom.inner]
        offset += len(atom.raw)
    return Atom("".join(atom.raw for atom in atoms), name, Kind.PLACEHOLDER if name else Kind.ALONE, tuple(inner))
