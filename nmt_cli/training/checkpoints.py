"""Writes and reads all model and trainer state, as safetensors and JSON, never pickle. A checkpoint is whole or absent.

Torch is imported only where tensors are read or written, so a server that only lists checkpoints does not load it.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nmt_cli.system.errors import InputError, ModelError, NmtError
from nmt_cli.system.files import atomic_directory, remove_directory, why_not_writable
from nmt_cli.system.storage import read_json, read_tensors, save_tensors, write_json
from nmt_cli.version import __version__

if TYPE_CHECKING:
    from torch import Tensor, nn

FORMAT_VERSION = 1
Result = TypeVar("Result")
MAX_DIGITS = 18
"""Most digits of a step's number. A longer one is taken for a name: Python refuses to read very long numbers."""
MODEL_FILE, TRAINER_FILE, PROGRESS_FILE, META_FILE = (
    "model.safetensors", "trainer.safetensors", "trainer.json", "meta.json",
)  # fmt: skip
_STEP_NAME = re.compile(r"step-(\d{8,})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


# The model's parameters -------------------------------------------------------------------------------------------


def parameters_of(model: nn.Module) -> dict[str, Tensor]:
    """Return the model's parameters by name, detached but not copied; a tied parameter has one name."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def load_parameters(model: nn.Module, path: Path, *, replacements: Mapping[str, Tensor] | None = None) -> None:
    """Replace the model's parameters with the tensors of `path`.

    Args:
        model: its parameters may be on torch's device `meta`, without memory.
        path: a safetensors file with one tensor for each parameter.
        replacements: tensors that take the place of tensors of the same name in the file.

    Raises:
        ModelError: names or shapes differ from the model's; a tensor is not float32 or not finite.
    """
    import torch
    from torch import nn

    tensors = {**read_tensors(path), **(replacements or {})}
    parameters = dict(model.named_parameters())
    for name in [*parameters, *tensors]:
        if name not in tensors:
            raise ModelError(f"{path}: lacks {name}; the file does not belong to this configuration")
        if name not in parameters:
            raise ModelError(f"{path}: holds {name}, which the configured model lacks")
    for name, parameter in parameters.items():
        tensor = tensors[name]
        if tensor.dtype != torch.float32:
            raise ModelError(f"{path}: {name} is {tensor.dtype}, must be torch.float32")
        if tensor.shape != parameter.shape:
            raise ModelError(
                f"{path}: {name} has the shape {list(tensor.shape)}, the configuration says {list(parameter.shape)}"
            )
        if not bool(tensor.isfinite().all()):
            raise ModelError(f"{path}: {name} holds values that are not finite; the model is damaged")
    loaded = {id(parameter): nn.Parameter(tensors[name]) for name, parameter in parameters.items()}
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            setattr(module, name, loaded[id(parameter)])  # shared ones stay shared; the model may lie on "meta"


# Checkpoints ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a checkpoint saves of a training after one update."""

    step: int
    model: Mapping[str, Tensor]
    """The weights that translate: the moving average, if there is one, else the raw weights."""
    trainer: Mapping[str, Tensor]
    """Raw weights, optimizer moments and the moving average; may be empty, if no training will resume from it."""
    progress: Mapping[str, Any]
    """The rest of the trainer's state, as values that JSON can hold."""
    metrics: Mapping[str, float] = field(default_factory=dict)


def metric_sign(metric: str) -> float:
    """Return -1 if a lower value of a metric is better (loss, perplexity), else 1 (BLEU, chrF)."""
    return -1.0 if metric.startswith(("loss", "perplexity")) else 1.0


@dataclass(frozen=True, slots=True)
class RankedCheckpoint:
    """A checkpoint that is kept for its score: step, name of the metric, and score."""

    step: int
    metric: str
    value: float


@dataclass(frozen=True, slots=True)
class Index:
    """The content of `index.json`: which checkpoints are the last, the best and the newest."""

    last: int | None = None
    best: tuple[RankedCheckpoint, ...] = ()
    """Checkpoints that are kept for their scores, best first."""
    recent: tuple[int, ...] = ()
    """Steps of checkpoints that are kept because they are recent, newest first."""
    finish_reason: str | None = None
    """The reason why training ended, or None while it has not."""

    @property
    def steps(self) -> list[int]:
        """Steps of all checkpoints that the index names, newest first."""
        steps = {*self.recent, *(ranked.step for ranked in self.best)}
        return sorted(steps if self.last is None else {self.last, *steps}, reverse=True)


class Checkpoints:
    """The checkpoints of a run, below its `checkpoints` directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._index_path = directory / "index.json"

    def index(self) -> Index:
        """Return the content of `index.json`, or an empty index if there is no file.

        Raises:
            ModelError: the file cannot be read or is damaged.
        """
        if not self._index_path.exists():
            return Index()
        try:
            values = read_json(self._index_path)
        except ModelError as error:
            raise ModelError(f"{error}. {self._recovery_advice()}") from error
        _check_format(values, self._index_path)
        try:
            last, finish_reason = values["last"], values.get("finished")
            best = tuple(RankedCheckpoint(int(b["step"]), str(b["metric"]), float(b["value"])) for b in values["best"])
            recent = tuple(int(step) for step in values["recent"])
            return Index(
                None if last is None else int(last), best, recent, None if finish_reason is None else str(finish_reason)
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ModelError(f"{self._index_path}: is damaged. {self._recovery_advice()}") from error

    def _recovery_advice(self) -> str:
        """Return advice for a user whose `index.json` is damaged."""
        names = self.names()
        return "Restore it from a backup" + (
            f", or translate with a checkpoint of it (--checkpoint): {', '.join(names)}" if names else ""
        )

    def write_index(self, index: Index) -> None:
        """Replace `index.json`; after that, `prune` may remove checkpoints that it does not name."""
        best = [{"step": b.step, "metric": b.metric, "value": b.value} for b in index.best]
        values = {"format": FORMAT_VERSION, "last": index.last, "best": best, "recent": list(index.recent)}
        write_json(self._index_path, {**values, "finished": index.finish_reason})

    def retry_read(self, read: Callable[[], Result]) -> Result:
        """Return `read()`, which finds checkpoints by the index and opens them.

        A running training may write a new index and remove these checkpoints in between. So if `read` raises
        `InputError` and the index has changed meanwhile, it is called again.
        """
        index = self._index_if_whole()
        while True:
            try:
                return read()
            except InputError:
                index, before = self._index_if_whole(), index
                if index == before:
                    raise

    def _index_if_whole(self) -> Index | None:
        try:
            return self.index()
        except ModelError:  # a checkpoint that is named can be read without
            return None

    def others(self, path: Path) -> str:
        """Return advice that lists all checkpoints except `path`, for `--checkpoint`; empty if there are none."""
        names = [name for name in self.names() if self.path_named(name) != path]
        return f"--checkpoint takes another: {', '.join(names)}" if names else ""

    def path_of(self, step: int) -> Path:
        """Return the directory of a step's checkpoint, which need not exist."""
        return self.directory / f"step-{step:08d}"

    def resolve(self, name: str) -> Path:
        """Return the directory of the checkpoint `name`: `best`, `last`, a step or a name given by the user.

        `best` is the last checkpoint if none has a score.

        Raises:
            InputError: there is no such checkpoint; the message lists those that exist.
        """
        index = self.index() if name in ("best", "last") else Index()
        if name == "best" and index.best:
            path = self.path_of(index.best[0].step)
        elif index.last is not None:
            path = self.path_of(index.last)
        elif name not in ("best", "last") and _NAME.fullmatch(name):
            path = self.path_named(name)
        else:
            path = self.directory / "?"
        if not (path / META_FILE).exists():
            there = ", ".join(self.names()) or "none yet"
            raise InputError(f"{self.directory}: there is no checkpoint {name!r}; there are: {there}")
        return path

    def path_named(self, name: str) -> Path:
        """Return the directory of the checkpoint `name`, a step such as `500` or a user's name; it need not exist."""
        is_step = name.isdecimal() and len(name) <= MAX_DIGITS
        return self.path_of(int(name)) if is_step else self.directory / name

    def names(self) -> list[str]:
        """Return the steps of the checkpoints on disk, as text, and then the names that users gave, for `resolve`."""
        if not self.directory.is_dir():
            return []
        found = [path.name for path in sorted(self.directory.iterdir()) if (path / META_FILE).exists()]
        steps = [str(int(match[1])) for name in found if (match := _STEP_NAME.fullmatch(name))]
        return [*steps, *(name for name in found if not _STEP_NAME.fullmatch(name) and _NAME.fullmatch(name))]

    def save(self, snapshot: Snapshot, tokenizers: Mapping[str, str]) -> Path:
        """Write the checkpoint of a step and return its directory. It is used only once the index names it."""
        return self._write(self.path_of(snapshot.step), snapshot, tokenizers)

    def save_named(self, name: str, snapshot: Snapshot, tokenizers: Mapping[str, str]) -> Path:
        """Write a checkpoint under a name instead of a step, and return its directory.

        Raises:
            InputError: the name is not allowed or taken, or the directory cannot be written to (`check_name`).
        """
        self.check_name(name)
        return self._write(self.directory / name, snapshot, tokenizers)

    def check_name(self, name: str) -> None:
        """Raise `InputError` if the name is not allowed or taken, or if the directory cannot be written to."""
        is_taken = name in ("best", "last", "index.json") or name.isdecimal() or _STEP_NAME.fullmatch(name)
        if is_taken or not _NAME.fullmatch(name):
            raise InputError(
                f"{name!r} cannot name a checkpoint; take letters, digits, '.', '_' and '-', not only digits, and not "
                "the number of an update"
            )
        path = self.directory / name
        if path.exists():
            raise InputError(f"{path}: exists already; choose another name")
        if reason := why_not_writable(self.directory):
            raise InputError(f"{path}: cannot be written: {reason}")

    def _write(self, path: Path, snapshot: Snapshot, tokenizers: Mapping[str, str]) -> Path:
        if not self.directory.is_dir():  # made anew, it would lack the tokenizer, without which weights mean nothing
            raise NmtError(
                f"{self.directory.parent}: was moved or removed meanwhile, so nothing more can be saved there. "
                "To resume a run that was moved, add --set model_dir=DIR"
            )
        # One of this step may be there: written by a run that was killed before the index knew of it.
        with atomic_directory(path) as directory:
            self._write_files(directory, snapshot, tokenizers)
        return path

    def _write_files(self, directory: Path, snapshot: Snapshot, tokenizers: Mapping[str, str]) -> None:
        save_tensors(snapshot.model, directory / MODEL_FILE)
        if snapshot.trainer:
            save_tensors(snapshot.trainer, directory / TRAINER_FILE)
        meta = {
            "format": FORMAT_VERSION,
            "nmt": __version__,
            "step": snapshot.step,
            "tokenizers": dict(tokenizers),
            "metrics": dict(snapshot.metrics),
            "shapes": {name: list(tensor.shape) for name, tensor in snapshot.model.items()},
        }
        for name, value in ((PROGRESS_FILE, dict(snapshot.progress)), (META_FILE, meta)):
            (directory / name).write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")

    def add_validation(self, step: int, progress: Mapping[str, Any], metrics: Mapping[str, float]) -> None:
        """Add the scores on the dev set, `metrics`, to the checkpoint of a step that a signal had saved without them.

        `progress`, the state after the validation, is written first: a resumed run reads it. `metrics` are for people.
        """
        path = self.path_of(step)
        write_json(path / PROGRESS_FILE, dict(progress))
        write_json(path / META_FILE, read_meta(path) | {"metrics": dict(metrics)})

    def prune(self, index: Index) -> None:
        """Remove the checkpoints of steps that `index` does not name, and the unfinished ones of killed runs.

        Checkpoints with a name given by the user stay.
        """
        wanted = index.steps
        paths = list(self.directory.iterdir())
        for path in paths:
            if re.fullmatch(r"\.step-\d{8,}(\.old)?\.tmp", path.name):
                shutil.rmtree(path)
        for path in paths:
            match = _STEP_NAME.fullmatch(path.name)
            if match and int(match[1]) not in wanted and (path / META_FILE).exists():
                remove_directory(path)  # by way of such a name


def read_meta(path: Path, tokenizers: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the content of a checkpoint's `meta.json`, with `metrics` and `shapes`.

    `tokenizers` are the fingerprints of the tokenizers in the model's directory; if they are given, they are compared.

    Raises:
        ModelError: the file cannot be read or is damaged, or the model was trained with other tokenizers.
    """
    meta_path = path / META_FILE
    meta = {"metrics": {}, "shapes": {}} | read_json(meta_path)
    _check_format(meta, meta_path)
    if not (_is_dict_of(meta["metrics"], (int, float)) and _is_dict_of(meta["shapes"], list)):
        raise ModelError(f"{meta_path}: is damaged: metrics must be numbers, and shapes lists of them")
    if not all(type(size) is int for shape in meta["shapes"].values() for size in shape):
        raise ModelError(f"{meta_path}: is damaged: a shape is a list of whole numbers")
    if tokenizers is None:
        return meta
    if meta.get("tokenizers") != dict(tokenizers):
        raise ModelError(f"{meta_path}: the model was trained with another tokenizer than the one in this directory")
    return meta


def _is_dict_of(values: Any, kinds: type | tuple[type, ...]) -> bool:
    return isinstance(values, dict) and all(isinstance(value, kinds) for value in values.values())


def read_progress(path: Path) -> dict[str, Any]:
    """Return the content of a checkpoint's `trainer.json`: the trainer's state except its tensors."""
    return read_json(path / PROGRESS_FILE)


def read_trainer_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a checkpoint's `trainer.safetensors` by name, as copies that may be written to."""
    return {name: tensor.clone() for name, tensor in read_tensors(path / TRAINER_FILE).items()}


def average_parameters(paths: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of the weights of several checkpoints, by parameter name, summed in float64.

    Raises:
        ModelError: a checkpoint cannot be read, or their parameters differ.
    """
    total: dict[str, Tensor] = {}
    for path in paths:
        tensors = read_tensors(path / MODEL_FILE)
        if total and {n: t.shape for n, t in tensors.items()} != {n: t.shape for n, t in total.items()}:
            raise ModelError(f"{path}: its parameters differ from the parameters of {paths[0]}")
        for name, tensor in tensors.items():
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {name: (tensor / len(paths)).float() for name, tensor in total.items()}


def _check_format(values: Mapping[str, Any], path: Path) -> None:
    found = values.get("format")
    if found == FORMAT_VERSION:
        return
    if not isinstance(found, int):
        raise ModelError(f"{path}: has format version {found!r}, which no nmt writes; restore it from a backup")
    advice = "update nmt" if found > FORMAT_VERSION else "use the nmt that wrote it"
    raise ModelError(f"{path}: has format version {found}, this program reads {FORMAT_VERSION}; {advice}")
