"""`nmt demo`."""

from __future__ import annotations

from functools import partial
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
    from nmt_cli.commands.export import write_page
    from nmt_cli.commands.loading import open_translator
    from nmt_cli.commands.plot import picture_of
    from nmt_cli.commands.train import run_training
    from nmt_cli.demo.steps import run_steps
    from nmt_cli.distributed import World
    from nmt_cli.experiment import Experiment

    run_steps(
        directory,
        train=lambda config: run_training(Experiment(directory.absolute()), config, World()),
        open_translator=partial(open_translator, [directory], with_alignment=True),
        picture_of=picture_of,
        write_page=lambda path: write_page([Experiment(directory)], path),
    )
