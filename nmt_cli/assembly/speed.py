"""A short measured training on made-up text, by which `nmt check` estimates the time of the real one.

`nmt improve` gets its estimate from `nmt check`.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch

from nmt_cli.assembly.measured_settings import can_choose_threads, is_bf16, set_fastest_threads
from nmt_cli.assembly.optimization import build_accumulator, build_weights, has_sampled_softmax
from nmt_cli.corpora.expectations import TrainingSpeed
from nmt_cli.data.batch import make_batch
from nmt_cli.data.sampler import Cursor, SampledBatch
from nmt_cli.data.tokenizer import EOS
from nmt_cli.model.build import build_model, initialize
from nmt_cli.ops import native
from nmt_cli.system.console import Progress, warn
from nmt_cli.system.distributed import World
from nmt_cli.system.memory import is_out_of_memory, keep_few_kernels, keep_freed_memory
from nmt_cli.training.state import TrainingState
from nmt_cli.training.trials import time_alternately
from nmt_cli.training.update import MAX_TRIAL_PIECES, LocalBatch

if TYPE_CHECKING:
    from torch import Tensor

    from nmt_cli.assembly.preflight import CheckResult
    from nmt_cli.config.schema import Config
    from nmt_cli.corpora.expectations import Workload
    from nmt_cli.data.batch import Batch

SECONDS = 2.0
"""Seconds after which no further update is measured. Before that, finding the size of the batch takes about as long."""
INITIAL_BATCH_SIZE = 8
"""Number of pairs in the first batch that is tried."""
GROWTH = 4
"""Factor by which the number of pairs grows from one batch to the next."""
FREQUENT_SHARE = 1 / 3
"""Share of the pieces of a joint vocabulary that make up 95 % of the target text: 0.27 to 0.38 in the five corpora of
docs/studies/defaults.md."""
MEMORY_SHARE = 0.5
"""Largest share of this machine's memory that a training may need if it is to be tried here."""


def with_speed(result: CheckResult) -> CheckResult:
    """Return the check with the speed of a short training; unchanged if it has problems, or memory is too small."""

    expected = result.expected
    if result.problems or expected.work is None:
        return result
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if result.model.memory.total > MEMORY_SHARE * installed:
        warn("the speed of training was not measured: it would take more than half of the memory of this machine")
        return result
    try:
        speed = measure_speed(result.config, expected.work, result.model.vocab_sizes)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        warn("the speed of training was not measured: memory ran out")
        return result
    return replace(result, expected=replace(expected, speed=speed))


def measure_speed(config: Config, work: Workload, vocab_sizes: tuple[int, int]) -> TrainingSpeed:
    """Train a new model of this configuration for some seconds and return the speed.

    The batch is as large as in an average update, or smaller if a gradient takes long; the time of a whole batch is
    then extrapolated. Precision and threads are chosen as a new training chooses them.
    """

    training = config.training.model_copy(update={"guided_alignment_weight": 0.0})
    config = config.model_copy(update={"training": training})
    world = World()
    world.take_device(training.device)
    keep_freed_memory()
    keep_few_kernels()
    if training.threads:
        torch.set_num_threads(training.threads)
    model = build_model(config.model, source_vocab_size=vocab_sizes[0], target_vocab_size=vocab_sizes[1])
    initialize(model, seed=config.seed, scheme=config.model.initialization)
    weights = build_weights(config, model.to(world.device))
    accumulator = build_accumulator(config, model, world, _random_counts(config, world, vocab_sizes[1]))
    bf16 = is_bf16(training, model, world, work.target_pieces + 1)
    state = TrainingState.first(weights.trained[0], bf16=bf16, text="", accumulate=training.accumulate)

    def gradient(batch: Batch) -> None:
        accumulator.gradients(_local_batch(batch), batch.num_target_tokens, state)[0].item()  # waits for the device
        progress.advance()

    def optimizer_step() -> None:
        float(weights.clip(training.clip_grad_norm))
        weights.optimizer_step(1, 0.0)

    full_size = max(1, round(work.tokens_per_update / (work.target_pieces + 1)))
    with native.path(state.path), Progress("measuring the speed of training", unit="batch") as progress:
        if world.device.type == "cpu" and can_choose_threads(training):
            trial_size = min(full_size, round(MAX_TRIAL_PIECES / (work.target_pieces + 1)) or 1)
            trial_batch = _random_batch(trial_size, work, vocab_sizes)
            set_fastest_threads(lambda: gradient(trial_batch))
        began = time.perf_counter()
        batch, seconds_by_size = _largest_batch(
            full_size, lambda size: _random_batch(size, work, vocab_sizes).to(world.device), gradient
        )
        ways = {"gradient": lambda: gradient(batch), "optimizer step": optimizer_step}
        times = time_alternately(ways, seconds=SECONDS)
    seconds_by_size[batch.num_sentences] = statistics.median(times["gradient"])
    return TrainingSpeed(
        _extrapolated_seconds(seconds_by_size, full_size) + statistics.median(times["optimizer step"]),
        time.perf_counter() - began,
        torch.get_num_threads(),
        str(world.device),
        state.precision,
    )


