"""The models of a command, which its options name or which are found by default, and how they are loaded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nmt_cli.experiment import Experiment
from nmt_cli.system.console import log, warn
from nmt_cli.system.errors import InputError
from nmt_cli.text.direction import Direction, format_directions

PRECISIONS = ("auto", "fp32", "bf16", "int8")
"""Precisions in which models translate; auto is fp32."""


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """The options of a command that say which models it uses, with which weights, and where they run."""

    directories: Sequence[Path] = ()
    """Model directories. If there are none, `experiments` finds one."""
    checkpoint: str = "best"
    device: str = "auto"
    threads: int | None = None
    precision: str = "auto"
    workers: int | None = None
    """Processes that translate; None for one for each processor."""
    source_lang: str | None = None
    """Source language of the direction; it and `target_lang` are needed for models of several directions."""
    target_lang: str | None = None
    zero_shot: bool = False
    """True to allow a direction that was not trained, if both its languages are known (see
    `can_translate_zero_shot`)."""

    def experiments(self) -> list[Experiment]:
        """Return the models that are named or found by default, each for the direction that is asked for.

        Raises:
            InputError: no model is named or found; a model has several directions and none is given, or it lacks the
                given one.
        """
        return [self._for_requested_direction(experiment) for experiment in named_models(self.directories)]

    def of_each_direction(self) -> list[ModelOptions]:
        """Return these options once for each direction of the first model; unchanged if a language is given."""
        directions = named_models(self.directories)[0].config.data.directions
        if len(directions) == 1 or self.source_lang or self.target_lang:
            return [self]
        return [replace(self, source_lang=source, target_lang=target) for source, target in directions]

    def _for_requested_direction(self, experiment: Experiment) -> Experiment:
        """Return a run as the model of the direction that is asked for; `InputError` if there is not exactly one."""
        data, source, target = experiment.config.data, self.source_lang, self.target_lang
        fitting = [one for one in data.directions if source in (None, one.source) and target in (None, one.target)]
        there = f"{experiment.directory}: translates {format_directions(data.directions)}"
        if len(fitting) == 1:
            return experiment.for_direction(fitting[0])
        if fitting:
            raise InputError(f"{there}; choose a direction with --source-lang and --target-lang")
        asked = f"{source or '?'}-{target or '?'}"
        if source is None or target is None or not can_translate_zero_shot(data.directions, Direction(source, target)):
            raise InputError(f"{there}, not {asked}")
        if not self.zero_shot:
            raise InputError(
                f"{there}; {asked} was never trained. --zero-shot translates in it all the same, usually badly"
            )
        warn(f"{there}; {asked} was never trained, so its translations are usually bad")
        return experiment.for_direction(Direction(source, target))

    @property
    def loading_options(self) -> dict[str, Any]:
        """Checkpoint, device, threads and precision, as keyword arguments of `open_translator` and `open_scorer`."""
        return {
            "checkpoint": self.checkpoint,
            "device": self.device,
            "threads": self.threads,
            "precision": self.precision,
        }


def named_model(model_dir: Path | None) -> Path:
    """Return the directory of the one model of a command: the given one, or the one that `named_models` finds.

    Raises:
        InputError: no directory is given, and none is found.
    """
    return named_models(() if model_dir is None else [model_dir])[0].directory


def can_translate_zero_shot(directions: Sequence[Direction], other: Direction) -> bool:
    """Return whether a model of `directions` reads the source language of `other` and writes its target language."""
    reads, writes = ({direction[side] for direction in directions} for side in (0, 1))
    return other.source != other.target and other.source in reads and other.target in writes


def newest_finished(root: Path) -> Experiment | None:
    """Return the run in a subdirectory of `root` whose training finished last; None if none has finished."""
    candidates = []
    for index_path in root.glob("*/checkpoints/index.json"):
        experiment = Experiment(index_path.parent.parent)
        try:
            if experiment.config_path.is_file() and experiment.checkpoints.index().finish_reason:
                candidates.append((index_path.stat().st_mtime_ns, experiment))
        except (InputError, OSError):
            continue
    return max(candidates, key=lambda candidate: candidate[0])[1] if candidates else None


def named_models(model_dirs: Sequence[Path | Experiment]) -> list[Experiment]:
    """Return the runs that are given, themselves or by directory; else the run that `$NMT_MODEL` names; else the newest
    finished run below `runs/`.

    Raises:
        InputError: no directory is given, and none is found.
    """
    if model_dirs:
        return [given if isinstance(given, Experiment) else Experiment(given) for given in model_dirs]
    if named := os.environ.get("NMT_MODEL"):
        log(f"model: {named} (from NMT_MODEL)")
        return [Experiment(Path(named))]
    newest = newest_finished(Path("runs"))
    if newest is None:
        raise InputError(
            "no model: give --model DIR, set NMT_MODEL, or train one (there is no finished run in runs/; to use one "
            "that was stopped, name it with --model)"
        )
    log(f"model: {newest.directory} (the newest finished run in runs/)")
    return [newest]
