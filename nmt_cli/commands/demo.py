"""`nmt demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    directory: Annotated[
        Path, typer.Option("--dir", help="The model directory in which everything is made.", metavar="DIR")
    ] = Path("runs/demo"),
) -> None:
    """Try everything on a built-in phrase book: train, translate, score, draw the attention, and write a page that
    translates offline.

    Example: nmt demo
    """
    from nmt_cli.assembly.demonstration import run_demo

    run_demo(directory)
