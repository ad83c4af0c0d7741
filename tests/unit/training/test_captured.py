"""Graphs by shape against the plain pass: the same gradients, the same noise, and nothing of what was captured shows.

There is no GPU in these tests: `Tapes` records operations below autograd and does them again on the same memory.
"""

import inspect
import random
from contextlib import contextmanager, nullcontext

import pytest
import torch
from tapes import Tapes
from unit.model.tiny_models import VOCAB_SIZE, every_attention, every_kind, name_of, tiny_model

from nmt_cli.data.batch import make_batch
from nmt_cli.model.noise import Noise
from nmt_cli.ops import native
from nmt_cli.training import captured
from nmt_cli.training.captured import SHAPES_KEPT, CapturedBackward, bucket
from nmt_cli.training.loss import TranslationLoss

DEFAULT = ("conditional", "additive", "gru", True)
LOSS = TranslationLoss(label_smoothing=0.1, coverage_weight=0.3, alignment_weight=0.5)


@pytest.fixture(autouse=True)
def _path():
    """What a GPU does: a tape, like a graph, holds what torch does."""
    with native.path(native.PLAIN):
        yield


def batch_of(seed, *, rows=3, longest=7):
    """A batch with links whose longest source and target have the longest length, and others any."""
    random_ = random.Random(seed)

    def side():
        lengths = [longest, *(random_.randint(1, longest) for _ in range(rows - 1))]
        return [[random_.randrange(4, VOCAB_SIZE) for _ in range(length)] for length in lengths]

    links = [[(random_.randrange(2), random_.randrange(2))] for _ in range(rows)]
    return make_batch(side(), side(), links)


def plain_gradients(model, batch, *, loss=LOSS, seed=None, bf16=False):
    """As the trainer makes them without graphs."""
    model.zero_grad()
    noise = None if seed is None else Noise(torch.Generator().manual_seed(seed))
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        given = loss(model, batch, noise)
    (given.total / batch.num_target_tokens).backward()
    return float(given.nll), [
        torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
        for parameter in model.parameters()
    ]


def gradients(backward, model, batch, *, seed=1, bf16=False):
    """Those of one batch, in memory of their own."""
    backward.clear()
    nll = backward(batch, batch.num_target_tokens, seed, bf16=bf16)
    return float(nll), [parameter.grad.clone() for parameter in model.parameters()]


@pytest.mark.parametrize("kind", every_kind())
def test_run_captured_and_replayed_every_model_has_the_gradients_of_the_plain_pass(kind):
    """Three batches of one shape. Breaks where padded positions count in the loss or in the gradient of the bias, where
    the number of tokens is a number in place of a tensor, and where a mask picks the rows of the loss."""
    model, graphs = tiny_model(kind), Tapes()
    backward = CapturedBackward(model, LOSS, graphs)
    for seed in (1, 2, 3):
        batch = batch_of(seed)
        truth = plain_gradients(model, batch)
        torch.testing.assert_close(gradients(backward, model, batch), truth, rtol=1e-9, atol=1e-9)
    assert graphs.asked == ["run", "capture", "replay", "replay"]


def test_a_step_hears_the_same_noise_whatever_was_captured_before():
    """A run that is resumed has captured nothing yet. Breaks where the seed is set once, at the capture."""
    options = {"dropout": 0.3, "lexical_model": True}
    loss = TranslationLoss(label_smoothing=0.1)
    old_model = tiny_model(DEFAULT, **options)
    old = CapturedBackward(old_model, loss, Tapes())
    for seed in (5, 6, 7):
        gradients(old, old_model, batch_of(seed), seed=seed)
        gradients(old, old_model, batch_of(seed, longest=11), seed=seed)
    new_model = tiny_model(DEFAULT, **options)
    new = CapturedBackward(new_model, loss, Tapes())
    batch = batch_of(8)
    resumed, undisturbed = (gradients(one, model, batch, seed=8) for one, model in ((new, new_model), (old, old_model)))
    assert resumed[0] == undisturbed[0]
    assert all(torch.equal(one, other) for one, other in zip(resumed[1], undisturbed[1], strict=True))
    assert gradients(old, old_model, batch, seed=9)[0] != undisturbed[0]


