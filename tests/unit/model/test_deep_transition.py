"""Deep transition: a state that goes through several cells at every step."""

import pytest
import torch
from checks import assert_gradient_is_the_slope, assert_padding_changes_nothing, assert_steps_are_teacher_forcing
from tiny_models import random_values, randomise, tiny_model

from nmt_cli.model.cells import InputProjection, RecurrentCell

DEEP = {"encoder": {"transition_depth": 3}, "decoder": {"transition_depth": 2}}
KINDS = [(order, "additive", cells, norm) for order in ("bahdanau", "conditional", "luong") for cells, norm in
         (("gru", True), ("lstm", False))]  # fmt: skip


@pytest.mark.parametrize("rnn_type", ["gru", "lstm"])
@pytest.mark.parametrize("layer_norm", [True, False])
@torch.no_grad()
def test_a_deep_cell_is_its_cells_one_after_the_other_the_later_ones_without_input(rnn_type, layer_norm):
    deep = RecurrentCell(rnn_type, 4, layer_norm=layer_norm, depth=3).double()
    randomise(deep)
    input_BI, state_BX = random_values(2, 3), random_values(2, deep.state_size, seed=2)
    projection = InputProjection(3, deep, layer_norm=layer_norm).double()
    randomise(projection)
    given = deep.unroll()(projection.unroll()(input_BI), state_BX)
    transitions, deep.transitions = deep.transitions, torch.nn.ModuleList()
    expected = deep.unroll()(projection.unroll()(input_BI), state_BX)
    for cell in transitions:
        expected = cell.unroll()((), expected)
    assert len(transitions) == 2
    torch.testing.assert_close(given, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("wanted", ["", "transitions"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_the_slope_along_a_random_direction(kind, wanted):
    assert_gradient_is_the_slope(tiny_model(kind, num_layers=2, **DEEP), wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_and_padding_change_nothing(kind):
    model = tiny_model(kind, num_layers=2, **DEEP)
    assert_steps_are_teacher_forcing(model)
    assert_padding_changes_nothing(model)
