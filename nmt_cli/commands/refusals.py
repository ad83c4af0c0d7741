"""For what a training refuses to begin or to go on: inputs, the run that lies there, processes that are not alike."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING

import nmt_cli
from nmt_cli.errors import InputError, ModelError
from nmt_cli.files import sha256_of, why_not_writable

if TYPE_CHECKING:
    from nmt_cli.config.schema import Config
    from nmt_cli.data.store import PairStore
    from nmt_cli.distributed import World
    from nmt_cli.experiment import Experiment
    from nmt_cli.training.state import Limits

MAY_CHANGE = {
    "model_dir",
    "data.test",
    "training.max_steps",
    "training.max_epochs",
    "training.patience",
    "training.keep_best",
    "training.keep_last",
    "training.threads",
}
"""What may differ when a training is resumed."""
MAKES_TOKENIZERS = ("tokenizer.", "data.invalid_utf8", "training.init_from")
OF_EACH_TRAINING = {"sampling_alpha", "max_training_lines"}
"""Keys of the tokenizer that a training may have otherwise than the one that it goes out from."""


def check_inputs(experiment: Experiment, config: Config) -> None:
    """`InputError` for every input file that is not there, and whatever else a training would stop at: before any work
    is done."""
    from nmt_cli.data.embeddings import check_embeddings
    from nmt_cli.distributed import find_device
    from nmt_cli.scoring import check_tokenizer
    from nmt_cli.training.metrics_log import check_tensorboard

    data = config.data
    sets = [*data.train, *data.test, *([data.dev] if data.dev else [])]
    paths = [path for pair in sets for path in (pair.source, pair.target)]
    paths += [corpus.alignment for corpus in data.train if corpus.alignment]
    vectors = [path for path in dict.fromkeys(vectors_needed(experiment, config)) if path]
    size = config.model.embedding_size
    _raise_all(
        partial(_check_directory, experiment.directory),
        partial(_check_files, [*paths, *vectors]),
        *(partial(check_embeddings, Path(path), size) for path in vectors if os.path.isfile(path)),
        partial(find_device, config.training.device),
        partial(check_tokenizer, config.scoring.tokenize),
        *([check_tensorboard] if config.training.tensorboard else []),
        partial(_check_origin, experiment, config),
    )


def check_test_files(config: Config) -> None:
    """`InputError` for every file of a test set that is not there."""
    _check_files([path for test in config.data.test for path in (test.source, test.target)])


def check_counts(config: Config) -> None:
    """`InputError` for texts of pairs, or their links, that have not as many lines."""
    from nmt_cli.data.corpus import Corpus, count_pairs

    pairs = [Corpus(c.source, c.target, alignment=c.alignment) for c in config.data.train]
    if config.data.dev is not None:
        pairs.append(Corpus(config.data.dev.source, config.data.dev.target))
    _raise_all(*(partial(count_pairs, corpus) for corpus in pairs))


def check_tokenizer_inputs(experiment: Experiment, config: Config) -> None:
    """`check_inputs` for what tokenizers are made of."""
    _raise_all(
        partial(_check_files, [path for corpus in config.data.train for path in (corpus.source, corpus.target)]),
        partial(_check_origin, experiment, config),
    )


def _raise_all(*checks: Callable[[], object]) -> None:
    """One `InputError` for what any of the checks refuses."""
    problems = []
    for check in checks:
        try:
            check()
        except InputError as error:
            problems += str(error).splitlines()
    if problems:
        raise InputError("\n".join(problems))


def _check_files(paths: Sequence[str]) -> None:
    from nmt_cli.data.lines import is_special_file

    problems = []
    for path in dict.fromkeys(paths):
        try:
            if not Path(path).exists():
                problems.append(f"{path}: there is no such file")
            elif Path(path).is_dir():
                problems.append(f"{path}: is a directory; give a text file")
            elif is_special_file(path):
                problems.append(f"{path}: is a pipe or a device; text that is read more than once must be a file")
            elif not os.access(path, os.R_OK):
                problems.append(f"{path}: cannot be read: permission denied")
        except OSError as error:  # in a directory that may not be entered
            problems.append(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}")
    if problems:
        raise InputError("\n".join(problems))


def _check_directory(directory: Path) -> None:
    """That the model directory is one, or can be made, and may be written to."""
    there = directory
    try:
        while not there.exists() and there != there.parent:
            there = there.parent
        reason = why_not_writable(there)
        if not there.is_dir():
            reason = "file exists"
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
    if reason:
        raise InputError(f"{directory}: cannot be a model directory: {reason}")


def _check_origin(experiment: Experiment, config: Config) -> None:
    """That the run to begin with can be found, its tokenizers are those that are configured, and its parameters fit;
    a run that has begun needs it no more."""
    if config.training.init_from is None or experiment.checkpoints.index().last is not None:
        return
    import torch

    from nmt_cli.checkpoint import MODEL_FILE, load_parameters
    from nmt_cli.experiment import Experiment
    from nmt_cli.model.build import build_model

    origin = Experiment(Path(config.training.init_from))
    path = origin.checkpoints.resolve("best") / MODEL_FILE
    own, its = config.tokenizer.model_dump(mode="json"), origin.config.tokenizer.model_dump(mode="json")
    if changed := [key for key in own if own[key] != its[key] and key not in OF_EACH_TRAINING]:
        keys = ", ".join(f"tokenizer.{key} ({json.dumps(its[key], ensure_ascii=False)} there)" for key in changed)
        raise InputError(f"training.init_from: takes the tokenizer of {origin.directory}, so set as there: {keys}")
    source, target = origin.tokenizers
    with torch.device("meta"):
        model = build_model(config.model, source_vocab_size=source.vocab_size, target_vocab_size=target.vocab_size)
    load_parameters(model, path)


def vectors_needed(experiment: Experiment, config: Config) -> tuple[str | None, str | None]:
    """The files of pretrained vectors that are needed: where another run or the beginning of this one gives the values,
    only to know which stay as they are."""
    pretrained = config.model.pretrained
    has_values = config.training.init_from is not None or experiment.checkpoints.index().last is not None
    if not pretrained.freeze and has_values:
        return None, None
    return pretrained.source, pretrained.target


def check_resumable(experiment: Experiment, config: Config) -> None:
    """`InputError` naming the keys that differ from those with which the training in the directory began."""
    from nmt_cli.config.loader import differing_keys

    if not experiment.config_path.exists():
        return
    changed = [key for key in differing_keys(experiment.config, config) if key not in MAY_CHANGE]
    if experiment.checkpoints.index().last is None:
        # Nothing binds but what the tokenizers were made by, if there are any.
        before = experiment.config
        changed = [key for key in changed if _makes_tokenizers(key, before, config)]
        if changed and experiment.has_tokenizers(joint=before.tokenizer.joint):
            raise InputError(
                f"{experiment.directory}: has a tokenizer by another configuration; these keys differ: "
                f"{', '.join(changed)}. Set them back, make it anew with `nmt tokenizer`, or choose another model_dir"
            )
    elif changed:
        raise InputError(
            f"{experiment.directory}: holds a run with another configuration; these keys differ: {', '.join(changed)}. "
            "Set them back to resume it, or choose another model_dir"
        )


def _makes_tokenizers(key: str, before: Config, now: Config) -> bool:
    """Whether a key that differs says by what the tokenizers are made."""
    if key == "data.train":
        texts = [[(corpus.source, corpus.target) for corpus in config.data.train] for config in (before, now)]
        return texts[0] != texts[1]
    return key.startswith(MAKES_TOKENIZERS)


def check_tokenizers(experiment: Experiment, config: Config) -> None:
    """That the tokenizers of a run are there, or can be made.

    Raises:
        InputError: there are some that no run has made.
        ModelError: a model has lost its own.
    """
    if experiment.has_tokenizers(joint=config.tokenizer.joint):
        return
    if experiment.checkpoints.index().last is not None:
        raise ModelError(
            f"{experiment.directory}: has checkpoints, but no tokenizer, without which they mean nothing; put its "
            "tokenizer directory back from a copy, or choose another model_dir"
        )
    check_replaceable(experiment)


def check_replaceable(experiment: Experiment) -> None:
    """`InputError` where there are tokenizers that no run has made."""
    there = experiment.tokenizer_paths()
    if there and not experiment.config_path.exists():
        raise InputError(
            f"{there[0]}: is in the way, and not by `nmt tokenizer`, as there is no {experiment.config_path}; move it "
            "elsewhere, or choose another model_dir"
        )


def finished_reason(experiment: Experiment, config: Config) -> str | None:
    """Why the training in the directory has ended, or None if there are updates to make."""
    from nmt_cli.checkpoint import read_progress
    from nmt_cli.training.state import TrainingState

    index = experiment.checkpoints.index()
    if index.finished is None or index.last is None:
        return None
    path = experiment.checkpoints.path_of(index.last)
    try:
        state = TrainingState.from_json(read_progress(path), str(path))
    except ModelError:
        return None  # who goes on says what is damaged, and from where it goes on
    return index.finished if limits_of(config).reached(state) else None


def limits_of(config: Config) -> Limits:
    from nmt_cli.training.state import Limits

    training = config.training
    return Limits(training.max_steps, training.max_epochs, training.patience if config.data.dev else None)


def check_alike(config: Config, world: World) -> None:
    """`InputError` where a process has another configuration or another version of the program than the first."""
    from nmt_cli.config.loader import differing_values

    own = {"host": gethostname(), "program": _fingerprint(), "config": config.model_dump(mode="json")}
    first, *others = world.gathered(own)
    for rank, other in enumerate(others, start=1):
        where = f"rank {rank} on {other['host']}"
        if other["program"] != first["program"]:
            raise InputError(
                f"{where} runs another version of nmt or torch than rank 0 on {first['host']}; install the same on all"
            )
        if keys := differing_values(first["config"], other["config"]):
            raise InputError(
                f"{where} has another configuration than rank 0 on {first['host']}; these keys differ: "
                f"{', '.join(keys)}. Give all the same file and the same --set"
            )


def _fingerprint() -> str:
    """SHA-256 of the program's own files, and the version of torch."""
    import torch

    package = Path(nmt_cli.__file__).parent
    content = sha256()
    for path in sorted(package.rglob("*.py")):
        content.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return f"{content.hexdigest()} {torch.__version__}"


