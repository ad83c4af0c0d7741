"""Parallel text: two files, line i of one the translation of line i of the other."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from nmt_cli.formats.encoding import TextFacts, read_lines
from nmt_cli.formats.languages import Languages, language_of_path, order_of, stem_of_path
from nmt_cli.formats.opening import Input
from nmt_cli.formats.report import ImportedPair
from nmt_cli.system.console import format_count, warn
from nmt_cli.system.errors import InputError
from nmt_cli.text.language_codes import primary_language

Side = tuple[Input, TextFacts]


def pair_files(names: Sequence[str], languages: Languages) -> list[tuple[int, int]]:
    """Return the indices of the two files of each pair, by their paths.

    Files whose paths differ only in the language belong together, as in `a.en b.en a.fr b.fr` or `en/a fr/a`. If not
    all files can be paired so, the first belongs to the second, the third to the fourth, and so on.

    Raises:
        InputError: two files would be paired by their order, but both paths have the same language.
    """
    neighbours = [(place, place + 1) for place in range(0, len(names), 2)]
    shared = os.path.commonpath([os.path.dirname(os.path.abspath(name)) for name in names]) if names else ""
    paths = [os.path.relpath(os.path.abspath(name), shared) for name in names]
    if primary_language(languages.source) == primary_language(languages.target):
        return neighbours
    named = [language_of_path(path, languages, at_end=True) for path in paths]
    by_stem: dict[str, dict[str | None, list[int]]] = {}
    for place, (path, language) in enumerate(zip(paths, named, strict=True)):
        by_stem.setdefault(stem_of_path(path, languages), {}).setdefault(language, []).append(place)
    twos = [(found.get(languages.source, []), found.get(languages.target, [])) for found in by_stem.values()]
    if 2 * len(twos) == len(names) and all(len(source) == len(target) == 1 for source, target in twos):
        return [(min(source + target), max(source + target)) for source, target in twos]
    for first, second in neighbours:
        if named[first] == named[second] is not None:
            raise InputError(
                f"{names[first]} and {names[second]}: both are named as {named[first]}; give each source text directly "
                "before its translation, or rename the one that is in another language"
            )
    return neighbours


def order_sides(sides: tuple[Side, Side], languages: Languages) -> tuple[tuple[Side, Side], str]:
    """Return the sides with the source first, and the evidence for it, in words: the names, the texts or the order."""
    named = [language_of_path(input_file.inner_path, languages) for input_file, _ in sides]
    order = order_of(_texts(sides[0]), _texts(sides[1]), languages)
    if named in ([languages.source, languages.target], [languages.target, languages.source]):
        if named[0] == languages.source != languages.target and order.is_swapped and order.is_certain:
            warn(f"{sides[0][0].name}: its words are {languages.target}, not {languages.source} as its name says")
        return (sides if named[0] == languages.source else (sides[1], sides[0])), "the file names"
    if order.is_swapped and order.is_certain:
        return (sides[1], sides[0]), "the words in them"
    if order.is_swapped:
        warn(
            f"{sides[0][0].name} is taken for {languages.source} because it comes first, but some of its words look "
            f"like {languages.target}; if that is wrong, give the files in the other order"
        )
    return sides, "the order of the files"


def _texts(side: Side) -> Iterator[str]:
    return read_lines(*side)


def read_parallel(source: Side, target: Side) -> Iterator[ImportedPair]:
    """Yield each line of the source file with the line of the same number in the target file.

    Raises:
        InputError: one file has more lines than the other, which shows only after the last pair.
    """
    universal = _cr_ends_lines(source, target)
    counts = [0, 0]
    streams = [read_lines(*side, universal=universal) for side in (source, target)]
    for number, lines in enumerate(zip_longest(*streams), start=1):
        for side, line in enumerate(lines):
            counts[side] += line is not None
        if None not in lines:
            yield ImportedPair(number, *(_without_end(line) for line in lines))
    if counts[0] != counts[1]:
        raise InputError(
            f"{source[0].name} has {format_count(counts[0], 'line')} and {target[0].name} has "
            f"{format_count(counts[1], 'line')}; line i of one must belong to line i of the other, so the counts "
            "must be equal"
        )


def _without_end(line: str) -> str:
    if line.endswith("\r\n"):
        return line[:-2]
    return line[:-1] if line.endswith(("\n", "\r")) else line


def _cr_ends_lines(source: Side, target: Side) -> bool:
    """Return whether a lone CR ends a line in these two files, and is not a character within a line.

    This is possible only if a file has mixed line ends, or mostly CRs. It is so if both files then have the same number
    of lines, and one of these holds: their numbers of lines differ otherwise; lines of the same number end alike; CRs
    end more than a tenth of the lines.
    """
    if not any(facts.line_ends in ("CR", "mostly CR", "mixed") for _, facts in (source, target)):
        return False
    num_universal, num_lf, is_alike = [0, 0], [0, 0], True
    for lines in zip_longest(*(read_lines(*side, universal=True) for side in (source, target))):
        for side, line in enumerate(lines):
            num_universal[side] += line is not None
            num_lf[side] += line is not None and not line.endswith("\r")
        is_alike &= None not in lines and len({line.endswith("\r") for line in lines}) == 1
    return num_universal[0] == num_universal[1] and (
        num_lf[0] != num_lf[1] or is_alike or 10 * num_lf[0] < 9 * num_universal[0]
    )
