"""From batches to gradients, and what happens where a way of making them fails."""

import random

import numpy as np
import pytest
import torch
from host_waits import NoHostWaits
from unit.model.tiny_models import VOCAB_SIZE, every_kind, name_of, tiny_model

from nmt_cli.data.batch import make_batch
from nmt_cli.data.sampler import Cursor, SampledBatch
from nmt_cli.ops import native
from nmt_cli.system.distributed import World
from nmt_cli.training.loss import TranslationLoss
from nmt_cli.training.state import TrainingState
from nmt_cli.training.update import BackwardPass, BatchLoader, GradientAccumulator, LocalBatch, MicroBatch, Objective

DEFAULT = ("conditional", "additive", "gru", True)
LOSS = TranslationLoss(label_smoothing=0.1, coverage_weight=0.3, alignment_weight=0.5)


def batch_of(seed, *, rows=3, longest=7):
    """A batch with links whose longest source and target have the longest length, and others any."""
    random_ = random.Random(seed)

    def side():
        lengths = [longest, *(random_.randint(1, longest) for _ in range(rows - 1))]
        return [[random_.randrange(4, VOCAB_SIZE) for _ in range(length)] for length in lengths]

    links = [[(random_.randrange(2), random_.randrange(2))] for _ in range(rows)]
    return make_batch(side(), side(), links)


@pytest.fixture(autouse=True)
def _path():
    with native.path(native.PLAIN):
        yield


class Sampler:
    """Batches of one pair each, in order."""

    def __init__(self):
        self.sampled = []

    def batches_per_epoch(self):
        return 10.0

    def batches_from(self, cursor):
        for batch in range(cursor.batch, 10):
            self.sampled.append(batch)
            yield SampledBatch(np.array([batch]), Cursor(0, 0, batch + 1), batch / 10)


def loader_on(device):
    """A loader that believes to be on a device."""
    sampler, world = Sampler(), World(torch.device(device))
    made = []

    def make_batch(sampled, step, places):
        made.append((int(sampled.pairs[0]), step))
        return batch_of(int(sampled.pairs[0]))

    return BatchLoader(sampler, make_batch, world), made


def test_the_next_batch_is_made_ahead_on_a_device_and_when_it_is_asked_for_on_a_cpu():
    for device, ahead in (("cpu", []), ("meta", [(1, 2)])):
        loader, made = loader_on(device)
        loader.begin(TrainingState())
        next(loader)
        made.clear()
        loader.prefetch()
        assert made == ahead
        assert int(next(loader).sampled.pairs[0]) == 1
        assert made == [(1, 2)]


def test_what_was_made_ahead_is_forgotten_when_a_training_goes_back():
    loader, made = loader_on("meta")
    loader.begin(TrainingState(step=3, batch=3))
    next(loader)
    loader.prefetch()
    loader.begin(TrainingState(step=1, batch=1))
    assert int(next(loader).sampled.pairs[0]) == 1
    assert made[-1] == (1, 2)


@pytest.mark.parametrize("kind", every_kind(), ids=name_of)
def test_on_a_device_the_host_waits_for_nothing(kind):
    """Fails if the positions that count are picked by a mask, whose size the host asks for."""
    model, batch = tiny_model(kind, dropout=0.3), batch_of(1)
    backward = BackwardPass(Objective(model, LOSS), World())
    backward._fixed_shapes = True  # as on a device
    with NoHostWaits() as waits:
        backward.zero_grad()
        backward(MicroBatch(batch, 9, seed=1))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    assert waits.num_operations


def test_parts_of_a_batch_add_up_to_its_gradient():
    """With the noise of each part; the loss is divided by the target pieces of the whole batch."""
    model, batch = tiny_model(DEFAULT), batch_of(1)
    accumulator = GradientAccumulator(BackwardPass(Objective(model, LOSS), World()), World(), seed=1)
    local = LocalBatch(SampledBatch(np.arange(3), Cursor(), 0.0), batch, batch.num_target_tokens, 0, 1.0)
    found = []
    for accumulate in (1, 3):
        nll, state = accumulator.gradients(local, batch.num_target_tokens, TrainingState(accumulate=accumulate))
        found.append((float(nll), [parameter.grad.clone() for parameter in model.parameters()]))
        assert state.accumulate == accumulate
    torch.testing.assert_close(found[0], found[1])
