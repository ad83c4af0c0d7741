"""`nmt export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt_cli.commands.options import Checkpoint, DirectionDirs
from nmt_cli.system.console import warn
from nmt_cli.system.errors import InputError

if TYPE_CHECKING:
    pass


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
    from nmt_cli.assembly.exports import FORMATS, PAGE_ENDINGS, write_onnx, write_page
    from nmt_cli.assembly.named_models import named_models
    from nmt_cli.assembly.overwriting import refuse_overwriting

    if output is None:
        raise InputError("-o is missing: give the page (FILE.html) or the directory to write")
    if str(output) == "-":
        raise InputError(
            "-o -: an export cannot go to standard output; give the page (FILE.html) or the directory to write"
        )
    is_page = output.suffix.lower() in PAGE_ENDINGS
    wanted = format_ or ("html" if is_page else "")
    if not wanted:
        raise InputError(f"{output}: give a name that ends in .html, or --format onnx for a directory")
    if wanted not in FORMATS:
        raise InputError(f"--format {format_}: must be one of {', '.join(FORMATS)}")
    experiments = named_models(list(model or []))
    refuse_overwriting(output, [], experiments)
    if wanted == "html":
        write_page(experiments, output, checkpoint=checkpoint, precision=precision or "int8")
    elif len(experiments) > 1:
        raise InputError("--format onnx: takes one --model; give each model a directory of its own")
    else:
        write_onnx(experiments[0], output, checkpoint=checkpoint, precision=precision or "fp32")
    if any(experiment.config.decoding.adapt_writing for experiment in experiments):
        warn(
            "the export reads lines as they are written, without decoding.adapt_writing; lines in capitals, for "
            "example, come out worse than from nmt translate"
        )
