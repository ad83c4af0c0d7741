"""Checks of the run in a model directory: whether it may be resumed, or has ended."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt_cli.assembly.training_inputs import check_text_files, refuse_own_files, tokenizer_origin
from nmt_cli.config.loader import differing_keys, flat_values, load_config, with_absolute_paths
from nmt_cli.config.yaml_text import format_override
from nmt_cli.experiment import Experiment
from nmt_cli.system.console import command_line
from nmt_cli.system.errors import InputError, ModelError, NmtError
from nmt_cli.system.files import sha256_of
from nmt_cli.training.checkpoints import read_progress

if TYPE_CHECKING:
    from nmt_cli.config.schema import Config
    from nmt_cli.data.store import PairStore
    from nmt_cli.training.state import StoppingCriteria, TrainingState

CHANGEABLE_KEYS = {
    "model_dir",
    "data.licence",
    "data.test",
    "data.monolingual",
    "data.monolingual.target",
    "data.monolingual.source",
    "training.max_steps",
    "training.max_epochs",
    "training.max_minutes",
    "training.patience",
    "training.keep_best",
    "training.keep_last",
    "training.threads",
}
"""Keys that may differ when a training is resumed."""
MOVABLE_PATH_KEYS = {
    "data.dev.source",
    "data.dev.target",
    "model.pretrained.source",
    "model.pretrained.target",
    "training.init_from",
}
"""Keys of files and directories, which may be moved: a digest shows whether a file is the same, and the values taken
from another run are in the checkpoints."""
TOKENIZER_KEY_PREFIXES = ("tokenizer.", "data.invalid_utf8")
"""Beginnings of the keys that affect the tokenizers."""


def load_training_config(path: Path, overrides: Sequence[str]) -> Config:
    """Return the configuration in `path` with `--set KEY=VALUE` overrides, independent of the current directory.

    Raises:
        ConfigError: the configuration is wrong.
        InputError: the file belongs to a run in another directory than its `model_dir`, and no override names one; or
            the configuration names a file of its own run as data.
    """
    config = with_absolute_paths(load_config(path, overrides, check_files=check_text_files))
    if not any(override.partition("=")[0].strip() == "model_dir" for override in overrides):
        _check_model_dir(path, config)
    refuse_own_files(Experiment(Path(config.model_dir)), config)
    return config


def _check_model_dir(path: Path, config: Config) -> None:
    """Refuse the configuration of a run that was moved or copied, because its `model_dir` still names the old place."""
    here, named = Experiment(path.parent), Path(config.model_dir)
    if path.name != here.config_path.name or not here.has_begun:
        return
    if not named.exists() or not here.directory.samefile(named):
        raise InputError(
            f"{path}: belongs to the run in {here.directory}, which was moved or copied: its model_dir is {named}. "
            f"Add {command_line('--set', format_override('model_dir', here.directory))} to resume it there, or "
            "name another directory"
        )


def check_resumable(experiment: Experiment, config: Config) -> None:
    """Refuse a configuration with which the training in the directory cannot begin or be resumed.

    Raises:
        InputError: values differ from those with which the training or its tokenizers were made, or the directory has
            files that no run has made.
        ModelError: the state of the training is damaged.
    """
    if not experiment.has_begun and not _has_run_config(experiment):
        _refuse_foreign_files(experiment)
        return
    changed = [key for key in differing_keys(experiment.config, config) if key not in CHANGEABLE_KEYS]
    if not experiment.has_begun:
        # Nothing binds but what the tokenizers were made by, if there are any.
        before = experiment.config
        changed = [key for key in changed if _is_tokenizer_change(key, before, config)]
        if changed and experiment.has_tokenizers(joint=before.tokenizer.joint):
            raise InputError(
                f"{experiment.directory}: its tokenizer was trained with another configuration; these keys differ: "
                f"{', '.join(changed)}. Set them back, train it again with `nmt tokenizer`, or choose another model_dir"
            )
    elif changed:
        raise InputError(
            f"{experiment.directory}: holds a run with another configuration; these keys differ: {', '.join(changed)}. "
            "Set them back to resume, or choose another model_dir"
        )
    else:
        _check_against_checkpoint(experiment, config)


def binding_values(config: Config) -> dict[str, Any]:
    """Return the values, by dotted key, that may not change during a run, without the paths of files."""
    values = flat_values(config.model_dump(mode="json"))
    values["data.train.weight"] = [pair["weight"] for pair in values.pop("data.train")]
    values.pop("data.dev", None)  # a list, of whose files the digests tell
    values["data.directions"] = list(map(str, config.data.directions))
    return {key: value for key, value in values.items() if key not in CHANGEABLE_KEYS | MOVABLE_PATH_KEYS}


def _check_against_checkpoint(experiment: Experiment, config: Config) -> None:
    """Refuse values that differ from those in the last checkpoint: the run's own config.yaml may have been edited."""
    state = _last_state(experiment)
    if state is None or not state.configuration or stopping_criteria_of(config).stop_reason(state) is not None:
        return
    try:
        began, now = dict(json.loads(state.configuration)), binding_values(config)
    except (ValueError, TypeError, RecursionError) as error:
        raise ModelError(
            f"{experiment.checkpoints.directory}: the state of the training is damaged: its configuration is not valid "
            "JSON. Restore the directory from a backup, or choose another model_dir"
        ) from error
    # A key of one side alone is one of another version of the program.
    changed = [f"{key} (was {json.dumps(began[key])})" for key in began if key in now and began[key] != now[key]]
    if changed:
        raise InputError(
            f"{experiment.config_path}: was changed after the run began; these keys differ: {', '.join(changed)}. "
            "Set them back to resume, or choose another model_dir"
        )


