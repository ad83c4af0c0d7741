"""`nmt evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nmt_cli.commands.options import Checkpoint, Device, ModelDirs, Threads
from nmt_cli.export.evaluation_report import REPORT
from nmt_cli.system.console import log
from nmt_cli.system.errors import InputError

if TYPE_CHECKING:
    pass


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
            help="Score nothing. Fit the values of `nmt translate --confidence` to the dev set, or to --source and "
            "--reference, and keep them with the model.",
        ),
    ] = False,
    device: Device = "auto",
    threads: Threads = None,
    checkpoint: Checkpoint = "best",
) -> None:  # fmt: skip
    """Translate and score test sets, and write the translations and a report.

    Without --source and --reference these are the test sets of the configuration. A set replaces its own earlier
    scores in the report, and the other sets keep theirs.

    Example: nmt evaluate --model runs/demo
    """
    from nmt_cli.assembly.evaluation import (
        calibrate_on_text,
        check_together,
        configured_sets,
        dev_set,
        given_set,
        make_directory,
        names,
        score_set,
        tune,
    )
    from nmt_cli.assembly.named_models import named_models

    if calibrate:
        unused = {"--only": only, "--output": output, "--tune-length-penalty": tune_length_penalty}
        if given := [option for option, value in unused.items() if value]:
            raise InputError(f"{', '.join(given)}: --calibrate scores no test set; leave one of them out")
        calibrate_on_text(
            list(model or []), source, reference or [], checkpoint=checkpoint, device=device, threads=threads
        )
        return
    from nmt_cli.assembly.translator import open_translator
    from nmt_cli.scoring import check_tokenizer

    check_together(source, reference)
    if source is not None and only:
        raise InputError("--only chooses among the configured test sets; leave it out with --source")
    experiments = named_models(list(model or []))
    config = experiments[0].config
    check_tokenizer(config.scoring.tokenize)
    dev = dev_set(experiments[0], "--tune-length-penalty") if tune_length_penalty else None
    sets = configured_sets(experiments[0], only) if source is None else [given_set(source, reference or [], config)]
    how: dict[str, Any] = {}
    while how != (named := names(experiments, checkpoint)):  # a training may choose another checkpoint
        translator = open_translator(
            [experiment.directory for experiment in experiments], checkpoint=checkpoint, device=device, threads=threads
        )
        how = named
    directory = output or experiments[0].reports_path
    make_directory(directory, sets, experiments, is_own=output is None)
    if dev is not None:
        how["length_penalty"] = tune(translator, dev, config)
    for test in sets:
        score_set(translator, test, directory, how, config)
    log(f"translations and {REPORT} -> {directory}")
