"""The encoder against explicit loops over each sentence."""

import pytest
import torch
from tiny_models import random_values, randomise, valid_of

from nmt_cli.model.cells import InputProjection, RecurrentCell
from nmt_cli.model.dropout import Noise
from nmt_cli.model.encoder import Encoder
from nmt_cli.ops.reverse import reverse_sequence

EMBEDDING, HIDDEN, LENGTHS, WIDTH = 3, 4, (5, 2, 1), 6
EXACT = {"rtol": 1e-12, "atol": 1e-12}


def encoder_of(**options):
    encoder = Encoder(EMBEDDING, HIDDEN, **options).double()
    randomise(encoder)
    return encoder


def read(layer, direction, inputs, mask_H=None):
    """The states of one direction of a layer over one sentence's inputs, one piece after the other."""
    layer_norm = layer.cell.norm is not None
    cell = RecurrentCell(layer.cell.rnn_type, HIDDEN, layer_norm=layer_norm).double()
    projection = InputProjection(inputs.shape[-1], cell, layer_norm=layer_norm).double()
    for one, both in ((cell, layer.cell), (projection, layer.projection)):
        values = dict(both.named_parameters())
        for name, parameter in one.named_parameters():
            parameter.copy_(values[name][direction].view(parameter.shape))
    step, state, states = cell.unroll(mask_H), inputs.new_zeros(1, cell.state_size), []
    for piece in inputs:
        state = step(projection.unroll()(piece.unsqueeze(0)), state)
        states.append(cell.output(state)[0])
    return torch.stack(states)


def read_both(layer, inputs, mask_DH=None):
    """Annotations and last states of one sentence: a loop forward, a loop backward."""
    forward = read(layer, 0, inputs, None if mask_DH is None else mask_DH[0])
    if layer.directions == 1:
        return forward, forward[-1]
    backward = read(layer, 1, inputs.flip(0), None if mask_DH is None else mask_DH[1])
    return torch.cat([forward, backward.flip(0)], dim=-1), torch.cat([forward[-1], backward[-1]])


@pytest.mark.parametrize("num_layers", [1, 3])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("rnn_type", "layer_norm"), [("gru", True), ("lstm", False)])
@torch.no_grad()
def test_annotations_are_those_of_loops_over_each_sentence_residual_from_the_second_layer_on(
    rnn_type, layer_norm, bidirectional, num_layers
):
    """Fails if the backward reading begins on padding, or where a residual joins the first layer."""
    encoder = encoder_of(rnn_type=rnn_type, layer_norm=layer_norm, bidirectional=bidirectional, num_layers=num_layers)
    embedded = random_values(len(LENGTHS), WIDTH, EMBEDDING)
    states_BSC, final_BC = encoder(embedded, valid_of(LENGTHS, WIDTH))
    for row, length in enumerate(LENGTHS):
        values = embedded[row, :length]
        for index, layer in enumerate(encoder.layers):
            states, final = read_both(layer, values)
            values = states + values if index > 0 else states
        torch.testing.assert_close(states_BSC[row, :length], values, **EXACT)
        torch.testing.assert_close(final_BC[row], final, **EXACT)


@pytest.mark.parametrize("options", [{}, {"rnn_type": "lstm", "num_layers": 2}, {"bidirectional": False},
                                     {"layer_norm": True, "reverse_source": True}], ids=str)  # fmt: skip
@pytest.mark.parametrize("autocast", [False, True])
def test_without_gradients_the_annotations_are_those_of_training_though_rows_leave_when_they_end(options, autocast):
    """About 16 of 50 rows leave at a time."""
    encoder = encoder_of(**options).float()
    lengths = [1 + 5 * number % 23 for number in range(50)]
    inputs_BSE, valid_BS = random_values(50, 32, EMBEDDING).float(), valid_of(lengths, width=32)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        expected = encoder(inputs_BSE, valid_BS)
        with torch.no_grad():
            found = encoder(inputs_BSE, valid_BS)
    close = {"rtol": 0, "atol": 0.05 if autocast else 1e-6}
    torch.testing.assert_close(found.states_BSC[valid_BS], expected.states_BSC[valid_BS], **close)
    torch.testing.assert_close(found.final_BC, expected.final_BC, **close)
    assert found.states_BSC.isfinite().all()


