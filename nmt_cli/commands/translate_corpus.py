"""`nmt translate-corpus`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

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
from nmt_cli.system.console import warn
from nmt_cli.system.errors import InputError
from nmt_cli.translation.json_lines import JsonField, is_json_lines

if TYPE_CHECKING:
    pass


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
    from nmt_cli.assembly.bulk_translation import conditions_of, interruptible, open_work, translate_shards
    from nmt_cli.assembly.named_models import named_models

    if device not in ("auto", "cpu", "cuda"):
        raise InputError(f"--device {device}: must be auto, cpu or cuda; Ray says which worker gets which GPU")
    from nmt_cli.assembly.translator import PRECISIONS, requested_options, warn_of_idle_options
    from nmt_cli.config.decoding import DecodingOptions
    from nmt_cli.system.cluster import require_ray
    from nmt_cli.translation.shards import Corpus

    if precision not in PRECISIONS:
        raise InputError(f"--precision {precision}: must be one of {', '.join(PRECISIONS)}")
    require_ray()
    options = requested_options(
        sample=sample,
        temperature=temperature,
        copy_unknown=copy_unknown,
        markup=markup,
        beam_size=beam_size,
        length_penalty=length_penalty,
        no_repeat_ngram=no_repeat_ngram,
        batch_tokens=batch_tokens,
        seed=seed if sample else None,  # else another one would be another beginning of the same translations
    )
    experiments = named_models(list(model or []))
    decoding = DecodingOptions.of(experiments[0].config.decoding, **options)
    of_search = {"--beam-size": beam_size, "--length-penalty": length_penalty}
    warn_of_idle_options(decoding, {"--temperature": temperature, "--seed": seed}, of_search)
    if output_field and not field:
        warn("--output-field does nothing without --field")
    fingerprints = [experiment.fingerprint(checkpoint) for experiment in experiments]
    conditions = conditions_of(decoding, fingerprints, shortlist, precision, device, threads)
    settings = {
        "checkpoint": checkpoint,
        "precision": precision,
        "threads": threads,
        "shortlist": shortlist and shortlist.resolve(),
        **options,
    }
    start = partial(open_work, [experiment.directory.resolve() for experiment in experiments], fingerprints, settings)
    if field and not any(map(is_json_lines, inputs)):
        raise InputError(f"--field {field}: no input is called .jsonl or .jsonl.gz")
    with interruptible(), Corpus.held(output):
        corpus = Corpus(
            output,
            inputs,
            conditions,
            part_lines=part_lines,
            json_field=JsonField(field, output_field or "translation") if field else None,
        )
        counts = translate_shards(corpus, start, address=address, workers=workers, threads=threads, device=device)
        counts.report(decoding.max_source_pieces)
        corpus.close()
