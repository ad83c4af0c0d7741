"""Advice about suspicious pairs of a corpus: the findings of the filters of `nmt clean`, worst first, each with a
remedy."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple

from nmt_cli.corpora.corpus_report import CorpusReport
from nmt_cli.corpora.filter_pairs import FilterCounts, cleaned_paths, count_filtered
from nmt_cli.corpora.filters import FILTERS, Filter, dropping_filters
from nmt_cli.corpora.unequal_files import first_mismatch, look_command
from nmt_cli.data.pairs import ParallelText

MAX_EXAMINED = 200_000
"""Most pairs of a corpus that are examined, in blocks from all over it. That takes less than a minute."""
MAX_CLEAN_SHARE = 0.5
"""Largest share of bad pairs, in per cent, with which a corpus still counts as clean."""
LEVELS = (("severe", 6.0), ("moderate", 0.5), ("slight", 0.0))
"""Words for the severity of a finding, worst first, each with the least severity (per cent of pairs times harm)."""
MIN_HELD_OUT_HARM = 3.0
"""Advice about a dev or test set is given only for filters whose `harm` is at least this."""
DROPPED_LIST_NOTE = "The command lists these pairs in a file that ends in .dropped.tsv"
DEV_LEAK_ADVICE = (
    "the model is chosen by these sentences: take them out of the dev set, or scores of this set are too high"
)
SAME_AS_TRAINING_ADVICE = (
    "this is the training text itself, so scores say nothing: name other pairs; nmt init holds some back for dev"
)
SAME_AS_DEV_ADVICE = (
    "this is the dev set itself, by which the model is chosen, so scores are too high: name other pairs"
)
OTHER_DIRECTIONS_ADVICE = (
    "the model learns these sentences with a translation in another language, so scores are too high: take them out of "
    "the training text; nmt init --direction leaves them out"
)
LEAK = next(filter_ for filter_ in FILTERS if filter_.name == "leak")
MIN_TOKENISED_SHARE = 50.0
"""Least share of tokenised pairs, in per cent, with which the whole corpus counts as tokenised."""


@dataclass(frozen=True, slots=True)
class Advice:
    """The pairs of one corpus that fail one filter (their number and first places), and advice about them."""

    corpus: str
    finding: str
    description: str
    per_cent: float
    """Suspicious pairs as a share of the examined pairs, in per cent."""
    pairs: int
    """Suspicious pairs among the examined ones."""
    judged: int
    """Number of examined pairs. (The name of this field is a key of `nmt check --json`.)"""
    read: int
    """All pairs of the corpus. Of a large corpus only a part is examined."""
    places: list[str]
    """Places of the first suspicious pairs, as `file:line`; of stretches out of step, the beginnings."""
    advice: str
    command: str
    """The shell command that follows the advice; empty if there is none."""
    severity: float
    """`per_cent` times the `harm` of the filter; the larger, the worse."""
    level: str
    """The severity in a word, one of `LEVELS`."""


class AdviceReport(NamedTuple):
    """Advice about all corpora that were checked, and the files of corpora that should be cleaned."""

    advice: list[Advice]
    """Worst first."""
    inactive_filters: dict[str, tuple[str, ...]]
    """Names of the filters that cannot learn enough from a corpus, by corpus."""
    cleaned: dict[str, tuple[Path, Path]]
    """Source and target file that the command of the advice makes, by training corpus with enough bad pairs to be
    cleaned."""
    with_links: dict[str, str]
    """Alignment file, by corpus, of corpora that should be cleaned but are not in `cleaned`, because the alignment
    would not fit the cleaned files."""


def advise(reports: Sequence[CorpusReport], languages: tuple[str, str]) -> AdviceReport:
    """Return advice about suspicious pairs in these corpora, worst first."""
    training = [report for report in reports if report.is_training]
    copies, leaks = _split_by_source(reports, "overlap", training)
    dev = next((report for report in reports if report.is_dev), None)
    copies_of_dev, leaks_of_dev = _split_by_source(reports, "dev_overlap", [dev] if dev else [])
    found, inactive_filters, cleaned, with_links = [], {}, {}, {}
    for report in reports:
        counts = [side.num_lines for side in report.sides]
        if len(set(counts)) > 1 and min(counts) == report.num_pairs > 0:
            found += _line_count_advice(report, counts)
        elif len(set(counts)) == 1 and counts[0] == report.num_pairs > 0:
            without = leaks if report.is_training else leaks_of_dev if report is dev else ()
            own, missing, share = _filter_advice(report, without, languages)
            found += own
            if missing:
                inactive_filters[report.name] = missing
            if report.is_training and share > MAX_CLEAN_SHARE and not _is_one_file(report):
                if report.links:
                    with_links[report.name] = report.links
                    continue
                source, target, _ = cleaned_paths([report.source, report.target], fresh_prefix(report))
                cleaned[report.name] = source, target
    for report in copies:
        found.append(_leak(report, "overlap", "the source is also in the training text", SAME_AS_TRAINING_ADVICE))
    for report in copies_of_dev:
        found.append(_leak(report, "dev_overlap", "the source is also in the dev set", SAME_AS_DEV_ADVICE))
    for report in leaks:
        command = "; ".join(clean_command(one, without=leaks) for one in training if not _is_one_file(one))
        found.append(_leak(report, "overlap", "the source is also in the training text", LEAK.advice, command))
    for report in leaks_of_dev:
        assert dev is not None
        command = clean_command(dev, without=leaks_of_dev)
        found.append(_leak(report, "dev_overlap", "the source is also in the dev set", DEV_LEAK_ADVICE, command))
    found += [
        _leak(
            report, "other_directions", "a side is in the training text of another direction", OTHER_DIRECTIONS_ADVICE
        )
        for report in reports
        if report.findings["other_directions"].count
    ]
    return AdviceReport(sorted(found, key=lambda one: -one.severity), inactive_filters, cleaned, with_links)


def merge_advice(parts: Sequence[AdviceReport]) -> AdviceReport:
    """Return the advice about the corpora of several directions as one, worst first."""
    if len(parts) == 1:
        return parts[0]
    return AdviceReport(
        sorted((one for part in parts for one in part.advice), key=lambda one: -one.severity),
        {name: filters for part in parts for name, filters in part.inactive_filters.items()},
        {name: paths for part in parts for name, paths in part.cleaned.items()},
        {name: links for part in parts for name, links in part.with_links.items()},
    )


def filter_counts(source: str, target: str) -> FilterCounts:
    """Return counts of pairs that fail filters or are dropped by default, among about `MAX_EXAMINED` of a corpus."""
    return count_filtered([source, target], dropping_filters(), max_pairs=MAX_EXAMINED)


def _filter_advice(
    report: CorpusReport, leaks: Sequence[CorpusReport], languages: tuple[str, str]
) -> tuple[list[Advice], tuple[str, ...], float]:
    """Return three things about a corpus: the advice, the filters that are inactive, and the share of dropped pairs.

    A filter is inactive if it cannot learn enough from the corpus; for dev and test sets none is named. The share is in
    per cent. The source and target file of the corpus must have equal line counts. `leaks` are dev or test sets whose
    sources must not be in the corpus.
    """
    counts = filter_counts(report.source, report.target)
    found = []
    for filter_ in FILTERS:
        share = counts.share(counts.found[filter_.name])
        if not share or not (report.is_training or (filter_.harm >= MIN_HELD_OUT_HARM and share > MAX_CLEAN_SHARE)):
            continue
        text, command = _remedy(report, filter_, leaks, languages, share=share)
        found.append(
            Advice(
                report.name, filter_.name, filter_.description, round(share, 3), counts.found[filter_.name],
                counts.examined, counts.read, [f"{report.source}:{line}" for line in counts.examples[filter_.name]],
                text, command, *_severity(share * filter_.harm),
            )
        )  # fmt: skip
    missing = counts.inactive_filters if report.is_training else ()
    return found, missing, counts.share(counts.dropped)


def _remedy(
    report: CorpusReport, filter_: Filter, leaks: Sequence[CorpusReport], languages: tuple[str, str], *, share: float
) -> tuple[str, str]:
    """Return the advice about the pairs (`share` per cent) that fail a filter, and a shell command or an empty text."""
    if _is_one_file(report):
        return "the same file is given as source and as target: name the translation as the target", ""
    if not report.is_training:
        advice = f"the scores of this set would mislead: fix it. {DROPPED_LIST_NOTE}"
        return advice, clean_command(report, without=leaks)
    if filter_.name == "tokenised" and share >= MIN_TOKENISED_SHARE:
        return filter_.advice, _detokenise_command(report, languages)
    return filter_.advice, clean_command(report, () if filter_.drops_by_default else (filter_.name,), leaks)


def _line_count_advice(report: CorpusReport, counts: Sequence[int]) -> list[Advice]:
    """Return the advice to look at the place where files of unequal lengths get out of step; empty if it is not
    found."""
    paths = [report.source, report.target]
    mismatch = first_mismatch(paths, counts)
    if mismatch is None:
        return []
    filter_ = next(filter_ for filter_ in FILTERS if filter_.name == "out-of-step")
    number = max(counts) - mismatch.line + 1
    share = 100 * number / max(counts)
    description = f"the files have {counts[0]:,} and {counts[1]:,} lines "
    if mismatch.is_at_end:
        description += "and belong together as far as both go"
        advice = "the end of one file has no counterpart. Look there, and complete or cut a file"
    else:
        description += "and no longer belong together from here"
        advice = "a line is missing or doubled in one file near this place. Look there, and correct the file"
    return [
        Advice(
            report.name, filter_.name, description, round(share, 3), number, max(counts), max(counts),
            [f"{report.source}:{mismatch.line}"], advice,
            look_command(paths, mismatch.line), *_severity(share * filter_.harm),
        )
    ]  # fmt: skip


def _detokenise_command(report: CorpusReport, languages: tuple[str, str]) -> str:
    commands = []
    for path, language in zip((report.source, report.target), languages, strict=True):
        name = _writable_path(path)
        reading = f"{'gzip -dc' if path.endswith('.gz') else 'cat'} {shlex.quote(path)}"
        made = shlex.quote(str(name.with_name(f"{name.stem}.plain{name.suffix}")))
        commands.append(f"{reading} | sacremoses -l {shlex.quote(language)} detokenize > {made}")
    return "pip install sacremoses; " + "; ".join(commands)


def _split_by_source(
    reports: Sequence[CorpusReport], finding: str, others: Sequence[CorpusReport]
) -> tuple[list[CorpusReport], list[CorpusReport]]:
    """Return the reports with at least one `finding`, a key of `CorpusReport.findings`, in two lists.

    The first has the reports whose source is the same file as the source of one of `others`; the second has the rest.
    """
    having = [report for report in reports if report.findings[finding].count]
    same = [report for report in having if any(_are_one_file(report.source, one.source) for one in others)]
    return same, [report for report in having if report not in same]


def _leak(report: CorpusReport, finding: str, description: str, advice: str, command: str = "") -> Advice:
    number, places = report.findings[finding].count, report.findings[finding].examples
    share = 100 * number / max(1, report.num_pairs)
    return Advice(
        report.name, "leak", description, round(share, 3), number, report.num_pairs, report.num_pairs, places, advice,
        command, *_severity(share * (LEAK.harm if finding == "overlap" else 1.0)),
    )  # fmt: skip


def _severity(value: float) -> tuple[float, str]:
    return value, next(word for word, least in LEVELS if value >= least)


def _is_one_file(report: CorpusReport) -> bool:
    return _are_one_file(report.source, report.target)


def _are_one_file(first: str, second: str) -> bool:
    return os.path.exists(first) and os.path.exists(second) and os.path.samefile(first, second)


def _writable_path(source: str) -> Path:
    """Return the path without `.gz`; if its directory cannot be written to, the same name in the working directory."""
    path = Path(source.removesuffix(".gz"))
    return path if os.access(path.parent, os.W_OK) else Path(path.name)


def fresh_prefix(corpus: ParallelText, drop: Sequence[str] = ()) -> str:
    """Return a prefix for names of new files next to a corpus, which no file has yet: `train.clean` for `train.en`."""
    path = _writable_path(corpus.source)
    stem = "-".join((f"{path.stem}.clean", *drop))
    for number in count(1):
        prefix = str(path.with_name(f"{stem}{number if number > 1 else ''}"))
        if not any(made.exists() for made in cleaned_paths([corpus.source, corpus.target], prefix)):
            return prefix
    raise AssertionError


def clean_command(corpus: ParallelText, drop: Sequence[str] = (), without: Sequence[ParallelText] = ()) -> str:
    """Return the command that writes a cleaned corpus next to the original: `train.clean.en` for `train.en`.

    With filters to `drop` in addition to the default ones, the files get other names, so that both commands can run.
    `without` are the corpora whose sources must not remain in the cleaned corpus.
    """
    prefix = fresh_prefix(corpus, drop)
    options = [word for name in drop for word in ("--drop", name)]
    options += [word for path in dict.fromkeys(one.source for one in without) for word in ("--without", path)]
    return shlex.join(["nmt", "clean", corpus.source, corpus.target, "-o", prefix, *options])
