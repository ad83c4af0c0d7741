"""The model directory: every path of a run, and its configuration, tokenizers and digests, which are read once."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from nmt_cli.system.errors import ConfigError, InputError, ModelError
from nmt_cli.system.files import sha256_of
from nmt_cli.training.checkpoints import MODEL_FILE, Checkpoints

if TYPE_CHECKING:
    from nmt_cli.config.schema import Config
    from nmt_cli.data.tokenizer import Tokenizer
    from nmt_cli.text.direction import Direction

DIRECTIONS = "directions"
"""Subdirectory with the files of each direction, in a model of several directions."""


@dataclass(frozen=True)
class Experiment:
    """One run's directory, as a whole or as the model of one of its directions."""

    directory: Path
    direction: Direction | None = None
    """One of several directions: the configuration, the tokenizers and the profiles are then those of a model that
    translates in this direction alone. None means the whole run."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that a training writes into the directory itself, apart from its lock."""
        profiles = (self.languages_path, self.profile_path, self.confidence_path, self.measured_path)
        return (self.config_path, self.metrics_path, *profiles)

    @property
    def directories(self) -> tuple[Path, ...]:
        """The subdirectories that a training makes."""
        own = (self.tokenizer_path("joint").parent, self.cache_path, self.log_path.parent, self.checkpoints.directory)
        return (*own, self.directory / DIRECTIONS)

    @property
    def name(self) -> str:
        """Name of the directory, also where it was given as `.`."""
        return Path(os.path.abspath(self.directory)).name

    @property
    def _own_directory(self) -> Path:
        """Directory of the files of this direction alone; the model directory itself if `direction` is None."""
        return self.directory if self.direction is None else self.directory / DIRECTIONS / str(self.direction)

    def for_direction(self, direction: Direction) -> Experiment:
        """Return this run as the model of one of its directions; a run of one direction stays as it is.

        The direction need not be one in which the run was trained, if its model knows both languages.
        """
        if len(self.whole_config.data.directions) == 1 and direction == self.whole_config.data.directions[0]:
            return self
        return replace(self, direction=direction)

    def of_each_direction(self, config: Config | None = None) -> list[Experiment]:
        """Return this run as the model of each direction, as `config` or else the stored configuration lists them."""
        directions = (config or self.whole_config).data.directions
        return [self] if len(directions) == 1 else [replace(self, direction=direction) for direction in directions]

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
        """Directory in which the tokenised training corpora are cached."""
        return self.directory / "cache"

    @property
    def reports_path(self) -> Path:
        """Directory of the translations and the report that `nmt evaluate` writes."""
        return self.directory / "reports"

    @property
    def languages_path(self) -> Path:
        """JSON file of the letter trigrams of the model's languages, by which a server detects a text's language."""
        return self.directory / "languages.json"

    @property
    def profile_path(self) -> Path:
        """JSON file of the characters, word forms and number formats of the source text, to normalize input by."""
        return self._own_directory / "writing.json"

    @property
    def word_pairs_paths(self) -> tuple[Path, Path]:
        """Files of the word pairs that were learned from the training text: the source words and the target words."""
        directory = self.cache_path / "word_pairs" / ("" if self.direction is None else str(self.direction))
        return directory / "source.txt", directory / "target.txt"

    @property
    def confidence_path(self) -> Path:
        """File with the calibration, which gives the probability that a word of a translation is correct."""
        return self._own_directory / "confidence.json"

    @property
    def measured_path(self) -> Path:
        """File with the precision and the number of threads that the run has chosen by measuring."""
        return self.directory / "measured.json"

    @property
    def improvement_path(self) -> Path:
        """File with the texts and stages by which `nmt improve` made the model, if it did; `nmt inspect` prints it."""
        return self.directory / "improve.json"

    @property
    def lock_path(self) -> Path:
        return self.directory / ".lock"

    @property
    def checkpoints(self) -> Checkpoints:
        return Checkpoints(self.directory / "checkpoints")

    @property
    def has_begun(self) -> bool:
        """True if the run has a checkpoint, from which training resumes."""
        return self.checkpoints.index().last is not None

    @property
    def config(self) -> Config:
        """The effective configuration that the run wrote here, or its part for one direction."""
        return self.whole_config if self.direction is None else self.whole_config.for_direction(self.direction)

    @cached_property
    def whole_config(self) -> Config:
        """The effective configuration that the run wrote here.

        Raises:
            InputError: the directory is missing or has no configuration.
            ModelError: the configuration is wrong.
        """
        from nmt_cli.config.loader import load_config

        check_model_directory(self.directory)
        if not self.config_path.is_file():
            raise InputError(f"{self.directory}: is not a model directory (it has no config.yaml)")
        try:
            return load_config(self.config_path, is_stored=True)
        except ConfigError as error:
            raise ModelError(str(error)) from error

    def clear_config_cache(self) -> None:
        """Drop the configuration from the cache after the run has written another one; the next use reads it again."""
        self.__dict__.pop("whole_config", None)

    def tokenizer_path(self, side: str) -> Path:
        """Return the path of one tokenizer; `side` is joint, source or target."""
        return self.directory / "tokenizer" / f"{side}.model"

    def tokenizer_paths(self) -> list[Path]:
        """Return the paths of the tokenizer files that exist."""
        return [path for side in ("joint", "source", "target") if (path := self.tokenizer_path(side)).exists()]

    def has_tokenizers(self, *, joint: bool) -> bool:
        """Return whether the run's tokenizers exist: one for both sides if `joint`, else one for each side."""
        sides = ("joint",) if joint else ("source", "target")
        return all(self.tokenizer_path(side).is_file() for side in sides)

    @cached_property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Tokenizers of the source and of the target; a joint tokenizer is returned twice. In a model of one direction
        the source tokenizer puts the tags of the direction, if its vocabulary has them, before each sentence.

        Raises:
            InputError: no tokenizer is trained yet.
        """
        from nmt_cli.data.tokenizer import Tokenizer

        if self.tokenizer_path("joint").is_file():
            source = target = Tokenizer.load(self.tokenizer_path("joint"))
        elif self.has_tokenizers(joint=False):
            source, target = (Tokenizer.load(self.tokenizer_path(side)) for side in ("source", "target"))
        else:
            raise InputError(f"{self.directory}: has no tokenizer yet; `nmt tokenizer --config FILE` trains it")
        if not source.has_tags:
            return source, target
        directions = self.whole_config.data.directions if self.direction is None else (self.direction,)
        return source.with_tags(directions[0].tags) if len(directions) == 1 else source, target

    @property
    def fingerprints(self) -> dict[str, str]:
        """SHA-256 of the tokenizers by side, source and target, as checkpoints record it."""
        return {
            side: tokenizer.fingerprint for side, tokenizer in zip(("source", "target"), self.tokenizers, strict=True)
        }

    def fingerprint(self, checkpoint: str = "best") -> str:
        """Return the SHA-256 of everything that decides the model's output: the section `model` of the configuration,
        the tokenizers and the checkpoint's weights.

        Raises:
            InputError: there is no such checkpoint.
            ModelError: the checkpoint has no weights.
        """
        path = self.checkpoints.resolve(checkpoint)
        if not (path / MODEL_FILE).is_file():
            others = self.checkpoints.others(path)
            raise ModelError(f"{path / MODEL_FILE}: there is no such file{'; ' if others else ''}{others}")
        weights = sha256_of(path / MODEL_FILE)
        parts = [self.config.model.model_dump(mode="json"), self.fingerprints, weights]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def check_model_directory(directory: Path) -> None:
    """Raise `InputError` if the path is not that of a directory."""
    if directory.is_file():
        raise InputError(f"{directory}: is a file, not a model directory")
    if not directory.is_dir():
        raise InputError(f"{directory}: there is no such model directory")
