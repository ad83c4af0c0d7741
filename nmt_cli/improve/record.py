"""Records of the plan, of each stage and of the result, as JSON files. A stage has finished when its record exists."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, cast

from nmt_cli.config.loader import differing_json_keys, validate
from nmt_cli.config.schema import Config
from nmt_cli.data.lines import iter_lines
from nmt_cli.experiment import Experiment
from nmt_cli.improve.plan import Recipe
from nmt_cli.improve.stages import STAGES, Stage
from nmt_cli.system.errors import ConfigError, InputError
from nmt_cli.system.files import make_directory, remove_unfinished, sha256_of
from nmt_cli.system.storage import write_json
from nmt_cli.training.checkpoints import MODEL_FILE

FORMAT_VERSION = 1
LOCK = ".improve.lock"
PLAN = "plan.json"
OPTIONS = {
    "rounds": "--rounds", "ensemble": "--ensemble", "distil": "--distil", "ratio": "--ratio",
    "beam_size": "--beam-size", "sample": "--sample", "int8": "training.device", "resizes": "--keep-sizes",
    "reverse": "--reverse",
}  # fmt: skip
Hashes = dict[str, str]


class StageRecords:
    """Reads and writes the records in the directory of one `nmt improve`, and hashes each recorded file only once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._hashes: dict[tuple[str, int, int, int], str] = {}

    @property
    def plan_path(self) -> Path:
        """JSON file of the configuration, the options and the hashes of the input files with which the work began."""
        return self.directory / STAGES / PLAN

    @property
    def result_path(self) -> Path:
        """JSON file of the options, texts and stages behind the new model, written when all stages have finished."""
        return Experiment(self.directory).improvement_path

    @property
    def is_finished(self) -> bool:
        """True if the resulting model and its record are complete."""
        return self.result_path.is_file() and (self.directory / "config.yaml").is_file()

    def check_result_directory(self, config: Config) -> None:
        """Refuse a directory that something else than `nmt improve` has made.

        Raises:
            InputError: the directory is a file, the model_dir of the configuration, or has other contents.
        """
        directory = self.directory
        if directory == Path(os.path.realpath(config.model_dir)):
            raise InputError(f"{directory}: is the model_dir of the configuration; choose another -o")
        if self.plan_path.is_file() or self.is_finished or not directory.exists():
            return
        if not directory.is_dir():
            raise InputError(f"{directory}: is a file; choose another -o")
        if any(path.name not in (LOCK, STAGES) for path in directory.iterdir()) or any(directory.glob(f"{STAGES}/*/*")):
            raise InputError(f"{directory}: is not empty, and `nmt improve` did not make it; choose another -o")

    def remove_leftovers(self, stages: Sequence[Stage]) -> None:
        """Remove files that killed attempts left half written; the caller must hold the lock."""
        remove_unfinished(self.directory, self.result_path.name, "config.yaml", "metrics.jsonl")
        for name in (STAGES, "tokenizer", "checkpoints", "logs"):
            remove_unfinished(self.directory / name)
        for stage in stages:
            remove_unfinished(stage.directory)

    def check_plan(self, config: Config, recipe: Recipe) -> None:
        """Refuse other options, another configuration, or other texts than those of the recorded plan, if there is one.

        Raises:
            InputError: something differs, the record cannot be read, or an unfinished directory was moved.
        """
        if not self.plan_path.is_file() and not self.is_finished:
            return
        plan = _read(self.plan_path if self.plan_path.is_file() else self.result_path)
        begun = plan.get("directory", str(self.directory))
        if begun != str(self.directory) and not self.is_finished:
            raise InputError(
                f"{self.directory}: was begun at {begun} and moved since. Move it back, or choose another -o"
            )
        then, now = plan["recipe"], asdict(recipe)
        if changed := [OPTIONS[key] for key in now if then.get(key) != now[key]]:
            raise InputError(
                f"{self.directory}: was begun with other options; these differ: {', '.join(changed)}. Repeat the "
                "options of the first time, or choose another -o"
            )
        values = config.model_dump(mode="json")
        recorded = _upgrade_config(plan.get("config", values))  # results of earlier versions do not have it
        if keys := [key for key in differing_json_keys(recorded, values) if key != "model_dir"]:
            raise InputError(
                f"{self.directory}: was begun with another configuration; these keys differ: {', '.join(keys)}. Set "
                "them back, or choose another -o"
            )
        self._check_unchanged(plan["inputs"], "since `nmt improve` began", may_be_gone=self.is_finished)

    def write_plan(self, config: Config, recipe: Recipe, stages: Sequence[Stage]) -> None:
        """Record the configuration, the options and the hashes of the files on which the stages depend."""
        make_directory(self.plan_path.parent)
        made = {path for stage in stages for path in stage.outputs}
        given = dict.fromkeys(path for stage in stages for path in stage.inputs if path not in made)
        dev = [Path(path) for text in config.data.dev_sets for path in (text.source, text.target)]
        inputs = self.hashes([*given, *dev])
        values = {"config": config.model_dump(mode="json"), "recipe": asdict(recipe), "inputs": inputs}
        write_json(self.plan_path, {"format": FORMAT_VERSION, "directory": str(self.directory), **values})

    def is_done(self, stage: Stage) -> bool:
        """Return whether a stage has finished.

        Raises:
            InputError: a file that it read or made has changed since, or its record is of another command.
        """
        if not stage.record_path.is_file():
            return False
        record = _read(stage.record_path)
        if record["command"] != stage.command:
            raise InputError(
                f"{stage.record_path}: belongs to another command ({record['command']}); choose another -o"
            )
        self._check_unchanged({**record["inputs"], **record["outputs"]}, f"since stage {stage.name} finished")
        return True

    def write_record(self, stage: Stage, seconds: float) -> None:
        """Write the record of a finished stage: command, hashes and line counts of its files, and seconds taken."""
        inputs, outputs = self.hashes(stage.inputs), self.hashes(stage.outputs)
        texts = [path for path in (*stage.inputs, *stage.outputs) if path.is_file()]
        values = {
            "purpose": stage.purpose,
            "command": stage.command,
            "inputs": inputs,
            "outputs": outputs,
            "lines": {str(path): count_lines(path) for path in texts},
            "seconds": round(seconds, 1),
        }
        write_json(stage.record_path, {"format": FORMAT_VERSION, **values})

    def seconds(self, stage: Stage) -> float:
        """Return the seconds that the last attempt at a finished stage took."""
        return float(_read(stage.record_path)["seconds"])

    def output_line_counts(self, stage: Stage) -> dict[Path, int]:
        """Return the number of lines of each text that a finished stage made."""
        lines = _read(stage.record_path)["lines"]
        return {path: lines[str(path)] for path in stage.outputs if str(path) in lines}

    def write_result(self, recipe: Recipe, stages: Sequence[Stage], chosen: Path, models: Sequence[Path]) -> None:
        """Record the options, texts, stages and models behind the result. Paths below the directory are relative to it.

        `chosen` is the directory of the model that became the result, and `models` are those it was chosen from.
        """
        plan = _read(self.plan_path)
        told = []
        for stage in stages:
            record = _read(stage.record_path)
            told.append(
                {
                    "name": stage.name,
                    "purpose": stage.purpose,
                    "command": stage.command.replace(f"{self.directory}/", ""),
                    **{key: self._relative_paths(record[key]) for key in ("inputs", "outputs", "lines")},
                }
            )
        values = {
            "config": plan["config"],
            "recipe": asdict(recipe),
            "inputs": plan["inputs"],
            "stages": told,
            "model": str(chosen.relative_to(self.directory)),
            "models": [str(path.relative_to(self.directory)) for path in models],
        }
        write_json(self.result_path, {"format": FORMAT_VERSION, **values})

    def _relative_paths(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {path.removeprefix(f"{self.directory}/"): value for path, value in values.items()}

    def hashes(self, paths: Sequence[Path]) -> Hashes:
        """Return the SHA-256 of files by path; for a model directory, of its tokenizers, index and best weights."""
        return {str(file): self._hash(file) for path in paths for file in _files(path)}

    def _hash(self, path: Path) -> str:
        try:
            status = path.stat()
        except OSError:
            return sha256_of(path)  # which says what is wrong
        key = (str(path), status.st_ino, status.st_size, status.st_mtime_ns)
        if key not in self._hashes:
            self._hashes[key] = sha256_of(path)
        return self._hashes[key]

    def _check_unchanged(self, recorded: Hashes, since: str, *, may_be_gone: bool = False) -> None:
        changed = []
        for path, value in recorded.items():
            if not Path(path).exists():
                if not may_be_gone:
                    changed.append(f"{path}: is gone {since}")
            elif self._hash(Path(path)) != value:
                changed.append(f"{path}: has changed {since}")
        if changed:
            raise InputError("\n".join([*changed, "Put the files back as they were, or choose another -o"]))


@dataclass(frozen=True)
class Provenance:
    """Reads the record of a result of `nmt improve`, for reports about the model."""

    path: Path

    @cached_property
    def _values(self) -> dict[str, Any]:
        try:
            return _read(self.path)
        except InputError as error:
            raise self._damaged_error() from error

    def _damaged_error(self) -> InputError:
        return InputError(
            f"{self.path}: is damaged. It only records what the model was made from: restore it from a backup, or "
            "delete it, and the model works"
        )

    @property
    def reverse(self) -> str | None:
        """The directory of the model that `--reverse` named; None if there was none."""
        found = self._values.get("recipe", {}).get("reverse")
        return None if found is None else str(found)

    def texts(self) -> list[tuple[str, str, int | None]]:
        """Return the user's texts that the model learned from: path, SHA-256, and number of lines, None if not counted.

        Raises:
            InputError: the record is damaged.
        """
        try:
            lines = {name: count for stage in self._values["stages"] for name, count in stage["lines"].items()}
            given = (self._values.get("config") or {}).get("data", {}).get("dev") or []
            dev = {name for one in (given if isinstance(given, list) else [given]) for name in one.values()}
            origin = (self._values.get("config") or {}).get("training", {}).get("init_from")
            models = tuple(f"{directory}/" for directory in (self.reverse, origin) if directory is not None)
            found = [(name, digest) for name, digest in self._values["inputs"].items() if not name.startswith(models)]
            return [(name, digest, lines.get(name)) for name, digest in found if name not in dev]
        except (KeyError, TypeError, AttributeError) as error:
            raise self._damaged_error() from error

    def sections(self) -> dict[str, Any]:
        """Return sections for the report of `nmt inspect`: options, texts with hashes and lines, stages with commands.

        Raises:
            InputError: the record is damaged.
        """
        texts = {
            name: f"sha256 {digest[:12]}" + ("" if lines is None else f", {lines:,} lines")
            for name, digest, lines in self.texts()
        }
        try:
            values = self._values
            stages = {}
            for stage in values["stages"]:
                kept = [f"{Path(name).name} {count:,} lines" for name, count in stage["lines"].items()
                        if name in stage["outputs"]]  # fmt: skip
                stages[stage["name"]] = f"{stage['purpose']}{': ' if kept else ''}{', '.join(kept)}"
                stages[f"  {stage['name'][:2]} command"] = stage["command"]
            recipe = {
                key.replace("_", " "): _as_text(value)
                for key, value in values["recipe"].items()
                if value is not None or key == "sample"
            }
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise self._damaged_error() from error
        return {"improved with": recipe, "improved from": texts, "stages": {**stages, "model of": values["model"]}}


def _as_text(value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "by the number of pairs" if value is None else value


def count_lines(path: Path) -> int:
    """Return the number of lines of a text file, which may be a .gz file; the lines themselves are not checked."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        return sum(1 for _ in iter_lines(cast(IO[bytes], stream)))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    experiment = Experiment(path)
    # Translation follows the configuration and the profiles of the training text too.
    read = (experiment.config_path, *(one.profile_path for one in experiment.of_each_direction()))
    return [
        *sorted((path / "tokenizer").glob("*.model")),
        *(file for file in read if file.is_file()),
        path / "checkpoints" / "index.json",
        experiment.checkpoints.resolve("best") / MODEL_FILE,
    ]


def _read(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}. Choose another -o") from error
    if not isinstance(values, dict) or values.get("format") != FORMAT_VERSION:
        raise InputError(f"{path}: is not a record of this version of `nmt improve`; choose another -o")
    return values


def _upgrade_config(recorded: Any) -> Any:
    """Return a recorded configuration with the keys of this version of the program; unchanged if it is not valid."""
    try:
        return validate(recorded, "plan").model_dump(mode="json")
    except (ConfigError, TypeError, AttributeError):
        return recorded
