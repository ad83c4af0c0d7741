"""Cuts a segment into units, which are sentences whose tags close within them, and the tags and white space between.

Sentences are found by sentencex (MIT), which keeps all white space. Tags around several sentences stay where they are,
and so do white space and tags at the edges of a sentence.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from nmt_cli.formats.segments import Atom, Kind, closing_tags
from nmt_cli.formats.work import SENTENCE_PARTS, Work
from nmt_cli.system.errors import InputError
from nmt_cli.text.language_codes import primary_language

Splitter = Callable[[str], Sequence[str]]
"""Function that splits a text into sentences; joined, they are the text again."""
_EDGE_KINDS = (Kind.STANDALONE, Kind.SEAM)
_PART_CHARACTERS, _MAX_PART_CHARACTERS = 50_000, 800_000
"""Characters that are given to the splitter at once, and the limit to which this number grows for a long sentence. A
longer sentence is cut: nothing can stop the splitter, and no other thread runs meanwhile."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A sentence to translate; a tag that opens in it also closes in it."""

    atoms: tuple[Atom, ...]


Item = Unit | Atom
"""A sentence to translate, or an atom that stays as it is."""


def splitter(language: str) -> Splitter:
    """Return the function that splits a text in this language into sentences.

    Raises:
        InputError: sentencex, of the extra `documents`, is not installed.
    """
    try:
        from sentencex import segment
    except ImportError:
        raise InputError(
            "documents and --paragraphs need sentencex, which finds sentences: pip install 'nmt-cli[documents]'"
        ) from None
    code = primary_language(language)

    def split(text: str) -> Sequence[str]:
        found = list(segment(code, text))
        return found if "".join(found) == text else [text]

    return split


def split_into_sentences(atoms: Iterable[Atom], split: Splitter, work: Work) -> list[Item]:
    """Return the sentences of a text and the atoms between them, in order."""
    items: list[Item] = []
    run: list[Atom] = []
    for atom in _break_parted_tags(_merge_empty_elements(atoms), work):
        work.step()
        if atom.kind is Kind.BREAK:
            items += [*_items_of_run(run, split, work), atom]
            run = []
        else:
            run.append(atom)
    return items + _items_of_run(run, split, work)


def _merge_empty_elements(atoms: Iterable[Atom]) -> list[Atom]:
    """Return the atoms with each opening tag that is closed at once, as in `<b></b>`, joined with its end into one."""
    merged: list[Atom] = []
    for atom in atoms:
        last = merged[-1] if merged else None
        if last is not None and last.kind is Kind.OPEN and atom.kind is Kind.CLOSE and last.text == atom.text:
            merged[-1] = Atom(last.raw + atom.raw, "", Kind.STANDALONE, last.inner)
        else:
            merged.append(atom)
    return merged


def _break_parted_tags(atoms: Sequence[Atom], work: Work) -> list[Atom]:
    """Return the atoms with each tag whose partner is beyond a break turned into a break.

    A tag without a partner, as in `Usage: open <file>` or `<a><b>red</a></b>`, becomes one that encloses nothing.
    """
    work.step(len(atoms))
    breaks = list(accumulate((atom.kind is Kind.BREAK for atom in atoms), initial=0))
    pairs = closing_tags(atoms).items()
    is_parted = {place: breaks[pair[0]] != breaks[pair[1]] for pair in pairs for place in pair}
    result = list(atoms)
    for place, atom in enumerate(atoms):
        if atom.kind in (Kind.OPEN, Kind.CLOSE) and is_parted.get(place, True):  # pairs around it are parted too
            kind = Kind.BREAK if place in is_parted else Kind.STANDALONE
            result[place] = Atom(atom.raw, "", kind, atom.inner)
    return result


def as_break(atom: Atom) -> Atom:
    """Return an atom as a break, which stays where it is and which no sentence crosses."""
    return Atom(atom.raw, "", Kind.BREAK, atom.inner)


