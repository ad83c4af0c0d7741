"""Losses against plain formulas, and the sum that does not depend on how a batch is cut."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as F

from nmt_cli.config.schema import AttentionConfig, DecoderConfig, DropoutConfig, EncoderConfig, ModelConfig
from nmt_cli.data.batch import make_batch
from nmt_cli.model.build import build_model, initialize
from nmt_cli.model.noise import Noise
from nmt_cli.training.loss import (
    ROWS_AT_ONCE,
    TranslationLoss,
    alignment_cross_entropy,
    chunked_cross_entropy,
    coverage_penalty,
    evaluate_nll,
    smoothed_cross_entropy,
)

VOCAB_SIZE = 13
SOURCES = [[5, 6, 7, 8], [9], [10, 5, 6], [7, 7], [8, 9, 10, 11, 12], [6]]
TARGETS = [[6, 7], [8, 9, 10, 11], [12], [5, 5, 6], [7], [8, 8]]
LINKS = [[(0, 0), (1, 1), (2, 1)], [(0, 3)], [(2, 0)], [], [(4, 0), (1, 0)], [(0, 1)]]


def values(*shape, seed=1, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def ids(rows, seed=2):
    return torch.randint(0, VOCAB_SIZE, (rows,), generator=torch.Generator().manual_seed(seed))


def small_model(*, dropout=0.0, dtype=torch.float64):
    config = ModelConfig(
        embedding_size=5,
        encoder=EncoderConfig(hidden_size=4),
        decoder=DecoderConfig(hidden_size=6),
        attention=AttentionConfig(size=6, coverage="linguistic"),
        dropout=DropoutConfig(**dict.fromkeys(DropoutConfig.model_fields, dropout)),
    )
    model = build_model(config, source_vocab_size=VOCAB_SIZE, target_vocab_size=VOCAB_SIZE)
    initialize(model, seed=1)
    return model.to(dtype)


def projection(dtype=torch.float64, size=7):
    """What `chunked_cross_entropy` needs of a model."""
    weight, bias = values(VOCAB_SIZE, size, dtype=dtype), values(VOCAB_SIZE, seed=3, dtype=dtype)
    weight, bias = weight.requires_grad_(), bias.requires_grad_()
    return SimpleNamespace(output_weight=weight, output_bias=bias)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_label_smoothing_is_that_of_torch_and_of_its_formula(smoothing):
    logits_NV, targets_N = values(9, VOCAB_SIZE), ids(9)
    total, nll = smoothed_cross_entropy(logits_NV, targets_N, smoothing)
    theirs = F.cross_entropy(logits_NV, targets_N, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(total, theirs, rtol=1e-12, atol=1e-12)
    slow_total = slow_nll = 0.0
    for logits, target in zip(logits_NV.tolist(), targets_N.tolist(), strict=True):
        normalizer = math.log(sum(math.exp(logit) for logit in logits))
        losses = [normalizer - logit for logit in logits]
        slow_nll += losses[target]
        slow_total += (1 - smoothing) * losses[target] + smoothing * sum(losses) / VOCAB_SIZE
    assert float(total) == pytest.approx(slow_total, rel=1e-12)
    assert float(nll) == pytest.approx(slow_nll, rel=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows", [1, 64, 65, ROWS_AT_ONCE, 2 * ROWS_AT_ONCE + 77])
def test_cross_entropy_in_chunks_is_that_of_all_logits_at_once_with_its_gradients(rows, smoothing):
    """Breaks where the last chunk is left out, or where a chunk's gradient replaces the sum so far."""
    model, targets_N = projection(), ids(rows)
    readout_NR = values(rows, 7, seed=4).requires_grad_()
    leaves = [readout_NR, model.output_weight, model.output_bias]
    total, nll = chunked_cross_entropy(model, readout_NR, targets_N, smoothing)
    ours = torch.autograd.grad(total * 0.37, leaves)
    logits_NV = F.linear(readout_NR, model.output_weight, model.output_bias)
    plain = F.cross_entropy(logits_NV, targets_N, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(total, plain, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(nll, F.cross_entropy(logits_NV, targets_N, reduction="sum"), rtol=1e-9, atol=1e-9)
    for our_gradient, gradient in zip(ours, torch.autograd.grad(plain * 0.37, leaves), strict=True):
        torch.testing.assert_close(our_gradient, gradient, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("agreement", [0.0, 0.7])
def test_rows_that_do_not_count_change_neither_loss_nor_gradient_whatever_is_in_them(agreement):
    """Against the counted rows alone. Breaks where any of the sums (bias, smoothing, loss) takes all rows, and where a
    row is multiplied by zero, which leaves NaN."""
    model, targets_N = projection(), ids(2 * ROWS_AT_ONCE).repeat_interleave(2)[: ROWS_AT_ONCE + 66]
    readout_NR = values(len(targets_N), 7, seed=4)
    valid_N = (torch.arange(len(targets_N) // 2) % 3 > 0).repeat_interleave(2)
    readout_NR[~valid_N] = float("nan")
    readout_NR.requires_grad_()
    leaves = [readout_NR, model.output_weight, model.output_bias]
    alone = chunked_cross_entropy(model, readout_NR[valid_N], targets_N[valid_N], 0.1, agreement)
    among = chunked_cross_entropy(model, readout_NR, targets_N, 0.1, agreement, valid_N)
    torch.testing.assert_close(among, alone, rtol=1e-9, atol=1e-9)
    expected, found = (torch.autograd.grad(total * 0.37, leaves) for total, _ in (alone, among))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_cross_entropy_in_chunks_has_the_slope_of_a_numerical_difference():
    model, targets_N = projection(size=3), ids(5)
    readout_NR = values(5, 3, seed=4).requires_grad_()

    def loss(readout, weight, bias):
        return chunked_cross_entropy(SimpleNamespace(output_weight=weight, output_bias=bias), readout, targets_N, 0.1)[
            0
        ]

    assert torch.autograd.gradcheck(loss, (readout_NR, model.output_weight, model.output_bias))


def test_large_logits_overflow_nowhere():
    model = projection(torch.float32)
    readout_NR = (values(70, 7, seed=4) * 1e3).float().requires_grad_()
    total, _ = chunked_cross_entropy(model, readout_NR, ids(70), 0.1)
    total.backward()
    assert total.isfinite()
    assert readout_NR.grad.isfinite().all()


def test_under_autocast_the_chunks_are_near_full_precision_and_their_sums_in_float32():
    model, targets_N = projection(torch.float32), ids(600)
    readout_NR = values(600, 7, seed=4, dtype=torch.float32).requires_grad_()
    leaves = [readout_NR, model.output_weight, model.output_bias]
    truth, _ = chunked_cross_entropy(model, readout_NR, targets_N, 0.1)
    true_gradients = torch.autograd.grad(truth, leaves)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        total, _ = chunked_cross_entropy(model, readout_NR, targets_N, 0.1)
    assert total.dtype == torch.float32
    assert not torch.equal(total, truth)
    assert total.item() == pytest.approx(truth.item(), rel=1e-3)
    for gradient, true_gradient in zip(torch.autograd.grad(total, leaves), true_gradients, strict=True):
        assert gradient.dtype == torch.float32
        assert float((gradient - true_gradient).norm() / true_gradient.norm()) < 0.01


def test_the_coverage_penalty_is_that_of_see():
    """Eq. 12 in three loops: at each step the smaller of weight and sum so far; padded target steps count nothing."""
    weights_BTS = values(2, 4, 3).softmax(dim=-1)
    valid_BT = torch.tensor([[True, True, True, True], [True, True, False, False]])
    expected = 0.0
    for row, length in enumerate((4, 2)):
        covered = [0.0] * 3
        for step in range(length):
            for place in range(3):
                weight = float(weights_BTS[row, step, place])
                expected += min(weight, covered[place])
                covered[place] += weight
    assert float(coverage_penalty(weights_BTS, valid_BT)) == pytest.approx(expected, rel=1e-12)


def test_the_alignment_loss_is_a_cross_entropy_with_the_shares_of_the_links():
    """Chen et al. (2016), eq. 7: a piece with two links has a half of each; a piece without links counts nothing."""
    batch = make_batch(SOURCES, TARGETS, LINKS)
    weights_BTS = values(*batch.links_BTS.shape).softmax(dim=-1)
    expected = 0.0
    for row, links in enumerate(LINKS):
        for piece in range(len(TARGETS[row])):
            sources = [source for source, target in links if target == piece]
            for source in sources:
                expected -= math.log(float(weights_BTS[row, piece, source])) / len(sources)
    assert float(alignment_cross_entropy(weights_BTS, batch.links_BTS)) == pytest.approx(expected, rel=1e-6)


def test_an_alignment_to_a_weight_of_zero_is_a_finite_loss():
    weights_BTS = torch.tensor([[[0.0, 1.0]]], requires_grad=True)
    loss = alignment_cross_entropy(weights_BTS, torch.tensor([[[1.0, 0.0]]]))
    loss.backward()
    assert loss.isfinite()
    assert weights_BTS.grad.isfinite().all()


def test_the_loss_of_a_batch_is_the_sum_over_its_sentences_alone():
    """By the plain formulas, a sentence at a time and unpadded."""
    model = small_model()
    loss = TranslationLoss(label_smoothing=0.1, coverage_weight=0.5, alignment_weight=0.3)
    batch = make_batch(SOURCES, TARGETS, LINKS)
    given = loss(model, batch)
    total = nll = 0.0
    with torch.no_grad():
        for source, target, links in zip(SOURCES, TARGETS, LINKS, strict=True):
            one = make_batch([source], [target], [links])
            memory = model.encode(one.source_BS, one.source_valid_BS)
            decoded = model.decode(one.inputs_BT, memory, model.start(memory))
            logits_NV = model.logits(decoded.readout_BTR[0])
            total += F.cross_entropy(logits_NV, one.outputs_BT[0], label_smoothing=0.1, reduction="sum")
            nll += float(F.cross_entropy(logits_NV, one.outputs_BT[0], reduction="sum"))
            total += 0.5 * coverage_penalty(decoded.weights_BTS, one.target_valid_BT)
            total += 0.3 * alignment_cross_entropy(decoded.weights_BTS, one.links_BTS)
    assert given.num_tokens == sum(len(target) + 1 for target in TARGETS)
    assert float(given.total.detach()) == pytest.approx(float(total), rel=1e-9)
    assert float(given.nll) == pytest.approx(nll, rel=1e-9)
    assert evaluate_nll(model, batch) == (pytest.approx(nll, rel=1e-9), given.num_tokens)


@pytest.mark.parametrize("parts", [2, 3, 4, 6, 9])
def test_a_batch_in_parts_has_the_loss_and_gradient_of_the_whole(parts):
    """The division is by the count of the whole update. Breaks with a mean of means: the parts differ in pieces."""
    model = small_model()
    loss = TranslationLoss(label_smoothing=0.1, coverage_weight=0.5, alignment_weight=0.3)
    batch = make_batch(SOURCES, TARGETS, LINKS)
    num_tokens = batch.num_target_tokens

    def gradients(batches):
        model.zero_grad()
        sums = [loss(model, one) for one in batches]
        for one in sums:
            (one.total / num_tokens).backward()
        return float(sum(one.nll for one in sums)), [parameter.grad.clone() for parameter in model.parameters()]

    pieces = batch.split(parts)
    assert len(pieces) <= parts
    assert sum(piece.num_sentences for piece in pieces) == batch.num_sentences
    whole, in_parts = gradients([batch]), gradients(pieces)
    assert in_parts[0] == pytest.approx(whole[0], rel=1e-12)
    torch.testing.assert_close(in_parts[1], whole[1], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_with_fixed_shapes_the_loss_is_that_of_the_pieces(r_drop):
    """Breaks where views and positions of a row are counted in another order."""
    batch = make_batch(SOURCES, TARGETS, LINKS)
    loss = TranslationLoss(label_smoothing=0.1, coverage_weight=0.5, alignment_weight=0.3, r_drop=r_drop)
    plain, fixed = (
        loss(small_model(dropout=0.3), batch, Noise(torch.Generator().manual_seed(1)), fixed_shapes=fixed)
        for fixed in (False, True)
    )
    torch.testing.assert_close(fixed.total, plain.total, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(fixed.nll, plain.nll, rtol=1e-9, atol=1e-9)
    assert fixed.num_tokens == plain.num_tokens


def test_validation_hears_no_noise():
    model, batch = small_model(dropout=0.5), make_batch(SOURCES, TARGETS)
    quiet, _ = evaluate_nll(model, batch)
    assert evaluate_nll(small_model(), batch)[0] == quiet
    noisy = TranslationLoss()(model, batch, Noise(torch.Generator().manual_seed(1)))
    assert abs(float(noisy.nll) - quiet) > 1e-3


@pytest.mark.parametrize("positions", [1, 32, 33, ROWS_AT_ONCE // 2 + 5])
def test_the_divergence_of_two_views_is_that_of_its_formula_with_its_gradients(positions):
    """Rows 2i and 2i + 1 are a pair. Breaks where a chunk's end tears a pair, or where one half has no gradient."""
    model, targets_N = projection(), ids(positions).repeat_interleave(2)
    readout_NR = values(2 * positions, 7, seed=4).requires_grad_()
    leaves = [readout_NR, model.output_weight, model.output_bias]
    total, nll = chunked_cross_entropy(model, readout_NR, targets_N, 0.1, 0.7)
    ours = torch.autograd.grad(total * 0.37, leaves)
    logits_NV = F.linear(readout_NR, model.output_weight, model.output_bias)
    first, second = logits_NV[0::2].log_softmax(-1), logits_NV[1::2].log_softmax(-1)
    both_ways = F.kl_div(first, second, log_target=True, reduction="sum") + F.kl_div(
        second, first, log_target=True, reduction="sum"
    )
    plain = F.cross_entropy(logits_NV, targets_N, label_smoothing=0.1, reduction="sum") + 0.7 * 0.5 * both_ways
    torch.testing.assert_close(total, plain, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(nll, F.cross_entropy(logits_NV, targets_N, reduction="sum"), rtol=1e-9, atol=1e-9)
    for our_gradient, gradient in zip(ours, torch.autograd.grad(plain * 0.37, leaves), strict=True):
        torch.testing.assert_close(our_gradient, gradient, rtol=1e-9, atol=1e-9)


def test_two_views_are_those_of_one_position_and_count_once():
    """Without dropout both predict alike, so nothing is added; with it, something is."""
    options = {"label_smoothing": 0.1, "coverage_weight": 0.5, "alignment_weight": 0.3}
    batch = make_batch(SOURCES, TARGETS, LINKS)

    def loss(dropout, **more):
        noise = Noise(torch.Generator().manual_seed(1))
        return TranslationLoss(**options, **more)(small_model(dropout=dropout), batch, noise)

    once, twice = loss(0.0), loss(0.0, r_drop=5.0)
    assert float(twice.total.detach()) == pytest.approx(float(once.total.detach()), rel=1e-9)
    assert float(twice.nll) == pytest.approx(float(once.nll), rel=1e-9)
    assert twice.num_tokens == once.num_tokens
    apart, nearly = loss(0.4, r_drop=5.0), loss(0.4, r_drop=1e-9)
    assert float(apart.total.detach()) > float(nearly.total.detach()) + 0.5
    assert float(apart.nll) == pytest.approx(float(nearly.nll), rel=1e-9)
