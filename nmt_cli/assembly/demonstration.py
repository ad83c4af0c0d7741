"""The demo: a training, translations, scores, pictures and a page, all in one new directory."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nmt_cli.assembly.exports import write_page
from nmt_cli.assembly.pictures import picture_of
from nmt_cli.assembly.resume_checks import check_resumable
from nmt_cli.assembly.trained_translator import open_translator
from nmt_cli.assembly.training_inputs import check_directory
from nmt_cli.assembly.training_run import run_training
from nmt_cli.demo.steps import PAGE, PICTURES, run_steps
from nmt_cli.experiment import Experiment
from nmt_cli.system.distributed import World
from nmt_cli.system.errors import InputError

if TYPE_CHECKING:
    from nmt_cli.config.schema import Config


def run_demo(directory: Path) -> None:
    """Run the steps of the demo in a new directory, or resume a demo that was stopped.

    Raises:
        InputError: the directory holds something else.
    """
    experiment = Experiment(directory)
    run_steps(
        directory,
        check=partial(_check_directory, experiment),
        train=lambda config: run_training(Experiment(directory.absolute()), config, World()),
        open_translator=partial(open_translator, [directory], with_alignment=True),
        picture_of=picture_of,
        write_page=lambda path: write_page([Experiment(directory)], path),
    )


def _check_directory(experiment: Experiment, config: Config) -> None:
    """Refuse a directory in which the demo can neither begin nor resume, or would replace a file of something else."""
    check_directory(experiment.directory)
    check_resumable(experiment, config)
    if experiment.has_begun:
        return  # the pictures and the page are of the run itself
    results = [experiment.directory / name for name in (*PICTURES, PAGE)]
    if taken := [str(path) for path in results if os.path.lexists(path)]:
        raise InputError(
            f"{', '.join(taken)}: exists already and is not overwritten; choose another --dir, or move it away"
        )
