"""Numbers stay numbers: saturated and vanishing parameters, nothing but padding, one word, the longest sentence."""

import itertools

import pytest
import torch
from tiny_models import every_attention, name_of, random_ids, run, tiny_model, valid_of

from nmt_cli.data.batch import Batch
from nmt_cli.model.build import initialize
from nmt_cli.model.dropout import Noise
from nmt_cli.training.loss import TranslationLoss

pytestmark = pytest.mark.usefixtures("both_paths")
LONGEST = 250
SCALES = {"usual": 1.0, "saturated": 1e4, "vanishing": 1e-30, "zero": 0.0}
LENGTHS = {"one word": [1, 1], "longest": [LONGEST, 1], "nothing but padding": [3, 0]}
PRECISIONS = ("fp32", "bf16")
KINDS = every_attention()


def loss_and_gradients(kind, lengths, scale, precision):
    """The loss of a batch, and the gradient of every parameter as training begins with it, scaled, with dropout."""
    model = tiny_model(kind, dtype=torch.float32, dropout=0.2)
    initialize(model, seed=1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    width = max(lengths)
    valid_BS = valid_of(lengths)
    source_BS = random_ids((2, width)).where(valid_BS, torch.zeros(1, dtype=torch.int64))
    outputs_BT = random_ids((2, width), seed=3).clamp(min=1).where(valid_BS, torch.zeros(1, dtype=torch.int64))
    batch = Batch(source_BS, valid_BS, random_ids((2, width), seed=2), outputs_BT, valid_BS)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
        loss = TranslationLoss(label_smoothing=0.1)(model, batch, Noise(torch.Generator().manual_seed(1)))
    loss.total.backward()
    return float(loss.total.detach()), loss.nll, {name: parameter.grad for name, parameter in model.named_parameters()}


def every_length():
    """(lengths, precision); the longest sentence is for `make soak`."""
    for (name, lengths), precision in itertools.product(LENGTHS.items(), PRECISIONS):
        marks = pytest.mark.soak if name == "longest" else ()
        yield pytest.param(lengths, precision, id=f"{name}-{precision}", marks=marks)


@pytest.mark.parametrize(("lengths", "precision"), list(every_length()))
@pytest.mark.parametrize("kind", KINDS, ids=name_of)
def test_loss_and_gradient_are_finite_whatever_the_length(kind, lengths, precision):
    """Fails if the weights of a softmax over nothing are left as they come."""
    total, nll, gradients = loss_and_gradients(kind, lengths, 1.0, precision)
    assert torch.tensor([total, nll]).isfinite().all()
    if "local-p" in kind[1] and max(lengths) == LONGEST:
        return  # its centre is a share of the length: over 250 steps with a window of 1 the slope truly explodes
    wrong = [name for name, gradient in gradients.items() if gradient is not None and not gradient.isfinite().all()]
    assert wrong == []


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
@pytest.mark.parametrize("kind", KINDS, ids=name_of)
@torch.no_grad()
def test_states_and_weights_are_finite_whatever_the_parameters(kind, scale, precision):
    """Fails if a sum of sigmoids or a variance that vanishes is not guarded."""
    model = tiny_model(kind, dtype=torch.float32)
    for parameter in model.parameters():
        parameter.mul_(scale)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
        decoded = run(model, random_ids((3, 6)), valid_of([6, 1, 3]), random_ids((3, 4), seed=2))
    assert decoded.readout_BTR.isfinite().all()
    assert decoded.weights_BTS.isfinite().all()
    sums_BT = decoded.weights_BTS.float().sum(dim=-1)
    if not kind[1].startswith(("none", "local-p")):  # the Gaussian of local-p comes after the softmax
        torch.testing.assert_close(sums_BT, torch.ones_like(sums_BT), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("precision", PRECISIONS)
@torch.no_grad()
def test_a_row_of_nothing_but_padding_does_not_touch_its_neighbours(precision):
    for kind in KINDS:
        model = tiny_model(kind, dtype=torch.float32)
        source_BS, inputs_BT = random_ids((2, 4)), random_ids((2, 3), seed=2)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            beside = run(model, source_BS, valid_of([4, 0]), inputs_BT).readout_BTR[0]
            alone = run(model, source_BS[:1], valid_of([4]), inputs_BT[:1]).readout_BTR[0]
        torch.testing.assert_close(beside, alone, rtol=1e-2, atol=1e-2)


def test_the_loss_of_a_certain_model_is_finite_in_both_precisions():
    """Logits of tens of thousands: the softmax of the loss subtracts the largest first."""
    for precision in PRECISIONS:
        total, nll, gradients = loss_and_gradients(KINDS[2], [5, 3], 300.0, precision)
        assert torch.tensor([total, nll]).isfinite().all()
        assert total > 1_000.0
        assert all(gradient is None or gradient.isfinite().all() for gradient in gradients.values())
