"""`nmt demo`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt_cli.experiment import Experiment

if TYPE_CHECKING:
    pass


def demo(
    directory: Annotated[
        Path, typer.Option("--dir", help="The model directory in which everything is made.", metavar="DIR")
    ] = Path("runs/demo"),
) -> None:
    """Try everything on a built-in phrase book: train, translate, score, draw the attention, and write a page that
    translates offline.

    Example: nmt demo
    """
    from nmt_cli.assembly.demonstration import check_demo_directory
    from nmt_cli.assembly.exports import write_page
    from nmt_cli.assembly.pictures import picture_of
    from nmt_cli.assembly.training_run import run_training
    from nmt_cli.assembly.translator import open_translator
    from nmt_cli.demo.steps import run_steps
    from nmt_cli.system.distributed import World

    run_steps(
        directory,
        check=partial(check_demo_directory, Experiment(directory)),
        train=lambda config: run_training(Experiment(directory.absolute()), config, World()),
        open_translator=partial(open_translator, [directory], with_alignment=True),
        picture_of=picture_of,
        write_page=lambda path: write_page([Experiment(directory)], path),
    )
