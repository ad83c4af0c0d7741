"""Computes the gradient of an update from a batch, in micro-batches if memory is short, in one process or several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from nmt_cli.data.batch import Batch
from nmt_cli.data.sampler import SampledBatch, Sampler
from nmt_cli.model.dropout import Noise
from nmt_cli.model.seq2seq import Seq2Seq
from nmt_cli.ops import native
from nmt_cli.system.console import log
from nmt_cli.system.distributed import World
from nmt_cli.system.memory import is_out_of_memory
from nmt_cli.training.loss import LossSum, TranslationLoss
from nmt_cli.training.state import TrainingState

MAX_TRIAL_PIECES = 2_000
"""Most target pieces of a batch in a `gradient_trial`, so that it takes seconds even with a large model."""


class Objective(nn.Module):
    """The loss of a batch as a module, as `DistributedDataParallel` needs it to sum gradients over processes."""

    def __init__(self, model: Seq2Seq, loss: TranslationLoss) -> None:
        super().__init__()
        self._model, self._loss = model, loss

    def forward(self, batch: Batch, noise: Noise, *, fixed_shapes: bool) -> LossSum:
        return self._loss(self._model, batch, noise, fixed_shapes=fixed_shapes)


class MicroBatch(NamedTuple):
    """A part of an update's batch, with everything on which its gradient depends except the model's weights."""

    batch: Batch
    num_tokens: int
    """Target pieces of the whole update, by which the loss is divided."""
    seed: int
    """Seed of the dropout masks and of the other random choices of the forward pass."""
    bf16: bool = False
    weight: float = 1.0
    """Factor on the loss: 0 in a process that has no pairs of this batch, else 1."""
    is_last: bool = True


class BackwardPass:
    """The backward pass: adds the gradients of micro-batches to the `grad` of the parameters.

    Several processes sum their gradients at the last micro-batch of an update.
    """

    def __init__(self, objective: Objective, world: World) -> None:
        self._objective, self._world = world.wrap_data_parallel(objective), world
        # Picking the positions that count waits for the device to say how many there are.
        self._fixed_shapes = world.device.type != "cpu"

    def zero_grad(self) -> None:
        """Set all gradients to None."""
        self._objective.zero_grad(set_to_none=True)

    def __call__(self, micro_batch: MicroBatch) -> Tensor:
        """Add the gradient of a micro-batch; return its nll as a scalar: a sum over target pieces, in nats, float64.

        The scalar stays on the device. The gradient is divided by the pieces of the whole update."""
        device = self._world.device
        noise = Noise(torch.Generator(device).manual_seed(micro_batch.seed))
        with nullcontext() if micro_batch.is_last else self._world.no_sync(self._objective):
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=micro_batch.bf16):
                loss: LossSum = self._objective(micro_batch.batch, noise, fixed_shapes=self._fixed_shapes)
            # Processes average their gradients, so the factor `size` restores the sum.
            (loss.total * (micro_batch.weight * self._world.size) / micro_batch.num_tokens).backward()
        return loss.nll * micro_batch.weight


class LocalBatch(NamedTuple):
    """The local part of a batch: the pairs of this process, in the order of the batch."""

    sampled: SampledBatch
    """The batch of all processes, as indices of sentence pairs in the training data."""
    batch: Batch
    """The pairs of this process, on the device."""
    num_tokens: float
    """Target pieces of these pairs, padding not counted."""
    num_padded: float
    """Target positions of these pairs: pieces and padding."""
    weight: float
    """Factor on the loss: 0 in a process that has no pairs of this batch, else 1."""


class BatchLoader:
    """Iterates over the local batches of this process. On a GPU it prepares the next one while the device computes."""

    def __init__(
        self, sampler: Sampler, make_batch: Callable[[SampledBatch, int, Sequence[int]], Batch], world: World
    ) -> None:
        self.batches_per_epoch = sampler.batches_per_epoch
        self._sampler, self._make_batch, self._world = sampler, make_batch, world
        self._local_batches: Iterator[LocalBatch] = iter(())
        self._prefetched: LocalBatch | None = None

    def begin(self, state: TrainingState) -> None:
        """Continue with the batch of update `state.step + 1`."""
        self._local_batches, self._prefetched = self._batches_from(state), None

    def __next__(self) -> LocalBatch:
        local, self._prefetched = self._prefetched or next(self._local_batches), None
        return local

    def prefetch(self) -> None:
        """Prepare the next batch now if the device is a GPU, which computes meanwhile."""
        if self._world.device.type != "cpu":
            self._prefetched = next(self._local_batches)

    def _batches_from(self, state: TrainingState) -> Iterator[LocalBatch]:
        for step, sampled in enumerate(self._sampler.batches_from(state.cursor), state.step + 1):
            places = self._world.shard_indices(len(sampled.pairs))
            # A process for which no pair is left takes part with one that does not count.
            batch, weight = self._make_batch(sampled, step, places or range(1)), 1.0 if places else 0.0
            sizes = batch.num_target_tokens * weight, batch.outputs_BT.numel() * weight
            yield LocalBatch(sampled, batch.to_async(self._world.device), *sizes, weight)


class GradientAccumulator:
    """Computes the gradients of updates by accumulation over micro-batches; after memory has run out, over more and
    smaller ones."""

    def __init__(self, backward: BackwardPass, world: World, *, seed: int) -> None:
        self._backward, self._world, self._seed = backward, world, seed

    def gradients(self, local: LocalBatch, num_tokens: int, state: TrainingState) -> tuple[Tensor, TrainingState]:
        """Compute the gradient of the mean loss of update `state.step + 1` into the `grad` of the parameters.

        `num_tokens` counts the target pieces of all processes, by which the loss is divided.

        Returns:
            The nll of the local batch (a scalar on the device: a sum in nats), and the state, in which `accumulate` is
            the number of micro-batches.
        """
        while True:
            try:
                self._backward.zero_grad()
                nll = torch.zeros((), dtype=torch.float64, device=self._world.device)
                for micro_batch in self._micro_batches(local, num_tokens, state):
                    nll += self._backward(micro_batch)
                return nll, state
            except (MemoryError, RuntimeError) as error:
                # Of several processes the others are in the middle of a sum.
                is_last_resort = state.accumulate >= local.batch.num_sentences or self._world.size > 1
                if not is_out_of_memory(error) or is_last_resort:
                    raise
                state = replace(state, accumulate=2 * state.accumulate)
                log(f"out of memory at update {state.step + 1}; going on with the batch in {state.accumulate} parts")
            if self._world.device.type == "cuda":  # behind the handlers, whose errors hold tensors
                torch.cuda.empty_cache()

    def _micro_batches(self, local: LocalBatch, num_tokens: int, state: TrainingState) -> Iterator[MicroBatch]:
        batches, world = local.batch.split(state.accumulate), self._world
        for index, batch in enumerate(batches):
            seed = _noise_seed(self._seed, state.step + 1, index * world.size + world.rank)
            is_last = index + 1 == len(batches)
            yield MicroBatch(batch, num_tokens, seed, state.precision == "bf16", local.weight, is_last)


def gradient_trial(loader: BatchLoader, accumulator: GradientAccumulator, state: TrainingState) -> Callable[[], None]:
    """Return a function, to be timed, that computes the gradient of the next update but does not do the update.

    The training does not change: batch and noise depend on the step alone. Of a large batch only a part is used.
    """
    loader.begin(state)
    local = next(loader)
    batch, *_ = local.batch.split(-(-local.batch.outputs_BT.numel() // MAX_TRIAL_PIECES))

    def compute_gradients() -> None:
        with native.path(state.path):
            accumulator.gradients(local._replace(batch=batch), batch.num_target_tokens, state)

    return compute_gradients


def _noise_seed(seed: int, step: int, micro_batch: int) -> int:
    """Return the seed of a micro-batch of an update; large odd factors keep the seeds of neighbouring updates apart."""
    return (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + micro_batch * 0x94D049BB133111EB) % 2**63
