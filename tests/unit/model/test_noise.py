"""Dropout: its randomness is the seed's and nobody else's."""

import pytest
import torch
from tiny_models import every_attention, name_of, random_ids, run, tiny_model, valid_of

from nmt_cli.model.dropout import Noise, apply_dropout

SHAPE = (3, 5)


def noise_of(seed):
    return Noise(torch.Generator().manual_seed(seed))


def run_with(model, noise):
    return run(model, random_ids(SHAPE), valid_of((5, 4, 2)), random_ids((3, 4), seed=2), noise).readout_BTR


@pytest.mark.parametrize("kind", every_attention(), ids=name_of)
@torch.no_grad()
def test_a_step_depends_on_the_seed_of_its_noise_only_and_leaves_the_global_generator_alone(kind):
    model = tiny_model(kind, num_layers=2, dropout=0.3)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = run_with(model, noise_of(5))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(run_with(model, noise_of(5)), first)
    assert not torch.equal(run_with(model, noise_of(6)), first)


@pytest.mark.parametrize("kind", every_attention(), ids=name_of)
@torch.no_grad()
def test_without_noise_nothing_is_dropped_in_train_mode_too(kind):
    model, quiet = tiny_model(kind, num_layers=2, dropout=0.3), tiny_model(kind, num_layers=2)
    assert torch.equal(run_with(model.train(), None), run_with(quiet, None))
    assert torch.equal(run_with(quiet, noise_of(1)), run_with(quiet, None))


@pytest.mark.parametrize("place", ["embedding", "recurrent", "annotation", "readout", "source_word", "target_word"])
@torch.no_grad()
def test_every_place_of_dropout_drops_by_itself(place):
    """Fails if a probability of the configuration is not passed on."""
    kind = ("conditional", "additive", "gru", True)
    model, quiet = tiny_model(kind, dropout={place: 0.5}), tiny_model(kind)
    assert not torch.equal(run_with(model, noise_of(1)), run_with(quiet, None))


def test_a_mask_keeps_the_expected_share_and_scales_it_up():
    mask = noise_of(1).mask((200, 200), 0.2, torch.zeros(()))
    assert set(mask.unique().tolist()) == {0.0, 1.25}
    assert float(mask.mean()) == pytest.approx(1.0, abs=0.01)


def test_a_mask_is_the_same_in_every_precision():
    masks = [noise_of(1).mask(SHAPE, 0.5, torch.zeros((), dtype=dtype)) for dtype in (torch.float64, torch.bfloat16)]
    assert torch.equal(masks[0].bool(), masks[1].bool())


def test_along_a_shared_dimension_all_positions_lose_the_same_units():
    values = apply_dropout(torch.ones(3, 5, 7), 0.5, noise_of(1))
    assert torch.equal(values, values[:, :1].expand(3, 5, 7))
    assert not torch.equal(values[0], values[1])


@torch.no_grad()
def test_word_dropout_takes_whole_pieces():
    """Seen in the encoder's input: a dropped piece is a row of zeros, another is scaled up."""
    model = tiny_model(("conditional", "additive", "gru", True), dropout={"source_word": 0.5})
    seen = []
    model.encoder.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    source_BS = random_ids((4, 6))
    model.encode(source_BS, valid_of((6,) * 4), noise_of(1))
    rows, whole = seen[0].flatten(0, 1), model.source_embedding[source_BS].flatten(0, 1)
    is_dropped = [bool((row == 0).all()) for row in rows]
    assert 4 < sum(is_dropped) < 20
    for row, full, gone in zip(rows, whole, is_dropped, strict=True):
        torch.testing.assert_close(row, torch.zeros_like(full) if gone else 2 * full)
