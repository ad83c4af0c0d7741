"""`nmt align`."""

from __future__ import annotations

from typing import Annotated

import typer

from nmt_cli.commands.options import (
    Checkpoint,
    Device,
    ModelDirs,
    OutputFile,
    SourceLang,
    SourceText,
    TargetLang,
    TargetText,
    Threads,
    ZeroShot,
)
from nmt_cli.system.errors import InputError


def align(
    source: SourceText,
    target: TargetText,
    model: ModelDirs = None,
    output: OutputFile = None,
    format_: Annotated[
        str, typer.Option("--format", metavar="F", help="pharaoh (0-0 1-2) or jsonl (words, links and weights).")
    ] = "pharaoh",
    level: Annotated[
        str,
        typer.Option(
            "--level", metavar="L", help="What is aligned: word (between white space in the raw text) or piece."
        ),
    ] = "word",
    gold: Annotated[
        str | None,
        typer.Option(
            "--gold", metavar="FILE",
            help="Reference alignment, one line for each pair: 0-0 is a sure link, 0?1 a possible one. The alignment "
            "error rate is printed to standard error.",
        ),
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
    checkpoint: Checkpoint = "best",
    source_lang: SourceLang = None,
    target_lang: TargetLang = None,
    zero_shot: ZeroShot = False,
) -> None:  # fmt: skip
    """Align the words of given pairs by the model's attention.

    Example: nmt align source.txt target.txt --model runs/demo
    """
    for option, value, allowed in (("--format", format_, ("pharaoh", "jsonl")), ("--level", level, ("word", "piece"))):
        if value not in allowed:
            raise InputError(f"{option} {value}: must be one of {', '.join(allowed)}")
    if gold is not None and level == "piece":
        raise InputError("--gold: true links are between words; leave out --level piece")
    from nmt_cli.assembly.model_options import ModelOptions
    from nmt_cli.assembly.word_alignment import align_pairs

    models = ModelOptions(
        model or (),
        checkpoint,
        device,
        threads,
        source_lang=source_lang,
        target_lang=target_lang,
        zero_shot=zero_shot,
    )
    align_pairs(source, target, output, models, format_=format_, level=level, gold=gold)
