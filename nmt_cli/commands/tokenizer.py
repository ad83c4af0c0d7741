"""`nmt tokenizer`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from nmt_cli.commands.options import ConfigFile, Overrides
from nmt_cli.console import log
from nmt_cli.errors import InputError
from nmt_cli.files import sync

if TYPE_CHECKING:
    from nmt_cli.config.schema import Config
    from nmt_cli.data.tokenizer import Tokenizer
    from nmt_cli.experiment import Experiment


def tokenizer(config: ConfigFile, set_: Overrides = None) -> None:
    """Train the SentencePiece model(s) into the model directory; a fine-tuning takes those of its origin.

    Example: nmt tokenizer --config configs/multi30k_en_de.yaml
    """
    from nmt_cli.config.loader import load_config, with_absolute_paths
    from nmt_cli.experiment import Experiment

    effective = with_absolute_paths(load_config(config, set_ or ()))
    experiment = Experiment(Path(effective.model_dir))
    with experiment.lock():
        if experiment.checkpoints.index().last is not None:
            raise InputError(f"{experiment.directory}: has a model already, which keeps its tokenizer")
        remove_tokenizers(experiment)
        write_config(experiment, effective)
        make_tokenizers(experiment, effective)


def write_config(experiment: Experiment, config: Config) -> None:
    """Write the effective configuration into the model directory."""
    from nmt_cli.config.loader import dump_config
    from nmt_cli.files import atomic_path, make_directory

    make_directory(experiment.directory)
    with atomic_path(experiment.config_path) as temporary:
        temporary.write_text(dump_config(config), encoding="utf-8")


def remove_tokenizers(experiment: Experiment) -> None:
    """What a later configuration says is not what these were made by; removed before it is written.

    Raises:
        InputError: there are some that no run has made.
    """
    there = [path for side in ("joint", "source", "target") if (path := experiment.tokenizer_path(side)).exists()]
    if there and not experiment.config_path.exists():
        raise InputError(
            f"{there[0]}: is in the way, and not by `nmt tokenizer`, as there is no {experiment.config_path}; move it "
            "elsewhere, or choose another model_dir"
        )
    for path in there:
        path.unlink()
        sync(path.parent)  # or a power cut could bring it back under the new configuration


def make_tokenizers(experiment: Experiment, config: Config) -> None:
    """Write the tokenizers of a run: those of the run that it goes out from, or trained on its corpora."""
    if config.training.init_from:
        _take_tokenizers(experiment, Path(config.training.init_from))
    else:
        _train_tokenizers(experiment, config)


def _take_tokenizers(experiment: Experiment, origin: Path) -> None:
    from nmt_cli.experiment import Experiment

    source, target = Experiment(origin).tokenizers
    _write(experiment, {"joint": source} if source is target else {"source": source, "target": target})
    log(f"tokenizer: that of {origin}")


def _train_tokenizers(experiment: Experiment, config: Config) -> None:
    from nmt_cli.data.tokenizer import train_tokenizer

    trained = {}
    sides = {"joint": (0, 1)} if config.tokenizer.joint else {"source": (0,), "target": (1,)}
    for side, columns in sides.items():
        trained[side] = train_tokenizer(
            training_lines(config, columns),
            model_type=config.tokenizer.model_type,
            vocab_size=config.tokenizer.vocab_size,
            normalization=config.tokenizer.normalization,
            character_coverage=config.tokenizer.character_coverage,
            symbols=config.tokenizer.symbols,
        )
    _write(experiment, trained)
    for side, tokenizer in trained.items():
        path, kind = experiment.tokenizer_path(side), config.tokenizer.model_type
        log(f"tokenizer: {side}, {kind}, {tokenizer.vocab_size:,} pieces -> {path}")


def _write(experiment: Experiment, tokenizers: Mapping[str, Tokenizer]) -> None:
    """Write the tokenizers by side."""
    from nmt_cli.files import atomic_path, make_directory

    for side, tokenizer in tokenizers.items():
        path = experiment.tokenizer_path(side)
        make_directory(path.parent)
        with atomic_path(path) as temporary:
            temporary.write_bytes(tokenizer.model)


def training_lines(config: Config, columns: tuple[int, ...]) -> Iterator[str]:
    """The lines of the given sides (0 source, 1 target); of large corpora every k-th pair."""
    from nmt_cli.data.corpus import Corpus, count_pairs, read_pairs

    corpora = [Corpus(corpus.source, corpus.target) for corpus in config.data.train]
    limit = config.tokenizer.max_training_lines
    stride = -(-sum(map(count_pairs, corpora)) * len(columns) // limit)
    number = 0
    for corpus in corpora:
        for pair in read_pairs(corpus, invalid_utf8=config.data.invalid_utf8):
            if number % stride == 0:
                yield from ((pair.source, pair.target)[column] for column in columns)
            number += 1
