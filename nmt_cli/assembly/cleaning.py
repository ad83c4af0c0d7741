"""Cleaning of a corpus: pairs are judged, and kept or dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nmt_cli.assembly.inputs import refuse_one_file
from nmt_cli.assembly.overwriting import refuse_overwriting
from nmt_cli.corpora.filter_lines import filtered_lines
from nmt_cli.corpora.filter_pairs import FilterCounts, cleaned_names, filtered_pairs, first_pass
from nmt_cli.corpora.filters import LINE_FILTERS, TOO_LITTLE
from nmt_cli.corpora.pair_filter import PairFilters
from nmt_cli.data.lines import input_name, is_special_file, is_standard_input
from nmt_cli.data.output import check_new, check_prefix, open_new_outputs
from nmt_cli.system.console import counted, log
from nmt_cli.system.errors import InputError

if TYPE_CHECKING:
    from nmt_cli.corpora.filter_pairs import FilteredPair
    from nmt_cli.corpora.filters import Filter

_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def noun_of(texts: Sequence[str]) -> str:
    return "line" if len(texts) == 1 else "pair"


def check_options(target: str | None, tag: str | None) -> None:
    if target is None and tag is not None:
        raise InputError("--tag: marks the sources of pairs; give SOURCE and TARGET, or leave it out")
    if tag is not None and (not tag or tag.split() != [tag]):
        raise InputError(f"--tag {tag!r}: must be one word without blanks, such as <BT>")
    if tag is not None and any("\ud800" <= letter <= "\udfff" for letter in tag):
        raise InputError(f"--tag {tag!r}: is not valid UTF-8; give one word, such as <BT>")


def cleaned_paths(texts: Sequence[str], prefix: str, *, may_exist: bool = False) -> list[Path]:
    """Return the files that a cleaning writes: one for each text, and the list of what was dropped.

    Raises:
        InputError: a file is an input, or is there already and may not, or its directory is missing.
    """

    made = cleaned_names(texts, prefix)
    check_prefix(prefix, example=f"-o clean for {cleaned_names(texts, 'clean')[0]}")
    for path in made:
        refuse_overwriting(path, texts)
    if not may_exist:
        check_new(made)
    return made


def check_inputs(texts: Sequence[str], without: Sequence[str]) -> None:
    """Refuse what cannot be read twice or is one file."""

    for path in (*texts, *without):
        if is_standard_input(path) or is_special_file(path):
            raise InputError(f"{input_name(path)}: can be read only once, but cleaning reads twice. Give a file")
    if len(texts) > 1:
        refuse_one_file(texts)


def judge(
    texts: Sequence[str],
    without: Sequence[str],
    dropping: frozenset[str],
    take: Callable[[FilteredPair, str | None], object],
) -> FilterCounts:
    """Give each pair or line to `take` with the rule that drops it, or None, and return the counts."""

    counts = FilterCounts()
    if len(texts) == 1:
        judged = filtered_lines(texts[0], without)
    else:
        known = first_pass(texts, without)
        judge = PairFilters(known.sample)
        counts.inactive_filters = judge.inactive_filters
        judged = filtered_pairs(texts, known, judge)
    for pair in judged:
        take(pair, counts.add(pair, dropping))
    counts.read = counts.examined
    return counts


def write(
    texts: Sequence[str], without: Sequence[str], made: list[Path], dropping: frozenset[str], *, tag: str | None
) -> FilterCounts:
    """Write all files, or none."""

    mark = b"" if tag is None else tag.encode() + b" "
    with open_new_outputs(made) as files:

        def take(pair: FilteredPair, reason: str | None) -> None:
            if reason is not None:
                files[-1].write(_dropped_line(pair, reason, len(texts)))
                return
            for file, line in zip(files, (mark + pair.source, pair.target)[: len(texts)], strict=False):
                file.write(line + b"\n")

        return judge(texts, without, dropping, take)


def _dropped_line(pair: FilteredPair, reason: str, num_sides: int) -> bytes:
    """Return the line about a dropped pair, or a dropped line of text in one language.

    Backslash, tab and line ends are escaped, and U+FFFD stands for bytes that are not UTF-8.
    """
    sides = (pair.source, pair.target)[:num_sides]
    texts = (text.decode("utf-8", errors="replace").translate(_ESCAPES) for text in sides)
    return "\t".join((str(pair.number), reason, *texts)).encode() + b"\n"


def tell(counts: FilterCounts, dropping: frozenset[str], rules: tuple[Filter, ...]) -> None:
    """Write a table of the counts of each rule."""

    noun = "line" if rules is LINE_FILTERS else "pair"
    log(
        f"{counted(counts.read, noun)} read, {counts.kept:,} kept ({counts.share(counts.kept):.2f} %), "
        f"{counts.dropped:,} dropped ({counts.share(counts.dropped):.2f} %)"
    )
    log(f"{'rule':<16}{'found':>12}{'per cent':>10}{'dropped':>12}")
    for rule in rules:
        if rule.name in counts.inactive_filters:
            log(f"{rule.name:<16}{'-':>12}{'-':>10}{'-':>12}  not looked for: {TOO_LITTLE}")
            continue
        found = counts.found[rule.name]
        dropped = f"{counts.dropped_by[rule.name]:,}" if rule.name in dropping else "kept"
        log(f"{rule.name:<16}{found:>12,}{counts.share(found):>10.2f}{dropped:>12}  {rule.description}")
