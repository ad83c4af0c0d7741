"""`nmt plot attention`, `nmt plot curves`, `nmt plot lengths`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt_cli.commands.options import (
    Checkpoint,
    Device,
    InputFile,
    ModelDirs,
    SourceLang,
    TargetLang,
    Threads,
    output_file,
)

plot = typer.Typer(help="Draw attention, learning curves, or scores by length.", no_args_is_help=True)
Picture = Annotated[
    Path,
    typer.Option("--output", "-o", help="The file to write: .png, .svg or .html.", metavar="OUT", parser=output_file),
]


@plot.command()
def attention(
    file: InputFile = None,
    *,
    output: Picture,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            help="Translations of the lines. Their attention is drawn, and nothing is translated.",
            metavar="FILE",
        ),
    ] = None,
    model: ModelDirs = None,
    device: Device = "auto",
    threads: Threads = None,
    checkpoint: Checkpoint = "best",
    source_lang: SourceLang = None,
    target_lang: TargetLang = None,
) -> None:
    """Draw the attention of each target word over the source words. An .html page shows the search too.

    Example: echo 'The red car is here.' | nmt plot attention --model runs/demo -o attention.html
    """
    from nmt_cli.assembly.model_options import ModelOptions
    from nmt_cli.assembly.pictures import plot_attention

    models = ModelOptions(model or (), checkpoint, device, threads, source_lang=source_lang, target_lang=target_lang)
    plot_attention(file, target, output, models)


@plot.command()
def curves(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Model directories or metrics.jsonl files. Without them, nmt takes $NMT_MODEL, or else the "
            "newest finished run in runs/.",
            metavar="RUN",
        ),
    ] = None,
    *,
    output: Picture,
    model: Annotated[
        list[Path] | None, typer.Option("--model", "-m", help="The same as RUN. May be repeated.", metavar="DIR")
    ] = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="Follow a training: a page (.html) that is drawn again and reloads itself."),
    ] = False,
) -> None:
    """Draw loss, BLEU and chrF of one run or several by update, as .png, .svg or .html.

    Example: nmt plot curves runs/demo -o curves.png
    """
    from nmt_cli.assembly.pictures import plot_curves

    plot_curves([*(runs or ()), *(model or ())], output, is_live=live)


@plot.command()
def lengths(
    *,
    source: Annotated[str, typer.Option("--source", help="The source text.", metavar="SRC")],
    reference: Annotated[str, typer.Option("--reference", help="Its reference translation.", metavar="REF")],
    hypothesis: Annotated[
        list[str], typer.Option("--hypothesis", help="Translations of a system. May be repeated.", metavar="[NAME=]HYP")
    ],
    output: Picture,
    edges: Annotated[
        str,
        typer.Option("--edges", help="Upper limits of the length groups, in source words, rising.", metavar="N,N,..."),
    ] = "10,20,30,40,50,60,70",
    tokenize: Annotated[str | None, typer.Option("--tokenize", help="As for nmt score.", metavar="T")] = None,
) -> None:
    """Draw BLEU by source length with 95 % bootstrap intervals, as .png, .svg or .html.

    Example: nmt plot lengths --source a.en --reference a.de --hypothesis search=b.de -o lengths.png
    """
    from nmt_cli.assembly.pictures import plot_lengths

    plot_lengths(source, reference, hypothesis, output, edges=edges, tokenize=tokenize)
