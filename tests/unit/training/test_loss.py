"""Losses against plain formulas, and the sum that does not depend on how a batch is cut."""

import math

import pytest
import torch
from torch.nn import functional as F

from nmt_cli.config.model import AttentionConfig, DecoderConfig, DropoutConfig, EncoderConfig, ModelConfig
from nmt_cli.data.batch import make_batch
from nmt_cli.model.build import build_model, initialize
from nmt_cli.model.dropout import Noise
from nmt_cli.training.loss import TranslationLoss, alignment_cross_entropy, coverage_penalty, evaluate_nll

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
            decoded = model.decode(one.inputs_BT, memory, model.initial_state(memory))
            logits_NV = model.logits(decoded.readout_BTR[0])
            total += F.cross_entropy(logits_NV, one.outputs_BT[0], label_smoothing=0.1, reduction="sum")
            nll += float(F.cross_entropy(logits_NV, one.outputs_BT[0], reduction="sum"))
            total += 0.5 * coverage_penalty(decoded.weights_BTS, one.target_valid_BT)
            total += 0.3 * alignment_cross_entropy(decoded.weights_BTS, one.links_BTS)
    assert batch.num_target_tokens == sum(len(target) + 1 for target in TARGETS)
    assert float(given.total.detach()) == pytest.approx(float(total), rel=1e-9)
    assert float(given.nll) == pytest.approx(nll, rel=1e-9)
    assert evaluate_nll(model, batch) == (pytest.approx(nll, rel=1e-9), batch.num_target_tokens)


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


def test_with_fixed_shapes_the_loss_is_that_of_the_pieces():
    batch = make_batch(SOURCES, TARGETS, LINKS)
    loss = TranslationLoss(label_smoothing=0.1, coverage_weight=0.5, alignment_weight=0.3)
    plain, fixed = (
        loss(small_model(dropout=0.3), batch, Noise(torch.Generator().manual_seed(1)), fixed_shapes=fixed)
        for fixed in (False, True)
    )
    torch.testing.assert_close(fixed.total, plain.total, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(fixed.nll, plain.nll, rtol=1e-9, atol=1e-9)


def test_validation_hears_no_noise():
    model, batch = small_model(dropout=0.5), make_batch(SOURCES, TARGETS)
    quiet, _ = evaluate_nll(model, batch)
    assert evaluate_nll(small_model(), batch)[0] == quiet
    noisy = TranslationLoss()(model, batch, Noise(torch.Generator().manual_seed(1)))
    assert abs(float(noisy.nll) - quiet) > 1e-3
