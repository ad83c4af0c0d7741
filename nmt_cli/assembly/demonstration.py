"""The demo, from an empty directory to a page."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nmt_cli.assembly.input_checks import check_directory
from nmt_cli.assembly.resume_checks import check_resumable
from nmt_cli.system.errors import InputError

if TYPE_CHECKING:
    from nmt_cli.config.schema import Config
    from nmt_cli.experiment import Experiment


def check_demo_directory(experiment: Experiment, config: Config) -> None:
    """Refuse a directory in which the demo can neither begin nor go on, or would replace what it has not made."""
    from nmt_cli.demo.steps import PAGE, PICTURES

    check_directory(experiment.directory)
    check_resumable(experiment, config)
    if experiment.has_begun:
        return  # the pictures and the page are of the run itself
    results = [experiment.directory / name for name in (*PICTURES, PAGE)]
    if taken := [str(path) for path in results if os.path.lexists(path)]:
        raise InputError(
            f"{', '.join(taken)}: exists already and is not overwritten; choose another --dir, or move it away"
        )
