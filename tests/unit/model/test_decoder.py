"""The three orders of recurrence, the readouts and the first states, against their papers' equations in plain steps."""

import itertools

import pytest
import torch
from tiny_models import CELLS, random_ids, random_values, tiny_model, valid_of
from torch.nn import functional as F

from nmt_cli.model.dropout import Noise

pytestmark = pytest.mark.usefixtures("both_paths")
EXACT = {"rtol": 1e-12, "atol": 1e-12}
LENGTHS = (4, 2)


def once(cell, projected, state, mask):
    """One step of a cell by itself."""
    return cell.unroll(mask)(projected, state)


def upper_layers(recurrence, hidden, states, masks):
    """Cells on the hidden units of the layer below, with residual connections that nothing is dropped from."""
    new = []
    for cell, projection, state, mask in zip(
        recurrence.upper.cells, recurrence.upper.projections, states, masks, strict=True
    ):
        new.append(once(cell, projection.unroll()(hidden * mask), state, mask))
        hidden = hidden + cell.output(new[-1])
    return hidden, new


def step_of_bahdanau(recurrence, embedded, memory, layers, attention_state, feed, masks):
    """A.1.2: c_i from s_{i-1}, then s_i = f(s_{i-1}, y_{i-1}, c_i)."""
    attend = recurrence.attention.unroll(memory)
    context, weights, attention_state = attend(recurrence.cell.output(layers[-1]), attention_state)
    first = once(
        recurrence.cell, recurrence.input.unroll()(embedded) + recurrence.context.unroll()(context), layers[0], masks[0]
    )
    hidden, above = upper_layers(recurrence, recurrence.cell.output(first), layers[1:], masks[1:])
    return hidden, context, weights, [first, *above], attention_state, feed


def step_of_conditional(recurrence, embedded, memory, layers, attention_state, feed, masks):
    """Nematus: s'_i = f1(s_{i-1}, y_{i-1}); c_i from s'_i; s_i = f2(s'_i, c_i)."""
    between = once(recurrence.cell, recurrence.input.unroll()(embedded), layers[0], masks[0])
    attend = recurrence.attention.unroll(memory)
    context, weights, attention_state = attend(recurrence.cell.output(between), attention_state)
    first = once(recurrence.context_cell, recurrence.context.unroll()(context), between, masks[0])
    hidden, above = upper_layers(recurrence, recurrence.cell.output(first), layers[1:], masks[1:])
    return hidden, context, weights, [first, *above], attention_state, feed


def step_of_luong(recurrence, embedded, memory, layers, attention_state, feed, masks):
    """Section 3: s_i from y_{i-1} and, with input feeding, h~_{i-1}; c_i from s_i; h~_i = tanh(W [c_i; s_i])."""
    projected = recurrence.input.unroll()(embedded)
    if recurrence.feed is not None:
        projected = projected + recurrence.feed.unroll()(feed)
    first = once(recurrence.cell, projected, layers[0], masks[0])
    hidden, above = upper_layers(recurrence, recurrence.cell.output(first), layers[1:], masks[1:])
    context, weights, attention_state = recurrence.attention.unroll(memory)(hidden, attention_state)
    attentional = torch.tanh(recurrence.attentional(torch.cat([context, hidden], dim=-1)))
    return attentional, context, weights, [first, *above], attention_state, attentional


STEPS = {"bahdanau": step_of_bahdanau, "conditional": step_of_conditional, "luong": step_of_luong}
READOUTS = {"bahdanau": ("maxout", "tanh"), "conditional": ("tanh", "maxout"), "luong": ("auto",)}


@pytest.mark.parametrize("cells", CELLS, ids=str)
@pytest.mark.parametrize("recurrence", STEPS)
@torch.no_grad()
def test_a_recurrence_updates_and_attends_in_the_order_of_its_paper(recurrence, cells):
    """Fails if Bahdanau's query is the new state, or where the context enters the first step of the conditional."""
    for readout, input_feeding in itertools.product(READOUTS[recurrence], [True, False]):
        model = tiny_model(
            (recurrence, "linguistic-coverage", *cells),
            num_layers=2,
            decoder={"readout": readout, "input_feeding": input_feeding},
        )
        memory = model.encode(random_ids((2, 4)), valid_of(LENGTHS))
        state, inputs_BT = model.initial_state(memory), random_ids((2, 3), seed=2)
        decoded = model.decode(inputs_BT, memory, state)
        layers, attention_state, feed = list(state.layers), state.attention, torch.zeros(2, 5, dtype=torch.float64)
        for step in range(3):
            embedded = model.target_embedding[inputs_BT[:, step]]
            hidden, context, weights, layers, attention_state, feed = STEPS[recurrence](
                model.decoder.recurrence, embedded, memory, layers, attention_state, feed, (1.0, 1.0)
            )
            expected = hidden
            if recurrence != "luong":
                part = model.decoder.readout
                expected = part.hidden(hidden) + part.input(embedded) + part.context(context)
                # Maxout: of every two neighbours the larger one (A.2.2).
                pairs = torch.stack([expected[:, 0::2], expected[:, 1::2]]) if readout == "maxout" else None
                expected = torch.tanh(expected) if pairs is None else torch.maximum(*pairs)
            torch.testing.assert_close(decoded.readout_BTR[:, step], expected, **EXACT)
            torch.testing.assert_close(decoded.weights_BTS[:, step], weights, **EXACT)
        torch.testing.assert_close(decoded.state.layers, tuple(layers), **EXACT)


