"""The model directory: every path and file name of a run, and the way to open what lies there."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from nmt_cli.errors import ConfigError, InputError, ModelError, NmtError, is_refusal
from nmt_cli.files import atomic_path, locked, remove_made, remove_unfinished, sha256_of

if TYPE_CHECKING:
    from nmt_cli.checkpoint import Checkpoints, Index
    from nmt_cli.config.schema import Config
    from nmt_cli.data.tokenizer import Tokenizer
    from nmt_cli.model.seq2seq import Seq2Seq

Result = TypeVar("Result")
REPORT = "report.json"
"""Name of the report of `nmt evaluate` in its output directory."""
OWN_FILES = ("config.yaml", "metrics.jsonl", "languages.json", "writing.json", "confidence.json", "measured.json")
"""Names of the files that a training makes beside its directories."""
SHARED_SECONDS = 5
"""Longest time that a file may take from one host to another."""


class LoadedModel(NamedTuple):
    """A model and the checkpoint that its weights are from."""

    model: Seq2Seq
    path: Path

    def in_memory(self) -> LoadedModel:
        """Copy the weights: as they are read, they lie in the mapped file, and a program that still needs them dies
        when somebody writes over it."""
        for tensor in (*self.model.parameters(), *self.model.buffers()):
            tensor.data = tensor.data.clone()
        return self


@dataclass(frozen=True)
class Experiment:
    """One run's directory."""

    directory: Path

    @property
    def name(self) -> str:
        """Name of the directory, also where it was given as `.`."""
        return Path(os.path.abspath(self.directory)).name

    @property
    def config_path(self) -> Path:
        return self.directory / "config.yaml"

    @property
    def metrics_path(self) -> Path:
        return self.directory / "metrics.jsonl"

    @property
    def log_path(self) -> Path:
        return self.directory / "logs" / "train.log"

    @property
    def tensorboard_path(self) -> Path:
        return self.directory / "logs" / "tensorboard"

    @property
    def cache_path(self) -> Path:
        """Directory of the tokenised corpora."""
        return self.directory / "cache"

    @property
    def reports_path(self) -> Path:
        """Directory with what `nmt evaluate` writes."""
        return self.directory / "reports"

    @property
    def languages_path(self) -> Path:
        """File with the profiles of the two languages, by which a server tells them apart."""
        return self.directory / "languages.json"

    @property
    def writing_path(self) -> Path:
        """File with the profile of the writing of the source text, to which lines are adapted."""
        return self.directory / "writing.json"

    @property
    def word_pairs_paths(self) -> tuple[Path, Path]:
        """Files of the words that were learned from the training text, and of their translations."""
        directory = self.cache_path / "word_pairs"
        return directory / "source.txt", directory / "target.txt"

    @property
    def confidence_path(self) -> Path:
        """File by which the probability follows that a word of a translation is correct."""
        return self.directory / "confidence.json"

    @property
    def measured_path(self) -> Path:
        """File with the precision and the number of threads that the run has chosen by measuring."""
        return self.directory / "measured.json"

    @property
    def lock_path(self) -> Path:
        return self.directory / ".lock"

    @property
    def checkpoints(self) -> Checkpoints:
        from nmt_cli.checkpoint import Checkpoints

        return Checkpoints(self.directory / "checkpoints")

    @property
    def has_begun(self) -> bool:
        """True once the run has a checkpoint, from which training goes on."""
        return self.checkpoints.index().last is not None

    @cached_property
    def config(self) -> Config:
        """The effective configuration that the run wrote here."""
        from nmt_cli.config.loader import load_config

        check_model_directory(self.directory)
        if not self.config_path.is_file():
            raise InputError(f"{self.directory}: is not a model directory (it has no config.yaml)")
        try:
            return load_config(self.config_path)
        except ConfigError as error:
            raise ModelError(str(error)) from error

    def forget_config(self) -> None:
        """Read the configuration again when it is asked for next: the run has written another one."""
        self.__dict__.pop("config", None)

    def tokenizer_path(self, side: str) -> Path:
        """Return the path of one tokenizer; `side` is joint, source or target."""
        return self.directory / "tokenizer" / f"{side}.model"

    def tokenizer_paths(self) -> list[Path]:
        """Return the paths of the tokenizers that are there."""
        return [path for side in ("joint", "source", "target") if (path := self.tokenizer_path(side)).exists()]

    def has_tokenizers(self, *, joint: bool) -> bool:
        """Return whether the run's tokenizers are trained."""
        sides = ("joint",) if joint else ("source", "target")
        return all(self.tokenizer_path(side).is_file() for side in sides)

    @cached_property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Tokenizers of the source and of the target; a joint tokenizer is returned twice."""
        from nmt_cli.data.tokenizer import Tokenizer

        if self.tokenizer_path("joint").is_file():
            joint = Tokenizer.load(self.tokenizer_path("joint"))
            return joint, joint
        if not self.has_tokenizers(joint=False):
            raise InputError(f"{self.directory}: has no tokenizer yet; `nmt tokenizer --config FILE` trains it")
        return Tokenizer.load(self.tokenizer_path("source")), Tokenizer.load(self.tokenizer_path("target"))

    @property
    def fingerprints(self) -> dict[str, str]:
        """SHA-256 of the tokenizers, as checkpoints record it."""
        return {
            side: tokenizer.fingerprint for side, tokenizer in zip(("source", "target"), self.tokenizers, strict=True)
        }

    def load_model(self, checkpoint: str = "best") -> LoadedModel:
        """Load the weights of a checkpoint, on the CPU; all are of one checkpoint, though a training goes on.

        Raises:
            InputError: there is no such checkpoint.
            ModelError: the directory is damaged, or its parts do not belong together.
        """
        return self.read_checkpoints(lambda: self._loaded(self.checkpoints.resolve(checkpoint)))

    def read_checkpoints(self, read: Callable[[], Result]) -> Result:
        """Return what `read` returns, which finds checkpoints by the index and opens them.

        A training may remove them in between, after it has written another index. Then `read` is called again.
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
            return self.checkpoints.index()
        except ModelError:  # a checkpoint that is named can be read without
            return None

    def _loaded(self, path: Path) -> LoadedModel:
        """Load the weights of a checkpoint; where they cannot be, say which others there are."""
        try:
            return LoadedModel(self._load(path), path)
        except InputError as error:
            if others := self.checkpoints_beside(path):
                raise ModelError(f"{error}; {others}") from error
            raise

    def checkpoints_beside(self, path: Path) -> str:
        """Say which other checkpoints there are; nothing where there are none."""
        others = [name for name in self.checkpoints.names() if self.checkpoints.path_named(name) != path]
        return f"--checkpoint takes another: {', '.join(others)}" if others else ""

    def _load(self, path: Path) -> Seq2Seq:
        import torch

        from nmt_cli.checkpoint import MODEL_FILE, load_parameters, read_meta
        from nmt_cli.model.build import build_model

        read_meta(path, self.fingerprints)
        source, target = self.tokenizers
        with torch.device("meta"):  # sizes come from a file: no memory is taken before the weights are seen to fit
            model = build_model(
                self.config.model, source_vocab_size=source.vocab_size, target_vocab_size=target.vocab_size
            )
        load_parameters(model, path / MODEL_FILE)
        return model.requires_grad_(False)

    def fingerprint(self, checkpoint: str = "best") -> str:
        """Return the SHA-256 of all that decides what the model says: sizes and kinds, tokenizers, the checkpoint's
        weights."""
        from nmt_cli.checkpoint import MODEL_FILE

        path = self.checkpoints.resolve(checkpoint)
        if not (path / MODEL_FILE).is_file():
            others = self.checkpoints_beside(path)
            raise ModelError(f"{path / MODEL_FILE}: there is no such file{'; ' if others else ''}{others}")
        weights = sha256_of(path / MODEL_FILE)
        parts = [self.config.model.model_dump(mode="json"), self.fingerprints, weights]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the directory against a second training; a process that dies leaves no lock behind."""
        from nmt_cli.checkpoint import META_FILE, PROGRESS_FILE

        with locked(self.lock_path, "a model directory", "wait for it or choose another model_dir"):
            # Beside these `nmt translate -o` may be writing a file of the user's.
            remove_unfinished(self.directory, *OWN_FILES)
            checkpoints = self.checkpoints.directory
            for directory in (self.tokenizer_path("joint").parent, self.cache_path, checkpoints):
                remove_unfinished(directory)
            for checkpoint in checkpoints.glob("step-*"):
                remove_unfinished(checkpoint, PROGRESS_FILE, META_FILE)
            yield

    @contextmanager
    def as_before_if_refused(self) -> Iterator[None]:
        """Remove what the block makes in the directory, which is held, if it refuses what the user gave, and put the
        configuration back."""
        before = {*self._own_paths()}
        config = self.config_path.read_bytes() if self.config_path.is_file() else None
        try:
            yield
        except NmtError as error:
            if is_refusal(error):
                remove_made([path for path in self._own_paths() if path not in before])
                if config is not None and self.config_path.read_bytes() != config:
                    with atomic_path(self.config_path) as temporary:
                        temporary.write_bytes(config)
            raise

    def _own_paths(self) -> list[Path]:
        """Return the paths of all that a training makes and that is there; directories before what lies in them."""
        tokenizers, logs = self.tokenizer_path("joint").parent, self.log_path.parent
        own = [*(self.directory / name for name in OWN_FILES), tokenizers, *self.tokenizer_paths(), logs, self.log_path]
        for directory in (self.tensorboard_path, self.cache_path, self.checkpoints.directory):
            own += [directory, *sorted(directory.rglob("*"))]
        return [path for path in own if os.path.lexists(path)]

    def holder(self, *, expected: str | None = None) -> str:
        """Return who holds the directory, or held it last.

        A shared file system shows a little later what another host wrote. So the file is read again for some seconds
        until it says what was `expected`.
        """
        for attempt in range(SHARED_SECONDS * 5):
            if attempt:
                time.sleep(0.2)
            found = self.lock_path.read_text(encoding="utf-8") if self.lock_path.is_file() else ""
            if expected in (None, found):
                break
        return found


def check_model_directory(directory: Path) -> None:
    """Raise `InputError` where there is no directory of this name."""
    if directory.is_file():
        raise InputError(f"{directory}: is a file, not a model directory")
    if not directory.is_dir():
        raise InputError(f"{directory}: there is no such model directory")


def read_report(path: Path) -> dict[str, dict[str, Any]]:
    """Return the entry of each test set in a report of `nmt evaluate`. Without a file there are none.

    Raises:
        InputError: the file is no such report, is damaged or cannot be read.
    """
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        sets = report.pop("sets")
        # Older reports say only once, for all sets, by which models they were made.
        return {name: {**report, **entry} for name, entry in sets.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{path}: is not a report of `nmt evaluate`, or is damaged. Move it away or choose another -o"
        ) from error


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


def source_of(model_dirs: list[Path]) -> list[Experiment]:
    """Return the experiments named on the command line, else `$NMT_MODEL`, else the newest finished run below
    `runs/`."""
    from nmt_cli.console import log

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
