"""One stage of `nmt improve`: a command, the files that it reads, and the files that it makes."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nmt_cli.config.schema import Config

STAGES = "stages"
"""Name of the directory of all stages, in the directory of the new model."""


@dataclass(frozen=True, slots=True)
class StageWork:
    """The amount of work of a stage, by which its time and its disk space are estimated."""

    kind: Literal["clean", "train", "translate"]
    lines: float
    """Lines or pairs that are read; in training, all that the epochs go through."""
    stored_lines: float = 0.0
    """Lines or pairs that the stage writes to the disk."""
    rows: int = 1
    """In translation, the number of prefixes that the search keeps, times the number of models."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of `nmt improve`: an `nmt` command with the files that it reads and writes."""

    directory: Path
    """Directory of the stage alone; its name begins with the number of the stage."""
    purpose: str
    """Purpose of the stage, in a few words."""
    arguments: tuple[str, ...]
    """The command line after `nmt`."""
    inputs: tuple[Path, ...]
    """Text files and model directories that the command reads."""
    outputs: tuple[Path, ...]
    """Text files, or the model directory of a training, that the command writes."""
    work: StageWork
    config: Config | None = None
    """The configuration of a training, which is written to `config_path` first; None for other stages."""

    @property
    def name(self) -> str:
        """Name of the stage, which is that of its directory."""
        return self.directory.name

    @property
    def command(self) -> str:
        """The command line, quoted for a shell."""
        return shlex.join(("nmt", *self.arguments))

    @property
    def config_path(self) -> Path:
        """File for the configuration, if the stage is a training."""
        return self.directory / "train.yaml"

    @property
    def record_path(self) -> Path:
        """File of the record of the stage. It exists if the stage has finished."""
        return self.directory / "stage.json"
