"""The cross-entropy against plain formulas, whatever the chunks."""

import math

import pytest
import torch
from torch.nn import functional as F

from nmt_cli.ops.cross_entropy import ROWS_AT_ONCE, cross_entropy, negative_log_likelihood

VOCAB_SIZE = 13


def values(*shape, seed=1, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def ids(rows, seed=2):
    return torch.randint(0, VOCAB_SIZE, (rows,), generator=torch.Generator().manual_seed(seed))


def projection(dtype=torch.float64, size=7):
    """The weight and bias of a projection to the vocabulary."""
    weight, bias = values(VOCAB_SIZE, size, dtype=dtype), values(VOCAB_SIZE, seed=3, dtype=dtype)
    weight, bias = weight.requires_grad_(), bias.requires_grad_()
    return weight, bias


def test_the_negative_log_likelihood_is_that_of_its_formula():
    logits_NV, targets_N = values(9, VOCAB_SIZE), ids(9)
    nll_N, chosen_N = negative_log_likelihood(logits_NV, targets_N)
    for row, (logits, target) in enumerate(zip(logits_NV.tolist(), targets_N.tolist(), strict=True)):
        expected = math.log(sum(math.exp(logit) for logit in logits)) - logits[target]
        assert float(nll_N[row]) == pytest.approx(expected, rel=1e-12)
        assert float(chosen_N[row]) == logits[target]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows", [1, 64, 65, ROWS_AT_ONCE, 2 * ROWS_AT_ONCE + 77])
def test_cross_entropy_in_chunks_is_that_of_all_logits_at_once_with_its_gradients(rows, smoothing):
    """Fails if the last chunk is left out, or where a chunk's gradient replaces the sum so far."""
    (weight, bias), targets_N = projection(), ids(rows)
    readout_NR = values(rows, 7, seed=4).requires_grad_()
    leaves = [readout_NR, weight, bias]
    total, nll = cross_entropy(readout_NR, weight, bias, targets_N, smoothing)
    ours = torch.autograd.grad(total * 0.37, leaves)
    logits_NV = F.linear(readout_NR, weight, bias)
    plain = F.cross_entropy(logits_NV, targets_N, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(total, plain, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(nll, F.cross_entropy(logits_NV, targets_N, reduction="sum"), rtol=1e-9, atol=1e-9)
    for our_gradient, gradient in zip(ours, torch.autograd.grad(plain * 0.37, leaves), strict=True):
        torch.testing.assert_close(our_gradient, gradient, rtol=1e-9, atol=1e-9)


def test_rows_that_do_not_count_change_neither_loss_nor_gradient_whatever_is_in_them():
    """Against the counted rows alone. Fails if any of the sums (bias, smoothing, loss) takes all rows, and where a
    row is multiplied by zero, which leaves NaN."""
    (weight, bias), targets_N = projection(), ids(2 * ROWS_AT_ONCE).repeat_interleave(2)[: ROWS_AT_ONCE + 66]
    readout_NR = values(len(targets_N), 7, seed=4)
    valid_N = (torch.arange(len(targets_N) // 2) % 3 > 0).repeat_interleave(2)
    readout_NR[~valid_N] = float("nan")
    readout_NR.requires_grad_()
    leaves = [readout_NR, weight, bias]
    alone = cross_entropy(readout_NR[valid_N], weight, bias, targets_N[valid_N], 0.1)
    among = cross_entropy(readout_NR, weight, bias, targets_N, 0.1, valid_N)
    torch.testing.assert_close(among, alone, rtol=1e-9, atol=1e-9)
    expected, found = (torch.autograd.grad(total * 0.37, leaves) for total, _ in (alone, among))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_cross_entropy_in_chunks_has_the_slope_of_a_numerical_difference():
    (weight, bias), targets_N = projection(size=3), ids(5)
    readout_NR = values(5, 3, seed=4).requires_grad_()

    def loss(readout, weight, bias):
        return cross_entropy(readout, weight, bias, targets_N, 0.1)[0]

    assert torch.autograd.gradcheck(loss, (readout_NR, weight, bias))


def test_large_logits_overflow_nowhere():
    weight, bias = projection(torch.float32)
    readout_NR = (values(70, 7, seed=4) * 1e3).float().requires_grad_()
    total, _ = cross_entropy(readout_NR, weight, bias, ids(70), 0.1)
    total.backward()
    assert total.isfinite()
    assert readout_NR.grad.isfinite().all()


def test_under_autocast_the_chunks_are_near_full_precision_and_their_sums_in_float32():
    (weight, bias), targets_N = projection(torch.float32), ids(600)
    readout_NR = values(600, 7, seed=4, dtype=torch.float32).requires_grad_()
    leaves = [readout_NR, weight, bias]
    truth, _ = cross_entropy(readout_NR, weight, bias, targets_N, 0.1)
    true_gradients = torch.autograd.grad(truth, leaves)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        total, _ = cross_entropy(readout_NR, weight, bias, targets_N, 0.1)
    assert total.dtype == torch.float32
    assert not torch.equal(total, truth)
    assert total.item() == pytest.approx(truth.item(), rel=1e-3)
    for gradient, true_gradient in zip(torch.autograd.grad(total, leaves), true_gradients, strict=True):
        assert gradient.dtype == torch.float32
        assert float((gradient - true_gradient).norm() / true_gradient.norm()) < 0.01
