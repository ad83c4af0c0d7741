"""Things that must not matter: padding, neighbours, and whether the target is read at once or step by step."""

import pytest
import torch
from checks import EXACT, LENGTHS, assert_padding_changes_nothing, assert_steps_are_teacher_forcing
from tiny_models import (
    ATTENTIONS,
    RECURRENCES,
    every_attention,
    every_kind,
    name_of,
    random_ids,
    random_values,
    randomise,
    run,
    tiny_model,
    valid_of,
)

from nmt_cli.model.annotations import Memory
from nmt_cli.model.attention import AdditiveScore, DotScore, GeneralScore, GlobalAttention, masked_softmax

SCORES = {"additive": AdditiveScore(6, 8, 7), "dot": DotScore(), "general": GeneralScore(6, 8)}
WITH_WEIGHTS = [kind for kind in every_attention() if not kind[1].startswith("none")]


@pytest.mark.parametrize("kind", every_kind())
def test_step_by_step_gives_what_teacher_forcing_gives(kind):
    """Fails if a state is left out of `DecoderState`, or where a step looks at the wrong one."""
    assert_steps_are_teacher_forcing(tiny_model(kind, num_layers=2))


@pytest.mark.parametrize("kind", every_kind())
def test_padding_and_neighbours_change_nothing(kind):
    assert_padding_changes_nothing(tiny_model(kind, num_layers=2))


@pytest.mark.parametrize(
    ("initial_state", "reverse_source"),
    # Not the backward state of a reversed source: that of its last word, which the configuration refuses.
    [("mean", False), ("mean", True), ("final", False), ("final", True), ("backward", False), ("zero", True)],
)
@torch.no_grad()
def test_the_first_state_does_not_see_padding(initial_state, reverse_source):
    model = tiny_model(
        ("bahdanau", "additive", "gru", True),
        decoder={"initial_state": initial_state},
        encoder={"reverse_source": reverse_source},
    )
    source_BS = random_ids((3, 8))
    together = model.initial_state(model.encode(source_BS, valid_of(LENGTHS, width=8)))
    for row, length in enumerate(LENGTHS):
        alone = model.initial_state(model.encode(source_BS[row : row + 1, :length], valid_of([length])))
        torch.testing.assert_close(together.layers[0][row], alone.layers[0][0], **EXACT)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", WITH_WEIGHTS, ids=name_of)
