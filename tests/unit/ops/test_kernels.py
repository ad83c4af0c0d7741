"""The kernels against the formulas that they stand for, and what happens without them."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
import torch

from nmt_cli.ops import kernel_library, native
from nmt_cli.ops.additive import AdditiveEnergies
from nmt_cli.ops.cross_entropy import negative_log_likelihood, softmax_gradient_
from nmt_cli.ops.gates import GateAffine, GateTerm, sum_terms
from nmt_cli.ops.gru import gru_formula, gru_step
from nmt_cli.ops.log_softmax import fold, log_softmax_

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


def without_affine(product):
    """A term of one direction to which nothing is added."""
    return GateTerm(product, GateAffine(None, torch.zeros(product.shape[-1])))


@pytest.mark.parametrize(("dtype", "product_type", "tolerance"), TYPES)
@pytest.mark.parametrize("finish", ["norm", "bias"])
@pytest.mark.parametrize("num_terms", [2, 3])
@pytest.mark.parametrize(("batch", "size"), SIZES)
def test_a_step_of_a_gru_is_the_formula(dtype, product_type, tolerance, finish, num_terms, batch, size):
    """Breaks with a scale of the variance that is a gate's neighbour's, or rows that are not all done."""
    shape = (2, batch, 3 * size)
    products = [some(*shape, dtype=product_type, seed=seed) for seed in range(num_terms)]
    affine_shape = (2, 1, 3, size) if finish == "norm" else (2, 1, 3 * size)
    gains = [some(*affine_shape, dtype=dtype, seed=10 + k) if finish == "norm" else None for k in range(num_terms)]
    biases = [some(*affine_shape, dtype=dtype, seed=20 + k) for k in range(num_terms)]
    hidden = some(2, batch, size, dtype=dtype, seed=30)
    affines = [GateAffine(*parts) for parts in zip(gains, biases, strict=True)]
    *inputs, recurrent = [GateTerm(*parts) for parts in zip(products, affines, strict=True)]
    expected = gru_formula(sum_terms(tuple(inputs)), recurrent.value(), hidden)
    given = gru_step(tuple(inputs), recurrent, hidden)
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
        [negative_log_likelihood(row[None], target[None])[0][0] for row, target in zip(logits, targets, strict=True)]
    )
    (gradient,) = torch.autograd.grad((each * weights).sum(), logits)
    smoothed = gradient.scatter_add(1, targets[:, None], 0.25 * weights[:, None].to(gradient.dtype))
    sums = torch.zeros(native.num_chunks(rows, size), size, dtype=dtype)
    losses, chosen = softmax_gradient_(product, bias, targets, counted, 0.25, sums)
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
    given = log_softmax_(logits)
    assert given is logits
    torch.testing.assert_close(given, expected, rtol=tolerance, atol=tolerance)
    given[:, ::3] = -torch.inf
    for folds in (1, 3, 8):
        places = size // folds
        best = given[:, : places * folds].unflatten(1, (folds, places)).amax(dim=1) if places else given[:, :0]
        assert fold(given, folds).equal(torch.cat([best, given[:, places * folds :]], dim=1))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_shows_in_what_comes_out(value):
    """A training must see it. Fails if the exponential clamps by `fmin`, which drops what is not a number."""
    product = some(2, 3 * 16)
    product[1, 40] = value
    hidden = some(2, 16, seed=2)
    updated = gru_step((), without_affine(product), hidden)
    assert updated[0].isfinite().all()
    assert updated[1].isfinite().all() == (value == value)  # infinities saturate
    query, keys = some(2, 16), some(2, 3, 16, seed=2)
    query[1, 3] = value
    energies = AdditiveEnergies(keys, some(16, seed=3))(query)
    assert energies[0].isfinite().all()
    assert energies[1].isnan().all() == (value != value)
    logits = some(2, 40)
    logits[1, 7] = value
    sums = torch.zeros(1, 40)
    losses, _ = softmax_gradient_(logits, torch.zeros(40), torch.tensor([7, 7]), None, 0.0, sums)
    assert losses[0].isfinite()
    assert not losses[1].isfinite()


@torch.no_grad()
@pytest.mark.parametrize("rows", [1, 3])
def test_energies_of_padding_are_not_computed(rows):
    """The others do not change by a bit. Fails if the kernel looks up whether another source is valid there."""
    query, keys, v = some(2 * rows, 16), some(2, 5, 16, seed=2), some(16, seed=3)
    valid = torch.tensor([[True, True, True, False, False], [True, True, True, True, False]])
    all_NS = AdditiveEnergies(keys, v, rows=rows)(query)
    given_NS = AdditiveEnergies(keys, v, valid, rows)(query)
    valid_NS = valid.repeat_interleave(rows, dim=0)
    assert given_NS[valid_NS].equal(all_NS[valid_NS])
    assert not given_NS[~valid_NS].any()


def test_numbers_far_out_neither_overflow_nor_vanish():
    for scale in (1e-30, 1e4, 1e30):
        product = some(4, 3 * 16, scale=scale)
        updated = gru_step((), without_affine(product), some(4, 16, seed=2))
        assert updated.isfinite().all()
        logits = some(3, 50, scale=scale)
        losses, _ = softmax_gradient_(logits, torch.zeros(50), torch.tensor([1, 2, 3]), None, 0.1, torch.zeros(1, 50))
        assert losses.isfinite().all()
        assert logits.isfinite().all()


@pytest.fixture
def afresh() -> Iterator[None]:
    """The kernels are looked for again, in the test and after it."""
    native._library.cache_clear()
    yield
    native._library.cache_clear()
    assert native.why_missing() == ""


@pytest.mark.usefixtures("afresh")
def test_kernels_of_another_version_are_as_none(monkeypatch):
    """A checkout that was updated and not installed again. Fails if what was compiled is called unseen."""
    with monkeypatch.context() as patched:
        patched.setattr(kernel_library, "VERSION", kernel_library.VERSION + 1)
        assert not native.is_built()
        assert not native.has_kernels_for(torch.zeros(1))
        assert native.why_missing() == (
            "nmt runs without its compiled kernels, which is slower, because they belong to another version. "
            "Reinstall nmt-cli"
        )


@pytest.mark.usefixtures("afresh")
def test_kernels_that_cannot_be_loaded_are_as_none(monkeypatch, tmp_path):
    """Compiled for another processor, or cut off. Fails if the reason is kept from the user."""
    with monkeypatch.context() as patched:
        broken = tmp_path / "kernels.so"
        broken.write_bytes(b"\x7fELF")
        patched.setattr(kernel_library, "find_spec", lambda name: ModuleSpec(name, None, origin=str(broken)))
        assert not native.is_built()
        assert not native.has_kernels_for(torch.zeros(1))
        assert re.fullmatch(
            rf"nmt runs without .*, because they cannot be loaded \({broken}: .*\)\. Reinstall nmt-cli",
            native.why_missing(),
        )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
@pytest.mark.parametrize("where_torch_puts_it", ["ctypes.RTLD_GLOBAL", "ctypes.RTLD_LOCAL"])
def test_the_kernels_share_their_work_among_the_threads_that_torch_has_brought(where_torch_puts_it):
    """Fails if one thread does everything. On ARM the OpenMP of torch is no global one."""
    script = f"""
import ctypes, os
ctypes.RTLD_GLOBAL = {where_torch_puts_it}
import torch
from nmt_cli.ops import kernel_library, native
from nmt_cli.ops.log_softmax import log_softmax_
assert native.is_built(), native.why_missing()
values = torch.zeros(64, 10_000)
native.num_chunks = lambda *sizes: 3
before = len(os.listdir("/proc/self/task"))
log_softmax_(values)
print(len(os.listdir("/proc/self/task")) - before)
"""
    found_here = {**os.environ, "PYTHONPATH": str(Path(native.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=found_here)
    assert done.stdout == "2\n"


def test_the_region_decides_and_ends():
    tensor = torch.zeros(1)
    assert native.has_kernels_for(tensor)
    with native.path(native.PLAIN):
        assert not native.has_kernels_for(tensor)
        with native.path(native.NATIVE):
            assert native.has_kernels_for(tensor)
        assert not native.has_kernels_for(tensor)
    assert native.has_kernels_for(tensor)
    assert not native.has_kernels_for(tensor.to("meta"))
    assert not native.has_kernels_for(tensor.bfloat16())
