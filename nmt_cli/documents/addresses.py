"""Joins addresses with tags inside, as `joe@<wbr>example.org`, which a page shows as one, into placeholders."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from nmt_cli.formats.segments import Atom, Kind, closing_tags, join_atoms
from nmt_cli.formats.work import Work
from nmt_cli.normalization.code_finder import addresses_of
from nmt_cli.normalization.placeholders import default_name


def with_whole_addresses(atoms: Sequence[Atom], work: Work) -> list[Atom]:
    """Return the atoms with each address that has tags inside, as `joe@<wbr>example.org`, joined into one placeholder.

    The placeholder includes the tags, and the elements that hold nothing but the address. An address stays as it is if
    an element around a part of it holds other text too.
    """
    text = "".join(atom.text for atom in atoms if atom.kind is Kind.TEXT)
    if "@" not in text and "://" not in text:
        return list(atoms)
    result = list(atoms)
    pairs = closing_tags(atoms)
    other = pairs | {end: start for start, end in pairs.items()}
    for begin, end in reversed(_parted_addresses(atoms)):
        work.step(10)
        first, last = begin[0], end[0]
        while outside := [
            other[place] for place in range(first, last + 1) if place in other and not first <= other[place] <= last
        ]:
            first, last = min(first, *outside), max(last, *outside)
        before, own = result[begin[0]].split_at(begin[1]) if begin[1] else (Atom(""), result[begin[0]])
        last_own, after = result[end[0]].split_at(end[1])
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
        result[first : last + 1] = [atom for atom in (before, join_atoms(whole, default_name(word)), after) if atom.raw]
    return result


def _parted_addresses(atoms: Sequence[Atom]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the begin and end of each address with tags inside, both as (index of the atom, offset in its text)."""
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
    """Yield the range (start, stop) of each run of atoms without a break, a placeholder or a seam."""
    start = 0
    for place, atom in enumerate([*atoms, Atom("", "", Kind.BREAK)]):
        if atom.kind in (Kind.BREAK, Kind.PLACEHOLDER, Kind.SEAM):
            yield start, place
            start = place + 1
