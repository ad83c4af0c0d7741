"""The models that a command line names, or means by naming none, and how they are to be loaded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt_cli.experiment import Experiment
from nmt_cli.system.console import log
from nmt_cli.system.errors import InputError

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

    def experiments(self) -> list[Experiment]:
        """Return the models, as `named_models` does."""
        return named_models(self.directories)

    @property
    def loading(self) -> dict[str, Any]:
        """All but the directories, as arguments of `open_translator` and `open_scorer`."""
        return {
            "checkpoint": self.checkpoint,
            "device": self.device,
            "threads": self.threads,
            "precision": self.precision,
        }


def newest_finished(root: Path) -> Experiment | None:
    """Return the run below `root` whose training ended last, or None."""
    candidates = []
    for index_path in root.glob("*/checkpoints/index.json"):
        experiment = Experiment(index_path.parent.parent)
        try:
            if experiment.config_path.is_file() and experiment.checkpoints.index().finished:
                candidates.append((index_path.stat().st_mtime_ns, experiment))
        except (InputError, OSError):
            continue
    return max(candidates, key=lambda candidate: candidate[0])[1] if candidates else None


def named_models(model_dirs: Sequence[Path]) -> list[Experiment]:
    """Return the runs in these directories, else the one that `$NMT_MODEL` names, else the newest finished run below
    `runs/`.

    Raises:
        InputError: no directory is given, and none is found.
    """
    if model_dirs:
        return [Experiment(path) for path in model_dirs]
    if named := os.environ.get("NMT_MODEL"):
        log(f"model: {named} (from NMT_MODEL)")
        return [Experiment(Path(named))]
    newest = newest_finished(Path("runs"))
    if newest is None:
        raise InputError(
            "no model: give --model DIR, set NMT_MODEL, or train one (no finished run lies below runs/; a "
            "training that was stopped must be named)"
        )
    log(f"model: {newest.directory} (the newest finished run below runs/)")
    return [newest]
