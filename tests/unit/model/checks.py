"""Checks that every model must pass, whatever it is made of."""

import pytest
import torch
from tiny_models import random_ids, random_values, run, valid_of

LENGTHS = (5, 3, 1)
EXACT = {"rtol": 1e-12, "atol": 1e-12}


@torch.no_grad()
def assert_steps_are_teacher_forcing(model):
    """Step by step gives what teacher forcing gives, and the same state at the end."""
    inputs_BT = random_ids((3, 4), seed=2)
    memory = model.encode(random_ids((3, 5)), valid_of(LENGTHS))
    together = model.decode(inputs_BT, memory, model.initial_state(memory))
    state = model.initial_state(memory)
    for step in range(4):
        alone = model.decode(inputs_BT[:, step : step + 1], memory, state)
        state = alone.state
        torch.testing.assert_close(alone.readout_BTR[:, 0], together.readout_BTR[:, step], **EXACT)
        torch.testing.assert_close(alone.weights_BTS[:, 0], together.weights_BTS[:, step], **EXACT)
    torch.testing.assert_close(state, together.state, **EXACT)


@torch.no_grad()
def assert_padding_changes_nothing(model):
    """Each sentence alone and unpadded, against the batch padded with pieces of any kind."""
    source_BS, inputs_BT = random_ids((3, 8)), random_ids((3, 4), seed=2)
    together = run(model, source_BS, valid_of(LENGTHS, width=8), inputs_BT)
    for row, length in enumerate(LENGTHS):
        alone = run(model, source_BS[row : row + 1, :length], valid_of([length]), inputs_BT[row : row + 1])
        torch.testing.assert_close(together.readout_BTR[row], alone.readout_BTR[0], **EXACT)
        torch.testing.assert_close(together.weights_BTS[row, :, :length], alone.weights_BTS[0], **EXACT)


def assert_gradient_is_the_slope(model, wanted=""):
    """Along a random direction of the parameters that have `wanted` in their names."""
    factors = random_values(12, 11, seed=5)

    def loss():
        decoded = run(model, random_ids((3, 5)), valid_of(LENGTHS), random_ids((3, 4), seed=2))
        return (model.logits(decoded.readout_BTR.flatten(0, 1)) * factors).sum()

    chosen = {name: parameter for name, parameter in model.named_parameters() if wanted in name}
    assert chosen
    gradients = torch.autograd.grad(loss(), list(chosen.values()))
    directions = [random_values(*one.shape, seed=7 + place) for place, one in enumerate(chosen.values())]
    slope = sum(float((g * d).sum()) for g, d in zip(gradients, directions, strict=True))
    found = []
    with torch.no_grad():
        for step in (1e-6, -2e-6):
            for parameter, direction in zip(chosen.values(), directions, strict=True):
                parameter.add_(direction, alpha=step)
            found.append(float(loss()))
    assert slope == pytest.approx((found[0] - found[1]) / 2e-6, rel=1e-5, abs=1e-6)
