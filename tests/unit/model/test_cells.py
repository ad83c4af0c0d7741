"""The cells against their papers' equations, unit by unit, and against those of torch."""

import math

import pytest
import torch
from tiny_models import random_values, randomise
from torch import nn

from nmt_cli.model.cells import InputProjection, RecurrentCell
from nmt_cli.ops.gates import sum_terms

pytestmark = pytest.mark.usefixtures("both_paths")
BATCH, INPUT, HIDDEN = 2, 3, 4


def cell_and_projection(rnn_type, *, layer_norm, seed=1):
    cell = RecurrentCell(rnn_type, HIDDEN, layer_norm=layer_norm).double()
    projection = InputProjection(INPUT, cell, layer_norm=layer_norm).double()
    randomise(cell, seed)
    randomise(projection, seed + 1)
    return cell, projection


def sigmoid(x):
    return 1.0 / (1.0 + math.exp(-x))


def affine(inputs, weight_IO, bias):
    return [
        sum(x * weight_IO[i][o] for i, x in enumerate(inputs)) + (0.0 if bias is None else bias[o])
        for o in range(len(weight_IO[0]))
    ]


def normalised(gates, norm):
    """Each gate by itself: gain (g - mean) / deviation + bias, 1e-5 added to the variance."""
    result = []
    for gate, (gains, biases) in enumerate(zip(norm.gain.tolist(), norm.bias.tolist(), strict=True)):
        units = gates[gate * HIDDEN : (gate + 1) * HIDDEN]
        mean = sum(units) / HIDDEN
        deviation = math.sqrt(sum((unit - mean) ** 2 for unit in units) / HIDDEN + 1e-5)
        result.extend(
            gain * (unit - mean) / deviation + bias for unit, gain, bias in zip(units, gains, biases, strict=True)
        )
    return result


def naive_products(cell, projection, inputs, hidden):
    """W x and U h with their biases or normalisations, as lists."""
    both = []
    for values, module in ((inputs, projection), (hidden, cell)):
        product = affine(values, module.weight.tolist(), None if module.bias is None else module.bias.tolist())
        both.append(product if module.norm is None else normalised(product, module.norm))
    return both


def naive_gru(cell, projection, inputs, hidden):
    """Cho et al. (2014), eqs. 5-8, with the reset gate after the product U h."""
    W, U = naive_products(cell, projection, inputs, hidden)
    new = []
    for unit in range(HIDDEN):
        reset = sigmoid(W[unit] + U[unit])
        update = sigmoid(W[HIDDEN + unit] + U[HIDDEN + unit])
        proposal = math.tanh(W[2 * HIDDEN + unit] + reset * U[2 * HIDDEN + unit])
        new.append(update * hidden[unit] + (1.0 - update) * proposal)
    return new


def naive_lstm(cell, projection, inputs, state):
    """Hochreiter & Schmidhuber (1997) with the forget gate of Gers et al. (2000), whose bias begins at 1."""
    hidden, memory = state[:HIDDEN], state[HIDDEN:]
    W, U = naive_products(cell, projection, inputs, hidden)
    new_memory, output_gates = [], []
    for unit in range(HIDDEN):
        i, f, o, g = (W[gate * HIDDEN + unit] + U[gate * HIDDEN + unit] for gate in range(4))
        new_memory.append(sigmoid(f + 1.0) * memory[unit] + sigmoid(i) * math.tanh(g))
        output_gates.append(sigmoid(o))
    shown = new_memory if cell.cell_norm is None else normalised(new_memory, cell.cell_norm)
    return [o * math.tanh(c) for o, c in zip(output_gates, shown, strict=True)] + new_memory


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("rnn_type", ["gru", "lstm"])
@torch.no_grad()
def test_a_cell_follows_its_equations_unit_by_unit(rnn_type, layer_norm):
    """Fails if two gates are swapped, or where a normalisation runs over all gates at once."""
    cell, projection = cell_and_projection(rnn_type, layer_norm=layer_norm)
    naive = naive_gru if rnn_type == "gru" else naive_lstm
    inputs, state = random_values(3, BATCH, INPUT), random_values(BATCH, cell.state_size, seed=2)
    expected = state.tolist()
    step = cell.unroll()
    for inputs_BI in inputs:
        state = step(projection.unroll()(inputs_BI), state)
        expected = [naive(cell, projection, x, s) for x, s in zip(inputs_BI.tolist(), expected, strict=True)]
        torch.testing.assert_close(state, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)


