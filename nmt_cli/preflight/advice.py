"""Advice about the pairs of a corpus: what the rules of `nmt clean` find in it, worst first, and what to do then."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt_cli.preflight.report import CorpusReport
from nmt_cli.rules.catalogue import RULES, Rule, rules_that_drop
from nmt_cli.rules.corpus import Tally, tally

MAX_JUDGED = 200_000
"""Pairs of a corpus that are judged, in blocks from all over it. That takes less than a minute."""
NOTICEABLE = 0.5
"""Share of the pairs in per cent that a clean corpus loses at most."""
THROUGHOUT = 50.0
"""Share of tokenised pairs in per cent from which the whole text is taken for tokenised."""


@dataclass(frozen=True, slots=True)
class Advice:
    """One kind of suspicious pairs in one corpus."""

    corpus: str
    finding: str
    description: str
    per_cent: float
    """Share of the judged pairs."""
    pairs: int
    """Suspicious ones among those that were judged."""
    judged: int
    read: int
    """All pairs of the corpus. Of a large corpus only a part is judged."""
    places: list[str]
    """The first of them. Of stretches, their beginnings."""
    advice: str
    command: str
    severity: float
    """Share times harm."""


def advise(reports: Sequence[CorpusReport], languages: tuple[str, str]) -> list[Advice]:
    """Return what is suspicious in these corpora, worst first."""
    found = []
    training = [report for report in reports if report.is_training]
    for report in reports:
        was_read = report.sides[0].num_lines == report.sides[1].num_lines == report.num_pairs > 0
        if report.is_training and was_read:
            found += _of_training(report, languages)
        overlap = report.findings["overlap"]
        if overlap.count:
            command = "; ".join(
                f"{clean_command(one.source, one.target)} --without {shlex.quote(report.source)}" for one in training
            )
            found.append(_leak(report, overlap.count, overlap.examples, command))
    return sorted(found, key=lambda one: -one.severity)


def judged_part(source: str, target: str) -> Tally:
    """Return what `nmt clean` finds and drops by its defaults, judged by a part of a large corpus."""
    return tally([source, target], rules_that_drop(), max_pairs=MAX_JUDGED)


def _of_training(report: CorpusReport, languages: tuple[str, str]) -> list[Advice]:
    counts = judged_part(report.source, report.target)
    return [
        Advice(
            report.name, rule.name, rule.description, round(counts.share(number), 3), number,
            counts.judged, counts.read,
            [f"{report.source}:{line}" for line in counts.examples[rule.name]], rule.advice,
            _command(report, rule, languages, share=counts.share(number)),
            counts.share(number) * rule.harm,
        )
        for rule in RULES
        if (number := counts.found[rule.name])
    ]  # fmt: skip


def _command(report: CorpusReport, rule: Rule, languages: tuple[str, str], *, share: float) -> str:
    """Return the command that takes these pairs away, or the tokenisation of a text that has it throughout."""
    if rule.name != "tokenised" or share < THROUGHOUT:
        return clean_command(report.source, report.target, () if rule.drops else (rule.name,))
    commands = []
    for path, language in zip((report.source, report.target), languages, strict=True):
        name = Path(path.removesuffix(".gz"))
        reading = f"{'gzip -dc' if path.endswith('.gz') else 'cat'} {shlex.quote(path)}"
        made = shlex.quote(str(name.with_name(f"{name.stem}.plain{name.suffix}")))
        commands.append(f"{reading} | sacremoses -l {shlex.quote(language)} detokenize > {made}")
    return "pip install sacremoses; " + "; ".join(commands)


def _leak(report: CorpusReport, number: int, places: list[str], command: str) -> Advice:
    rule = next(rule for rule in RULES if rule.name == "leak")
    share = 100 * number / max(1, report.num_pairs)
    return Advice(
        report.name, "leak", "the source stands in the training text", round(share, 3), number,
        report.num_pairs, report.num_pairs, places,
        rule.advice, command, rule.harm * share,
    )  # fmt: skip


def clean_command(source: str, target: str, drop: Sequence[str] = ()) -> str:
    """Return the command that cleans a corpus beside itself: `train.en` becomes `train.clean.en`."""
    path = Path(source.removesuffix(".gz"))
    options = "".join(f" --drop {rule}" for rule in drop)
    names = (shlex.quote(name) for name in (source, target, str(path.with_name(f"{path.stem}.clean"))))
    return "nmt clean {} {} -o {}".format(*names) + options
