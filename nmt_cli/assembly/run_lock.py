"""The lock that a training holds on its model directory, and the restoring of the directory if it is refused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nmt_cli.experiment import DIRECTIONS, Experiment
from nmt_cli.system.errors import NmtError, is_refusal
from nmt_cli.system.files import atomic_path, locked, remove_paths, remove_unfinished
from nmt_cli.training.checkpoints import META_FILE, PROGRESS_FILE


@contextmanager
def locked_run(experiment: Experiment) -> Iterator[None]:
    """Lock the directory against a second training in the block, and remove unfinished files of killed trainings.

    A process that dies leaves no lock behind.

    Raises:
        InputError: another process holds the lock, or the directory cannot be made.
    """
    with locked(experiment.lock_path, "used as a model directory", "wait for it or choose another model_dir"):
        # Beside these `nmt translate -o` may be writing a file of the user's.
        remove_unfinished(experiment.directory, *(path.name for path in experiment.files))
        for directory in experiment.directories:
            remove_unfinished(directory)
        for own in (experiment.directory / DIRECTIONS).glob("*/"):
            remove_unfinished(own)
        for checkpoint in experiment.checkpoints.directory.glob("step-*"):
            remove_unfinished(checkpoint, PROGRESS_FILE, META_FILE)
        yield


@contextmanager
def restored_if_refused(experiment: Experiment) -> Iterator[None]:
    """If the block refuses the user's input, remove the files that it made and put the configuration back.

    The caller holds the lock of the directory.
    """
    before = {*_own_paths(experiment)}
    config = experiment.config_path.read_bytes() if experiment.config_path.is_file() else None
    try:
        yield
    except NmtError as error:
        if is_refusal(error):
            remove_paths([path for path in _own_paths(experiment) if path not in before])
            if config is not None and experiment.config_path.read_bytes() != config:
                with atomic_path(experiment.config_path) as temporary:
                    temporary.write_bytes(config)
        raise


def _own_paths(experiment: Experiment) -> list[Path]:
    """Return the existing paths of the files and directories that a training makes; a directory before its contents."""
    own = [*experiment.files, *experiment.directory.glob("config.*.yaml")]
    own += [experiment.tokenizer_path("joint").parent, *experiment.tokenizer_paths()]
    own += [experiment.log_path.parent, experiment.log_path]
    of_directions = experiment.directory / DIRECTIONS
    for directory in (
        experiment.tensorboard_path, experiment.cache_path, experiment.checkpoints.directory, of_directions,
    ):  # fmt: skip
        own += [directory, *sorted(directory.rglob("*"))]
    return [path for path in own if os.path.lexists(path)]


def lock_holder(experiment: Experiment) -> str:
    """Return the text in the lock file, which identifies the present or last holder; empty if there is no file."""
    return experiment.lock_path.read_text(encoding="utf-8") if experiment.lock_path.is_file() else ""
