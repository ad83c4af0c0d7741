"""`nmt average`."""

from __future__ import annotations

from typing import Annotated

import typer

from nmt_cli.commands.options import ModelDir
from nmt_cli.system.errors import InputError


def average(
    model: ModelDir = None,
    last: Annotated[
        int | None, typer.Option("--last", min=1, help="Average the newest N checkpoints.", metavar="N")
    ] = None,
    best: Annotated[
        int | None, typer.Option("--best", min=1, help="Average the N best checkpoints.", metavar="N")
    ] = None,
    name: Annotated[str, typer.Option("--name", help="Name of the new checkpoint.", metavar="NAME")] = "average",
) -> None:
    """Average checkpoints into a new one.

    Without --last and --best, all checkpoints that training.keep_last keeps are averaged. training.keep_best says how
    many --best can take.

    Example: nmt average --model runs/demo --last 1 --name mean
    """
    if last is not None and best is not None:
        raise InputError("give --last N or --best N, not both")
    from nmt_cli.assembly.averaging import average_checkpoints

    average_checkpoints(model, name, last=last, best=best)