@torch.no_grad()
def test_the_gru_is_the_one_of_torch():
    cell, projection = cell_and_projection("gru", layer_norm=False)
    theirs = nn.GRUCell(INPUT, HIDDEN, dtype=torch.float64)
    for name, values in (("ih", projection), ("hh", cell)):
        getattr(theirs, f"weight_{name}").copy_(values.weight.T)
        getattr(theirs, f"bias_{name}").copy_(values.bias)
    inputs, state = random_values(BATCH, INPUT), random_values(BATCH, HIDDEN, seed=2)
    torch.testing.assert_close(
        cell.unroll()(projection.unroll()(inputs), state), theirs(inputs, state), rtol=1e-12, atol=1e-12
    )


@torch.no_grad()
def test_the_lstm_is_the_one_of_torch_with_an_open_forget_gate():
    cell, projection = cell_and_projection("lstm", layer_norm=False)
    theirs = nn.LSTMCell(INPUT, HIDDEN, dtype=torch.float64)

    def in_their_order(values):
        """Input, forget, proposal, output."""
        i, f, o, g = values.chunk(4, dim=-1)
        return torch.cat([i, f, g, o], dim=-1)

    for name, values in (("ih", projection), ("hh", cell)):
        getattr(theirs, f"weight_{name}").copy_(in_their_order(values.weight).T)
        getattr(theirs, f"bias_{name}").copy_(in_their_order(values.bias))
    theirs.bias_hh[HIDDEN : 2 * HIDDEN] += 1.0
    inputs, state = random_values(BATCH, INPUT), random_values(BATCH, 2 * HIDDEN, seed=2)
    expected = torch.cat(theirs(inputs, state.chunk(2, dim=-1)), dim=-1)
    torch.testing.assert_close(cell.unroll()(projection.unroll()(inputs), state), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("rnn_type", ["gru", "lstm"])
@torch.no_grad()
def test_directions_side_by_side_are_two_cells(rnn_type, layer_norm):
    both = RecurrentCell(rnn_type, HIDDEN, layer_norm=layer_norm, directions=(2,)).double()
    project_both = InputProjection(INPUT, both, layer_norm=layer_norm).double()
    randomise(both, 5)
    randomise(project_both, 6)
    inputs_DBI, state_DBX = random_values(2, BATCH, INPUT), random_values(2, BATCH, both.state_size, seed=2)
    together = both.unroll()(project_both.unroll()(inputs_DBI), state_DBX)
    for direction in range(2):
        cell, projection = cell_and_projection(rnn_type, layer_norm=layer_norm)
        for one, two in ((cell, both), (projection, project_both)):
            values = dict(two.named_parameters())
            for name, parameter in one.named_parameters():
                parameter.copy_(values[name][direction].view(parameter.shape))
        alone = cell.unroll()(projection.unroll()(inputs_DBI[direction]), state_DBX[direction])
        torch.testing.assert_close(together[direction], alone, rtol=1e-12, atol=1e-12)


@torch.no_grad()
def test_steps_of_known_inputs_are_those_of_a_loop():
    for layer_norm in (False, True):
        _, projection = cell_and_projection("gru", layer_norm=layer_norm)
        inputs = random_values(5, BATCH, INPUT)
        for step, given in enumerate(projection.steps(inputs.flatten(0, 1), [BATCH] * 5)):
            torch.testing.assert_close(
                sum_terms(given), sum_terms(projection.unroll()(inputs[step])), rtol=1e-12, atol=1e-12
            )


@torch.no_grad()
def test_in_float32_a_step_of_known_inputs_does_not_depend_on_the_others():
    projection = InputProjection(256, RecurrentCell("gru", 64), layer_norm=False)
    randomise(projection)
    inputs = random_values(130, 9, 256).float()
    for step, given in enumerate(projection.steps(inputs.flatten(0, 1), [9] * 130)):
        (alone,) = projection.steps(inputs[step], [9])
        assert torch.equal(sum_terms(given), sum_terms(alone))


@torch.no_grad()
def test_recurrent_dropout_takes_units_of_the_state_from_the_product_only():
    """The state itself is passed on whole (Gal & Ghahramani, 2016)."""
    cell, projection = cell_and_projection("gru", layer_norm=False)
    mask = torch.tensor([[2.0, 0.0, 2.0, 0.0], [0.0, 2.0, 2.0, 2.0]], dtype=torch.float64)
    inputs, state = random_values(BATCH, INPUT), random_values(BATCH, HIDDEN, seed=2)
    given = cell.unroll(mask)(projection.unroll()(inputs), state)
    product_of_masked = (state * mask) @ cell.weight + cell.bias
    W = sum_terms(projection.unroll()(inputs))
    reset, update = torch.sigmoid(W[:, : 2 * HIDDEN] + product_of_masked[:, : 2 * HIDDEN]).chunk(2, dim=-1)
    proposal = torch.tanh(W[:, 2 * HIDDEN :] + reset * product_of_masked[:, 2 * HIDDEN :])
    torch.testing.assert_close(given, update * state + (1 - update) * proposal, rtol=1e-12, atol=1e-12)