@torch.no_grad()
def test_an_lstm_begins_with_a_hidden_and_a_cell_of_its_own_in_every_layer():
    model = tiny_model(("conditional", "additive", "lstm", False), num_layers=2)
    memory = model.encode(random_ids((2, 4)), valid_of(LENGTHS))
    layers = model.initial_state(memory).layers
    projection = model.decoder.initial.projection
    for row, length in enumerate(LENGTHS):
        mean = sum(memory.states_BSC[row, place] for place in range(length)) / length
        expected = torch.tanh(projection.weight @ mean + projection.bias)
        torch.testing.assert_close(torch.cat([layer[row] for layer in layers]), expected, **EXACT)
    assert [layer.shape for layer in layers] == [(2, 16), (2, 16)]


@pytest.mark.parametrize(
    ("kind", "summary"), [("final", lambda final: final), ("backward", lambda final: final[:, 4:]), ("zero", None)]
)
@torch.no_grad()
def test_the_first_state_comes_from_what_was_asked_for(kind, summary):
    """`backward` is the backward state at the first word, the second half of the last states (A.2.2)."""
    model = tiny_model(("bahdanau", "additive", "gru", True), decoder={"initial_state": kind})
    memory = model.encode(random_ids((2, 4)), valid_of(LENGTHS))
    (given,) = model.initial_state(memory).layers
    if summary is None:
        assert torch.equal(given, torch.zeros(2, 8, dtype=torch.float64))
    else:
        projection = model.decoder.initial.projection
        expected = torch.tanh(F.linear(summary(memory.final_BC), projection.weight, projection.bias))
        torch.testing.assert_close(given, expected, **EXACT)
        if kind == "backward":
            torch.testing.assert_close(memory.final_BC[:, 4:], memory.states_BSC[:, 0, 4:], **EXACT)


@pytest.mark.parametrize(
    ("attention", "recurrence", "bidirectional", "width"),
    [
        ("additive", "bahdanau", True, 4),
        ("additive", "bahdanau", False, 4),
        ("additive", "conditional", True, 8),
        ("none-initial", "bahdanau", True, 8),
    ],
)
def test_auto_takes_the_backward_state_for_bahdanau_over_a_bidirectional_encoder(
    attention, recurrence, bidirectional, width
):
    kind = (recurrence, attention, "gru", True)
    model = tiny_model(kind, encoder={"bidirectional": bidirectional})
    same = {True: "backward", False: "mean"}[recurrence == "bahdanau" and bidirectional]
    same = "final" if attention.startswith("none") else same
    asked = tiny_model(kind, encoder={"bidirectional": bidirectional}, decoder={"initial_state": same})
    source_BS, valid_BS = random_ids((2, 4)), valid_of(LENGTHS)
    assert model.decoder.initial.projection.in_features == width
    given, expected = (each.initial_state(each.encode(source_BS, valid_BS)).layers[0] for each in (model, asked))
    assert torch.equal(given, expected)


@pytest.mark.parametrize("recurrence", STEPS)
@torch.no_grad()
def test_readout_dropout_takes_the_same_units_at_all_steps(recurrence):
    kind = (recurrence, "additive", "gru", True)
    model, quiet = tiny_model(kind, dropout={"readout": 0.5}), tiny_model(kind)
    memory = quiet.encode(random_ids((2, 4)), valid_of(LENGTHS))
    inputs_BT = random_ids((2, 5), seed=2)
    noise = Noise(torch.Generator().manual_seed(3))
    readouts = [
        each.decode(inputs_BT, memory, each.initial_state(memory), noise).readout_BTR for each in (model, quiet)
    ]
    ratio_BTR = readouts[0] / readouts[1]
    assert set(ratio_BTR.round(decimals=9).unique().tolist()) == {0.0, 2.0}
    torch.testing.assert_close(ratio_BTR, ratio_BTR[:, :1].expand_as(ratio_BTR))


@pytest.mark.parametrize("recurrence", STEPS)
@torch.no_grad()
def test_recurrent_dropout_in_the_decoder_is_one_mask_a_layer_for_all_steps(recurrence):
    """The masks are drawn from an equal generator and given to a loop by hand."""
    model = tiny_model((recurrence, "additive", "gru", True), num_layers=2, dropout={"recurrent": 0.5})
    memory = model.encode(random_ids((2, 4)), valid_of(LENGTHS))
    inputs_BT, state = random_ids((2, 5), seed=2), model.initial_state(memory)
    decoded = model.decode(inputs_BT, memory, state, Noise(torch.Generator().manual_seed(3)))
    noise = Noise(torch.Generator().manual_seed(3))
    masks = tuple(noise.mask((2, 8), 0.5, random_values(1)) for _ in range(2))
    layers, attention_state, feed = list(state.layers), state.attention, torch.zeros(2, 5, dtype=torch.float64)
    for place in range(5):
        embedded = model.target_embedding[inputs_BT[:, place]]
        *_, layers, attention_state, feed = STEPS[recurrence](
            model.decoder.recurrence, embedded, memory, layers, attention_state, feed, masks
        )
    torch.testing.assert_close(decoded.state.layers, tuple(layers), **EXACT)
