"""`nmt translate-corpus`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from nmt_cli.assembly.preloading import start_loading_torch
from nmt_cli.commands.options import (
    BatchTokens,
    BeamSize,
    Checkpoint,
    CopyUnknown,
    Device,
    LengthPenalty,
    Markup,
    ModelDirs,
    NoRepeatNgram,
    Precision,
    Sample,
    Seed,
    Shortlist,
    SourceLang,
    TargetLang,
    Temperature,
    Workers,
    WorkerThreads,
    ZeroShot,
)


def translate_corpus(
    inputs: Annotated[
        list[Path],
        typer.Argument(help="Text files, a sentence on each line; also .gz, .jsonl and .jsonl.gz.", metavar="INPUT"),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="Directory of the translations, which have the names of their inputs.", metavar="DIR"
        ),
    ],
    model: ModelDirs = None,
    address: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--address",
            envvar="RAY_ADDRESS",
            metavar="RAY",
            help="Use a Ray cluster: HOST:PORT, auto (the one that runs on this machine), or local (start one here). "
            "Without it, the workers are processes of this machine, and Ray is not needed.",
        ),
    ] = None,
    part_lines: Annotated[
        int,
        typer.Option(
            "--part-lines", min=1, metavar="N",
            help="Lines saved at a time. If the command is stopped, each worker loses at most so many lines, and "
            "resuming translates them again.",
        ),
    ] = 4096,
    field: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--field", help="The field of JSON lines that holds the text.", metavar="NAME"),
    ] = None,
    output_field: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--output-field", help="The field of JSON lines that is added; default: translation.", metavar="NAME"
        ),
    ] = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    sample: Sample = False,
    temperature: Temperature = None,
    seed: Seed = None,
    copy_unknown: CopyUnknown = False,
    markup: Markup = False,
    no_repeat_ngram: NoRepeatNgram = None,
    batch_tokens: BatchTokens = None,
    shortlist: Shortlist = None,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: WorkerThreads = None,
    workers: Workers = None,
    checkpoint: Checkpoint = "best",
    source_lang: SourceLang = None,
    target_lang: TargetLang = None,
    zero_shot: ZeroShot = False,
) -> None:  # fmt: skip
    """Translate many files, on one machine or many. To resume, run the same command again.

    Example: nmt translate-corpus shards/*.gz --output translated --model runs/demo
    """
    start_loading_torch()
    from nmt_cli.assembly.bulk_translation import translate_in_bulk
    from nmt_cli.assembly.model_options import ModelOptions
    from nmt_cli.assembly.translation_task import DecodingOverrides

    translate_in_bulk(
        inputs,
        output,
        ModelOptions(
            model or (), checkpoint, device, threads, precision, workers, source_lang=source_lang,
            target_lang=target_lang, zero_shot=zero_shot,
        ),
        DecodingOverrides(
            beam_size=beam_size, length_penalty=length_penalty, sample=sample, temperature=temperature, seed=seed,
            no_repeat_ngram=no_repeat_ngram, batch_tokens=batch_tokens, copy_unknown=copy_unknown, markup=markup,
        ),
        shortlist=shortlist,
        field=field,
        output_field=output_field,
        part_lines=part_lines,
        address=address,
    )  # fmt: skip
