"""Gradients against numerical differences, and the hand-written backward passes against plain autograd."""

import gc

import pytest
import torch
from tiny_models import every_attention, every_kind, name_of, random_ids, random_values, run, tiny_model, valid_of

from nmt_cli.model import attention as attention_module
from nmt_cli.model import decoder as decoder_module
from nmt_cli.model.attention import additive_energies
from nmt_cli.ops import loop_product as loop_product_module
from nmt_cli.ops import native
from nmt_cli.ops.additive import AdditiveEnergies
from nmt_cli.ops.attention_products import InnerProducts, WeightedSums
from nmt_cli.ops.loop_product import loop_product
from nmt_cli.ops.matmul import full_precision

pytestmark = pytest.mark.usefixtures("both_paths")
LENGTHS = (4, 2)


def plain_inputs(inputs_TBI, weight_IO):
    return lambda step: torch.matmul(inputs_TBI.select(-3, step), weight_IO).to(inputs_TBI.dtype)


def plain_sum(values_BSC, rows=1):
    assert rows == 1

    def weighted_sum(weights_BS):
        with full_precision(weights_BS):
            return (weights_BS.unsqueeze(-1) * values_BSC).sum(dim=1)

    return weighted_sum


def plain_inner_products(keys_BSA, rows=1):
    assert rows == 1
    return lambda query_BA: (keys_BSA * query_BA.unsqueeze(1)).sum(dim=-1)


def plain_additive(keys_BSA, v_A, valid_BS=None, rows=1):
    assert rows == 1

    def energies(query_BA, extra_BSA=None):
        extra_BSA = torch.zeros_like(keys_BSA) if extra_BSA is None else extra_BSA
        return additive_energies(query_BA, keys_BSA + extra_BSA, v_A.unsqueeze(0)).squeeze(-1)

    return energies


def leave_all_to_autograd(monkeypatch):
    """Plain formulas in the place of everything that has a backward pass of its own."""
    monkeypatch.setattr(loop_product_module, "LoopProducts", plain_inputs)
    for module in (attention_module, decoder_module):
        monkeypatch.setattr(module, "WeightedSums", plain_sum)
    monkeypatch.setattr(attention_module, "InnerProducts", plain_inner_products)
    monkeypatch.setattr(attention_module, "AdditiveEnergies", plain_additive)
    monkeypatch.setattr(
        native, "has_kernels_for", lambda tensor: False
    )  # `native.path` must find its switch as it left it


def scalar_loss(model, seed=3):
    """A sum with random factors of all that a model gives: readouts, weights and the state that it leaves."""
    decoded = run(model, random_ids((2, 4)), valid_of(LENGTHS), random_ids((2, 3), seed=2))
    left = [*decoded.state.layers, *decoded.state.feed, *decoded.state.attention]
    parts = [decoded.readout_BTR, decoded.weights_BTS, *(part for part in left if part.is_floating_point())]
    total = 0.0
    for number, part in enumerate(parts):
        total = total + (part.double() * random_values(*part.shape, seed=seed + number)).sum()
    logits = model.logits(decoded.readout_BTR.flatten(0, 1))
    return total + (logits.double() * random_values(*logits.shape, seed=seed - 1)).sum()


def gradients_of(model):
    """By name; zeros where a parameter has no part in the loss."""
    names, parameters = zip(*model.named_parameters(), strict=True)
    gradients = torch.autograd.grad(scalar_loss(model), parameters, allow_unused=True)
    return {
        name: torch.zeros_like(parameter) if gradient is None else gradient
        for name, parameter, gradient in zip(names, parameters, gradients, strict=True)
    }


def num_layers_of(kind):
    return 2 if kind[3] else 1


@pytest.mark.parametrize("kind", every_kind())
def test_the_gradient_is_the_slope_of_the_loss_along_a_random_direction(kind):
    """Central differences over all parameters at once. Breaks with `weight_gradient` over all steps but one."""
    model = tiny_model(kind, num_layers=num_layers_of(kind))
    directions = {
        name: random_values(*parameter.shape, seed=number)
        for number, (name, parameter) in enumerate(model.named_parameters())
    }
    slope = sum(float((gradient * directions[name]).sum()) for name, gradient in gradients_of(model).items())
    step, losses = 3e-7, []
    with torch.no_grad():
        for sign in (1.0, -2.0):
            for name, parameter in model.named_parameters():
                parameter.add_(directions[name], alpha=sign * step)
            losses.append(float(scalar_loss(model)))
    assert slope == pytest.approx((losses[0] - losses[1]) / (2 * step), rel=1e-6)


