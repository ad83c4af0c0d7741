"""The result of `nmt improve`: the files of the last model in an ordinary model directory, whole or absent."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from nmt_cli.config.loader import dump_config
from nmt_cli.config.schema import Config
from nmt_cli.experiment import Experiment
from nmt_cli.system.errors import NmtError
from nmt_cli.system.files import atomic_directory, atomic_path, make_directory
from nmt_cli.training.checkpoints import RankedCheckpoint, metric_sign, read_meta


def best_model(models: Sequence[Path]) -> Path:
    """Return the model directory with the best score on the dev set; without scores the first."""

    def rank(model: Path) -> float:
        best = best_checkpoint(model)
        return -metric_sign(best.metric) * best.value if best else math.inf

    return min(models, key=rank)


def best_checkpoint(model: Path) -> RankedCheckpoint | None:
    """Return the checkpoint of a model directory with the best score on the dev set; None without a dev set."""
    best = Experiment(model).checkpoints.index().best
    return best[0] if best else None


def dev_bleu(model: Path) -> float | None:
    """Return the BLEU of the best checkpoint of a model directory on its dev set; None without a dev set."""
    best = best_checkpoint(model)
    return None if best is None else read_meta(Experiment(model).checkpoints.path_of(best.step))["metrics"].get("bleu")


def baseline_checkpoint(config: Config) -> RankedCheckpoint | None:
    """Return the best checkpoint, by dev score, of the model that `nmt train` made with a configuration.

    None means that there is no such model, or that it has another dev set or another section `scoring`.
    """
    before = Experiment(Path(config.model_dir))
    try:
        if before.config.data.dev != config.data.dev or before.config.scoring != config.scoring:
            return None
        return best_checkpoint(before.directory)
    except NmtError:
        return None


def copy_model(model: Path, directory: Path) -> None:
    """Copy a model into the directory of the result; `publish` makes it one that commands accept."""
    of, to = Experiment(model), Experiment(directory)
    index = of.checkpoints.index()
    steps = dict.fromkeys([*([index.last] if index.last is not None else []), *(best.step for best in index.best),
                           *index.recent])  # fmt: skip
    for path in of.tokenizer_paths():
        _copy(path, to.directory / "tokenizer" / path.name)
    for step in steps:
        with atomic_directory(to.checkpoints.path_of(step)) as made:
            for file in sorted(of.checkpoints.path_of(step).iterdir()):
                _link(file, made / file.name)
    _copy(of.directory / "checkpoints" / "index.json", to.directory / "checkpoints" / "index.json")
    own = [path for one in of.of_each_direction() for path in (one.confidence_path, one.profile_path)]
    for path in (of.metrics_path, of.log_path, of.measured_path, of.languages_path, *own):
        copy = to.directory / path.relative_to(of.directory)
        if path.is_file():
            _copy(path, copy)


def publish(model: Path, directory: Path) -> None:
    """Write the configuration of a model into the directory of the result, which only then is a model directory."""
    config = Experiment(model).config.model_copy(update={"model_dir": str(directory)})
    with atomic_path(Experiment(directory).config_path) as temporary:
        temporary.write_text(dump_config(config), encoding="utf-8")


def _copy(path: Path, copy: Path) -> None:
    make_directory(copy.parent)
    with atomic_path(copy) as temporary:
        shutil.copyfile(path, temporary)


def _link(path: Path, link: Path) -> None:
    """Make a hard link to a file of a checkpoint, which never changes, or a copy if there are no hard links here."""
    try:
        os.link(path, link)
    except OSError:
        shutil.copyfile(path, link)
