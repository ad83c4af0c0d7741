"""`nmt inspect`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from nmt_cli.console import counted
from nmt_cli.errors import InputError


def inspect(
    directory: Annotated[
        Path | None,
        typer.Argument(
            help="The model directory. Without it, nmt takes $NMT_MODEL, or else the newest finished run below runs/.",
            metavar="DIR",
        ),
    ] = None,
    model: Annotated[Path | None, typer.Option("--model", "-m", help="The same as DIR.", metavar="DIR")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the contents of a model directory: architecture, training, scores, sizes.

    Example: nmt inspect runs/demo
    """
    from nmt_cli.experiment import source_of

    named = [path for path in (directory, model) if path is not None]
    if len(named) > 1:
        raise InputError("give one model directory, as DIR or with --model")
    (experiment,) = source_of(named)
    report = _report(experiment)
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


def _report(experiment: Any) -> dict[str, Any]:
    from nmt_cli.checkpoint import read_meta
    from nmt_cli.improve.record import RESULT, Provenance

    config = experiment.config
    model, training = config.model, config.training
    report: dict[str, Any] = {
        "name": config.name,
        "languages": f"{config.data.source_lang} -> {config.data.target_lang}",
        "architecture": {
            "encoder": f"{'bidirectional ' if model.encoder.bidirectional else ''}{model.encoder.rnn_type}, "
            + _layers(model.encoder)
            + (" in each direction" if model.encoder.bidirectional else ""),
            "decoder": f"{model.decoder.rnn_type}, {_layers(model.decoder)}, recurrence: {model.decoder.recurrence}",
            "attention": model.attention.type,
            "embeddings": f"{model.embedding_size} units, tied: {model.tied_embeddings}",
            "layer normalisation": "yes" if model.layer_norm else "no",
        },
    }
    if not experiment.has_tokenizers(joint=config.tokenizer.joint):
        report["tokenizer"] = "not trained yet"
    else:
        source, target = experiment.tokenizers
        sides = {"joint": source} if source is target else {"source": source, "target": target}
        report["tokenizer"] = {
            side: f"{config.tokenizer.model_type}, {tokenizer.vocab_size:,} pieces, sha256 {tokenizer.fingerprint[:12]}"
            for side, tokenizer in sides.items()
        }
    checkpoints = experiment.checkpoints
    index = checkpoints.index()
    names = checkpoints.names()
    metas = {name: read_meta(checkpoints.resolve(name)) for name in names}
    if metas:
        shapes = next(reversed(metas.values()))["shapes"]
        report["parameters"] = _parameters(shapes)
    report["training"] = {
        "optimizer": f"{training.optimizer}, learning rate {training.learning_rate:g}, {training.schedule}",
        "batch": f"{training.batch_size:,} {'target pieces' if training.batch_type == 'tokens' else 'sentences'}",
        "last step": index.last if index.last is not None else "none yet",
        "finished": index.finished or "no",
    }
    ranks = {str(ranked.step): place for place, ranked in enumerate(index.best, start=1)}
    report["checkpoints"] = {
        name: _describe(meta, checkpoints.resolve(name), ranks.get(name)) for name, meta in metas.items()
    }
    if experiment.confidence_path.is_file():
        report["confidence"] = _confidence(experiment)
    made_by = Provenance(experiment.directory / RESULT)
    if made_by.path.is_file():
        report |= made_by.sections()
    files = [path for path in experiment.directory.rglob("*") if path.is_file()]
    report["size"] = f"{sum(path.stat().st_size for path in files) / 1e6:,.1f} MB in {len(files)} files"
    return report


def _confidence(experiment: Any) -> str:
    """Return the calibration of `nmt translate --confidence` in one line."""
    from nmt_cli.commands.calibrating import described
    from nmt_cli.confidence.calibration import Calibration

    calibration = Calibration.read(experiment.confidence_path)
    origin = calibration.origin
    return f"fitted to {origin.checkpoint} on {counted(origin.lines, 'line')}: {described(calibration)}"


def _layers(part: Any) -> str:
    return f"{counted(part.num_layers, 'layer')} of {part.hidden_size:,} units"


def _parameters(shapes: dict[str, list[int]]) -> dict[str, int]:
    from math import prod

    parts: dict[str, int] = {}
    for name, shape in shapes.items():
        part = name.split(".")[0]
        parts[part] = parts.get(part, 0) + prod(shape)
    return parts | {"all": sum(parts.values())}


def _describe(meta: dict[str, Any], path: Path, rank: int | None) -> str:
    size = sum(file.stat().st_size for file in path.iterdir()) / 1e6
    scores = "".join(f", {name} {value:.2f}" for name, value in meta["metrics"].items())
    marked = "" if rank is None else "  (best)" if rank == 1 else f"  (number {rank} by score)"
    return f"{size:,.1f} MB{scores}{marked}"