@pytest.mark.parametrize("bidirectional", [False, True])
@torch.no_grad()
def test_a_reversed_source_is_read_from_its_end_and_annotated_in_its_own_order(bidirectional):
    straight = encoder_of(bidirectional=bidirectional, num_layers=2)
    reverse = encoder_of(bidirectional=bidirectional, num_layers=2, reverse_source=True)
    reverse.load_state_dict(straight.state_dict())
    embedded, valid_BS = random_values(len(LENGTHS), WIDTH, EMBEDDING), valid_of(LENGTHS, WIDTH)
    states_BSC, final_BC = reverse(embedded, valid_BS)
    for row, length in enumerate(LENGTHS):
        backwards = embedded[row : row + 1, :length].flip(1)
        expected, final = straight(backwards, valid_of([length]))
        torch.testing.assert_close(states_BSC[row, :length], expected[0].flip(0), **EXACT)
        torch.testing.assert_close(final_BC[row], final[0], **EXACT)


@torch.no_grad()
def test_recurrent_dropout_is_one_mask_a_sentence_for_all_its_steps():
    """The masks are drawn from an equal generator, then each sentence is read by a loop with its own."""
    encoder = encoder_of(recurrent_dropout=0.5)
    embedded = random_values(len(LENGTHS), WIDTH, EMBEDDING)
    states_BSC, _ = encoder(embedded, valid_of(LENGTHS, WIDTH), Noise(torch.Generator().manual_seed(3)))
    mask_DBH = Noise(torch.Generator().manual_seed(3)).mask((2, len(LENGTHS), HIDDEN), 0.5, embedded)
    for row, length in enumerate(LENGTHS):
        expected, _ = read_both(encoder.layers[0], embedded[row, :length], mask_DBH[:, row].unsqueeze(1))
        torch.testing.assert_close(states_BSC[row, :length], expected, **EXACT)


@torch.no_grad()
def test_dropout_between_layers_takes_the_same_units_at_all_positions():
    encoder, given, taken = encoder_of(num_layers=2, recurrent_dropout=0.5), [], []
    encoder.layers[0].register_forward_hook(lambda layer, inputs, encoded: given.append(encoded.states_BSC))
    encoder.layers[1].register_forward_pre_hook(lambda layer, inputs: taken.append(inputs[0]))
    embedded = random_values(4, WIDTH, EMBEDDING)
    encoder(embedded, valid_of((WIDTH,) * 4), Noise(torch.Generator().manual_seed(3)))
    ratio_BSC = taken[0] / given[0]
    assert set(ratio_BSC.round(decimals=9).unique().tolist()) == {0.0, 2.0}
    torch.testing.assert_close(ratio_BSC, ratio_BSC[:, :1].expand_as(ratio_BSC))


@torch.no_grad()
def test_annotation_dropout_takes_the_same_units_at_all_positions():
    encoder, quiet = encoder_of(annotation_dropout=0.5), encoder_of()
    embedded, valid_BS = random_values(4, WIDTH, EMBEDDING), valid_of((WIDTH,) * 4)
    ratio_BSC = encoder(embedded, valid_BS, Noise(torch.Generator().manual_seed(3)))[0] / quiet(embedded, valid_BS)[0]
    assert set(ratio_BSC.round(decimals=9).unique().tolist()) == {0.0, 2.0}
    torch.testing.assert_close(ratio_BSC, ratio_BSC[:, :1].expand_as(ratio_BSC))
    assert not torch.equal(ratio_BSC[0, 0], ratio_BSC[1, 0])


def test_a_reading_backwards_has_the_slope_of_a_numerical_difference():
    """Fails if the gradient is handed back in the order in which it came."""
    reversal_BS = torch.tensor([[3, 2, 1, 0], [1, 0, 2, 3]])
    values = random_values(2, 4, 3).requires_grad_()
    torch.testing.assert_close(reverse_sequence(values, reversal_BS)[0], values[0].flip(0), rtol=0, atol=0)
    assert torch.autograd.gradcheck(lambda given: reverse_sequence(given, reversal_BS), (values,))