@torch.no_grad()
def test_attention_is_exactly_zero_on_padding_and_sums_to_one(kind, dtype):
    """Also for an empty row, whose weights are all zeros. local-p stays below one: its Gaussian is no softmax."""
    model = tiny_model(kind, dtype=torch.float32)
    valid_BS = valid_of((5, 3, 1, 0), width=7)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bfloat16"):
        decoded = run(model, random_ids((4, 7)), valid_BS, random_ids((4, 6), seed=2))
    assert decoded.readout_BTR.isfinite().all()
    weights_BTS = decoded.weights_BTS
    assert torch.equal(weights_BTS[~valid_BS.unsqueeze(1).expand_as(weights_BTS)].unique(), torch.zeros(1))
    sums_BT = weights_BTS[:3].sum(dim=-1)
    if kind[1].startswith("local-p"):
        assert ((sums_BT > 0.0) & (sums_BT < 1.0 + 1e-6)).all()
    else:
        torch.testing.assert_close(sums_BT, torch.ones(3, 6), rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", WITH_WEIGHTS, ids=name_of)
@torch.no_grad()
def test_attention_is_exactly_zero_on_what_is_hidden_from_a_row(kind):
    """The second row sees all, as it does when nothing is hidden from the first."""
    model = tiny_model(kind)
    memory = model.encode(random_ids((2, 5)), valid_of((5, 5)))
    masked_NS = torch.tensor([[False, True, True, False, False], [False] * 5])
    inputs_BT = random_ids((2, 1), seed=2)
    state = model.initial_state(memory)
    free, bound = (model.decode(inputs_BT, memory._replace(masked_NS=mask), state) for mask in (None, masked_NS))
    assert bound.weights_BTS[0, 0, 1:3].tolist() == [0.0, 0.0]
    torch.testing.assert_close(bound.weights_BTS[1], free.weights_BTS[1], **EXACT)
    torch.testing.assert_close(bound.readout_BTR[1], free.readout_BTR[1], **EXACT)
    if "local" not in kind[1]:
        assert float(bound.weights_BTS[0, 0].sum()) == pytest.approx(1.0)


def test_a_position_of_any_energy_has_more_weight_than_padding():
    """Breaks with a constant such as -1e4 in the place of the lowest number of the type."""
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        energy_BS = torch.tensor([[-3e5, 7.0, -3e5, 0.0]], dtype=dtype)
        weights_BS = masked_softmax(energy_BS, torch.tensor([[True, False, True, False]]))
        assert weights_BS.tolist() == [[0.5, 0.0, 0.5, 0.0]]


@pytest.mark.parametrize("kind", every_attention(), ids=name_of)
def test_an_empty_row_and_padding_leave_no_gradient_that_is_not_finite(kind):
    """Fails if the sum of no sigmoids is not kept from zero in `LocationAttention`."""
    model = tiny_model(kind, dtype=torch.float32)
    decoded = run(model, random_ids((3, 4)), valid_of((4, 1, 0)), random_ids((3, 2), seed=2))
    (decoded.readout_BTR.sum() + decoded.weights_BTS.square().sum()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("kind", every_attention(), ids=name_of)
@torch.no_grad()
def test_selected_rows_go_on_as_they_would_have_where_they_were(kind):
    """A beam's reordering, of memory and state. Fails if a module keeps what belongs to a sentence."""
    model = tiny_model(kind, num_layers=2)
    first, second = random_ids((3, 1), seed=2), random_ids((3, 1), seed=3)
    memory = model.encode(random_ids((3, 5)), valid_of(LENGTHS))
    state = model.decode(first, memory, model.initial_state(memory)).state
    rows = torch.tensor([2, 0, 0, 1])
    selected = model.decode(second[rows], memory.select(rows), state.select(rows))
    straight = model.decode(second, memory, state)
    torch.testing.assert_close(selected.readout_BTR, straight.readout_BTR[rows], **EXACT)
    torch.testing.assert_close(selected.weights_BTS, straight.weights_BTS[rows], **EXACT)


def test_every_recurrence_and_every_attention_meets_every_kind_of_cell():
    kinds = [parameter.values[0] for parameter in every_kind()]
    for place, names in ((0, RECURRENCES), (1, ATTENTIONS)):
        for name in names:
            assert len({kind[2:] for kind in kinds if kind[place] == name}) == 4, name


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize(("num_rows", "rows"), [(15, 3), (16, 3), (13, 3), (5, 5), (16, 4)])
@torch.inference_mode()
def test_rows_that_share_a_source_look_as_if_each_had_it_for_itself(score, num_rows, rows):
    """The last source may have fewer rows than the others."""
    attention = GlobalAttention(SCORES[score], 8).double()
    randomise(attention)
    num_sources = -(-num_rows // rows)
    states_BSC = random_values(num_sources, 5, attention.context_size)
    valid_BS = torch.arange(5) < torch.tensor([5, 3, 0, 4, 1, 2])[:num_sources, None]
    alone = Memory(states_BSC, attention.keys(states_BSC), valid_BS, states_BSC[:, 0])
    query_NH = random_values(num_rows, 8 if score == "dot" else 6, seed=2)
    sources = torch.arange(num_sources).repeat_interleave(rows)[:num_rows]
    each = attention.unroll(alone.select(sources))(query_NH, ())
    shared = attention.unroll(alone.select(torch.arange(num_sources), rows))(query_NH, ())
    torch.testing.assert_close(shared.context_BC, each.context_BC)
    torch.testing.assert_close(shared.weights_BS, each.weights_BS)
    assert not shared.weights_BS[~valid_BS[sources]].any()
