"""`nmt export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt_cli.commands.options import Checkpoint, DirectionDirs


def export(
    model: DirectionDirs = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="OUT", help="A page, FILE.html, or a directory that is new or empty."),
    ] = None,
    format_: Annotated[
        str | None, typer.Option("--format", metavar="F", help="html (the default for FILE.html) or onnx.")
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option("--precision", metavar="P", help="fp32 (the default of onnx) or int8 (the default of html)."),
    ] = None,
    checkpoint: Checkpoint = "best",
) -> None:
    """Write a model in a form that translates without nmt.

    The format html gives one file: a page that translates in any recent browser, without a server or a network. It may
    hold several models, one for each direction.

    The format onnx gives a directory with the model as two ONNX graphs, its tokenizer, its defaults, a model card, and
    a program for Python that translates lines from standard input, translate.py. Needs the extra `onnx`.

    Example: nmt export --model runs/demo -o translator.html
    """
    from nmt_cli.assembly.exports import export_models

    export_models(model or (), output, format_=format_, checkpoint=checkpoint, precision=precision)
