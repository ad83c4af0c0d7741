"""Makes the gradient of an update from a batch, in parts where memory is short, by one process or several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from nmt_cli.data.batch import Batch
from nmt_cli.data.sampler import Drawn, Sampler
from nmt_cli.model.noise import Noise
from nmt_cli.model.seq2seq import Seq2Seq
from nmt_cli.ops import native
from nmt_cli.system.console import log
from nmt_cli.system.distributed import World
from nmt_cli.system.memory import is_out_of_memory
from nmt_cli.training.loss import LossSum, TranslationLoss
from nmt_cli.training.state import TrainingState

REHEARSED_PIECES = 2_000
"""Target pieces of a rehearsed batch at most, so that a large model is rehearsed within seconds."""


class Objective(nn.Module):
    """The loss of a batch as a module, whose gradients a world of several processes can sum."""

    def __init__(self, model: Seq2Seq, loss: TranslationLoss) -> None:
        super().__init__()
        self._model, self._loss = model, loss

    def forward(self, batch: Batch, noise: Noise, *, fixed_shapes: bool) -> LossSum:
        return self._loss(self._model, batch, noise, fixed_shapes=fixed_shapes)


class Part(NamedTuple):
    """Part of an update's batch, with all on which its gradient depends beside the weights."""

    batch: Batch
    num_tokens: int
    """Target pieces of the whole update, by which the loss is divided."""
    seed: int
    """Seed of the noise."""
    bf16: bool = False
    weight: float = 1.0
    """0 if the part counts nothing."""
    is_last: bool = True


class Backward:
    """Adds the gradients of parts of a batch to the gradients of the parameters, and knows of no optimizer.

    Several processes sum their gradients at the last part of an update.
    """

    def __init__(self, objective: Objective, world: World) -> None:
        self._objective, self._world = world.parallel(objective), world
        # Picking the positions that count waits for the device to say how many there are.
        self._fixed_shapes = world.device.type != "cpu"

    def clear(self) -> None:
        """Forget the gradients so far."""
        self._objective.zero_grad(set_to_none=True)

    def __call__(self, part: Part) -> Tensor:
        """Add the gradient of a part; return its summed nll in float64, on the device."""
        device = self._world.device
        noise = Noise(torch.Generator(device).manual_seed(part.seed))
        with nullcontext() if part.is_last else self._world.accumulating(self._objective):
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=part.bf16):
                loss: LossSum = self._objective(part.batch, noise, fixed_shapes=self._fixed_shapes)
            (loss.total * (part.weight * self._world.size) / part.num_tokens).backward()  # the world takes the mean
        return loss.nll * part.weight


class Share(NamedTuple):
    """This process's share of a batch."""

    drawn: Drawn
    batch: Batch
    """On the device."""
    num_tokens: float
    """Target pieces, padding not counted."""
    num_padded: float
    weight: float


class Feed:
    """The shares of this process, one after the other; on a GPU the next one is made while the device computes."""

    def __init__(
        self, sampler: Sampler, make_batch: Callable[[Drawn, int, Sequence[int]], Batch], world: World
    ) -> None:
        self.batches_an_epoch = sampler.batches_an_epoch
        self._sampler, self._make_batch, self._world = sampler, make_batch, world
        self._shares: Iterator[Share] = iter(())
        self._ahead: Share | None = None

    def begin(self, state: TrainingState) -> None:
        """Begin with the batch after the update at which a training stands."""
        self._shares, self._ahead = self._following(state), None

    def __next__(self) -> Share:
        share, self._ahead = self._ahead or next(self._shares), None
        return share

    def prepare(self) -> None:
        """Make the next share now, if the device computes meanwhile."""
        if self._world.device.type != "cpu":
            self._ahead = next(self._shares)

    def _following(self, state: TrainingState) -> Iterator[Share]:
        for step, drawn in enumerate(self._sampler.from_cursor(state.cursor), state.step + 1):
            places = self._world.places(len(drawn.pairs))
            # A process for which no pair is left takes part with one that does not count.
            batch, weight = self._make_batch(drawn, step, places or range(1)), 1.0 if places else 0.0
            sizes = batch.num_target_tokens * weight, batch.outputs_BT.numel() * weight
            yield Share(drawn, batch.sent(self._world.device), *sizes, weight)


class Updates:
    """Makes the gradients of updates, in more parts if memory has run out before."""

    def __init__(self, backward: Backward, world: World, *, seed: int) -> None:
        self._backward, self._world, self._seed = backward, world, seed

    def gradients(self, share: Share, num_tokens: int, state: TrainingState) -> tuple[Tensor, TrainingState]:
        """Leave the gradient of the mean loss of update `state.step + 1` over `num_tokens` in the parameters.

        Returns the summed nll, on the device, and the state, which remembers into how many parts a batch is cut.
        """
        while True:
            try:
                self._backward.clear()
                nll = torch.zeros((), dtype=torch.float64, device=self._world.device)
                for part in self._parts(share, num_tokens, state):
                    nll += self._backward(part)
                return nll, state
            except (MemoryError, RuntimeError) as error:
                # Of several processes the others are in the middle of a sum.
                is_last_resort = state.accumulate >= share.batch.num_sentences or self._world.size > 1
                if not is_out_of_memory(error) or is_last_resort:
                    raise
                state = replace(state, accumulate=2 * state.accumulate)
                log(f"out of memory at step {state.step + 1}; going on with the batch in {state.accumulate} parts")
            if self._world.device.type == "cuda":  # behind the handlers, whose errors hold tensors
                torch.cuda.empty_cache()

    def _parts(self, share: Share, num_tokens: int, state: TrainingState) -> Iterator[Part]:
        batches, world = share.batch.split(state.accumulate), self._world
        for index, batch in enumerate(batches):
            seed = _noise_seed(self._seed, state.step + 1, index * world.size + world.rank)
            is_last = index + 1 == len(batches)
            yield Part(batch, num_tokens, seed, state.precision == "bf16", share.weight, is_last)


def rehearsal(feed: Feed, updates: Updates, state: TrainingState) -> Callable[[], None]:
    """Return a function that computes the gradient of the next update and forgets it, to see how long that takes.

    It changes nothing of the training: batch and noise follow from the step. Of a large batch it takes a part.
    """
    feed.begin(state)
    share = next(feed)
    batch, *_ = share.batch.split(-(-share.batch.outputs_BT.numel() // REHEARSED_PIECES))

    def rehearse() -> None:
        with native.path(state.path):
            updates.gradients(share._replace(batch=batch), batch.num_target_tokens, state)

    return rehearse


def _noise_seed(seed: int, step: int, part: int) -> int:
    """Return one number for each step and part; large odd factors keep neighbouring ones apart."""
    return (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + part * 0x94D049BB133111EB) % 2**63
