"""Writes the characters, word forms and number formats of a training text into the model directory, and opens the
`Normalizer` of a model with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from nmt_cli.data.lines import decode_line, iter_lines, open_input
from nmt_cli.normalization.normalizer import Normalizer
from nmt_cli.normalization.number_spans import NumberHabits
from nmt_cli.normalization.profile import MAX_LINES, TextProfile
from nmt_cli.system.console import log_once
from nmt_cli.system.errors import ModelError
from nmt_cli.system.files import make_directory
from nmt_cli.system.storage import read_json, write_json

if TYPE_CHECKING:
    from nmt_cli.config.decoding import DecodingConfig
    from nmt_cli.config.schema import Config
    from nmt_cli.experiment import Experiment


def write_text_profile(experiment: Experiment, config: Config) -> None:
    """Write the `TextProfile` of the source text of each direction, unless the training has begun with one."""
    for one in experiment.of_each_direction(config):
        _write_text_profile(one, config.for_direction(one.direction) if one.direction else config)


def _write_text_profile(experiment: Experiment, config: Config) -> None:
    """Write the `TextProfile` of the source text of one direction, unless the training has begun with one."""
    from nmt_cli.data.tokenizer import without_symbols

    if experiment.profile_path.exists() and experiment.has_begun:
        return

    def sources() -> Iterator[str]:
        """Return an iterator over the source lines without `tokenizer.symbols`, whose letters are no text."""
        return without_symbols((source for source, _ in training_lines(config)), config.tokenizer.symbols)

    profile = TextProfile.of(sources(), config.data.direction.source)
    habits = NumberHabits.of(zip(sources(), (target for _, target in training_lines(config)), strict=True))
    profile = replace(profile, kept_numbers=habits.kept, rewritten_numbers=habits.rewritten)
    make_directory(experiment.profile_path.parent)
    write_json(experiment.profile_path, profile.to_json())


def training_lines(config: Config) -> Iterator[tuple[str, str]]:
    """Yield the pairs of source and target line at the beginning of each training text, at most MAX_LINES of each."""
    for corpus in config.data.train:
        with open_input(corpus.source) as source, open_input(corpus.target) as target:
            pairs = zip(iter_lines(source), iter_lines(target), strict=False)
            yield from ((decode_line(one)[0], decode_line(other)[0]) for one, other in islice(pairs, MAX_LINES))


def open_normalizer(experiment: Experiment, decoding: DecodingConfig) -> Normalizer:
    """Return the normalizer of a model's input; without `decoding.normalize_input` it leaves lines as they are.

    Raises:
        ModelError: the profile that the model keeps is damaged.
    """
    if not decoding.normalize_input:
        return Normalizer()
    data = experiment.config.data
    return Normalizer.of(
        open_profile(experiment), source_lang=data.direction.source, target_lang=data.direction.target,
        symbols=experiment.tokenizers[0].symbols(), knows_words=data.word_pairs,
    )  # fmt: skip


def open_profile(experiment: Experiment) -> TextProfile:
    """Return the profile that a model keeps; an older model without one gets a rougher one from its tokenizer's pieces.

    Raises:
        ModelError: the profile is damaged.
    """
    path = experiment.profile_path
    if path.exists():
        try:
            return TextProfile.from_json(read_json(path), str(path))
        except ModelError as error:
            raise ModelError(f"{error}; without this file, the tokenizer tells what the model knows") from error
    direction = experiment.config.data.direction
    log_once(
        f"{experiment.directory}: has no {path.name} for {direction} (an older model, or a direction that it was not "
        "trained for), so input normalisation is less exact: names in capitals may become lower case, and missing full "
        "stops are not added"
    )
    tokenizer = experiment.tokenizers[0]
    fixed = tokenizer.fixed_ids()
    pieces = tokenizer.pieces([id_ for id_ in range(tokenizer.vocab_size) if id_ not in fixed])
    return TextProfile.of_pieces(pieces, experiment.config.data.direction.source)
