"""The pairs that a training of `nmt improve` learns from, and its configuration, which follows from the user's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt_cli.config.loader import dump_config, validate
from nmt_cli.config.schema import Config
from nmt_cli.config.yaml_text import parse_yaml
from nmt_cli.experiment import Experiment
from nmt_cli.text.direction import Direction
from nmt_cli.text.language_codes import bleu_tokenizer


@dataclass(frozen=True, slots=True)
class Corpus:
    """Files of pairs to train on, with their number of lines, weight and direction."""

    source: Path
    target: Path
    lines: int
    weight: float
    direction: Direction
    alignment: str | None = None

    @property
    def pairs_per_epoch(self) -> float:
        """Number of pairs that one epoch reads of this corpus."""
        return self.lines * self.weight

    def exchanged(self) -> Corpus:
        """Return the corpus with source and target exchanged, and without its alignment."""
        return Corpus(self.target, self.source, self.lines, self.weight, self.direction.reverse_direction)


def training_config(
    config: Config,
    corpora: Sequence[Corpus],
    *,
    model: Path,
    seed: int,
    factor: float,
    symbols: Sequence[str],
    sizes: Mapping[str, Any],
    is_reverse: bool,
    is_result: bool,
) -> Config:
    """Return the configuration of a training.

    Args:
        config: the user's configuration.
        corpora: the pairs of this training, in its direction.
        model: the model directory of this training.
        seed: the seed of this training.
        factor: lines of an epoch, as a multiple of those with the user's configuration. Validations keep their distance
            in epochs, and `max_steps` its number of epochs.
        symbols: marks that the tokenizer keeps whole, in addition to those of the configuration.
        sizes: dotted keys with values that suit these corpora better than the configuration's values.
        is_reverse: translate from the target language into the source language.
        is_result: the training makes what the user asked for; only then is it scored on the test sets.
    """
    values = parse_yaml(dump_config(config), str(model))
    values["model_dir"] = str(model)
    values["seed"] = seed
    _name_languages(values, config)
    _set_data(values, corpora, is_reverse=is_reverse, is_result=is_result)
    if is_reverse:
        _exchange_sides(values, config)
    if values["tokenizer"]["model_type"] != "word":
        values["tokenizer"]["symbols"] = list(dict.fromkeys((*values["tokenizer"]["symbols"], *symbols)))
    _set_sizes(values, sizes)
    training = values["training"]
    training["max_minutes"] = None  # they count from the start of a command, and a stage that ends early has failed
    updates = factor * config.training.batch_size / training["batch_size"]  # of an epoch, as a multiple
    training["validation_freq"] = max(1, round(training["validation_freq"] * updates))
    if training["max_steps"] is not None:
        training["max_steps"] = max(1, round(training["max_steps"] * updates))
    return validate(values, str(model))


def input_paths(config: Config) -> tuple[Path, ...]:
    """Return the paths that a training reads: texts, alignments, pretrained vectors, and the run in `init_from`."""
    texts = [path for corpus in config.data.train for path in (corpus.source, corpus.target)]
    links = [corpus.alignment for corpus in config.data.train]
    begins = (config.model.pretrained.source, config.model.pretrained.target, config.training.init_from)
    return tuple(dict.fromkeys(Path(path) for path in (*texts, *links, *begins) if path is not None))


def num_training_pairs(config: Config, corpora: Sequence[Corpus]) -> float:
    """Return the number of pairs that a training reads in all epochs together, if nothing ends it early."""
    an_epoch = sum(corpus.pairs_per_epoch for corpus in corpora)
    training = config.training
    pairs_per_step = training.batch_size / (PIECES_PER_LINE if training.batch_type == "tokens" else 1)
    limits = [training.max_epochs * an_epoch] if training.max_epochs is not None else []
    limits += [training.max_steps * pairs_per_step] if training.max_steps is not None else []
    return min(limits)


PIECES_PER_LINE = 20
"""Approximate number of target pieces of a pair, to estimate the pairs of an update whose size is given in pieces."""


def _name_languages(values: dict[str, Any], config: Config) -> None:
    """Name the languages in the values of a configuration: for one direction, in the section `data` only; for several,
    in each dev and test set only."""
    data, has_several = values["data"], len(config.data.directions) > 1
    languages = (None, None) if has_several else config.data.direction
    data["source_lang"], data["target_lang"] = languages
    texts = (*config.data.dev_sets, *config.data.test)
    for text, value in zip(texts, (*_dev_sets_as_list(data["dev"]), *data["test"]), strict=True):
        own = config.data.direction_of(text) if has_several else (None, None)
        value["source_lang"], value["target_lang"] = own


def _dev_sets_as_list(dev: Any) -> list[dict[str, Any]]:
    """Return the values of the dev sets as a list; in a configuration they are None, one dictionary or a list."""
    return dev if isinstance(dev, list) else [dev] if dev else []


def _set_data(values: dict[str, Any], corpora: Sequence[Corpus], *, is_reverse: bool, is_result: bool) -> None:
    data = values["data"]
    has_several = data["source_lang"] is None
    data["monolingual"] = None
    data["corpus_temperature"] = 1.0  # the weights have it in them
    data["train"] = [
        {
            "source": str(corpus.source),
            "target": str(corpus.target),
            "weight": corpus.weight,
            "alignment": None if is_reverse else corpus.alignment,
            "source_lang": corpus.direction.source if has_several else None,
            "target_lang": corpus.direction.target if has_several else None,
        }
        for corpus in corpora
    ]
    if not is_result:
        data["test"] = []


def _set_sizes(values: dict[str, Any], sizes: Mapping[str, Any]) -> None:
    for key, value in sizes.items():
        *sections, last = key.split(".")
        place = values
        for section in sections:
            place = place[section]
        place[last] = value


def has_all_directions(run: Path, directions: Sequence[Direction]) -> bool:
    """Return whether the model of a run has several directions, with all of `directions` among them."""
    origin = Experiment(run)
    if not origin.config_path.is_file():  # as whoever trains will say
        return False
    learned = origin.config.data.directions
    return len(learned) > 1 and set(directions) <= set(learned)


def _exchange_sides(values: dict[str, Any], config: Config) -> None:
    """Exchange source and target in place in the values of a configuration.

    The training corpora are left out, because their sides are exchanged already.
    """
    data, pretrained, training = values["data"], values["model"]["pretrained"], values["training"]
    directions = [direction.reverse_direction for direction in config.data.directions]
    values["name"] = f"{values['name']}-reverse"
    for text in (data, *_dev_sets_as_list(data["dev"])):
        text["source_lang"], text["target_lang"] = text["target_lang"], text["source_lang"]
    for dev in _dev_sets_as_list(data["dev"]):
        dev["source"], dev["target"] = dev["target"], dev["source"]
    pretrained["source"], pretrained["target"] = pretrained["target"], pretrained["source"]
    if training["early_stopping_direction"] is not None:
        chosen = next(one for one in directions if str(one.reverse_direction) == training["early_stopping_direction"])
        training["early_stopping_direction"] = str(chosen)
    origin = training["init_from"]
    if origin is not None and not has_all_directions(Path(origin), directions):
        training["init_from"] = None
    if values["scoring"]["tokenize"] != "none":  # another language may need another way to cut words
        # Several directions are scored by their languages.
        values["scoring"]["tokenize"] = bleu_tokenizer(directions[0].target) if len(directions) == 1 else None
