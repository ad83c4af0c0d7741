"""The report of `nmt inspect` on a model directory: architecture, tokenizers, training, checkpoints, sizes."""

from __future__ import annotations

import json
import stat
from collections.abc import Sequence
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt_cli.assembly.model_options import named_models
from nmt_cli.confidence.calibration import Calibration
from nmt_cli.config.architecture import architecture
from nmt_cli.improve.record import Provenance
from nmt_cli.system.console import format_count
from nmt_cli.system.errors import ModelError
from nmt_cli.system.storage import read_metadata
from nmt_cli.training.checkpoints import MODEL_FILE, read_meta

if TYPE_CHECKING:
    from nmt_cli.experiment import Experiment
    from nmt_cli.training.checkpoints import Checkpoints


def print_report(model_dirs: Sequence[Path], *, as_json: bool) -> None:
    """Print the report on a model directory, or on the model that `named_models` finds if no directory is given."""
    (experiment,) = named_models(model_dirs)
    report = report_of(experiment)
    if as_json:
        print(json.dumps(report, indent=2, ensure_ascii=False))
        return
    for section, values in report.items():
        if not isinstance(values, dict):
            print(f"{section:12} {values}")
            continue
        print(section)
        for key, value in values.items():
            print(f"  {key:22} {f'{value:,}' if isinstance(value, int) else value}")


def report_of(experiment: Experiment) -> dict[str, Any]:
    """Return the report by section: the value of a section is a text, or a dictionary of its lines by their names.

    Raises:
        InputError: the directory is no model directory.
        ModelError: the configuration or a tokenizer is damaged. A damaged checkpoint is named in the report.
    """
    config = experiment.config
    training = config.training
    report: dict[str, Any] = {
        "name": config.name,
        "languages": ", ".join(f"{source} -> {target}" for source, target in config.data.directions),
        "architecture": architecture(config.model),
    }
    if not experiment.has_tokenizers(joint=config.tokenizer.joint):
        report["tokenizer"] = "not trained yet"
    else:
        source, target = experiment.tokenizers
        sides = {"joint": source} if source.has_same_model(target) else {"source": source, "target": target}
        report["tokenizer"] = {
            side: f"{config.tokenizer.model_type}, {tokenizer.vocab_size:,} pieces, fingerprint "
            f"{tokenizer.fingerprint[:12]}"
            for side, tokenizer in sides.items()
        }
    checkpoints = experiment.checkpoints
    index = checkpoints.index()
    metas, damaged = _checkpoint_metadata(checkpoints)
    if metas:
        shapes = next(reversed(metas.values()))["shapes"]
        report["parameters"] = _parameters(shapes)
    report["training"] = {
        "optimizer": f"{training.optimizer}, learning rate {training.learning_rate:g}, {training.schedule}",
        "batch": f"{training.batch_size:,} {'target pieces' if training.batch_type == 'tokens' else 'sentences'}",
        "last update": index.last if index.last is not None else "none yet",
        "finished": index.finish_reason or "no",
    }
    ranks = {str(ranked.step): place for place, ranked in enumerate(index.best, start=1)}
    report["checkpoints"] = {
        name: _describe_checkpoint(meta, checkpoints.path_named(name), ranks.get(name)) for name, meta in metas.items()
    } | {name: f"damaged: {problem}" for name, problem in damaged.items()}
    for one in experiment.of_each_direction():
        if one.confidence_path.is_file():
            report[f"confidence{f' {one.direction}' if one.direction else ''}"] = _confidence(one)
    made_by = Provenance(experiment.improvement_path)
    if made_by.path.is_file():
        report |= made_by.sections()
    sizes = _file_sizes(experiment.directory)
    report["size"] = f"{sum(sizes) / 1e6:,.1f} MB in {format_count(len(sizes), 'file')}"
    return report


def _checkpoint_metadata(checkpoints: Checkpoints) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return the metadata of each sound checkpoint, and the problem of each damaged one, by name.

    A checkpoint that a training removes meanwhile is left out.
    """
    metas: dict[str, dict[str, Any]] = {}
    damaged = {}
    for name in checkpoints.names():
        path = checkpoints.path_named(name)
        try:
            meta = read_meta(path)
            read_metadata(path / MODEL_FILE)
            metas[name] = meta
        except ModelError as error:
            if path.is_dir():
                damaged[name] = str(error)
    return metas, damaged


def _file_sizes(directory: Path) -> list[int]:
    """Return the size in bytes of each file in a directory and its subdirectories; files may come and go meanwhile."""
    sizes = []
    for path in directory.rglob("*"):
        with suppress(FileNotFoundError):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                sizes.append(status.st_size)
    return sizes


def _confidence(experiment: Experiment) -> str:
    """Return one line about the calibration for `nmt translate --confidence`: its origin and its quality."""
    try:
        calibration = Calibration.read(experiment.confidence_path)
    except ModelError as error:
        return f"damaged: {error}"
    origin = calibration.origin
    return f"fitted to {origin.checkpoint} on {format_count(origin.lines, 'line')}: {calibration.summary()}"


def _parameters(shapes: dict[str, list[int]]) -> dict[str, int]:
    """Return the number of parameters of each part of the model, and of all parts."""
    parts: dict[str, int] = {}
    for name, shape in shapes.items():
        part = name.split(".")[0]
        parts[part] = parts.get(part, 0) + prod(shape)
    return parts | {"all": sum(parts.values())}


def _describe_checkpoint(meta: dict[str, Any], path: Path, rank: int | None) -> str:
    """Return the size, the scores and the rank of a checkpoint in one line; `rank` is 1 for the best by score."""
    size = sum(_file_sizes(path)) / 1e6
    scores = "".join(f", {name} {value:.2f}" for name, value in meta["metrics"].items())
    marked = "" if rank is None else "  (best)" if rank == 1 else f"  (number {rank} by score)"
    return f"{size:,.1f} MB{scores}{marked}"
