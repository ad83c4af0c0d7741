"""`nmt demo`."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt_cli.errors import InputError

if TYPE_CHECKING:
    from nmt_cli.config.schema import Config
    from nmt_cli.experiment import Experiment


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
        check=partial(_check, Experiment(directory)),
        train=lambda config: run_training(Experiment(directory.absolute()), config, World()),
        open_translator=partial(open_translator, [directory], with_alignment=True),
        picture_of=picture_of,
        write_page=lambda path: write_page([Experiment(directory)], path),
    )


def _check(experiment: Experiment, config: Config) -> None:
    """Refuse a directory in which the demo can neither begin nor go on, or would replace what it has not made."""
    from nmt_cli.demo.steps import PAGE, PICTURES
    from nmt_cli.preflight.inputs import check_directory
    from nmt_cli.preflight.resuming import check_resumable

    check_directory(experiment.directory)
    check_resumable(experiment, config)
    if experiment.has_begun:
        return  # the pictures and the page are of the run itself
    results = [experiment.directory / name for name in (*PICTURES, PAGE)]
    if taken := [str(path) for path in results if os.path.lexists(path)]:
        raise InputError(
            f"{', '.join(taken)}: exists already and is not overwritten; choose another --dir, or move it away"
        )
