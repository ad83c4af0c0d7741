"""The models that a command line names, or means by naming none."""

from __future__ import annotations

import os
from pathlib import Path

from nmt_cli.experiment import Experiment
from nmt_cli.system.console import log
from nmt_cli.system.errors import InputError


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


def named_models(model_dirs: list[Path]) -> list[Experiment]:
    """Return the experiments named on the command line, else `$NMT_MODEL`, else the newest finished run below
    `runs/`."""
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
