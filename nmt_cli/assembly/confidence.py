"""The confidence of a model, as its directory keeps it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nmt_cli.confidence.calibration import Calibration
from nmt_cli.system.console import command_line, warn
from nmt_cli.system.errors import InputError
from nmt_cli.translation.confidence_estimator import ConfidenceEstimator

if TYPE_CHECKING:
    from nmt_cli.experiment import Experiment


def calibrated_estimator(experiment: Experiment, loaded: Path) -> ConfidenceEstimator:
    """Return the way to the confidence of a model whose weights were loaded from a checkpoint.

    Raises:
        InputError: the model has no calibration, or a damaged one.
    """

    path = experiment.confidence_path
    fit = command_line("nmt", "evaluate", "--calibrate", "--model", experiment.directory)
    if not path.is_file():
        raise InputError(
            f"{experiment.directory}: has no {path.name}, so it cannot tell how sure it is. This fits it to the dev "
            f"set: {fit}"
        )
    calibration = Calibration.read(path)
    if calibration.origin.model != experiment.fingerprint(loaded.name):
        warn(
            f"{path}: was fitted to other weights ({calibration.origin.checkpoint}) than those in use ({loaded.name}), "
            f"so the confidence may be wrong. This fits it anew: {fit} --checkpoint {loaded.name}"
        )
    return ConfidenceEstimator(calibration)
