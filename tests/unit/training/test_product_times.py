"""The products of an update, timed in both precisions: their sizes, and what a disturbed trial does."""

import pytest
import torch

from nmt_cli.config.model import ModelConfig
from nmt_cli.model.build import build_model, initialize
from nmt_cli.training import precision_trial
from nmt_cli.training.precision_trial import MatmulShape, PrecisionTimes, products_of, time_products
from nmt_cli.training.trials import MAX_ROUNDS

SENTENCES, TOKENS = 20, 300


def built(encoder=None, decoder=None, attention=None, **values):
    sizes = {"hidden_size": 16}
    parts = {"encoder": sizes | (encoder or {}), "decoder": sizes | (decoder or {})}
    parts |= {"embedding_size": 24, "attention": {"size": 8} | (attention or {})}
    config = ModelConfig.model_validate(parts | values)
    model = build_model(config, source_vocab_size=50, target_vocab_size=60)
    initialize(model, seed=1)
    return model


@pytest.mark.parametrize(
    "values",
    [{}, {"attention": {"type": "none"}}, {"encoder": {"num_layers": 2}, "decoder": {"rnn_type": "lstm"}}],
    ids=["default", "without attention", "deeper"],
)
def test_each_matrix_multiplies_every_position_of_the_batch_once(values):
    model = built(**values)
    not_multiplied = {id(model.source_embedding), id(model.target_embedding)} - {id(model.output_weight)}
    matrices = [
        parameter
        for name, parameter in model.named_parameters()
        if parameter.dim() > 1 and "norm." not in name and id(parameter) not in not_multiplied
    ]
    found = products_of(model, SENTENCES, TOKENS)
    multiplied = sum(
        count * product.num_rows * product.num_inputs * product.num_outputs for product, count in found.items()
    )
    assert multiplied == pytest.approx(TOKENS * sum(matrix.numel() for matrix in matrices))


def test_a_recurrent_matrix_multiplies_one_step_at_a_time_and_the_output_all_steps():
    hidden = 32
    model = built(encoder={"hidden_size": hidden}, tied_embeddings="none")
    found = products_of(model, SENTENCES, TOKENS)
    assert found[MatmulShape(SENTENCES, hidden, 3 * hidden)] == 2 * TOKENS / SENTENCES  # a product for each direction
    assert any(product.num_rows == TOKENS and product.num_outputs == 60 for product in found)


def test_of_a_product_that_is_too_large_for_a_trial_a_part_of_the_matrix_is_tried():
    assert MatmulShape(100, 8, 8).limit_size() == MatmulShape(100, 8, 8)
    for whole in (MatmulShape(512, 256, 8000), MatmulShape(300, 1024, 32000), MatmulShape(5000, 512, 512)):
        part = whole.limit_size()
        assert 6 * part.size <= 1.1 * precision_trial.MAX_TRIAL_OPERATIONS
        assert (part.num_rows, part.num_inputs) == (
            min(whole.num_rows, precision_trial.MAX_TRIAL_ROWS),
            whole.num_inputs,
        )


@pytest.fixture
def taken(monkeypatch):
    """Seconds that a trial takes by a fake clock, for each dtype: those given, one after the other, then the last."""
    seconds, now, order = {}, [0.0], []

    def multiply(rows, weight, gradient):
        order.append((tuple(rows.shape), rows.dtype))
        assert {weight.dtype, gradient.dtype} == {rows.dtype}
        left = seconds[rows.dtype]
        now[0] += left.pop(0) if len(left) > 1 else left[0]

    monkeypatch.setattr(precision_trial, "_multiply", multiply)
    return seconds, lambda: now[0], order


@pytest.mark.parametrize(
    ("bf16", "taken_bf16"), [(0.5, True), (1.0 / 1.14, False), (1.0, False), (1.7, False)],
    ids=["twice as fast", "1.14 times as fast", "equal", "slower"],
)  # fmt: skip
def test_the_faster_precision_is_found_whatever_disturbs_single_trials(taken, bf16, taken_bf16, monkeypatch):
    seconds, clock, order = taken
    monkeypatch.setattr(precision_trial, "MAX_TRIAL_SECONDS", 1e6)
    model = built()
    num_products = len(products_of(model, SENTENCES, TOKENS))
    quiet, disturbed = [1.0] * num_products, [7.0] * num_products
    seconds[torch.float32] = [*quiet, *disturbed, *quiet, *disturbed, 1.0]
    seconds[torch.bfloat16] = [bf16 * slower for slower in (*disturbed, *quiet, *disturbed, *quiet, 1.0)]
    times = time_products(model, SENTENCES, TOKENS, clock=clock)
    assert times.is_bf16_faster is taken_bf16
    assert times.fp32 / times.bf16 == pytest.approx(1.0 / bf16)
    assert len(order) == 2 * num_products * (1 + MAX_ROUNDS)
    assert [dtype for _, dtype in order[: 2 * num_products]] == [torch.float32, torch.bfloat16] * num_products


def test_timing_leaves_random_numbers_and_weights_alone():
    model = built()
    before, weights = torch.get_rng_state(), [parameter.clone() for parameter in model.parameters()]
    times = time_products(model, SENTENCES, TOKENS)
    assert times.fp32 > 0.0 < times.bf16
    assert torch.equal(torch.get_rng_state(), before)
    assert all(map(torch.equal, model.parameters(), weights))


@pytest.mark.parametrize(
    ("fp32", "bf16", "taken"),
    [(1.0, 0.5, True), (1.15, 1.0, True), (1.14, 1.0, False), (1.0, 1.0, False), (1.0, 1.7, False)],
)
def test_bf16_is_taken_where_it_is_at_least_1_15_times_as_fast(fp32, bf16, taken):
    assert PrecisionTimes(fp32, bf16).is_bf16_faster is taken
