"""`nmt export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt_cli.commands.options import Checkpoint, DirectionDirs, ExportedTargetLang, SourceLang


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
        typer.Option("--precision", metavar="P", help="For onnx: fp32 (the default) or int8. A page is always int8."),
    ] = None,
    checkpoint: Checkpoint = "best",
    source_lang: SourceLang = None,
    target_lang: ExportedTargetLang = None,
) -> None:
    """Write a model in a form that translates without nmt.

    The format html gives one file: a page that translates in any recent browser, without a server or a network. It may
    hold several models, one for each direction, or a model of several directions.

    The format onnx gives a directory with the model as two ONNX graphs, its tokenizer, its defaults, a model card, and
    translate.py, which translates lines from standard input. Needs pip install 'nmt-cli[onnx]'.

    Example: nmt export --model runs/demo -o translator.html
    """
    from nmt_cli.assembly.exports import export_models
    from nmt_cli.assembly.model_options import ModelOptions

    models = ModelOptions(model or (), checkpoint, source_lang=source_lang, target_lang=target_lang)
    export_models(models, output, format_=format_, precision=precision)