def _has_run_config(experiment: Experiment) -> bool:
    """Return whether the directory has a valid configuration of a run."""
    try:
        return experiment.config_path.exists() and bool(experiment.config.name)
    except NmtError:
        return False


def _refuse_foreign_files(experiment: Experiment) -> None:
    """Refuse a directory in which a run would replace or remove files that no run has made."""
    there = [path for path in experiment.files if path != experiment.config_path and path.exists()]
    there += [
        path
        for path in (experiment.cache_path, experiment.checkpoints.directory)
        if path.is_file() or (path.is_dir() and any(path.iterdir()))
    ]
    if experiment.config_path.exists():  # which is another program's
        there += experiment.tokenizer_paths()
    if there:
        raise InputError(
            f"{there[0]}: exists but does not belong to a run (no {experiment.config_path.name} of a run beside it), "
            "and the run would overwrite it. Move it elsewhere, or choose another model_dir"
        )


def _is_tokenizer_change(key: str, before: Config, now: Config) -> bool:
    """Return whether a key that differs between two configurations makes their tokenizers differ."""
    if key in ("data.train", "data.source_tags", "data.source_lang", "data.target_lang"):
        texts = [[(corpus.source, corpus.target) for corpus in config.data.train] for config in (before, now)]
        return before.data.tags != now.data.tags or (key == "data.train" and texts[0] != texts[1])
    if key == "training.init_from":
        return tokenizer_origin(before) != tokenizer_origin(now)
    return key.startswith(TOKENIZER_KEY_PREFIXES) and key != "tokenizer.sampling_alpha"


def check_tokenizers(experiment: Experiment, config: Config) -> None:
    """Check that the tokenizers of a run exist, or can be made.

    Raises:
        InputError: tokenizers are in the way that no run has made.
        ModelError: the run has checkpoints, but its tokenizers are missing.
    """
    if experiment.has_tokenizers(joint=config.tokenizer.joint):
        return
    if experiment.has_begun:
        raise ModelError(
            f"{experiment.directory}: has checkpoints, but no tokenizer, without which they mean nothing; "
            "restore its tokenizer directory from a backup, or choose another model_dir"
        )
    check_replaceable(experiment)


