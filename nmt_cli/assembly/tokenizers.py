"""The tokenizers of a run: taken from another run, or trained on its corpora."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING

from nmt_cli.assembly.resume_checks import check_replaceable, load_training_config
from nmt_cli.assembly.run_lock import locked_run
from nmt_cli.assembly.training_inputs import check_tokenizer_inputs, tokenizer_origin
from nmt_cli.config.loader import dump_config, load_config
from nmt_cli.data.pairs import Corpus, count_pairs, read_pairs
from nmt_cli.data.tokenizer import train_tokenizer
from nmt_cli.experiment import Experiment
from nmt_cli.system.console import log, warn
from nmt_cli.system.errors import InputError
from nmt_cli.system.files import atomic_path, make_directory, sync

if TYPE_CHECKING:
    from nmt_cli.config.schema import Config
    from nmt_cli.data.tokenizer import Tokenizer


TEMPERATURE = 5.0
"""Temperature T for the tokenizer of several languages: a language with n lines counts n^(1/T) in its training text."""


def train_run_tokenizers(path: Path, overrides: Sequence[str]) -> None:
    """Make the tokenizers of the run that a configuration describes, in its model directory.

    Raises:
        ConfigError: the configuration is wrong.
        InputError: the run has a model already, its directory is in use, or its text is unfit.
    """
    config = load_training_config(path, overrides)
    experiment = Experiment(Path(config.model_dir))
    with locked_run(experiment):
        if experiment.has_begun:
            raise InputError(
                f"{experiment.directory}: has a trained model already, and a model keeps its tokenizer; choose "
                "another model_dir"
            )
        check_tokenizer_inputs(experiment, config)
        renew_tokenizers(experiment, config)


def renew_tokenizers(experiment: Experiment, config: Config) -> None:
    """Make the tokenizers of a run, and replace those in its directory and the configuration.

    The tokenizers are made as `tokenizers_of` says. If they cannot be made, the old ones stay.

    Raises:
        InputError: the text does not allow the vocabulary; or tokenizers that no run has made would be replaced.
    """
    check_replaceable(experiment)
    origin, made = tokenizer_origin(config), tokenizers_of(config)
    for path in experiment.tokenizer_paths():  # before the configuration by which they were not made
        path.unlink()
        sync(path.parent)  # or a power cut could bring it back under the new configuration
    write_config(experiment, config)
    for side, tokenizer in made.items():
        _write(experiment.tokenizer_path(side), tokenizer)
        if origin is None:
            path, kind = experiment.tokenizer_path(side), config.tokenizer.model_type
            log(f"tokenizer: {side}, {kind}, {tokenizer.vocab_size:,} pieces -> {path}")
    if origin is not None:
        log(f"tokenizer: the one of {config.training.init_from}")


def write_config(experiment: Experiment, config: Config) -> None:
    """Write the effective configuration into the model directory; a file there that no run has written is renamed."""
    make_directory(experiment.directory)
    if not experiment.has_begun and not _is_run_config(experiment.config_path):
        names = (experiment.config_path.with_name(f"config.{number}.yaml") for number in count(1))
        kept = next(path for path in names if not path.exists())
        with atomic_path(kept) as temporary:  # a copy: whoever is killed here finds the file that the command names
            copyfile(experiment.config_path, temporary)
        warn(
            f"{experiment.config_path}: the run writes its own configuration to this name. Your file was moved "
            f"to {kept.name}"
        )
    with atomic_path(experiment.config_path) as temporary:
        temporary.write_text(dump_config(config), encoding="utf-8")
    experiment.clear_config_cache()


def _is_run_config(config_path: Path) -> bool:
    """Return whether the file has the form of a configuration that a run writes, or does not exist."""
    try:
        return not config_path.exists() or config_path.read_bytes() == dump_config(load_config(config_path)).encode()
    except InputError:
        return False


def _tokenizers_by_side(origin: Path) -> dict[str, Tokenizer]:
    """Return the tokenizers of the run in a directory by side: joint, or source and target."""
    source, target = Experiment(origin).tokenizers
    return {"joint": source} if source.has_same_model(target) else {"source": source, "target": target}


def tokenizers_of(config: Config) -> dict[str, Tokenizer]:
    """Return the tokenizers of a run by side: those of the run in `training.init_from` if it can use them (see
    `tokenizer_origin`), else new ones, trained on its corpora.

    Raises:
        InputError: the text does not allow the vocabulary.
    """
    origin = tokenizer_origin(config)
    return trained_tokenizers(config) if origin is None else _tokenizers_by_side(origin)


def trained_tokenizers(config: Config) -> dict[str, Tokenizer]:
    """Return tokenizers by side (joint, or source and target), trained on the corpora of a run.

    Raises:
        InputError: the text does not allow the vocabulary.
    """
    settings = config.tokenizer
    sides = {"joint": (0, 1)} if settings.joint else {"source": (0,), "target": (1,)}
    return {
        side: train_tokenizer(
            _training_lines(config, columns) if len(config.data.directions) == 1 else _balanced_lines(config, columns),
            model_type=settings.model_type,
            vocab_size=settings.vocab_size,
            normalization=settings.normalization,
            character_coverage=settings.character_coverage,
            symbols=settings.symbols,
            tags=config.data.tags if 0 in columns else (),
        )
        for side, columns in sides.items()
    }


def _write(path: Path, tokenizer: Tokenizer) -> None:
    make_directory(path.parent)
    with atomic_path(path) as temporary:
        temporary.write_bytes(tokenizer.model)


def _training_lines(config: Config, columns: tuple[int, ...]) -> Iterator[str]:
    """Yield the lines of the given sides (0 source, 1 target) of the training corpora.

    If there are more than `tokenizer.max_training_lines`, only every k-th pair is taken, at even distances.
    """
    corpora = [Corpus(corpus.source, corpus.target) for corpus in config.data.train]
    limit = config.tokenizer.max_training_lines
    stride = -(-sum(map(count_pairs, corpora)) * len(columns) // limit)
    number = 0
    for corpus in corpora:
        for pair in read_pairs(corpus, invalid_utf8=config.data.invalid_utf8):
            if number % stride == 0:
                yield from ((pair.source, pair.target)[column] for column in columns)
            number += 1


def _balanced_lines(config: Config, columns: tuple[int, ...]) -> Iterator[str]:
    """Yield the lines of the given sides (0 source, 1 target) of corpora in several directions, evened by language.

    The share of a language with n lines is proportional to n^(1/5) (Conneau et al., 2020): some of its lines are left
    out, or lines are repeated. In all there are as many lines as in the text, but at most max_training_lines. A pair of
    files that serves both directions is read once.
    """
    data, limit = config.data, config.tokenizer.max_training_lines
    texts = {
        tuple(sorted((corpus.source, corpus.target))): (Corpus(corpus.source, corpus.target), data.direction_of(corpus))
        for corpus in data.train
    }
    sizes: dict[str, int] = {}
    for corpus, languages in texts.values():
        num_pairs = count_pairs(corpus)
        for column in columns:
            sizes[languages[column]] = sizes.get(languages[column], 0) + num_pairs
    shares = {language: size ** (1.0 / TEMPERATURE) for language, size in sizes.items()}
    wanted = min(limit, sum(sizes.values())) / max(1.0, sum(shares.values()))
    rates = {language: wanted * shares[language] / max(1, size) for language, size in sizes.items()}
    for corpus, languages in texts.values():
        for number, pair in enumerate(read_pairs(corpus, invalid_utf8=data.invalid_utf8)):
            for column in columns:
                rate = rates[languages[column]]
                for _ in range(int((number + 1) * rate) - int(number * rate)):
                    yield (pair.source, pair.target)[column]
