"""`nmt translate-corpus`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from nmt_cli.commands.options import (
    BatchTokens,
    BeamSize,
    Checkpoint,
    CopyUnknown,
    LengthPenalty,
    Markup,
    ModelDirs,
    NoRepeatNgram,
    Precision,
    Sample,
    Seed,
    Shortlist,
    Temperature,
)


def translate_corpus(
    inputs: Annotated[
        list[Path],
        typer.Argument(help="Text files, a sentence on each line; also .gz, .jsonl and .jsonl.gz.", metavar="INPUT…"),
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
            help="A Ray cluster to join, or auto. Without it, Ray is started on this machine.",
        ),
    ] = None,
    workers: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--workers",
            metavar="N",
            min=1,
            help="Number of processes with the model. The default is one for each GPU, or as many as the cores allow.",
        ),
    ] = None,
    threads: Annotated[int, typer.Option("--threads", min=1, metavar="N", help="CPU threads of each worker.")] = 1,
    part_lines: Annotated[
        int, typer.Option("--part-lines", min=1, metavar="N", help="Lines that a worker translates at a time.")
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
    device: Annotated[
        str, typer.Option("--device", metavar="D", help="The device of each worker: auto, cpu or cuda.")
    ] = "auto",
    precision: Precision = "auto",
    checkpoint: Checkpoint = "best",
) -> None:
    """Translate many files on many devices. To go on after a stop, give the same command again.

    Example: nmt translate-corpus shards/*.gz --output translated --model runs/demo
    """  # fmt: skip
    from nmt_cli.assembly.bulk_translation import translate_in_bulk
    from nmt_cli.assembly.named_models import ModelOptions
    from nmt_cli.assembly.requested_translation import RequestedDecoding

    translate_in_bulk(
        inputs,
        output,
        ModelOptions(model or (), checkpoint, device, threads, precision),
        RequestedDecoding(
            beam_size=beam_size, length_penalty=length_penalty, sample=sample, temperature=temperature, seed=seed,
            no_repeat_ngram=no_repeat_ngram, batch_tokens=batch_tokens, copy_unknown=copy_unknown, markup=markup,
        ),
        shortlist=shortlist,
        field=field,
        output_field=output_field,
        part_lines=part_lines,
        address=address,
        workers=workers,
    )  # fmt: skip