def check_replaceable(experiment: Experiment) -> None:
    """Refuse to replace tokenizers that no run has made.

    Raises:
        InputError: there are such tokenizers.
    """
    there = experiment.tokenizer_paths()
    if there and not experiment.config_path.exists():
        raise InputError(
            f"{there[0]}: exists but was not made by `nmt tokenizer` (there is no {experiment.config_path}), and "
            "would be overwritten. Move it elsewhere, or choose another model_dir"
        )


def finished_reason(experiment: Experiment, config: Config) -> str | None:
    """Return the reason for which the training in the directory has ended, or None if there are updates to make."""
    is_finished = experiment.checkpoints.index().finish_reason is not None
    state = _last_state(experiment) if is_finished else None
    # The limit that holds now: the one at which the run ended may have been raised since.
    return None if state is None else stopping_criteria_of(config).stop_reason(state)


def _last_state(experiment: Experiment) -> TrainingState | None:
    """Return the state at the last checkpoint; None if there is none or it is damaged, which resuming will report."""
    from nmt_cli.training.state import TrainingState

    last = experiment.checkpoints.index().last
    if last is None:
        return None
    path = experiment.checkpoints.path_of(last)
    try:
        return TrainingState.from_json(read_progress(path), str(path))
    except ModelError:
        return None


def stopping_criteria_of(config: Config) -> StoppingCriteria:
    """Return the criteria by which a training ends: updates, epochs and, if there is a dev set, patience."""
    from nmt_cli.training.state import StoppingCriteria

    training = config.training
    return StoppingCriteria(training.max_steps, training.max_epochs, training.patience if config.data.dev else None)


def content_digests(
    experiment: Experiment, config: Config, store: PairStore, frozen: Mapping[str, Sequence[Sequence[int]]]
) -> dict[str, str]:
    """Return a digest, by path, of each file that must stay the same during a training: text, dev set, frozen rows.

    With another text the position in it would mean nothing, scores of two dev sets cannot be compared, and frozen rows
    stay frozen. `frozen` has the frozen rows of embeddings by the file of their vectors, as `first_model` returns them.
    """
    training, dev = _texts(experiment, config)
    return {
        **dict(zip(training, store.contents, strict=True)),
        **{path: _digest(path) for path in dev},
        **{path: sha256(json.dumps(rows).encode()).hexdigest()[:16] for path, rows in frozen.items()},
    }


def _texts(experiment: Experiment, config: Config) -> tuple[list[str], list[str]]:
    """Return the files that are trained on, and the files of the dev set."""
    training = [path for c in config.data.train for path in (c.source, c.target, c.alignment) if path]
    if config.data.word_pairs:
        training += [str(path) for one in experiment.of_each_direction(config) for path in one.word_pairs_paths]
    return training, [path for dev in config.data.dev_sets for path in (dev.source, dev.target)]


def _digest(path: str) -> str:
    return sha256_of(Path(path))[:16]


def check_unchanged(experiment: Experiment, config: Config) -> None:
    """Refuse a training or dev file that has changed since the training began.

    Nothing is compared if the training has finished, has no checkpoint yet, or a file is missing.

    Raises:
        InputError: a file of the text or the dev set has changed.
    """
    state = _last_state(experiment)
    paths = [path for of_one_use in _texts(experiment, config) for path in of_one_use]
    if state is None or finished_reason(experiment, config) is not None or not all(map(os.path.isfile, paths)):
        return
    now = {path: _digest(path) for path in paths}
    check_same_text(experiment, " ".join(state.text.split()[: len(now)]), now)


def check_same_text(experiment: Experiment, before: str, now: Mapping[str, str]) -> None:
    """Refuse files that have changed since the training began.

    Args:
        experiment: the run.
        before: the digests of the files when the training began, with spaces between.
        now: the digests by path, in the same order.

    Raises:
        InputError: a digest differs.
    """
    if before != " ".join(now.values()):
        digests = zip(now.items(), before.split(), strict=False)
        changed = [path for (path, new), old in digests if old != new] or list(now)  # all, where the state is damaged
        raise InputError(
            f"{', '.join(changed)}: not the text with which the run in {experiment.directory} began. Put it back to "
            "resume the run, or choose another model_dir"
        )
