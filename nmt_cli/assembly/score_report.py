"""Scores of given translations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nmt_cli.scoring import looks_like_pieces, looks_tokenised
from nmt_cli.system.console import warn

if TYPE_CHECKING:
    from nmt_cli.scoring import Comparison, LengthBucket, Score


def warn_of_unfit_text(name: str, lines: list[str], *, is_tokenised_on_purpose: bool) -> None:

    problem = looks_like_pieces(lines) or (None if is_tokenised_on_purpose else looks_tokenised(lines))
    if problem:
        warn(f"{name} has {problem}")


def report(scores: list[Score], comparisons: list[Comparison], buckets: list[LengthBucket]) -> str:
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


def scores_as_json(scores: list[Score], comparisons: list[Comparison], buckets: list[LengthBucket]) -> str:
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
