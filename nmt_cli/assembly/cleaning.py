"""The cleaning of a corpus: its pairs, or the lines of one text, are kept or dropped by rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nmt_cli.assembly.file_checks import refuse_one_file, refuse_overwriting
from nmt_cli.assembly.training_inputs import refuse_unfit_text
from nmt_cli.corpora.filter_lines import filtered_lines
from nmt_cli.corpora.filter_pairs import FilterCounts, cleaned_paths, filtered_pairs, first_pass
from nmt_cli.corpora.filters import FILTERS, INACTIVE_REASON, LINE_FILTERS, dropping_filters
from nmt_cli.corpora.pair_filter import PairFilters
from nmt_cli.corpora.unequal_files import add_mismatch_place
from nmt_cli.data.lines import input_name, is_special_file, is_standard_input
from nmt_cli.data.output import check_new, check_prefix, open_new_outputs
from nmt_cli.system.console import format_count, log, warn
from nmt_cli.system.errors import InputError, UnequalLinesError

if TYPE_CHECKING:
    from nmt_cli.corpora.filter_pairs import FilteredPair
    from nmt_cli.corpora.filters import Filter

_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def clean_corpus(
    texts: Sequence[str],
    prefix: str | None,
    *,
    keep: Sequence[str] = (),
    drop: Sequence[str] = (),
    without: Sequence[str] = (),
    tag: str | None = None,
    dry_run: bool = False,
) -> None:
    """Write the good pairs of a corpus, or the good lines of one text, and the list of the others; log the counts.

    Args:
        texts: source and target, or one text.
        prefix: the beginning of the names of the new files; None is only for a dry run.
        keep: names of rules that drop by default; the pairs that they find are kept.
        drop: names of rules that only count by default; the pairs that they find are dropped.
        without: files, such as test sets; a pair whose source is a line of one of them is found by the rule `leak`.
        tag: a word that is put before each source.
        dry_run: nothing is written.

    Raises:
        InputError: a rule, a file or a name is wrong, or the two texts differ in length. Then nothing is written.
    """
    _check_tag(texts, tag)
    rules = LINE_FILTERS if len(texts) == 1 else FILTERS
    dropping = dropping_filters(keep, drop, rules)
    _check_readable_twice(texts)
    made = [] if prefix is None else _cleaned_paths(texts, prefix, may_exist=dry_run)
    if not made and not dry_run:
        raise InputError("-o PREFIX is missing: name the new files, such as -o clean, or only count with --dry-run")
    refuse_unfit_text(texts, invalid_utf8="skip")
    try:
        if dry_run:
            _log_counts(_filter_texts(texts, without, dropping, lambda *_: None), dropping, rules)
            return
        counts = _write_outputs(texts, without, made, dropping, tag=tag)
    except UnequalLinesError as error:
        raise add_mismatch_place(error) from error
    _log_counts(counts, dropping, rules)
    noun = "line" if len(texts) == 1 else "pair"
    log(f"{', '.join(map(str, made[:-1]))}: {format_count(counts.kept, noun)}; dropped {noun}s: {made[-1]}")
    if counts.examined and not counts.kept:
        warn(f"no {noun} is left. Look at the rules above, and switch off the wrong ones with --keep RULE")


def _check_tag(texts: Sequence[str], tag: str | None) -> None:
    """Refuse a tag that is not one word of UTF-8, and any tag for text in one language."""
    if tag is None:
        return
    if len(texts) == 1:
        raise InputError("--tag: marks the sources of pairs; give SOURCE and TARGET, or leave it out")
    if not tag or tag.split() != [tag]:
        raise InputError(f"--tag {tag!r}: must be one word without spaces, such as <BT>")
    if any("\ud800" <= letter <= "\udfff" for letter in tag):
        raise InputError(f"--tag {tag!r}: is not valid UTF-8; give one word, such as <BT>")


def _cleaned_paths(texts: Sequence[str], prefix: str, *, may_exist: bool = False) -> list[Path]:
    """Return the files that a cleaning writes: one for each text, and last the list of what was dropped.

    Raises:
        InputError: a file is an input, exists although `may_exist` is false, or its directory is missing.
    """
    made = cleaned_paths(texts, prefix)
    check_prefix(prefix, example=f"-o clean for {cleaned_paths(texts, 'clean')[0]}")
    for path in made:
        refuse_overwriting(path, texts)
    if not may_exist:
        check_new(made)
    return made


def _check_readable_twice(texts: Sequence[str]) -> None:
    """Refuse texts that cannot be read twice, and the same file as source and target."""
    for path in texts:
        if is_standard_input(path) or is_special_file(path):
            raise InputError(f"{input_name(path)}: can be read only once, but cleaning reads twice. Give a file")
    if len(texts) > 1:
        refuse_one_file(texts)


def _filter_texts(
    texts: Sequence[str],
    without: Sequence[str],
    dropping: frozenset[str],
    handle_pair: Callable[[FilteredPair, str | None], object],
) -> FilterCounts:
    """Call `handle_pair` with each pair or line and the rule that drops it (None: kept); return the counts by rule.

    `texts` are the paths of source and target, or of one file of lines. `without` are files, such as test sets, whose
    lines must not be sources. `dropping` are the names of the rules that drop.
    """
    counts = FilterCounts()
    if len(texts) == 1:
        judged = filtered_lines(texts[0], without)
    else:
        known = first_pass(texts, without)
        judge = PairFilters(known.sample)
        counts.inactive_filters = judge.inactive_filters
        judged = filtered_pairs(texts, known, judge)
    for pair in judged:
        handle_pair(pair, counts.add(pair, dropping))
    counts.read = counts.examined
    return counts


def _write_outputs(
    texts: Sequence[str], without: Sequence[str], made: list[Path], dropping: frozenset[str], *, tag: str | None
) -> FilterCounts:
    """Write the kept and the dropped pairs to the files in `made`, all files or none, and return the counts by rule."""
    mark = b"" if tag is None else tag.encode() + b" "
    with open_new_outputs(made) as files:

        def handle_pair(pair: FilteredPair, reason: str | None) -> None:
            if reason is not None:
                files[-1].write(_dropped_line(pair, reason, len(texts)))
                return
            for file, line in zip(files, (mark + pair.source, pair.target)[: len(texts)], strict=False):
                file.write(line + b"\n")

        return _filter_texts(texts, without, dropping, handle_pair)


def _dropped_line(pair: FilteredPair, reason: str, num_sides: int) -> bytes:
    """Return the entry of a dropped pair (or line) in the list: line number, rule and texts, separated by tabs.

    Backslash, tab and line ends are escaped, and U+FFFD stands for bytes that are not UTF-8.
    """
    sides = (pair.source, pair.target)[:num_sides]
    texts = (text.decode("utf-8", errors="replace").translate(_ESCAPES) for text in sides)
    return "\t".join((str(pair.number), reason, *texts)).encode() + b"\n"


def _log_counts(counts: FilterCounts, dropping: frozenset[str], rules: tuple[Filter, ...]) -> None:
    """Log how many pairs were kept, and in a table how many each rule found and dropped."""
    noun = "line" if rules is LINE_FILTERS else "pair"
    log(
        f"{format_count(counts.read, noun)} read, {counts.kept:,} kept ({counts.share(counts.kept):.2f} %), "
        f"{counts.dropped:,} dropped ({counts.share(counts.dropped):.2f} %)"
    )
    log(f"{'rule':<16}{'found':>12}{'per cent':>10}{'dropped':>12}")
    for rule in rules:
        if rule.name in counts.inactive_filters:
            log(f"{rule.name:<16}{'-':>12}{'-':>10}{'-':>12}  not looked for: {INACTIVE_REASON}")
            continue
        found = counts.found[rule.name]
        dropped = f"{counts.dropped_by[rule.name]:,}" if rule.name in dropping else "not dropped"
        log(f"{rule.name:<16}{found:>12,}{counts.share(found):>10.2f}{dropped:>12}  {rule.description}")
