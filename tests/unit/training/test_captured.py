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
from nmt_cli.training.captured import SHAPES_KEPT, TOLERANCE, Captured, bucket
from nmt_cli.training.loss import TranslationLoss
from nmt_cli.training.update import GraphsFailedError, Objective, Part

DEFAULT = ("conditional", "additive", "gru", True)
LOSS = TranslationLoss(label_smoothing=0.1, coverage_weight=0.3, alignment_weight=0.5)


@pytest.fixture(autouse=True)
def _path():
    """Act like a GPU: a tape, like a graph, holds what torch does."""
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


def backward_of(model, graphs, loss=LOSS):
    return Captured(Objective(model, loss), graphs)


def gradients(backward, model, batch, *, seed=1, bf16=False):
    """Those of one batch, in memory of their own."""
    backward.clear()
    nll = backward(Part(batch, batch.num_target_tokens, seed, bf16))
    return float(nll), [parameter.grad.clone() for parameter in model.parameters()]


@pytest.mark.parametrize("kind", every_kind())
def test_run_captured_and_replayed_every_model_has_the_gradients_of_the_plain_pass(kind):
    """Two batches of one shape. Fails if padded positions count in the loss or in the gradient of the bias, where
    the number of tokens is a number in place of a tensor, and where a mask picks the rows of the loss."""
    model, graphs = tiny_model(kind), Tapes()
    backward = backward_of(model, graphs)
    for seed in (1, 2):
        batch = batch_of(seed)
        truth = plain_gradients(model, batch)
        torch.testing.assert_close(gradients(backward, model, batch), truth, rtol=1e-9, atol=1e-9)
    assert graphs.asked == ["run", "capture", "replay", "replay", "replay"]


def test_a_step_hears_the_same_noise_whatever_was_captured_before():
    """A run that is resumed has captured nothing yet. Fails if the seed is set once, at the capture."""
    options = {"dropout": 0.3, "lexical_model": True}
    loss = TranslationLoss(label_smoothing=0.1)
    old_model = tiny_model(DEFAULT, **options)
    old = backward_of(old_model, Tapes(), loss)
    for seed in (5, 6, 7):
        gradients(old, old_model, batch_of(seed), seed=seed)
        gradients(old, old_model, batch_of(seed, longest=11), seed=seed)
    new_model = tiny_model(DEFAULT, **options)
    new = backward_of(new_model, Tapes(), loss)
    batch = batch_of(8)
    resumed, undisturbed = (gradients(one, model, batch, seed=8) for one, model in ((new, new_model), (old, old_model)))
    assert resumed[0] == undisturbed[0]
    assert all(torch.equal(one, other) for one, other in zip(resumed[1], undisturbed[1], strict=True))
    assert gradients(old, old_model, batch, seed=9)[0] != undisturbed[0]


def test_the_noise_is_that_of_a_plain_pass_on_the_padded_batch():
    """Fails if padding is part of the graph's own drawing, or is drawn for after the rest."""
    model, batch = tiny_model(DEFAULT, dropout=0.3), batch_of(1)
    truth = plain_gradients(model, batch.padded(4, 8, 8), seed=3)
    backward = backward_of(model, Tapes())
    for _ in range(2):
        torch.testing.assert_close(gradients(backward, model, batch, seed=3), truth, rtol=1e-9, atol=1e-9)


def test_parts_add_up_in_the_same_gradients():
    """Fails if a graph writes gradients in place of adding them, or where its loss is read after the next part."""
    model, batch = tiny_model(DEFAULT), batch_of(1, rows=6)
    truth = plain_gradients(model, batch)
    backward = backward_of(model, Tapes())
    for _ in range(3):
        backward.clear()
        nlls = [backward(Part(part, batch.num_target_tokens, 1)) for part in batch.split(2)]
        found = float(sum(nlls)), [parameter.grad for parameter in model.parameters()]
        torch.testing.assert_close(found, truth, rtol=1e-9, atol=1e-9)


def test_gradients_keep_their_place_and_forget_what_was_not_finite():
    """A skipped update leaves NaN behind. Fails if gradients are set to None or multiplied by zero."""
    model, batch = tiny_model(DEFAULT), batch_of(1)
    backward = backward_of(model, Tapes())
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
    """Fails if a shape that was met in one precision answers for the other."""
    model, batch = tiny_model(DEFAULT, dtype=torch.float32), batch_of(1)
    backward = backward_of(model, Tapes())
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
    """Fails if the first that was made goes first, and where a replay does not count as a meeting."""
    assert SHAPES_KEPT >= 3
    monkeypatch.setattr(captured, "SHAPES_KEPT", 2)
    model, graphs = tiny_model(DEFAULT), Tapes()
    backward = backward_of(model, graphs)

    def asked(longest):
        graphs.asked.clear()
        gradients(backward, model, batch_of(1, longest=longest))
        return graphs.asked

    first = ["run", "capture", "replay", "replay"]
    assert asked(3) == first
    assert asked(3) == ["replay"]
    assert asked(7) == first
    assert asked(3) == ["replay"]
    assert asked(11) == first
    assert asked(3) == ["replay"]
    assert asked(7) == first


def test_more_shapes_are_kept_than_corpora_have():
    assert SHAPES_KEPT > 103  # of 200,000 pairs