def test_the_noise_is_that_of_a_plain_pass_on_the_padded_batch():
    """Breaks where padding is part of the graph's own drawing, or is drawn for after the rest."""
    model, batch = tiny_model(DEFAULT, dropout=0.3), batch_of(1)
    truth = plain_gradients(model, batch.padded(4, 8, 8), seed=3)
    backward = CapturedBackward(model, LOSS, Tapes())
    for _ in range(2):
        torch.testing.assert_close(gradients(backward, model, batch, seed=3), truth, rtol=1e-9, atol=1e-9)


def test_parts_add_up_in_the_same_gradients():
    """Breaks where a graph writes gradients in place of adding them, or where its loss is read after the next part."""
    model, batch = tiny_model(DEFAULT), batch_of(1, rows=6)
    truth = plain_gradients(model, batch)
    backward = CapturedBackward(model, LOSS, Tapes())
    for _ in range(3):
        backward.clear()
        nlls = [backward(part, batch.num_target_tokens, 1, bf16=False) for part in batch.split(2)]
        found = float(sum(nlls)), [parameter.grad for parameter in model.parameters()]
        torch.testing.assert_close(found, truth, rtol=1e-9, atol=1e-9)


def test_gradients_keep_their_place_and_forget_what_was_not_finite():
    """A skipped update leaves NaN behind. Breaks where gradients are set to None or multiplied by zero."""
    model, batch = tiny_model(DEFAULT), batch_of(1)
    backward = CapturedBackward(model, LOSS, Tapes())
    truth = gradients(backward, model, batch)
    places = [parameter.grad.data_ptr() for parameter in model.parameters()]
    kept = model.output_bias.detach().clone()
    model.output_bias.data.fill_(float("nan"))
    assert not all(gradient.isfinite().all() for gradient in gradients(backward, model, batch)[1])
    model.output_bias.data.copy_(kept)
    for parameter in model.parameters():
        parameter.grad = None
    found = gradients(backward, model, batch)
    torch.testing.assert_close(found, truth, rtol=0, atol=0)
    assert [parameter.grad.data_ptr() for parameter in model.parameters()] == places


def test_in_bfloat16_the_gradients_are_near_those_in_full_precision():
    """Breaks where a shape that was met in one precision answers for the other."""
    model, batch = tiny_model(DEFAULT, dtype=torch.float32), batch_of(1)
    backward = CapturedBackward(model, LOSS, Tapes())
    for _ in range(2):
        full = gradients(backward, model, batch)[1]
    plain = plain_gradients(model, batch, bf16=True)[1]
    for _ in range(3):
        half = gradients(backward, model, batch, bf16=True)[1]
        near, same = (
            sum(float((one - other).norm() ** 2) for one, other in zip(half, others, strict=True)) ** 0.5
            for others in (full, plain)
        )
        size = sum(float(gradient.norm() ** 2) for gradient in full) ** 0.5
        assert 1e-5 * size < near < 0.1 * size
        assert same < 0.02 * size


def test_a_size_is_padded_by_little_and_few_sizes_are_left():
    """Breaks with powers of two (too much padding) and with multiples of four (a graph for every length)."""
    sizes = range(1, 2000)
    for size in sizes:
        assert size <= bucket(size) < size + max(4, size / 4)
        assert bucket(bucket(size)) == bucket(size)
    assert len({bucket(size) for size in range(1, 101)}) == 15
    assert len({bucket(size) for size in sizes}) == 32


def test_shapes_beyond_the_bound_are_forgotten_longest_unmet_first(monkeypatch):
    """Breaks where the first that was made goes first, and where a replay does not count as a meeting."""
    assert SHAPES_KEPT >= 3
    monkeypatch.setattr(captured, "SHAPES_KEPT", 2)
    model, graphs = tiny_model(DEFAULT), Tapes()
    backward = CapturedBackward(model, LOSS, graphs)

    def asked(longest):
        graphs.asked.clear()
        gradients(backward, model, batch_of(1, longest=longest))
        return graphs.asked

    assert asked(3) == ["run"]
    assert asked(3) == ["capture", "replay"]
    assert asked(7) == ["run"]
    assert asked(3) == ["replay"]
    assert asked(11) == ["run"]
    assert asked(3) == ["replay"]
    assert asked(7) == ["run"]


