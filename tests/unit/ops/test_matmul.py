"""Products of few rows by oneDNN, against torch's own."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from nmt_cli.ops import matmul as products
from nmt_cli.ops.matmul import MAX_STEP_ROWS, Linear, linear, matmul, sum_of_outer_products

pytestmark = pytest.mark.skipif(not products.has_onednn(), reason="this build of torch has no oneDNN")


@pytest.fixture
def by_onednn(monkeypatch):
    """The number of rows of each product that oneDNN made."""
    rows, product = [], products._onednn_linear

    def counted(rows_NI, *rest):
        rows.append(len(rows_NI))
        return product(rows_NI, *rest)

    monkeypatch.setattr(products, "_onednn_linear", counted)
    return rows


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("num_rows", [1, 7, 16, 33, 180])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_product_is_that_of_torch(num_rows, transposed, by_onednn):
    left, right = random(num_rows, 48), random(96, 48).t() if transposed else random(48, 96)
    torch.testing.assert_close(matmul(left, right), left @ right)
    gapped = random(num_rows, 3, 48)[:, 1]
    torch.testing.assert_close(matmul(gapped, right), gapped @ right)
    assert by_onednn == [num_rows, num_rows]


@pytest.mark.parametrize("transposed", [False, True])
def test_directions_have_a_product_each(transposed, by_onednn):
    left, right = random(2, 21, 32), random(2, 40, 32).transpose(1, 2) if transposed else random(2, 32, 40)
    torch.testing.assert_close(matmul(left, right), left @ right)
    assert by_onednn == [21, 21]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(9, 32), (5, 4, 32), (40, 1, 32)])
def test_a_linear_map_is_that_of_torch_with_its_gradient(shape, bias, by_onednn):
    ours = Linear(32, 24, bias=bias)
    inputs = random(*shape)
    with torch.inference_mode():
        torch.testing.assert_close(ours(inputs), F.linear(inputs, ours.weight, ours.bias))
    assert by_onednn == [inputs.numel() // 32]
    ours(inputs).sum().backward()
    assert ours.weight.grad is not None
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        assert ours(inputs).dtype == torch.bfloat16
    assert len(by_onednn) == 1


@pytest.mark.parametrize("num_rows", [1, 30, MAX_STEP_ROWS + 20])
@pytest.mark.parametrize("directions", [(), (2,)])
def test_products_in_bfloat16_are_made_of_few_numbers_of_rows(num_rows, directions, monkeypatch):
    shapes, product = [], torch.matmul
    left, right = random(*directions, num_rows, 48).bfloat16(), random(*directions, 48, 32).bfloat16()
    gradients = random(*directions, num_rows, 32).bfloat16()
    expected = left.double() @ right.double(), left.double().transpose(-1, -2) @ gradients.double()
    monkeypatch.setattr(torch, "matmul", lambda a, b: shapes.append((*a.shape[-2:], b.shape[-1])) or product(a, b))
    found = matmul(left, right), sum_of_outer_products(left, gradients)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=0.02, atol=0.02 * num_rows**0.5)
    rows = {1: 16, 30: 32, MAX_STEP_ROWS + 20: 1280}[num_rows]
    assert shapes == [(rows, 48, 32), (48, rows, 32)]


def test_a_padded_linear_map_in_bfloat16_has_the_gradient_of_torch():
    ours, inputs = Linear(32, 24), random(7, 3, 32).requires_grad_()
    weights = random(7, 3, 24)
    gradients = []
    for of in (ours, lambda values: F.linear(values, ours.weight, ours.bias)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            outputs = of(inputs)
        gradients.append(torch.autograd.grad((outputs.float() * weights).sum(), [inputs, ours.weight, ours.bias]))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("directions", [(), (2,)])
def test_products_in_bfloat16_of_nothing_are_zeros(directions, monkeypatch):
    """As where no context enters the decoder. Torch 2.6 refuses to pad what has no columns."""
    pad = F.pad

    def pad_of_torch_2_6(inputs, sizes, *rest):
        assert all(inputs.shape[-(len(sizes) // 2) :])
        return pad(inputs, sizes, *rest)

    monkeypatch.setattr(F, "pad", pad_of_torch_2_6)
    rows, gradients = random(*directions, 7, 0).bfloat16(), random(*directions, 7, 24).bfloat16()
    assert torch.equal(matmul(rows, gradients.new_empty(*directions, 0, 24)), torch.zeros_like(gradients))
    assert sum_of_outer_products(rows, gradients).shape == (*directions, 0, 24)
    inputs, weight, bias = random(7, 3, 0).requires_grad_(), random(24, 0), random(24).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = linear(inputs, weight, bias)
    assert torch.equal(outputs, bias.bfloat16().expand(7, 3, 24))
    outputs.sum().backward()
    assert bias.grad is not None
    assert torch.equal(bias.grad, torch.full_like(bias, 21))
    assert inputs.grad is not None


@torch.inference_mode()
def test_a_row_does_not_depend_on_how_many_there_are():
    weight_OI, rows_NI = random(500, 96), random(400, 96)
    (first,) = linear(rows_NI[:1], weight_OI)
    for count in (2, 15, 16, 17, 100, 400):
        assert torch.equal(linear(rows_NI[:count], weight_OI)[0], first)
        assert torch.equal(linear(rows_NI[:count].flip(0), weight_OI)[-1], first)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (random(4, 8).double(), random(8, 6).double()),
        (random(16, 8).bfloat16(), random(8, 6).bfloat16()),
        (random(MAX_STEP_ROWS + 1, 8), random(8, 6)),
        (random(0, 8), random(8, 6)),
        (random(4, 8), random(8, 12)[:, ::2]),
        (random(4, 1), random(1, 1).expand(1, 6)),
        (random(3, 4, 8), random(8, 6)),
    ],
    ids=["float64", "bfloat16", "many rows", "no rows", "gaps", "expanded", "batched"],
)
def test_the_rest_is_left_to_torch(left, right, by_onednn):
    assert torch.equal(matmul(left, right), left @ right)
    assert by_onednn == []


def test_without_onednn_all_is_left_to_torch(monkeypatch):
    monkeypatch.setattr(products, "has_onednn", lambda: False)
    left, right = random(20, 48), random(48, 96)
    assert torch.equal(matmul(left, right), left @ right)
    with torch.no_grad():
        assert torch.equal(linear(left, right.t()), F.linear(left, right.t()))