def test_a_capture_that_fails_gives_back_all_graphs_and_says_why():
    graphs = Tapes(failure=RuntimeError("operation not permitted\nand advice"))
    model = tiny_model(DEFAULT, dropout=0.3)
    with pytest.raises(GraphsFailedError, match=r"^CUDA graphs cannot be captured \(operation not permitted\)$"):
        gradients(backward_of(model, graphs), model, batch_of(1))
    assert graphs.asked == ["run", "capture", "release"]


@pytest.mark.parametrize("what", ["loss", "gradient", "small gradient", "NaN"])
def test_a_replay_that_differs_from_the_plain_step_gives_back_all_graphs(what):
    """Fails if the loss alone is compared, where a parameter hides behind larger ones, and where NaN is no
    difference."""
    model = tiny_model(DEFAULT)
    smallest = min(model.parameters(), key=lambda parameter: parameter.numel())

    def spoil():
        if what == "loss":
            backward._nll.mul_(1 + 2 * TOLERANCE)
        elif what == "gradient":
            model.output_bias.grad.mul_(1 + 2 * TOLERANCE)
        elif what == "small gradient":
            smallest.grad.zero_()
        else:
            smallest.grad.fill_(float("nan"))

    graphs = Tapes(spoil=spoil)
    backward = backward_of(model, graphs)
    with pytest.raises(GraphsFailedError, match="a CUDA graph differs from the plain step by "):
        gradients(backward, model, batch_of(1))
    assert graphs.asked == ["run", "capture", "replay", "release"]


def test_a_replay_that_differs_by_rounding_is_taken():
    model = tiny_model(DEFAULT)
    graphs = Tapes(spoil=lambda: model.output_bias.grad.mul_(1 + TOLERANCE / 2))
    gradients(backward_of(model, graphs), model, batch_of(1))
    assert graphs.asked == ["run", "capture", "replay", "replay"]


def test_a_shape_whose_first_batch_is_not_finite_is_captured_with_the_next():
    """Fails if a graph is used that nobody has compared."""
    model, graphs = tiny_model(DEFAULT), Tapes()
    backward, kept = backward_of(model, graphs), model.output_bias.detach().clone()
    model.output_bias.data.fill_(float("nan"))
    assert gradients(backward, model, batch_of(1))[0] != 0.0
    model.output_bias.data.copy_(kept)
    truth = plain_gradients(model, batch_of(1))
    torch.testing.assert_close(gradients(backward, model, batch_of(1)), truth, rtol=1e-9, atol=1e-9)
    assert graphs.asked == ["run", "run", "capture", "replay", "replay"]


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_capture_without_memory_gives_back_all_shapes_and_is_no_failure_of_capturing(wrapped):
    """The error at the end of a capture hides the reason. Fails if only the error itself is looked at."""
    no_memory = torch.OutOfMemoryError("out of memory")
    failure = RuntimeError("operation failed due to a previous error during capture") if wrapped else no_memory
    failure.__context__ = no_memory if wrapped else None
    model, graphs = tiny_model(DEFAULT), Tapes(failure=failure)
    with pytest.raises(torch.OutOfMemoryError):
        gradients(backward_of(model, graphs), model, batch_of(1))
    assert graphs.asked == ["run", "capture", "release"]


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
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append("empty cache"))
    graphs = captured.graphs_for(torch.device("cuda"))
    graphs.run(lambda: calls.append("work"))
    waits = ["side waits for today", "enter side", "work", "leave side", "today waits for side"]
    assert calls == [*waits, "empty cache"]
    calls.clear()
    replay = graphs.capture(lambda: calls.append("work"), torch.Generator())
    capture = "capture on side in thread_local"
    assert calls == ["register", "enter today", f"enter {capture}", "work", f"leave {capture}", "leave today"]
    replay()
    assert calls[-1] == "replay"
    graphs.release()


def test_a_cpu_has_no_graphs():
    assert captured.graphs_for(torch.device("cpu")) is None


@pytest.mark.parametrize("torch_ended_it", [False, True])
def test_the_allocator_hears_that_a_broken_capture_is_over(torch_ended_it, monkeypatch):
    """If torch ended the allocation, its graph lets go of the pool by itself. Fails if the pool is let go of
    twice, or if memory stays with a capture that was invalidated."""
    calls = []

    def end(device, pool):
        if torch_ended_it:
            raise RuntimeError("endAllocatePool: not currently recording to mempool_id")
        calls.append(("end", device, pool))

    @contextmanager
    def broken(*_, **__):
        yield

    def fail():
        raise RuntimeError("operation failed due to a previous error during capture")

    for name, value in {
        "Stream": lambda device: nullcontext(), "current_stream": lambda device: None, "stream": nullcontext,
        "device": nullcontext, "graph_pool_handle": lambda: "pool", "current_device": lambda: 0, "graph": broken,
        "CUDAGraph": lambda: torch.nn.Module(),
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch.nn.Module, "register_generator_state", lambda *_: None, raising=False)
    monkeypatch.setitem(torch._C.__dict__, "_cuda_endAllocateToPool", end)
    monkeypatch.setitem(torch._C.__dict__, "_cuda_releasePool", lambda *given: calls.append(("release", *given)))
    graphs = captured.graphs_for(torch.device("cuda"))
    with pytest.raises(RuntimeError, match="previous error during capture"):
        graphs.capture(fail, torch.Generator())
    assert calls == ([] if torch_ended_it else [("end", 0, "pool"), ("release", 0, "pool")])
