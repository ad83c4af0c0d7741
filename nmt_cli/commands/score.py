"""`nmt score`: sacreBLEU scores of a file of translations."""

from __future__ import annotations

from typing import Annotated

import typer

from nmt_cli.system.errors import InputError


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
        bool, typer.Option("--lowercase", help="Ignore case in BLEU. chrF is always case-sensitive, TER never.")
    ] = False,
    tokenize: Annotated[
        str | None,
        typer.Option("--tokenize", metavar="T", help="BLEU's tokenizer: 13a (default), intl, zh, char, none …"),
    ] = None,
) -> None:
    """Score translations with sacreBLEU: BLEU, chrF and TER with their signatures.

    Example: nmt score hypotheses.de --reference test.de
    """
    if by_length != (source is not None):
        raise InputError("--by-length and --source belong together: give both, or neither")
    from nmt_cli.assembly.score_report import print_scores

    print_scores(
        hypothesis,
        reference,
        metrics=metric,
        baseline=baseline,
        source=source,
        lowercase=lowercase,
        tokenize=tokenize,
        as_json=as_json,
    )