def _items_of_run(run: Sequence[Atom], split: Splitter, work: Work) -> list[Item]:
    """Return the sentences of atoms without a break, and the atoms between; tags around several become breaks."""
    text = "".join(atom.visible_text for atom in run)
    if not any(character.isalpha() for atom in run if atom.kind is Kind.TEXT for character in atom.text):
        return list(run)
    work.step(len(run))
    ends = list(_ends_of_sentences(text, split, work))[:-1]
    atoms = _cut(run, ends)
    atom_ends = [*_atom_ends(atoms, ends), len(atoms)]
    split_pairs = {
        place
        for first, last in closing_tags(atoms).items()
        if bisect_right(atom_ends, first) != bisect_right(atom_ends, last)
        for place in (first, last)
    }
    if split_pairs:
        return split_into_sentences(
            [as_break(atom) if place in split_pairs else atom for place, atom in enumerate(atoms)], split, work
        )
    items: list[Item] = []
    for start, end in pairwise([0, *atom_ends]):
        work.count(SENTENCE_PARTS)
        items += _trim_edges(atoms[start:end])
    return items


def _ends_of_sentences(text: str, split: Splitter, work: Work) -> Iterator[int]:
    """Yield the offset at which each sentence of a text ends. A long text is split in parts.

    The last sentence of a part may be incomplete, so the next part begins with it.
    """
    start, length = 0, _PART_CHARACTERS
    while start < len(text):
        sentences = split(text[start : start + length])
        work.count(len(sentences))
        if start + length < len(text):
            if 2 * len(sentences[-1]) > length and length < _MAX_PART_CHARACTERS:
                length *= 2
                continue
            sentences = sentences[:-1] or sentences
        for sentence in sentences:
            start += len(sentence)
            yield start
        length = _PART_CHARACTERS


def _cut(atoms: Sequence[Atom], ends: Sequence[int]) -> list[Atom]:
    """Return the atoms with text cut at `ends`, the offsets in the shown text at which sentences end."""
    cut: list[Atom] = []
    position, waiting = 0, list(reversed(ends))
    for atom in atoms:
        end = position + len(atom.visible_text)
        while waiting and waiting[-1] <= position:
            waiting.pop()
        taken = 0
        is_plain = atom.kind is Kind.TEXT and atom.raw == atom.text
        while is_plain and waiting and waiting[-1] < end:
            length = waiting.pop() - position
            part = atom.text[taken : taken + length]
            cut.append(Atom(part, part))
            taken += length
            position += length
            while waiting and waiting[-1] <= position:
                waiting.pop()
        if taken:
            atom = Atom(atom.raw[taken:], atom.text[taken:])
        if atom.raw:
            cut.append(atom)
        position = end
    return cut


def _atom_ends(atoms: Sequence[Atom], ends: Sequence[int]) -> Iterator[int]:
    """Yield the index of the atom after each sentence; tags that close at its end belong to it."""
    places = list(accumulate((len(atom.visible_text) for atom in atoms), initial=0))
    number = 0
    for end in ends:
        while number < len(atoms) and places[number + 1] < end:
            number += 1
        number += number < len(atoms)
        while number < len(atoms) and atoms[number].kind is Kind.CLOSE:
            number += 1
        yield number


def _trim_edges(atoms: Sequence[Atom]) -> list[Item]:
    """Return a sentence as a unit, with the white space and tags at its edges, and tags around all of it, as atoms.

    A sentence without letters gives atoms only.
    """
    before: list[Item] = []
    after: list[Item] = []
    middle = [atom for whole in atoms for atom in _split_white_space(whole)]
    pairs = closing_tags(middle)
    start, end = 0, len(middle)
    while start < end:
        first, last = middle[start], middle[end - 1]
        if first.kind in _EDGE_KINDS or (first.kind is Kind.TEXT and first.text.isspace()):
            before.append(first)
            start += 1
        elif last.kind in _EDGE_KINDS or (last.kind is Kind.TEXT and last.text.isspace()):
            after.append(last)
            end -= 1
        elif pairs.get(start) == end - 1:
            before.append(first)
            after.append(last)
            start, end = start + 1, end - 1
        else:
            break
    rest = middle[start:end]
    has_text = any(c.isalpha() for atom in rest if atom.kind is Kind.TEXT for c in atom.text)
    return [*before, *([Unit(tuple(rest))] if has_text else rest), *reversed(after)]


def _split_white_space(atom: Atom) -> Iterator[Atom]:
    """Yield a text atom as leading white space, text and trailing white space; other atoms as they are."""
    if atom.kind is not Kind.TEXT or atom.raw != atom.text:
        yield atom
        return
    inner = atom.text.strip()
    left = len(atom.text) - len(atom.text.lstrip())
    for part in (atom.text[:left], inner, atom.text[left + len(inner) :]):
        if part:
            yield Atom(part, part)