def test_a_capture_that_fails_is_told_once_and_changes_nothing_else(capsys):
    """Breaks where the failure ends the training, or is tried and told again for every batch."""
    model, graphs = tiny_model(DEFAULT, dropout=0.3), Tapes(failure=RuntimeError("operation not permitted\nand advice"))
    backward = CapturedBackward(model, LOSS, graphs)
    whole_model, batch = tiny_model(DEFAULT, dropout=0.3), batch_of(1)
    whole = CapturedBackward(whole_model, LOSS, Tapes())
    for seed in range(4):
        found, truth = gradients(backward, model, batch, seed=seed), gradients(whole, whole_model, batch, seed=seed)
        torch.testing.assert_close(found, truth, rtol=0, atol=0)
    assert graphs.asked == ["run", "capture", "release", "run", "run", "run"]
    told = capsys.readouterr().err
    assert told.count("CUDA graphs cannot be captured (operation not permitted)") == 1


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_capture_without_memory_gives_back_all_shapes_and_is_no_failure_of_capturing(wrapped, capsys):
    """What the end of a capture raises then hides the reason. Breaks where only the error itself is looked at."""
    no_memory = torch.OutOfMemoryError("out of memory")
    failure = RuntimeError("operation failed due to a previous error during capture") if wrapped else no_memory
    failure.__context__ = no_memory if wrapped else None
    model, graphs = tiny_model(DEFAULT), Tapes(failure=failure)
    backward, batch = CapturedBackward(model, LOSS, graphs), batch_of(1)
    gradients(backward, model, batch)
    with pytest.raises(torch.OutOfMemoryError):
        gradients(backward, model, batch)
    gradients(backward, model, batch)
    assert graphs.asked == ["run", "capture", "release", "run"]
    assert "cannot be captured" not in capsys.readouterr().err


@pytest.mark.parametrize("kind", every_attention(), ids=name_of)
def test_no_tensor_is_made_on_the_host(kind, monkeypatch):
    """On a device without memory, a tensor of another is an error, as it is in a capture. Breaks with an `arange` that
    is not told its device."""
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda _: False)
    model, device = tiny_model(kind, dropout=0.3).to("meta"), torch.device("meta")
    noise = Noise(torch.Generator())
    loss = LOSS(model, batch_of(1).to(device), noise, fixed_shapes=True)
    loss.total.backward()
    assert loss.nll.device == device
    assert all(parameter.grad is None or parameter.grad.device == device for parameter in model.parameters())


def test_what_is_asked_of_torch_is_what_it_has(monkeypatch):
    """In order, with stand-ins that take torch's own arguments. Breaks with a misspelt argument, with a generator that
    is registered too late, and where the streams do not wait for each other."""
    calls = []

    class Stream:
        def __init__(self, name):
            self.name = name

        def wait_stream(self, other):
            calls.append(f"{self.name} waits for {other.name}")

    class Graph:
        def register_generator_state(self, generator):
            calls.append("register")

        def replay(self):
            calls.append("replay")

    @contextmanager
    def entered(name):
        calls.append(f"enter {name}")
        yield
        calls.append(f"leave {name}")

    def graph(*args, **kwargs):
        given = inspect.signature(real_graph).bind(*args, **kwargs).arguments
        assert given["pool"] == "pool"
        return entered(f"capture on {given['stream'].name} in {given['capture_error_mode']}")

    real_graph, today = torch.cuda.graph, Stream("today")
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream("side"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: today)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "pool")
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: entered(stream.name))
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "graph", graph)
    graphs = captured.graphs_for(torch.device("cuda"))
    graphs.run(lambda: calls.append("work"))
    assert calls == ["side waits for today", "enter side", "work", "leave side", "today waits for side"]
    calls.clear()
    replay = graphs.capture(lambda: calls.append("work"), torch.Generator())
    capture = "capture on side in thread_local"
    assert calls == ["register", "enter today", f"enter {capture}", "work", f"leave {capture}", "leave today"]
    replay()
    assert calls[-1] == "replay"
    graphs.release()


def test_a_cpu_has_no_graphs():
    assert captured.graphs_for(torch.device("cpu")) is None
