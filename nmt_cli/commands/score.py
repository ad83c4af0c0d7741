"""`nmt score`: sacreBLEU scores of a file of translations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from nmt_cli.data.lines import input_name
from nmt_cli.system.console import warn
from nmt_cli.system.errors import InputError

if TYPE_CHECKING:
    pass


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
    from nmt_cli.assembly.inputs import read_parallel
    from nmt_cli.assembly.score_report import report, scores_as_json, warn_of_unfit_text

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
        warn_of_unfit_text(input_name(path), text, is_tokenised_on_purpose=tokenize == "none")
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
    print(scores_as_json(scores, comparisons, buckets) if as_json else report(scores, comparisons, buckets))
