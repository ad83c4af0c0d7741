"""Products laid out for translation, and those in bfloat16 and int8, against those in float32."""

import pytest
import torch

from nmt_cli.ops.matmul import MAX_STEP_ROWS, can_pack, linear
from nmt_cli.translation import precision
from nmt_cli.translation.precision import Bf16Product, Fp32Product, Int8Product


@torch.no_grad()
@pytest.mark.skipif(not can_pack(torch.ones(16, 16)), reason="this build of torch has no oneDNN")
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("shape", [(1,), (7,), (2, 33), (MAX_STEP_ROWS + 5,)])
def test_another_layout_changes_no_bit(shape, with_bias):
    generator = torch.Generator().manual_seed(1)
    weight_IO, inputs = torch.randn(256, 999, generator=generator), torch.randn(*shape, 256, generator=generator)
    bias_O = torch.randn(999, generator=generator) if with_bias else None
    laid_out, expected = Fp32Product.of(weight_IO, bias_O), linear(inputs, weight_IO.t(), bias_O)
    assert torch.equal(laid_out(inputs), expected)
    some = torch.tensor([3, 998, 3, 0])
    torch.testing.assert_close(laid_out.columns(some)(inputs), expected[..., some])


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize(("make", "tolerance"), [(Bf16Product.of, 0.01), (Int8Product.of, 0.02)])
def test_a_product_is_near_that_of_float32(make, tolerance, with_bias):
    """As a share of its norm; the bias itself is not rounded."""
    generator = torch.Generator().manual_seed(1)
    weight_IO, inputs = torch.randn(96, 160, generator=generator), torch.randn(2, 20, 96, generator=generator)
    bias_O = 100.0 * torch.randn(160, generator=generator) if with_bias else None
    exact = inputs @ weight_IO
    given = make(weight_IO, bias_O)(inputs)
    if bias_O is not None:
        given = given - bias_O
    assert given.dtype == torch.float32
    assert float((given - exact).norm() / exact.norm()) < tolerance


def test_int8_scales_are_those_of_a_row_and_of_a_column():
    """A row a million times larger, or a column, does not spoil the others."""
    generator = torch.Generator().manual_seed(2)
    weight_IO, inputs_NI = torch.randn(96, 64, generator=generator), torch.randn(32, 96, generator=generator)
    weight_IO[:, 3] *= 1e6
    inputs_NI[5] *= 1e6
    exact_NO, given_NO = inputs_NI @ weight_IO, Int8Product.of(weight_IO)(inputs_NI)
    for row in range(32):
        for columns in (slice(0, 3), slice(3, 4), slice(4, 64)):
            error = (given_NO[row, columns] - exact_NO[row, columns]).norm()
            scale = inputs_NI[row].norm() * weight_IO[:, columns].norm(dim=0).max()
            assert float(error / scale) < 0.05


@torch.no_grad()
@pytest.mark.parametrize("lowest", [-127, 100], ids=["random", "large"])
@pytest.mark.parametrize("inputs_size", [64, 1040, 1041, 3001])
@pytest.mark.parametrize("has_instructions", [True, False])
def test_int8_numbers_are_added_up_exactly(monkeypatch, has_instructions: bool, inputs_size: int, lowest: int):
    monkeypatch.setattr(precision, "has_fast_int8", lambda: has_instructions)
    generator = torch.Generator().manual_seed(3)
    weight_IO = torch.randint(lowest, 128, (inputs_size, 80), generator=generator)
    inputs_NI = torch.randint(lowest, 128, (35, inputs_size), generator=generator)
    weight_IO[0], inputs_NI[:, 0] = 127, 127  # so that all scales are 1
    product, exact_NO = Int8Product.of(weight_IO.float()), (inputs_NI @ weight_IO).float()
    assert torch.equal(product(inputs_NI.float()), exact_NO)
    some = torch.tensor([3, 79, 3, 0])
    assert torch.equal(product.columns(some)(inputs_NI.float()), exact_NO[:, some])
