"""Sets apart inline elements that are no part of the sentence around them: footnote marks, and links side by side."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

from nmt_cli.formats.segments import Atom, Kind, closing_tags, join_atoms
from nmt_cli.formats.work import Work

_LABELS = frozenset(("a", "button", "label"))
_MIN_MENU_LINKS = 3
"""Number of links side by side from which on they are a menu even if their names begin with small letters."""


def join_footnote_marks(atoms: Sequence[Atom], work: Work) -> list[Atom]:
    """Return the atoms with each superscript without letters, such as `<sup>[1]</sup>`, joined into one tag.

    The model does not see it, and it stays after its word. A mark within a word, as in `x<sup>2</sup>y`, stays text.
    """
    obstacles = list(accumulate((_has_letter(atom) or atom.kind is Kind.BREAK for atom in atoms), initial=0))
    starts = {
        end: start
        for start, end in closing_tags(atoms).items()
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
            result.append(join_atoms(atoms[start : place + 1]))
            place = start
            continue
        result.append(atom)
        if atom.is_visible or atom.kind is Kind.BREAK:
            head = re.split(r"\s", atom.text, maxsplit=1)[0]
            is_whole = head == atom.text and atom.kind is not Kind.BREAK
            is_followed = bool(head) or (is_whole and is_followed)
            is_within_word = any(map(str.isalnum, head)) or (is_whole and is_within_word)
    return result[::-1]


def separate_menu_links(atoms: Sequence[Atom], work: Work) -> list[Atom]:
    """Return the atoms with breaks between links, or buttons, with white space and signs between them, as in a menu.

    This holds only if there is no other text around them. There is no break at a comma, a semicolon or an `@`, nor
    before a link that begins with a small letter, which may continue a sentence. But if there are at least three links
    and the first begins with a small letter, such links are separated too.
    """
    pairs = closing_tags(atoms)
    borders: set[int] = set()
    start = 0
    for stop in [*(place for place, atom in enumerate(atoms) if atom.kind is Kind.BREAK), len(atoms)]:
        labels = _labels_alone(atoms, pairs, start, stop, work)
        is_many = len(labels) >= _MIN_MENU_LINKS and _first_letter(atoms, labels[0]).islower()
        for (_, end), (begin, close) in pairwise(labels):
            between = "".join(atom.visible_text for atom in atoms[end + 1 : begin])
            goes_on = _first_letter(atoms, (begin, close)).islower() and not is_many
            if goes_on or not any(map(str.isspace, between)) or not {",", ";", "@"}.isdisjoint(between):
                continue
            behind = end + 1
            while behind < begin and atoms[behind].kind is Kind.CLOSE:
                behind += 1
            while begin > behind and atoms[begin - 1].kind is Kind.OPEN:
                begin -= 1
            borders |= {behind, begin}
        start = stop + 1
    result: list[Atom] = []
    for place, atom in enumerate(atoms):
        result += [Atom("", "", Kind.BREAK)] * (place in borders)
        result.append(atom)
    return result


def _labels_alone(
    atoms: Sequence[Atom], pairs: Mapping[int, int], start: int, stop: int, work: Work
) -> list[tuple[int, int]]:
    """Return the outermost links, buttons and labels with text among the atoms from `start` to `stop`.

    Each is a pair of the indices of its tags. `pairs` has the closing tag of each opening tag. If there is other text
    too, the list is empty.
    """
    found = []
    place = start
    while place < stop:
        work.step()
        end = pairs.get(place, place)
        if _is_label(atoms[place]) and place < end < stop:
            if any(map(_has_letter, atoms[place:end])):
                found.append((place, end))
            place = end
        elif _has_letter(atoms[place]):
            return []
        place += 1
    return found


def _first_letter(atoms: Sequence[Atom], label: tuple[int, int]) -> str:
    text = "".join(atom.text for atom in atoms[slice(*label)] if atom.is_visible)
    return next(filter(str.isalnum, text), "")


def _is_label(atom: Atom) -> bool:
    """Return whether an atom is the opening tag of a link, a button, a form label or a custom element."""
    return atom.kind is Kind.OPEN and (atom.text in _LABELS or "-" in atom.text)


def separate_labels(atoms: Sequence[Atom], work: Work) -> list[Atom]:
    """Return the atoms with a break between two links or form labels that have text and at most signs between them.

    A page shows them as two texts, as in a menu; `|` between them stays as it is. Other elements get no break, because
    they may style two parts of one word.
    """
    pairs = closing_tags(atoms)
    letters = list(accumulate(map(_has_letter, atoms), initial=0))
    labels = {
        place
        for start, end in pairs.items()
        if _is_label(atoms[start]) and letters[start] < letters[end]
        for place in (start, end)
    }
    result: list[Atom] = []
    behind: int | None = None
    """Index in `result` after the last label and the tags that close with it; None once a letter or blank follows."""
    signs_end = 0
    """Index in `result` after the signs that follow the last label, and the tags that close with them."""
    for place, atom in enumerate(atoms):
        work.step()
        is_visible, is_close = atom.is_visible, atom.kind is Kind.CLOSE
        if atom.kind is Kind.OPEN and place in labels:
            if behind is not None:
                places = (signs_end, behind) if signs_end > behind else (behind,)
                for border in places:
                    result.insert(border, Atom("", "", Kind.BREAK))
            behind = None
        elif atom.kind is Kind.BREAK or (is_visible and any(map(_joins_labels, atom.text))):
            behind = None
        elif is_close and (place in labels or behind == len(result)):
            behind = len(result) + 1
        elif is_visible or (is_close and signs_end == len(result)):
            signs_end = len(result) + 1
        result.append(atom)
    return result


def _joins_labels(character: str) -> bool:
    """Return whether this character between two labels makes them one text; `@` may belong to an address."""
    return character.isalpha() or character.isspace() or character == "@"


def _has_letter(atom: Atom) -> bool:
    return atom.is_visible and any(map(str.isalpha, atom.text))


def _characters_before(atoms: Sequence[Atom]) -> list[str]:
    """Return the character that a page shows before each atom; a blank at the beginning of a text."""
    characters = [" "]
    for atom in atoms:
        run = " " if atom.kind is Kind.BREAK else atom.text if atom.is_visible else ""
        characters.append(run[-1:] or characters[-1])
    return characters
