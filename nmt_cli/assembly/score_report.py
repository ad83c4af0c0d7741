"""The report of `nmt score`: sacreBLEU scores of a file of translations, for people or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nmt_cli import scoring
from nmt_cli.assembly.file_checks import read_parallel
from nmt_cli.data.lines import input_name
from nmt_cli.system.console import warn

if TYPE_CHECKING:
    from nmt_cli.scoring import Comparison, LengthBucket, Score


def print_scores(
    hypothesis: str | None,
    references: Sequence[str],
    *,
    metrics: Sequence[str] | None,
    baseline: str | None,
    source: str | None,
    lowercase: bool,
    tokenize: str | None,
    as_json: bool,
) -> None:
    """Print the scores of a file of translations.

    Args:
        hypothesis: the file; None is standard input.
        references: files of reference translations.
        metrics: bleu, chrf and ter, or some of them; None means all.
        baseline: a file of other translations, to compare with by paired bootstrap resampling, or None.
        source: a file of source text, to score sentences also in groups by their number of source words, or None.
        lowercase: BLEU ignores case.
        tokenize: the tokenizer of BLEU; None means sacreBLEU's default, 13a.
        as_json: print a JSON object, with scores that are not rounded.

    Raises:
        InputError: a metric or a tokenizer is unknown, or the files cannot be read or differ in length.
    """
    metrics = scoring.checked_metrics(metrics or scoring.METRICS)
    scoring.check_tokenizer(tokenize, "--tokenize")
    for option, is_given in (("--lowercase", lowercase), ("--tokenize", tokenize not in (None, "none"))):
        if is_given and "bleu" not in metrics:
            warn(f"{option} does nothing without --metric bleu")
    paths = [hypothesis, *references, *(path for path in (baseline, source) if path is not None)]
    texts = read_parallel(paths)
    sources = [] if source is None else texts.pop()
    for path, text in zip(paths, texts, strict=False):
        _warn_of_unfit_text(input_name(path), text, is_tokenised_on_purpose=tokenize == "none")
    hypotheses, reference_texts = texts[0], texts[1 : 1 + len(references)]
    if "bleu" in metrics and tokenize is None and scoring.has_no_spaces(reference_texts[0]):
        warn(
            f"BLEU counts words, which the text of {input_name(references[0])} does not separate by spaces; add "
            "--tokenize zh for Chinese, ja-mecab for Japanese, or char"
        )

    comparisons: list[Comparison] = []
    buckets: list[LengthBucket] = []
    if baseline is None:
        scores = scoring.score_corpus(
            hypotheses, reference_texts, metrics=metrics, lowercase=lowercase, tokenize=tokenize
        )
    else:
        if texts[-1] == hypotheses:
            warn("the hypotheses and the baseline are the same text, so there is nothing to compare")
        elif len(hypotheses) == 1:
            warn("one line is too little to compare: all bootstrap samples are the same, so p means nothing")
        comparisons = scoring.paired_bootstrap(
            hypotheses, texts[-1], reference_texts, metrics=metrics, lowercase=lowercase, tokenize=tokenize
        )
        scores = [comparison.hypothesis for comparison in comparisons]
    if source is not None:
        buckets = scoring.score_by_length(
            sources, hypotheses, reference_texts, metrics=metrics, lowercase=lowercase, tokenize=tokenize
        )
    print(_as_json(scores, comparisons, buckets) if as_json else _as_text(scores, comparisons, buckets))


def _warn_of_unfit_text(name: str, lines: list[str], *, is_tokenised_on_purpose: bool) -> None:
    """Warn of text that looks like pieces or like tokenised words, whose BLEU cannot be compared with others."""
    problem = scoring.pieces_warning(lines) or (
        None if is_tokenised_on_purpose else scoring.tokenisation_warning(lines)
    )
    if problem:
        warn(f"{name} has {problem}")


def _as_text(scores: list[Score], comparisons: list[Comparison], buckets: list[LengthBucket]) -> str:
    """Return the report as text: scores, then comparisons, then scores by length."""
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


def _as_json(scores: list[Score], comparisons: list[Comparison], buckets: list[LengthBucket]) -> str:
    """Return the report as a JSON object, with scores that are not rounded."""
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
