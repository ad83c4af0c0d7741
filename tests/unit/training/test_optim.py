"""Schedules at points known from their formulas, optimizers against their papers' updates, the average of weights."""

import math
import subprocess
import sys

import pytest
import torch
from torch import nn

from nmt_cli.training.optim import (
    Schedule,
    WeightAverage,
    build_optimizer,
    load_optimizer_tensors,
    optimizer_tensors,
)

NAMES = ("adam", "adamw", "adadelta", "sgd")
EVERY = ("constant", "plateau", "inverse_sqrt", "linear", "cosine")


def parameters(seed=1):
    generator = torch.Generator().manual_seed(seed)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((3, 2), (4,))]


def give_gradients(those, step):
    generator = torch.Generator().manual_seed(100 + step)
    for parameter in those:
        parameter.grad = torch.randn(parameter.shape, generator=generator)


@pytest.mark.parametrize("kind", EVERY)
def test_the_warm_up_is_a_straight_line_to_the_peak(kind):
    schedule = Schedule(kind, peak=0.4, warmup_steps=10)
    for step in range(1, 10):
        assert schedule.rate(step, progress=0.0) == pytest.approx(0.4 * step / 10)
    assert schedule.rate(10, progress=0.0) == pytest.approx(0.4)


@pytest.mark.parametrize("kind", EVERY)
def test_without_a_warm_up_the_first_step_is_at_the_peak(kind):
    assert Schedule(kind, peak=0.4).rate(1, progress=0.0) == pytest.approx(0.4)


def test_constant_and_plateau_stay_at_the_peak():
    for kind in ("constant", "plateau"):
        assert Schedule(kind, peak=0.4, warmup_steps=3, final=0.1).rate(1000, progress=0.9) == 0.4


def test_the_inverse_square_root_halves_when_the_steps_are_four_times_as_many():
    schedule = Schedule("inverse_sqrt", peak=0.4, warmup_steps=100)
    assert schedule.rate(400, progress=0.5) == pytest.approx(0.2)
    assert schedule.rate(1600, progress=0.9) == pytest.approx(0.1)
    assert Schedule("inverse_sqrt", peak=0.4).rate(16, progress=0.1) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("kind", "half", "quarter"), [("linear", 0.25, 0.325), ("cosine", 0.25, 0.1 + 0.15 * (1 + math.sqrt(0.5)))]
)
def test_linear_and_cosine_fall_from_the_peak_to_the_final_rate(kind, half, quarter):
    schedule = Schedule(kind, peak=0.4, final=0.1)
    assert schedule.rate(7, progress=0.0) == pytest.approx(0.4)
    assert schedule.rate(7, progress=0.25) == pytest.approx(quarter)
    assert schedule.rate(7, progress=0.5) == pytest.approx(half)
    assert schedule.rate(7, progress=1.0) == pytest.approx(0.1)


@pytest.mark.parametrize("kind", ["linear", "cosine"])
@pytest.mark.parametrize("warmup", [1, 2, 500, 999])
def test_a_falling_rate_begins_at_the_peak_behind_the_warm_up(kind, warmup):
    """The rates behind the warm-up are those of a shorter training without one, whose first is the peak."""
    total = 1000
    schedule = Schedule(kind, peak=0.4, warmup_steps=warmup, final=0.1)
    rates = [schedule.rate(step, (step - 1) / total) for step in range(warmup + 1, total + 1)]
    shorter = Schedule(kind, peak=0.4, final=0.1)
    expected = [shorter.rate(1, step / (total - warmup)) for step in range(total - warmup)]
    assert rates == pytest.approx(expected)
    assert schedule.rate(warmup, (warmup - 1) / total) == pytest.approx(0.4)
    assert schedule.rate(total + 1, 1.0) == pytest.approx(0.1)


def test_the_average_of_weights_is_that_of_a_loop():
    """In float64 by hand; the decay grows as step / (step + 9) until it is the one asked for."""
    those = parameters()
    average = WeightAverage(those, decay=0.7)
    expected = [parameter.detach().double().clone() for parameter in those]
    for step in range(1, 40):
        with torch.no_grad():
            for number, parameter in enumerate(those):
                parameter.copy_(
                    torch.randn(parameter.shape, generator=torch.Generator().manual_seed(step * 2 + number))
                )
        average.update(step)
        decay = min(0.7, step / (step + 9))
        expected = [decay * old + (1 - decay) * new.detach().double() for old, new in zip(expected, those, strict=True)]
    for ours, theirs in zip(average.weights, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-6)
    assert all(not weights.requires_grad for weights in average.weights)
    assert all(ours is not parameter for ours, parameter in zip(average.weights, those, strict=True))


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("name", NAMES)
def test_an_optimizer_with_its_tensors_put_back_goes_on_as_if_nothing_had_happened(name, momentum):
    """Bit for bit, through the names and values that a checkpoint holds."""
    options = {"learning_rate": 0.05, "momentum": momentum, "weight_decay": 0.01}
    straight = parameters()
    optimizer = build_optimizer(name, straight, **options)

    def advance(those, optimizer, steps):
        for step in steps:
            give_gradients(those, step)
            optimizer.step()

    advance(straight, optimizer, range(3))
    kept = {key: tensor.clone() for key, tensor in optimizer_tensors(optimizer).items()}
    resumed = [nn.Parameter(parameter.detach().clone()) for parameter in straight]
    fresh = build_optimizer(name, resumed, **options)
    load_optimizer_tensors(fresh, {"model.other": torch.zeros(1), **kept})
    assert all(torch.equal(tensor, kept[key]) for key, tensor in optimizer_tensors(fresh).items())
    assert len(optimizer_tensors(fresh)) == len(kept)
    advance(straight, optimizer, range(3, 6))
    advance(resumed, fresh, range(3, 6))
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(resumed, straight, strict=True))
    untouched = [nn.Parameter(parameter.detach().clone()) for parameter in parameters()]
    assert not torch.equal(straight[0], untouched[0])


