"""Pairs of a word and its translation, learned from the training text and kept with the model as a further corpus."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from nmt_cli.assembly.normalization import training_lines
from nmt_cli.data.sampler import temperature_weights
from nmt_cli.data.tokenizer import without_symbols
from nmt_cli.normalization.profile import TextProfile
from nmt_cli.system.console import format_count, log
from nmt_cli.system.files import atomic_directory
from nmt_cli.text.language_codes import separates_words_by_spaces
from nmt_cli.text.letters import WORD, lower
from nmt_cli.training.word_pairs import learn_word_pairs

if TYPE_CHECKING:
    from nmt_cli.config.schema import Config
    from nmt_cli.data.tokenizer import Tokenizer
    from nmt_cli.experiment import Experiment
    from nmt_cli.training.word_pairs import Words


def write_word_pairs(experiment: Experiment, config: Config) -> None:
    """Learn and write the word pairs of each direction into the model directory, if `data.word_pairs` is set.

    A run that has begun keeps the word pairs with which it began.
    """
    for one in experiment.of_each_direction(config) if config.data.word_pairs else ():
        _write_word_pairs(one, config.for_direction(one.direction) if one.direction else config)


def _write_word_pairs(experiment: Experiment, config: Config) -> None:
    """Learn and write the word pairs of one direction, unless the run has begun and has them."""
    paths = experiment.word_pairs_paths
    if experiment.has_begun and all(path.exists() for path in paths):
        return
    began = time.monotonic()
    sides = word_pairs_of(training_lines(config), config, experiment.tokenizers)
    with atomic_directory(paths[0].parent) as temporary:
        for words, path in zip(sides, paths, strict=True):
            written = "".join(f"{word}\n" for word in words)
            (temporary / path.name).write_text(written, encoding="utf-8", newline="")
    learned = f"{format_count(len(sides[0]), 'word pair')} learned from the training text"
    if experiment.direction is not None:
        learned += f" of {experiment.direction}"
    log(f"{learned} in {time.monotonic() - began:.0f} s -> {paths[0].parent}")


def epoch_weights(config: Config, sizes: Sequence[int]) -> list[float]:
    """Return the number of times that an epoch reads each corpus: its weight times its factor from the temperature.

    `sizes` are the numbers of pairs of the corpora, and after them the numbers of word pairs of each direction, if
    there are any. The word pairs are read as often as the sentences of their direction on average, and at least one of
    them is read.
    """
    data, num_texts = config.data, len(config.data.train)
    factors = temperature_weights(sizes[:num_texts], data.corpus_temperature)
    weights = [factor * corpus.weight for factor, corpus in zip(factors, data.train, strict=True)]
    of_words = []
    for direction, num_words in zip(data.directions, sizes[num_texts:], strict=False):
        own = [number for number, corpus in enumerate(data.train) if data.direction_of(corpus) == direction]
        total = sum(sizes[number] for number in own)
        mean = sum(weights[number] * sizes[number] for number in own) / total if total else 1.0
        of_words.append(max(mean, 1 / max(1, num_words)))
    return weights + of_words


def word_pairs_of(
    lines: Iterable[tuple[str, str]], config: Config, tokenizers: Sequence[Tokenizer]
) -> tuple[list[str], list[str]]:
    """Return the sources and the targets of the word pairs learned from pairs of lines, written as in the text."""
    sides = [_Side(*side) for side in zip(config.data.direction, tokenizers, strict=True)]
    lines = list(lines)
    texts = [list(without_symbols([pair[side] for pair in lines], config.tokenizer.symbols)) for side in range(2)]
    pairs = learn_word_pairs(
        (sides[0].words(source), sides[1].words(target)) for source, target in zip(*texts, strict=True)
    )
    writers = [side.writer(text) for side, text in zip(sides, texts, strict=True)]
    return [writers[0](pair.source) for pair in pairs], [writers[1](pair.target) for pair in pairs]


class _Side:
    """One side of the training text: splits its lines into words, and joins words in their usual form."""

    def __init__(self, language: str, tokenizer: Tokenizer) -> None:
        self._language, self._tokenizer = language, tokenizer
        self._has_spaces = separates_words_by_spaces(language)

    def words(self, text: str) -> Words:
        """Return the words of a line in lower case, or, in a language without spaces, its pieces that are letters."""
        if self._has_spaces:
            return tuple(lower(word, self._language) for word in WORD.findall(text))
        pieces = (piece.replace("▁", "") for piece in self._tokenizer.pieces(self._tokenizer.encode(text)))
        return tuple(piece for piece in pieces if piece.isalpha())

    def writer(self, lines: list[str]) -> Callable[[Words], str]:
        """Return a function that joins words to text, each in its usual form within the sentences of `lines`."""
        if not self._has_spaces:
            return "".join
        forms = TextProfile.of(lines, self._language).forms
        return lambda words: " ".join(forms.get(word, word) for word in words)
