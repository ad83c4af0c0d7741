"""`nmt evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt_cli.assembly.preloading import start_loading_torch
from nmt_cli.commands.options import (
    Checkpoint,
    Device,
    EvaluatedTargetLang,
    ModelDirs,
    SourceLang,
    Workers,
    WorkerThreads,
    ZeroShot,
)
from nmt_cli.system.errors import InputError


def evaluate(
    model: ModelDirs = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            help="Score this text instead of the configured test sets; - for standard input.",
            metavar="FILE",
        ),
    ] = None,
    reference: Annotated[
        list[str] | None,
        typer.Option("--reference", help="The translation of --source. May be repeated.", metavar="FILE"),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="Score only this configured test set. May be repeated.", metavar="NAME"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR",
            help="Directory of the report. The default is reports/ in the model directory.",
        ),
    ] = None,
    tune_length_penalty: Annotated[
        bool, typer.Option("--tune-length-penalty", help="First choose the length penalty that is best on the dev set.")
    ] = False,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Score nothing. Adjust the probabilities of `nmt translate --confidence` to the dev set (or --source "
            "and --reference), and save that in the model directory.",
        ),
    ] = False,
    device: Device = "auto",
    threads: WorkerThreads = None,
    workers: Workers = None,
    checkpoint: Checkpoint = "best",
    source_lang: SourceLang = None,
    target_lang: EvaluatedTargetLang = None,
    zero_shot: ZeroShot = False,
) -> None:  # fmt: skip
    """Translate and score test sets, and write the translations and a report.

    Without --source and --reference these are the test sets of the configuration. A set replaces its own earlier
    scores in the report, and the other sets keep theirs.

    Example: nmt evaluate --model runs/demo
    """
    if not calibrate:
        start_loading_torch()
    from nmt_cli.assembly.evaluation import calibrate_confidence, evaluate_models
    from nmt_cli.assembly.model_options import ModelOptions

    models = ModelOptions(
        model or (),
        checkpoint,
        device,
        threads,
        workers=workers,
        source_lang=source_lang,
        target_lang=target_lang,
        zero_shot=zero_shot,
    )
    if calibrate:
        unused = {"--only": only, "--output": output, "--tune-length-penalty": tune_length_penalty}
        if given := [option for option, value in unused.items() if value]:
            raise InputError(f"{', '.join(given)}: --calibrate scores no test set; leave one of them out")
        calibrate_confidence(models, source, reference or ())
        return
    evaluate_models(
        models,
        source,
        reference or (),
        only=only or (),
        directory=output,
        tunes_length_penalty=tune_length_penalty,
    )
