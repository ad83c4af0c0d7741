"""Calibration of a model's confidence: fits the probabilities that its words are correct to a text with references."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nmt_cli.assembly.trained_translator import open_translator
from nmt_cli.confidence.calibration import Calibration, Origin
from nmt_cli.confidence.fitting import LabelledLine, digest_of, fit
from nmt_cli.data.output import check_writable
from nmt_cli.system.console import Progress, log, warn
from nmt_cli.system.errors import NmtError
from nmt_cli.system.files import make_directory
from nmt_cli.training.validation import DevSet
from nmt_cli.translation.confidence_estimator import ConfidenceEstimator

if TYPE_CHECKING:
    from nmt_cli.config.schema import Config
    from nmt_cli.experiment import Experiment

MAX_LINES = 2_000
"""The most lines to which a calibration is fitted; of a longer text, every n-th line is taken."""


def calibrate(
    experiment: Experiment,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    checkpoint: str = "best",
    device: str = "auto",
    threads: int | None = None,
) -> Calibration:
    """Translate a text, fit the confidence to its references, and write and return the calibration of the model.

    Raises:
        InputError: there is no such checkpoint or device, the model directory cannot be written to, or the text is too
            little to fit to; nothing is written.
    """
    if experiment.direction is not None:
        make_directory(experiment.confidence_path.parent)
    check_writable(experiment.confidence_path)
    distance = max(1, -(-len(sources) // MAX_LINES))
    sources, references = sources[::distance], references[::distance]
    path = experiment.checkpoints.resolve(checkpoint)
    translator = open_translator([experiment], checkpoint=path.name, device=device, threads=threads)
    translator.estimator = ConfidenceEstimator()
    lines = []
    with Progress("calibrating", total=len(sources), unit="line") as progress:
        for found, reference in zip(translator.translate(sources), references, strict=True):
            best = found.translations[0]
            if best.features is not None:
                lines.append(LabelledLine.of(best.features, best.log_prob, best.text, reference))
            progress.advance()
    origin = Origin(experiment.fingerprint(path.name), path.name, digest_of(sources, references), len(sources))
    calibration = fit(lines, origin)
    calibration.write(experiment.confidence_path)
    return calibration


def calibrate_after_training(experiment: Experiment, config: Config, device: str) -> None:
    """Fit the confidence of the best checkpoint to the dev set of each direction that has one. An error is only logged
    as a warning, because the training has already succeeded."""
    for one in experiment.of_each_direction(config):
        _calibrate_direction(one, one.config if one.direction else config, device)


def _calibrate_direction(experiment: Experiment, config: Config, device: str) -> None:
    """Fit the confidence of a model of one direction to its dev set, if it has one; warn if this fails."""
    if config.data.dev is None:
        return
    try:
        dev = DevSet.read(config.data.dev_sets)
        found = calibrate(experiment, dev.sources, dev.references, device=device, threads=config.training.threads)
    except Exception as error:  # even a mistake of the program must not keep a training of hours from its end
        told = error if isinstance(error, NmtError | OSError) else f"{type(error).__name__}: {error}"
        name = experiment.confidence_path.name
        result = f"no {name} was written, so translate --confidence is not possible"
        if experiment.confidence_path.exists():
            result = f"{name} was not written again, so it still belongs to an earlier checkpoint"
        warn(f"{result}: {told}")
        return
    of_direction = "" if experiment.direction is None else f" of {experiment.direction}"
    log(f"confidence on the dev set{of_direction}: {found.summary()}")