@pytest.mark.parametrize("epsilon", [None, 1e-3])
def test_adam_is_the_update_of_its_paper(epsilon):
    """Kingma & Ba (2015), algorithm 1, in float64."""
    (parameter,) = parameters()[:1]
    optimizer = build_optimizer("adam", [parameter], learning_rate=0.1, betas=(0.9, 0.98), epsilon=epsilon)
    value, m, v = parameter.detach().double().clone(), 0.0, 0.0
    for step in range(1, 5):
        give_gradients([parameter], step)
        gradient = parameter.grad.double()
        optimizer.step()
        m, v = 0.9 * m + 0.1 * gradient, 0.98 * v + 0.02 * gradient**2
        value = value - 0.1 * (m / (1 - 0.9**step)) / ((v / (1 - 0.98**step)).sqrt() + (epsilon or 1e-8))
    torch.testing.assert_close(parameter.detach().double(), value, rtol=1e-5, atol=1e-6)


def test_adadelta_is_the_update_of_its_paper_with_bahdanau_s_constants():
    """Zeiler (2012), algorithm 1, with rho 0.95 and epsilon 1e-6, and a factor of 1."""
    (parameter,) = parameters()[:1]
    optimizer = build_optimizer("adadelta", [parameter], learning_rate=1.0)
    value, squares, deltas = parameter.detach().double().clone(), 0.0, torch.zeros(3, 2, dtype=torch.float64)
    for step in range(1, 5):
        give_gradients([parameter], step)
        gradient = parameter.grad.double()
        optimizer.step()
        squares = 0.95 * squares + 0.05 * gradient**2
        delta = -(deltas + 1e-6).sqrt() / (squares + 1e-6).sqrt() * gradient
        deltas = 0.95 * deltas + 0.05 * delta**2
        value = value + delta
    torch.testing.assert_close(parameter.detach().double(), value, rtol=1e-5, atol=1e-7)


def test_adamw_shrinks_weights_by_themselves_and_adam_through_the_gradient():
    """Loshchilov & Hutter (2019): without a gradient AdamW takes away rate times decay of a weight."""
    for name, expected in (("adamw", 2.0 * (1 - 0.1 * 0.5)), ("adam", 2.0 - 0.1)):
        parameter = nn.Parameter(torch.tensor([2.0]))
        parameter.grad = torch.zeros(1)
        build_optimizer(name, [parameter], learning_rate=0.1, weight_decay=0.5).step()
        assert float(parameter.detach()) == pytest.approx(expected, rel=1e-5)


WITHOUT_COMPILER = """
import sys, torch
from nmt_cli.training.optim import build_optimizer, load_optimizer_tensors, optimizer_tensors
for name in sys.argv[1:]:
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = build_optimizer(name, [weight], learning_rate=0.1)
    weight.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    load_optimizer_tensors(optimizer, optimizer_tensors(optimizer))
sys.exit("torch._dynamo" in sys.modules)
"""


def test_no_optimizer_imports_the_compiler_of_torch():
    """It takes some three seconds at the beginning of every training."""
    assert subprocess.run([sys.executable, "-c", WITHOUT_COMPILER, *NAMES], check=False).returncode == 0


@pytest.mark.parametrize("name", NAMES)
def test_an_optimizer_is_the_one_of_torch_bit_for_bit(name):
    ours, theirs = parameters(), parameters()
    common = {"lr": 0.1, "weight_decay": 0.01}
    optimizers = [
        build_optimizer(name, ours, learning_rate=0.1, weight_decay=0.01, momentum=0.9, betas=(0.9, 0.999)),
        {
            "adam": lambda: torch.optim.Adam(theirs, fused=True, **common),
            "adamw": lambda: torch.optim.AdamW(theirs, fused=True, **common),
            "adadelta": lambda: torch.optim.Adadelta(theirs, rho=0.95, eps=1e-6, **common),
            "sgd": lambda: torch.optim.SGD(theirs, momentum=0.9, **common),
        }[name](),
    ]
    for step in range(5):
        for those, optimizer in zip((ours, theirs), optimizers, strict=True):
            optimizer.zero_grad()
            give_gradients(those, step)
            optimizer.step()
    assert all(own.equal(other) for own, other in zip(ours, theirs, strict=True))