def check_shared(experiment: Experiment, world: World) -> None:
    """`InputError` where the model directory of a process is not that of the first, which holds the lock in it."""
    held, *_ = world.gathered(experiment.holder() if world.is_primary else "")
    seen = world.gathered(experiment.holder(expected=held))
    hosts = world.gathered(gethostname())
    for rank, (holder, host) in enumerate(zip(seen, hosts, strict=True)):
        if holder != held:
            raise InputError(
                f"{experiment.directory}: is another directory on rank {rank} on {host} than on rank 0 on {hosts[0]}; "
                "all processes need the same one, on a file system that they share"
            )


def check_same_step(experiment: Experiment, step: int, world: World) -> None:
    """`InputError` where a process goes on from another checkpoint than the first: a file system may show them late."""
    first, *others = world.gathered(step)
    for rank, other in enumerate(others, start=1):
        if other != first:
            raise InputError(
                f"{experiment.directory}: rank {rank} finds the checkpoint of step {other} there, rank 0 that of step "
                f"{first}; run the same command again when the file system shows the same to all"
            )


def content_digests(config: Config, store: PairStore, frozen: Mapping[str, Sequence[Sequence[int]]]) -> dict[str, str]:
    """What each file holds on which all of a training depends, by its path: the cursor means nothing in another text,
    scores of two dev sets cannot be compared, and what was frozen stays so."""
    training, dev = _texts(config)
    return {
        **dict(zip(training, store.contents, strict=True)),
        **{path: _digest(path) for path in dev},
        **{path: sha256(json.dumps(rows).encode()).hexdigest()[:16] for path, rows in frozen.items()},
    }


