"""Estimates before a training of its updates, duration, disk space and BLEU, by plain arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nmt_cli.config.schema import Config, TrainingConfig
from nmt_cli.corpora.corpus_report import CorpusReport
from nmt_cli.corpora.sizes import PIECES_PER_WORD, TrainingMemory
from nmt_cli.data.sampler import temperature_weights

LINE_OFFSET_BYTES = 8
"""Bytes of the stored position at which a line begins in the tokenised text."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The amount of text that a training reads, and the number of its updates."""

    source_pieces: float
    """Average number of pieces of a source sentence."""
    target_pieces: float
    tokens_per_epoch: int
    """Target pieces, with `</s>`, that an epoch reads; a corpus of weight 2 is read twice."""
    updates_per_epoch: float
    updates: int
    """Number of updates of the training, to `max_epochs` or `max_steps`, whichever comes first."""

    @property
    def tokens_per_update(self) -> float:
        """Target pieces of an update on average, padding not counted."""
        return self.tokens_per_epoch / self.updates_per_epoch

    def with_updates(self, updates_per_epoch: float, training: TrainingConfig) -> Workload:
        """Return this workload with another number of updates per epoch, one that was counted instead of estimated."""
        updates = _updates(updates_per_epoch, training)
        return replace(self, updates_per_epoch=updates_per_epoch, updates=updates)


@dataclass(frozen=True, slots=True)
class TrainingSpeed:
    """The speed of a training, measured in a short run of it."""

    seconds_per_update: float
    measured_seconds: float
    threads: int
    device: str
    precision: str

    def minutes(self, updates: int) -> float:
        """Return the minutes that `updates` updates take, without validations and checkpoints."""
        return updates * self.seconds_per_update / 60


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """Bytes on the disk that a run takes, by use."""

    checkpoints: int
    """Bytes of all checkpoints that are kept, and of one that is being written."""
    tokenised_text: int

    @property
    def total(self) -> int:
        return self.checkpoints + self.tokenised_text


@dataclass(frozen=True, slots=True)
class Result:
    """The BLEU of our own models that were trained on this number of pairs."""

    pairs: int
    bleu: float


MULTI30K_RESULTS = (Result(1_000, 19.06), Result(5_000, 27.05), Result(29_000, 41.48))
"""The mean of three trainings for each amount of text, on the test set of 2016 (first table of docs/results.md)."""
RESULTS_CORPUS = "Multi30K English-German, short image captions"
RESULTS_PAGE = "docs/results.md"


@dataclass(frozen=True, slots=True)
class Quality:
    """Our own results with the amounts of text nearest to a given one, as a guide to what to expect."""

    below: Result | None
    """The result with the same or the next smaller amount of text; None if there is none."""
    above: Result | None
    """The result with the next larger amount of text; None if there is none."""


def workload(config: Config, reports: Sequence[CorpusReport], *, in_pieces: bool) -> Workload | None:
    """Return the text that training on these corpora reads, and its updates; None if there is nothing to train on.

    `in_pieces` is True if the reports count pieces. If they count words, the number of pieces is estimated.
    """
    training = [report for report in reports if report.is_training]
    factor = 1.0 if in_pieces else PIECES_PER_WORD
    pairs = tokens = sources = 0.0
    factors = temperature_weights([report.num_kept for report in training], config.data.corpus_temperature)
    for report, corpus, even in zip(training, config.data.train, factors, strict=False):
        kept = even * corpus.weight * report.num_kept
        source, target = (factor * side.num_units / max(1, report.num_pairs) for side in report.sides)
        pairs, sources, tokens = pairs + kept, sources + kept * source, tokens + kept * (target + 1)
    if not pairs:
        return None
    options = config.training
    size = pairs if options.batch_type == "sentences" else tokens
    updates_per_epoch = max(1.0, size / options.batch_size)  # a batch ends with the epoch
    updates = _updates(updates_per_epoch, options)
    return Workload(sources / pairs, tokens / pairs - 1, round(tokens), updates_per_epoch, updates)


def _updates(updates_per_epoch: float, training: TrainingConfig) -> int:
    """Return the number of updates of a whole training, to `max_epochs` or `max_steps`, whichever comes first."""
    by_epochs = training.max_epochs and training.max_epochs * updates_per_epoch
    return max(1, round(min(limit for limit in (by_epochs, training.max_steps) if limit)))


def disk_space(config: Config, memory: TrainingMemory, reports: Sequence[CorpusReport], vocab_size: int) -> DiskSpace:
    """Return the disk space that a run takes, without logs.

    A checkpoint holds the weights that translate, the raw weights, the moments of the optimizer and the average.
    """
    checkpoint = 2 * memory.weights + memory.optimizer + memory.average
    training = [report for report in reports if report.is_training]
    pieces = sum(side.num_units for report in training for side in report.sides)
    text = pieces * (2 if vocab_size <= 2**16 else 4) + 2 * LINE_OFFSET_BYTES * sum(
        report.num_pairs for report in training
    )
    return DiskSpace((config.training.keep_best + config.training.keep_last + 1) * checkpoint, text)


def expected_quality(num_pairs: int) -> Quality:
    """Return our own results with the amounts of text just below and above this number of pairs."""
    below = [result for result in MULTI30K_RESULTS if result.pairs <= num_pairs]
    above = [result for result in MULTI30K_RESULTS if result.pairs > num_pairs]
    return Quality(below[-1] if below else None, above[0] if above else None)


@dataclass(frozen=True, slots=True)
class Expectations:
    """Expected workload, disk space, quality and, if measured, speed of a training."""

    work: Workload | None
    """None if there is nothing to train on."""
    disk: DiskSpace
    quality: Quality
    speed: TrainingSpeed | None = None
    """None if it was not measured."""
