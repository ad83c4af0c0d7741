"""From batches to gradients, and what happens where a way of making them fails."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tapes import Tape, Tapes
from test_captured import DEFAULT, LOSS, batch_of, plain_gradients
from unit.model.tiny_models import tiny_model

from nmt_cli.data.sampler import Cursor, Drawn
from nmt_cli.distributed import World
from nmt_cli.ops import native
from nmt_cli.training import update
from nmt_cli.training.captured import Captured
from nmt_cli.training.state import TrainingState
from nmt_cli.training.update import Feed, Objective, Part, Plain, Share, Updates


@pytest.fixture(autouse=True)
def _path():
    with native.path(native.PLAIN):
        yield


class Sampler:
    """Batches of one pair each, in order."""

    def __init__(self):
        self.drawn = []

    def batches_an_epoch(self):
        return 10.0

    def from_cursor(self, cursor):
        for batch in range(cursor.batch, 10):
            self.drawn.append(batch)
            yield Drawn(np.array([batch]), Cursor(0, 0, batch + 1), batch / 10)


def feed_on(device):
    """A feed that believes to be on a device."""
    sampler, world = Sampler(), World(torch.device(device))
    made = []

    def make_batch(drawn, step, places):
        made.append((int(drawn.pairs[0]), step))
        return batch_of(int(drawn.pairs[0]))

    return Feed(sampler, make_batch, world), made


def test_the_next_batch_is_made_ahead_on_a_device_and_when_it_is_asked_for_on_a_cpu():
    for device, ahead in (("cpu", []), ("meta", [(1, 2)])):
        feed, made = feed_on(device)
        feed.begin(TrainingState())
        next(feed)
        made.clear()
        feed.prepare()
        assert made == ahead
        assert int(next(feed).drawn.pairs[0]) == 1
        assert made == [(1, 2)]


def test_what_was_made_ahead_is_forgotten_when_a_training_goes_back():
    feed, made = feed_on("meta")
    feed.begin(TrainingState(step=3, batch=3))
    next(feed)
    feed.prepare()
    feed.begin(TrainingState(step=1, batch=1))
    assert int(next(feed).drawn.pairs[0]) == 1
    assert made[-1] == (1, 2)


def test_on_a_device_the_plain_way_waits_for_nothing():
    """Fails if the positions that count are picked by a mask, whose size the host asks for."""
    model, batch = tiny_model(DEFAULT, dropout=0.3), batch_of(1)
    plain = Plain(Objective(model, LOSS), World())
    plain._fixed_shapes = True  # as on a device
    tape = Tape()
    with tape:
        plain.clear()
        plain(Part(batch, 9, seed=1))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    assert tape.operations


@pytest.mark.parametrize("why", ["cannot be captured (no)", "differs from the plain step"])
def test_without_graphs_a_training_goes_on_plainly_on_the_batch_as_it_is(why, capsys):
    """With the noise of the unpadded batch. Fails if batches stay padded, where the half of an update that graphs
    have made stays in the gradients, and where the warning comes again."""
    model = tiny_model(DEFAULT, dropout=0.3)
    graphs = (
        Tapes(failure=RuntimeError("no")) if "captured" in why else Tapes(spoil=lambda: model.output_bias.grad.zero_())
    )
    objective = Objective(model, LOSS)
    updates = Updates(Plain(objective, World()), Captured(objective, graphs), World(), seed=1)
    state = TrainingState(accumulate=1)
    for step, batch in enumerate((batch_of(1), batch_of(2))):
        share = Share(Drawn(np.arange(3), Cursor(), 0.0), batch, batch.num_target_tokens, 0, 1.0)
        state = replace(state, step=step)
        nll, state = updates.gradients(share, batch.num_target_tokens, state)
        found = [torch.zeros_like(one) if one.grad is None else one.grad.clone() for one in model.parameters()]
        truth = plain_gradients(model, batch, seed=update._noise_seed(1, step + 1, 0))
        torch.testing.assert_close((float(nll), found), truth, rtol=0, atol=0)
        assert state.graphs_failed
    told = capsys.readouterr().err
    assert told.count("warning: ") == 1
    assert why in told
    assert "; training goes on without CUDA graphs, kernel by kernel" in told
    assert graphs.asked.count("run") == 1
