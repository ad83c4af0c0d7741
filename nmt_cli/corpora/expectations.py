"""Expectations of a training: length, room on the disk, and quality. Plain arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nmt_cli.config.schema import Config, TrainingConfig
from nmt_cli.corpora.corpus_report import CorpusReport
from nmt_cli.corpora.sizes import PIECES_PER_WORD, TrainingMemory
from nmt_cli.data.sampler import tempered

BOUND_BYTES = 8
"""Bytes of the place where a line begins in the tokenised text."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The amount of work of a training."""

    source_pieces: float
    """Pieces of a source, on average."""
    target_pieces: float
    tokens_an_epoch: int
    """Target pieces with `</s>`; a corpus of weight 2 counts twice."""
    updates_an_epoch: float
    updates: int
    """To the end by `max_epochs` or `max_steps`, whichever comes first."""

    @property
    def tokens_an_update(self) -> float:
        """Target pieces of an update on average, padding not counted."""
        return self.tokens_an_epoch / self.updates_an_epoch

    def with_updates(self, updates_an_epoch: float, training: TrainingConfig) -> Workload:
        """Return the same work with the counted updates of an epoch."""
        updates = _updates(updates_an_epoch, training)
        return replace(self, updates_an_epoch=updates_an_epoch, updates=updates)


@dataclass(frozen=True, slots=True)
class Speed:
    """The speed of a training, as a short run of it has shown."""

    seconds_an_update: float
    measured_seconds: float
    threads: int
    device: str
    precision: str

    def minutes(self, updates: int) -> float:
        """Return the minutes that `updates` updates take, without validations and checkpoints."""
        return updates * self.seconds_an_update / 60


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """Bytes that a run takes, by what they hold."""

    checkpoints: int
    """All that are kept, and one that is being written."""
    tokenised_text: int

    @property
    def total(self) -> int:
        return self.checkpoints + self.tokenised_text


@dataclass(frozen=True, slots=True)
class Result:
    """A score of our own."""

    pairs: int
    bleu: float


OWN_RESULTS = (Result(1_000, 19.06), Result(5_000, 27.05), Result(29_000, 41.48))
"""The mean of three trainings for each amount of text, on the test set of 2016 (first table of docs/results.md)."""
OWN_TEXT = "Multi30K English-German, short image captions"
OWN_SOURCE = "docs/results.md"


@dataclass(frozen=True, slots=True)
class Quality:
    """The BLEU of our own models that were trained on a like amount of text."""

    below: Result | None
    """The result with the next smaller amount of text; None if there is none so small."""
    above: Result | None


def workload(config: Config, reports: Sequence[CorpusReport], *, in_pieces: bool) -> Workload | None:
    """Return the work of a training on these corpora; None where they hold nothing to train on."""
    training = [report for report in reports if report.is_training]
    factor = 1.0 if in_pieces else PIECES_PER_WORD
    pairs = tokens = sources = 0.0
    factors = tempered([report.num_kept for report in training], config.data.corpus_temperature)
    for report, corpus, even in zip(training, config.data.train, factors, strict=False):
        kept = even * corpus.weight * report.num_kept
        source, target = (factor * side.num_units / max(1, report.num_pairs) for side in report.sides)
        pairs, sources, tokens = pairs + kept, sources + kept * source, tokens + kept * (target + 1)
    if not pairs:
        return None
    options = config.training
    size = pairs if options.batch_type == "sentences" else tokens
    updates_an_epoch = max(1.0, size / options.batch_size)  # a batch ends with the epoch
    updates = _updates(updates_an_epoch, options)
    return Workload(sources / pairs, tokens / pairs - 1, round(tokens), updates_an_epoch, updates)


def _updates(updates_an_epoch: float, training: TrainingConfig) -> int:
    """Return the updates of a whole training."""
    by_epochs = training.max_epochs and training.max_epochs * updates_an_epoch
    return max(1, round(min(limit for limit in (by_epochs, training.max_steps) if limit)))


def disk_space(config: Config, memory: TrainingMemory, reports: Sequence[CorpusReport], vocab_size: int) -> DiskSpace:
    """Return the room that a run takes, without logs.

    A checkpoint holds the weights that translate, the raw ones, the moments of the optimizer and the average.
    """
    checkpoint = 2 * memory.weights + memory.optimizer + memory.average
    training = [report for report in reports if report.is_training]
    pieces = sum(side.num_units for report in training for side in report.sides)
    text = pieces * (2 if vocab_size <= 2**16 else 4) + 2 * BOUND_BYTES * sum(report.num_pairs for report in training)
    return DiskSpace((config.training.keep_best + config.training.keep_last + 1) * checkpoint, text)


def expected_quality(num_pairs: int) -> Quality:
    """Return between which of our own results an amount of text lies."""
    below = [result for result in OWN_RESULTS if result.pairs <= num_pairs]
    above = [result for result in OWN_RESULTS if result.pairs > num_pairs]
    return Quality(below[-1] if below else None, above[0] if above else None)


@dataclass(frozen=True, slots=True)
class Expectations:
    """Expected length, room on the disk and quality of a training."""

    work: Workload | None
    """None if there is nothing to train on."""
    disk: DiskSpace
    quality: Quality
    speed: Speed | None = None
    """None if it was not measured."""
