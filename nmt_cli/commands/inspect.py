"""`nmt inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt_cli.system.errors import InputError


def inspect(
    directory: Annotated[
        Path | None,
        typer.Argument(
            help="The model directory. Without it, nmt takes $NMT_MODEL, or else the newest finished run in runs/.",
            metavar="DIR",
        ),
    ] = None,
    model: Annotated[Path | None, typer.Option("--model", "-m", help="The same as DIR.", metavar="DIR")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the contents of a model directory: architecture, training, scores, sizes.

    Example: nmt inspect runs/demo
    """
    named = [path for path in (directory, model) if path is not None]
    if len(named) > 1:
        raise InputError("give one model directory, as DIR or with --model")
    from nmt_cli.assembly.model_report import print_report

    print_report(named, as_json=as_json)
