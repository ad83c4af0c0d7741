"""`nmt score`: sacreBLEU scores of a file of translations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nmt_cli.commands.reading import read_parallel
from nmt_cli.console import warn
from nmt_cli.data.lines import input_name
from nmt_cli.errors import InputError

if TYPE_CHECKING:
    from nmt_cli.scoring import Comparison, LengthBucket, Score


def score(
    hypothesis: Annotated[
        str | None,
        typer.Argument(metavar="HYP", help="Translations, one on each line; - or nothing for standard input."),
    ] = None,
    *,
    reference: Annotated[
        list[str], typer.Option("--reference", metavar="REF", help="Reference translations. May be repeated.")
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", metavar="M", help="bleu, chrf or ter. May be repeated. The default is all three."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, with scores that are not rounded.")
    ] = False,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="HYP2",
            help="Translations of another system, to compare with by paired bootstrap resampling.",
        ),
    ] = None,
    source: Annotated[
        str | None, typer.Option("--source", metavar="SRC", help="The source text, for --by-length.")
    ] = None,
    by_length: Annotated[
        bool, typer.Option("--by-length", help="Also score short and long sentences apart, by the words in the source.")
    ] = False,
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="Ignore case in BLEU. chrF always heeds it, and TER never does.")
    ] = False,
    tokenize: Annotated[
        str | None,
        typer.Option("--tokenize", metavar="T", help="BLEU's tokenizer: 13a (default), intl, zh, char, none …"),
    ] = None,
) -> None:
    """Score translations with sacreBLEU: BLEU, chrF and TER with their signatures.

    Example: nmt score hypotheses.de --reference test.de
    """
    from nmt_cli import scoring

    metrics = scoring.checked_metrics(metric or scoring.METRICS)
    scoring.check_tokenizer(tokenize)
    for option, is_given in (("--lowercase", lowercase), ("--tokenize", tokenize not in (None, "none"))):
        if is_given and "bleu" not in metrics:
            warn(f"{option} does nothing without --metric bleu")
    if by_length != (source is not None):
        raise InputError("--by-length and --source belong together: give both, or neither")
    paths = [hypothesis, *reference, *(path for path in (baseline, source) if path is not None)]
    texts = read_parallel(paths)
    sources = texts.pop() if by_length else []
    for path, text in zip(paths, texts, strict=False):
        _warn_of_unfit_text(input_name(path), text, is_tokenised_on_purpose=tokenize == "none")
    hypotheses, references = texts[0], texts[1 : 1 + len(reference)]

    comparisons, buckets = [], []
    if baseline is None:
        scores = scoring.score_corpus(hypotheses, references, metrics=metrics, lowercase=lowercase, tokenize=tokenize)
    else:
        if texts[-1] == hypotheses:
            warn("the hypotheses and the baseline are the same text, so there is nothing to compare")
        elif len(hypotheses) == 1:
            warn("one line carries no comparison: all samples of the bootstrap are the same, so p means nothing")
        comparisons = scoring.paired_bootstrap(
            hypotheses, texts[-1], references, metrics=metrics, lowercase=lowercase, tokenize=tokenize
        )
        scores = [comparison.hypothesis for comparison in comparisons]
    if by_length:
        buckets = scoring.score_by_length(
            sources, hypotheses, references, metrics=metrics, lowercase=lowercase, tokenize=tokenize
        )
    print(_json(scores, comparisons, buckets) if as_json else _report(scores, comparisons, buckets))


def _warn_of_unfit_text(name: str, lines: list[str], *, is_tokenised_on_purpose: bool) -> None:
    from nmt_cli.scoring import looks_like_pieces, looks_tokenised

    problem = looks_like_pieces(lines) or (None if is_tokenised_on_purpose else looks_tokenised(lines))
    if problem:
        warn(f"{name} has {problem}")


def _report(scores: list[Score], comparisons: list[Comparison], buckets: list[LengthBucket]) -> str:
    blocks = [[line for score in scores for line in (score.text, f"  signature: {score.signature}")]]
    if comparisons:
        blocks.append(["Against the baseline, by paired bootstrap (mean +/- half of the 95% confidence interval):"])
    for found in comparisons:
        ours, theirs = found.hypothesis_estimate, found.baseline_estimate
        blocks[-1].append(
            f"  {found.hypothesis.label}: {found.hypothesis.score:.2f} ({ours.mean:.2f} +/- {ours.half_width:.2f})"
            f", baseline {found.baseline.score:.2f} ({theirs.mean:.2f} +/- {theirs.half_width:.2f})"
            f", {'identical, ' if found.is_identical else ''}"
            f"p = {found.p_value:.4f}{'*' if found.p_value <= 0.05 else ''}"
        )
        blocks[-1].append(f"    signature: {found.signature}")
    if buckets:
        labels = "".join(f"{score.label:>8}" for score in scores)
        blocks.append([f"By words in the source:\n  {'words':>8}{'lines':>8}{labels}"])
    for bucket in buckets:
        numbers = "".join(f"{score.score:8.2f}" for score in bucket.scores)
        blocks[-1].append(f"  {bucket.label:>8}{bucket.num_lines:>8}{numbers}")
    return "\n\n".join("\n".join(block) for block in blocks)


def _json(scores: list[Score], comparisons: list[Comparison], buckets: list[LengthBucket]) -> str:
    report: dict[str, Any] = {score.name: {"score": score.score, "signature": score.signature} for score in scores}
    if comparisons:
        report["baseline"] = {
            found.baseline.name: {
                "score": found.baseline.score,
                "mean": found.baseline_estimate.mean,
                "ci": found.baseline_estimate.half_width,
                "hypothesis_mean": found.hypothesis_estimate.mean,
                "hypothesis_ci": found.hypothesis_estimate.half_width,
                "p_value": found.p_value,
                "identical": found.is_identical,
                "signature": found.signature,
            }
            for found in comparisons
        }
    if buckets:
        report["by_length"] = [
            {
                "min_words": bucket.min_words,
                "max_words": bucket.max_words,
                "lines": bucket.num_lines,
                **{score.name: score.score for score in bucket.scores},
            }
            for bucket in buckets
        ]
    return json.dumps(report)