@pytest.mark.parametrize("kind", every_kind())
def test_hand_written_backward_passes_give_the_gradients_of_plain_autograd(kind, monkeypatch):
    """Parameter by parameter. Fails if a step is kept twice, or where the directions' steps are mixed."""
    model = tiny_model(kind, num_layers=num_layers_of(kind))
    ours = gradients_of(model)
    leave_all_to_autograd(monkeypatch)
    plain = gradients_of(model)
    for name, gradient in plain.items():
        assert torch.allclose(ours[name], gradient, rtol=1e-10, atol=1e-10), name


@pytest.mark.parametrize("kind", every_attention(), ids=name_of)
def test_under_autocast_the_gradients_stay_near_those_of_full_precision(kind, monkeypatch):
    """Near as a vector, and no farther from the truth than plain autograd's in bfloat16 by much."""
    model = tiny_model(kind, dtype=torch.float32)

    def flat():
        return torch.cat([gradient.flatten() for gradient in gradients_of(model).values()])

    truth = flat()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours = flat()
        leave_all_to_autograd(monkeypatch)
        plain = flat()
    assert ours.dtype == torch.float32
    assert not torch.equal(ours, truth)
    off, plain_off = ((gradient - truth).norm() / truth.norm() for gradient in (ours, plain))
    assert off < 0.25
    assert off < 2 * plain_off + 0.005


@pytest.mark.parametrize("kind", every_attention(), ids=name_of)
def test_a_pass_forward_and_back_leaves_no_tensor_behind(kind):
    """Nor does a pass that is never gone back. Fails if what the steps keep holds a tensor of the graph."""
    model = tiny_model(kind)
    gradients_of(model)

    def num_tensors():
        return sum(type(thing) is torch.Tensor for thing in gc.get_objects())

    gc.disable()
    gc.freeze()  # what other tests have left is not counted, which would take longest
    try:
        before = num_tensors()
        for _ in range(3):
            gradients_of(model)
            scalar_loss(model)
        assert num_tensors() == before
    finally:
        gc.unfreeze()
        gc.enable()


@pytest.mark.parametrize("directions", [(), (2,)])
def test_a_loop_of_products_has_the_slope_of_every_entry(directions):
    """Entry by entry against central differences; gradcheck would go back twice, and a loop is a value of one pass."""
    matrices = [random_values(*directions, 3, 3), random_values(*directions, 2, 3, seed=2)]
    factors = random_values(*directions, 2, 3, seed=3)

    def loss(weight_IO, state_BI):
        product = loop_product(weight_IO)
        for _ in range(3):
            state_BI = torch.tanh(product(state_BI))
        return (state_BI * factors).sum()

    ours = torch.autograd.grad(loss(*(matrix.requires_grad_() for matrix in matrices)), matrices)
    matrices = [matrix.detach() for matrix in matrices]
    for matrix, gradient in zip(matrices, ours, strict=True):
        for entry, slope in zip(matrix.view(-1), gradient.flatten(), strict=True):
            entry += 1e-6
            above = loss(*matrices)
            entry -= 2e-6
            below = loss(*matrices)
            entry += 1e-6
            assert float(slope) == pytest.approx(float(above - below) / 2e-6, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("together", [True, False])
def test_steps_that_do_not_depend_on_one_another_are_all_in_the_gradient(together):
    """As the looks of Luong's decoder without input feeding; in one backward pass or in one for each."""
    weight_IO = random_values(3, 3).requires_grad_()
    keys_BSA, v_A = random_values(2, 4, 3, seed=3).requires_grad_(), random_values(3, seed=4).requires_grad_()
    leaves = (weight_IO, keys_BSA, v_A)

    def gradients(product, energies, weighted_sum):
        for leaf in leaves:
            leaf.grad = None
        losses = []
        for seed in (5, 6):
            energy_BS = energies(product(random_values(2, 3, seed=seed)))
            losses.append((weighted_sum(energy_BS) ** 2).sum())
        for loss in [sum(losses)] if together else losses:
            loss.backward()
        return [leaf.grad for leaf in leaves]

    ours = gradients(loop_product(weight_IO), AdditiveEnergies(keys_BSA, v_A), WeightedSums(keys_BSA))
    plain = gradients(lambda inputs_BI: inputs_BI @ weight_IO, plain_additive(keys_BSA, v_A), plain_sum(keys_BSA))
    for gradient, expected in zip(ours, plain, strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-12)


def test_inner_products_of_a_loop_have_the_gradients_of_plain_autograd():
    keys_BSA, queries = random_values(2, 4, 3).requires_grad_(), random_values(3, 2, 3, seed=2).requires_grad_()

    def gradients(energies):
        total = sum((energies(query_BA) ** 2).sum() for query_BA in queries)
        return torch.autograd.grad(total, (keys_BSA, queries))

    for ours, plain in zip(gradients(InnerProducts(keys_BSA)), gradients(plain_inner_products(keys_BSA)), strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-12, atol=1e-12)
