"""Deep transition: a state that goes through several cells at every step."""

import pytest
import torch
from tiny_models import random_ids, random_values, randomise, run, tiny_model, valid_of

from nmt_cli.model.cells import RecurrentCell

DEEP = {"encoder": {"transition_depth": 3}, "decoder": {"transition_depth": 2}}
KINDS = [(order, "additive", cells, norm) for order in ("bahdanau", "conditional", "luong") for cells, norm in
         (("gru", True), ("lstm", False))]  # fmt: skip
LENGTHS = (5, 3, 1)


@pytest.mark.parametrize("rnn_type", ["gru", "lstm"])
@pytest.mark.parametrize("layer_norm", [True, False])
@torch.no_grad()
def test_a_deep_cell_is_its_cells_one_after_the_other_the_later_ones_without_input(rnn_type, layer_norm):
    deep = RecurrentCell(rnn_type, 4, layer_norm=layer_norm, depth=3).double()
    randomise(deep)
    projected_BG, state_BX = random_values(2, deep.gates_size), random_values(2, deep.state_size, seed=2)
    given = deep.unroll()(projected_BG, state_BX)
    transitions, deep.transitions = deep.transitions, torch.nn.ModuleList()
    expected = deep.unroll()(projected_BG, state_BX)
    for cell in transitions:
        expected = cell.unroll()(torch.zeros_like(projected_BG), expected)
    assert len(transitions) == 2
    torch.testing.assert_close(given, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_the_slope_along_a_random_direction(kind):
    model = tiny_model(kind, num_layers=2, **DEEP)
    factors = random_values(12, 11, seed=5)

    def loss():
        decoded = run(model, random_ids((3, 5)), valid_of(LENGTHS), random_ids((3, 4), seed=2))
        return (model.logits(decoded.readout_BTR.flatten(0, 1)) * factors).sum()

    parameters = dict(model.named_parameters())
    assert sum("transitions" in name for name in parameters) > 10
    gradients = dict(zip(parameters, torch.autograd.grad(loss(), list(parameters.values())), strict=True))
    for wanted in ("", "transitions"):  # all parameters at once, and those of the transitions alone
        chosen = {name: parameter for name, parameter in parameters.items() if wanted in name}
        directions = {
            name: random_values(*one.shape, seed=7 + place) for place, (name, one) in enumerate(chosen.items())
        }
        slope = sum(float((gradients[name] * directions[name]).sum()) for name in chosen)
        found = []
        with torch.no_grad():
            for step in (1e-6, -2e-6, 1e-6):
                for name, parameter in chosen.items():
                    parameter.add_(directions[name], alpha=step)
                found.append(float(loss()))
        assert slope == pytest.approx((found[0] - found[1]) / 2e-6, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_steps_and_padding_change_nothing(kind):
    model = tiny_model(kind, num_layers=2, **DEEP)
    source_BS, inputs_BT = random_ids((3, 5)), random_ids((3, 4), seed=2)
    memory = model.encode(source_BS, valid_of(LENGTHS))
    together = model.decode(inputs_BT, memory, model.start(memory))
    state = model.start(memory)
    for step in range(4):
        alone = model.decode(inputs_BT[:, step : step + 1], memory, state)
        state = alone.state
        torch.testing.assert_close(alone.readout_BTR[:, 0], together.readout_BTR[:, step], rtol=1e-12, atol=1e-12)
    for row, length in enumerate(LENGTHS):
        own = run(model, source_BS[row : row + 1, :length], valid_of([length]), inputs_BT[row : row + 1])
        torch.testing.assert_close(own.readout_BTR[0], together.readout_BTR[row], rtol=1e-12, atol=1e-12)
