"""The kernels against the formulas that they stand for, and what happens without them."""

import pytest
import torch

from nmt_cli import native
from nmt_cli.model.cells import GateNorm, gru_update
from nmt_cli.training.loss import smoothed_cross_entropy

pytestmark = pytest.mark.skipif(not native.is_built(), reason="installed without a compiler")

TYPES = [
    (torch.float32, torch.float32, 2e-6),
    (torch.float32, torch.bfloat16, 2e-6),
    (torch.float64, torch.float64, 1e-12),
]
SIZES = [(1, 1), (3, 7), (2, 16), (5, 33), (70, 200)]
"""Rows and columns: none, some, and many vectors of a processor, and more than one chunk."""


def some(*shape, dtype=torch.float32, seed=1, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return (scale * torch.randn(*shape, generator=generator, dtype=torch.float64)).to(dtype)


def finished(product, gain, bias, size):
    if gain is None:
        return product if bias is None else product + bias
    norm = GateNorm(3, size, product.shape[:-2]).to(product.dtype)
    with torch.no_grad():
        norm.gain.copy_(gain.view(norm.gain.shape))
        norm.bias.copy_(bias.view(norm.bias.shape))
    return norm(product)


@pytest.mark.parametrize(("dtype", "product_type", "tolerance"), TYPES)
@pytest.mark.parametrize("finish", ["norm", "bias", "nothing"])
@pytest.mark.parametrize("num_terms", [1, 2, 3])
@pytest.mark.parametrize(("batch", "size"), SIZES)
def test_a_step_of_a_gru_is_the_formula(dtype, product_type, tolerance, finish, num_terms, batch, size):
    """Breaks with a scale of the variance that is a gate's neighbour's, or rows that are not all done."""
    shape = (2, batch, 3 * size)
    products = [some(*shape, dtype=product_type, seed=seed) for seed in range(num_terms)]
    gains = [some(2, 3 * size, dtype=dtype, seed=10 + k) if finish == "norm" else None for k in range(num_terms)]
    biases = [some(2, 3 * size, dtype=dtype, seed=20 + k) if finish != "nothing" else None for k in range(num_terms)]
    hidden = some(2, batch, size, dtype=dtype, seed=30)
    terms = [native.Term(*parts) for parts in zip(products, gains, biases, strict=True)]
    *above, recurrent = [
        finished(term.product_DBG.to(dtype), term.gain_DG, None if bias is None else bias.unsqueeze(1), size)
        for term, bias in zip(terms, biases, strict=True)
    ]
    projected = sum(above, start=torch.zeros_like(recurrent))
    expected = gru_update(projected, recurrent, hidden)[0]
    given = native.gru(terms, hidden)
    error = (given - expected).abs().max()
    assert error <= tolerance * (1 + size**0.5 * (finish == "norm"))


@pytest.mark.parametrize(("dtype", "product_type", "tolerance"), TYPES)
@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize(("rows", "size"), SIZES)
def test_the_cross_entropy_is_the_formula_and_its_gradient_autograds(
    dtype, product_type, tolerance, counts, rows, size
):
    product = some(rows, size, dtype=product_type, scale=4.0)
    bias, targets = some(size, dtype=dtype, seed=2), torch.arange(rows) % size
    counted = (torch.arange(rows) % 3 != 1).to(dtype) if counts else None
    weights = torch.ones(rows, dtype=dtype) if counted is None else counted
    logits = (product.to(dtype) + bias).requires_grad_()
    each = torch.stack(
        [smoothed_cross_entropy(row[None], target[None], 0.0)[0] for row, target in zip(logits, targets, strict=True)]
    )
    (gradient,) = torch.autograd.grad((each * weights).sum(), logits)
    smoothed = gradient.scatter_add(1, targets[:, None], 0.25 * weights[:, None].to(gradient.dtype))
    sums = torch.zeros(native.num_chunks(rows, size), size, dtype=dtype)
    losses, chosen = native.cross_entropy(product, bias, targets, counted, 0.25, sums)
    near = {"rtol": 10 * tolerance, "atol": 10 * tolerance}
    torch.testing.assert_close(losses, (each * weights).detach(), **near)
    torch.testing.assert_close(chosen, logits.gather(1, targets[:, None])[:, 0].detach() * weights, **near)
    torch.testing.assert_close(sums.sum(0), smoothed.sum(0), rtol=1e-4, atol=rows * tolerance)
    half = 2e-2 if product_type is torch.bfloat16 else 10 * tolerance
    torch.testing.assert_close(product.to(dtype), smoothed, rtol=half, atol=half)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
@pytest.mark.parametrize(("rows", "size"), SIZES)
def test_log_probabilities_and_the_best_of_a_fold_are_those_of_torch(dtype, tolerance, rows, size):
    logits = some(rows, size, dtype=dtype, scale=4.0)
    expected = logits.log_softmax(dim=1)
    given = native.log_softmax_(logits)
    assert given is logits
    torch.testing.assert_close(given, expected, rtol=tolerance, atol=tolerance)
    given[:, ::3] = -torch.inf
    for folds in (1, 3, 8):
        places = size // folds
        best = given[:, : places * folds].unflatten(1, (folds, places)).amax(dim=1) if places else given[:, :0]
        assert native.fold(given, folds).equal(torch.cat([best, given[:, places * folds :]], dim=1))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_shows_in_what_comes_out(value):
    """A training must see it. Breaks where the exponential clamps by `fmin`, which drops what is not a number."""
    product = some(2, 3 * 16)
    product[1, 40] = value
    nothing = native.Term(product, None, None)
    hidden = some(2, 16, seed=2)
    updated = native.gru([nothing], hidden)
    assert updated[0].isfinite().all()
    assert updated[1].isfinite().all() == (value == value)  # infinities saturate
    query, keys = some(2, 16), some(2, 3, 16, seed=2)
    query[1, 3] = value
    energies = native.additive(query, keys, None, some(16, seed=3), 1)
    assert energies[0].isfinite().all()
    assert energies[1].isnan().all() == (value != value)
    logits = some(2, 40)
    logits[1, 7] = value
    sums = torch.zeros(1, 40)
    losses, _ = native.cross_entropy(logits, torch.zeros(40), torch.tensor([7, 7]), None, 0.0, sums)
    assert losses[0].isfinite()
    assert not losses[1].isfinite()


def test_numbers_far_out_neither_overflow_nor_vanish():
    for scale in (1e-30, 1e4, 1e30):
        product = some(4, 3 * 16, scale=scale)
        updated = native.gru([native.Term(product, None, None)], some(4, 16, seed=2))
        assert updated.isfinite().all()
        logits = some(3, 50, scale=scale)
        losses, _ = native.cross_entropy(
            logits, torch.zeros(50), torch.tensor([1, 2, 3]), None, 0.1, torch.zeros(1, 50)
        )
        assert losses.isfinite().all()
        assert logits.isfinite().all()


def test_kernels_of_another_version_are_as_none(monkeypatch):
    """A checkout that was updated and not installed again. Breaks where what was compiled is called unseen."""
    for stale in (native.is_built, native._library):
        stale.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(native, "VERSION", native.VERSION + 1)
        assert not native.is_built()
        assert not native.takes(torch.zeros(1))
    for stale in (native.is_built, native._library):
        stale.cache_clear()
    assert native.is_built()


def test_the_region_decides_and_ends():
    tensor = torch.zeros(1)
    assert native.takes(tensor)
    with native.path(native.PLAIN):
        assert not native.takes(tensor)
        with native.path(native.NATIVE):
            assert native.takes(tensor)
        assert not native.takes(tensor)
    assert native.takes(tensor)
    assert not native.takes(tensor.to("meta"))
    assert not native.takes(tensor.bfloat16())