def _texts(config: Config) -> tuple[list[str], list[str]]:
    """The files that are trained on, and those that training is judged by."""
    training = [path for c in config.data.train for path in (c.source, c.target, c.alignment) if path]
    return training, [config.data.dev.source, config.data.dev.target] if config.data.dev else []


def _digest(path: str) -> str:
    return sha256_of(Path(path))[:16]


def check_unchanged(experiment: Experiment, config: Config) -> None:
    """`check_same_text` of a run that would go on, by its files alone, without the rows that were frozen."""
    from nmt_cli.checkpoint import read_progress
    from nmt_cli.training.state import TrainingState

    last = experiment.checkpoints.index().last
    paths = [path for of_one_use in _texts(config) for path in of_one_use]
    if last is None or finished_reason(experiment, config) is not None or not all(map(os.path.isfile, paths)):
        return
    checkpoint = experiment.checkpoints.path_of(last)
    try:
        before = TrainingState.from_json(read_progress(checkpoint), str(checkpoint)).text.split()
    except ModelError:
        return  # who goes on says what is damaged, and from where it goes on
    now = {path: _digest(path) for path in paths}
    check_same_text(experiment, " ".join(before[: len(now)]), now)


def check_same_text(experiment: Experiment, before: str, now: Mapping[str, str]) -> None:
    """`InputError` naming the files that are not what they were when the training began."""
    if before != " ".join(now.values()):
        digests = zip(now.items(), before.split(), strict=False)
        changed = [path for (path, new), old in digests if old != new] or list(now)  # all, where the state is damaged
        raise InputError(
            f"{', '.join(changed)}: not the text with which the run in {experiment.directory} began. Put it back to "
            "resume the run, or choose another model_dir"
        )
