"""Measure precision and recall of the rules of `nmt clean`; `python -m benchmarks.noise --data DIR [--opusfilter ENV]`.

Each of twelve kinds of noise, and all of them together, are injected into a share of the pairs of Multi30K
English-German and Tatoeba English-Vietnamese. The first table, as Markdown, gives precision and recall of the rule for
that kind, of all default rules together, and of OpusFilter. The second gives the recall of each kind where all kinds
are mixed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.noise.corpora import Pair, french, multi30k, tatoeba, write_pairs
from benchmarks.noise.kinds import KINDS, MIXED, Noisy, inject
from benchmarks.noise.opusfilter import Dropped, dropped_by_opusfilter
from nmt_cli.corpora.filter_pairs import FilterCounts, filtered_pairs, first_pass
from nmt_cli.corpora.filters import dropping_filters
from nmt_cli.corpora.pair_filter import PairFilters

SHARES = (0.05, 0.30)
OF_A_PROGRAM = "precision | recall | others dropped | seconds"
HEAD = f"| corpus | noise | injected | rule: precision | recall | clean: {OF_A_PROGRAM} | OpusFilter: {OF_A_PROGRAM} |"


class Outcome(NamedTuple):
    """Results of the programs for one corpus."""

    flagged: dict[str, set[int]]
    """The rows in which each rule finds something."""
    ours: Dropped
    theirs: Dropped | None
    counts: FilterCounts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="directory with multi30k/ and tatoeba/")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--noise", nargs="+", choices=(*KINDS, MIXED), default=[*KINDS, MIXED])
    parser.add_argument("--share", nargs="+", type=float, default=SHARES, help="parts of the pairs that are changed")
    parser.add_argument("--corpus", nargs="+", choices=("multi30k", "vie"), default=["multi30k", "vie"])
    parser.add_argument("--opusfilter", type=Path, help="Python environment into which OpusFilter is installed")
    asked = parser.parse_args()
    foreign = french(asked.data)
    corpora = {}
    if "multi30k" in asked.corpus:
        corpora["Multi30K en-de"] = multi30k(asked.data)
    if "vie" in asked.corpus:
        corpora["Tatoeba en-vi"] = tatoeba(asked.data, "vie")
    mixed: dict[tuple[str, float], tuple[Noisy, Outcome]] = {}
    print(HEAD)
    print("|---" * HEAD.count(" | ") + "|---|")
    for name, pairs in corpora.items():
        languages = ("en", name[-2:])
        outcome = judge(pairs, languages, asked.opusfilter)
        found = outcome.counts.found.most_common()
        rules = ", ".join(f"{rule} {outcome.counts.share(number):.2f} %" for rule, number in found)
        print(f"| {name} | none: {rules} | 0 | | {cells(outcome, set(), len(pairs))} |", flush=True)
        for kind in asked.noise:
            for share in asked.share:
                noisy = inject(pairs, kind, share, seed=asked.seed, foreign=foreign)
                outcome = judge(noisy.pairs, languages, asked.opusfilter)
                chosen = set(noisy.kinds)
                rule = " | ".join(quality(outcome.flagged.get(kind, set()), chosen)) if kind != MIXED else "|"
                print(f"| {name} | {kind} | {share:.0%} | {rule} | {cells(outcome, chosen, len(pairs))} |", flush=True)
                if kind == MIXED:
                    mixed[name, share] = noisy, outcome
    print_recall(mixed)


def judge(pairs: list[Pair], languages: tuple[str, str], environment: Path | None) -> Outcome:
    """Filter these pairs with the default rules, and with OpusFilter where its environment is given."""
    flagged: dict[str, set[int]] = {}
    dropped, counts, dropping = set(), FilterCounts(), dropping_filters()
    with tempfile.TemporaryDirectory() as directory:
        files = Path(directory, f"text.{languages[0]}"), Path(directory, f"text.{languages[1]}")
        write_pairs(pairs, *files)
        paths = [str(path) for path in files]
        began = time.perf_counter()
        known = first_pass(paths)
        for pair in filtered_pairs(paths, known, PairFilters(known.sample)):
            for rule in pair.failed_filters:
                flagged.setdefault(rule, set()).add(pair.number - 1)
            if counts.add(pair, dropping) is not None:
                dropped.add(pair.number - 1)
        ours = Dropped(dropped, time.perf_counter() - began)
        theirs = dropped_by_opusfilter(environment, files, languages) if environment else None
    return Outcome(flagged, ours, theirs, counts)


def quality(found: set[int], chosen: set[int]) -> tuple[str, str]:
    """Return precision and recall; empty cells where there is nothing to find, or nothing was found."""
    precision = f"{len(found & chosen) / len(found):.3f}" if found and chosen else ""
    return precision, f"{len(found & chosen) / len(chosen):.3f}" if chosen else ""


def cells(outcome: Outcome, chosen: set[int], num_pairs: int) -> str:
    """Return precision, recall, the share of the other pairs that is dropped, and seconds, of each program."""
    found = []
    for dropped in (outcome.ours, outcome.theirs):
        if dropped is None:
            found += [""] * 4
        else:
            others = len(dropped.rows - chosen) / max(1, num_pairs - len(chosen))
            found += [*quality(dropped.rows, chosen), f"{others:.2%}", f"{dropped.seconds:.1f}"]
    return " | ".join(found)


def print_recall(mixed: dict[tuple[str, float], tuple[Noisy, Outcome]]) -> None:
    """Print the recall of each kind where all are mixed."""
    print("\n| corpus | injected | program | " + " | ".join(KINDS) + " |")
    print("|---" * (3 + len(KINDS)) + "|")
    for (name, share), (noisy, outcome) in mixed.items():
        for program, dropped in (("`nmt clean`", outcome.ours), ("OpusFilter", outcome.theirs)):
            if dropped is None:
                continue
            rows = [{row for row, kind in noisy.kinds.items() if kind == one} for one in KINDS]
            recalls = (quality(dropped.rows, chosen)[1] for chosen in rows)
            print(f"| {name} | {share:.0%} | {program} | {' | '.join(recalls)} |")


if __name__ == "__main__":
    main()