def _largest_batch(
    full_size: int, make: Callable[[int], Batch], gradient: Callable[[Batch], object]
) -> tuple[Batch, dict[int, float]]:
    """Return the largest batch, of up to `full_size` pairs, whose gradient takes about SECONDS at most.

    Also return the seconds of the gradient for each number of pairs that was tried.
    """
    size, seconds_by_size = max(1, min(INITIAL_BATCH_SIZE, full_size)), dict[int, float]()
    while True:
        batch = make(size)
        (seconds_by_size[size],) = time_alternately({size: partial(gradient, batch)}, seconds=0.0)[size]
        if size == full_size or (len(seconds_by_size) > 1 and GROWTH * seconds_by_size[size] > SECONDS):
            return batch, seconds_by_size
        size = min(full_size, GROWTH * size)


def _extrapolated_seconds(seconds_by_size: dict[int, float], full_size: int) -> float:
    """Return the seconds for a batch of `full_size` pairs, linear in the pairs through the two largest sizes in
    `seconds_by_size`."""
    *_, size = seconds_by_size
    if size == full_size:
        return seconds_by_size[size]
    smaller = [*seconds_by_size][-2]
    return seconds_by_size[size] + (full_size - size) * max(0.0, seconds_by_size[size] - seconds_by_size[smaller]) / (
        size - smaller
    )


def _local_batch(batch: Batch) -> LocalBatch:
    """Return the batch in the form that `GradientAccumulator` takes, as the whole batch of one process."""

    drawn = SampledBatch(np.arange(batch.num_sentences), Cursor(), 0.0)
    return LocalBatch(drawn, batch, batch.num_target_tokens, batch.outputs_BT.numel(), 1.0)


def _random_batch(size: int, work: Workload, vocab_sizes: tuple[int, int]) -> Batch:
    """Return a batch of `size` pairs of average length, their pieces drawn at random from the frequent ones."""
    from random import Random

    draw = Random(1)
    lengths = (max(1, round(length)) for length in (work.source_pieces, work.target_pieces))
    sources, targets = (
        [[draw.randrange(EOS + 1, num_frequent) for _ in range(length)] for _ in range(size)]
        for length, num_frequent in zip(lengths, map(_num_frequent, vocab_sizes), strict=True)
    )
    return make_batch(sources, targets)


def _random_counts(config: Config, world: World, vocab_size: int) -> Tensor | None:
    """Return the counts of target pieces (V) in made-up text: 1 if frequent, else 0; None without a sampled softmax."""

    if not has_sampled_softmax(config, world):
        return None
    return (torch.arange(vocab_size) < _num_frequent(vocab_size)).long()


def _num_frequent(vocab_size: int) -> int:

    return max(EOS + 2, round(FREQUENT_SHARE * vocab_size))
