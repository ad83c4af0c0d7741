"""Forward and backward pass as graphs that are captured once and replayed: training where launches are the bound.

A recurrent loop launches many short kernels for every position, and a GPU is done with most of them sooner than the
host has launched the next. Here batches are padded to few shapes, and each shape's kernels, forward and backward, are
launched as one CUDA graph (docs/adr/0014). `training.cuda_graphs` switches this on.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from nmt_cli.allocator import is_out_of_memory
from nmt_cli.console import log
from nmt_cli.data.batch import Batch, round_up
from nmt_cli.model.noise import Noise
from nmt_cli.training.loss import LossSum
from nmt_cli.training.update import GraphsFailedError, Objective, Part

SHAPES_KEPT = 256
"""Shapes whose graphs are kept: more than a corpus has, for 200,000 pairs have about 103. Beyond this number the shape
that was not met for longest is forgotten."""
TOLERANCE = 1e-3
"""Relative difference that is allowed between a first replay and the plain step: of the loss, and of each parameter's
gradient as a norm. The difference is divided by the gradient's own norm, or by a thousandth of the whole gradient's
norm if that is larger."""

Work = Callable[[], None]


class Shape(NamedTuple):
    """Properties that batches must have in common to share a graph."""

    num_sentences: int
    source_width: int
    target_width: int
    has_links: bool
    bf16: bool

    @classmethod
    def of(cls, batch: Batch, *, bf16: bool) -> Shape:
        """Return the shape up to which a batch is padded."""
        (rows, source), (_, target) = batch.source_BS.shape, batch.outputs_BT.shape
        return cls(bucket(rows), bucket(source), bucket(target), batch.links_BTS is not None, bf16)


def bucket(size: int) -> int:
    """Return the next multiple of 4, or of an eighth of the next power of two if that is more.

    There are at most four sizes for every doubling, so the number of graphs grows with the logarithm of the lengths.
    """
    return round_up(size, max(4, (1 << (size - 1).bit_length()) // 8))


class Graphs(Protocol):
    """The device's side of a capture."""

    def run(self, work: Work) -> None:
        """Do the work once, as it would be captured, and give back the memory that it took."""
        ...

    def capture(self, work: Work, generator: torch.Generator) -> Work:
        """Return what does the work again, with the masks that the generator's seed gives when it is called.

        The work itself is not done.
        """
        ...

    def release(self) -> None:
        """Give back the memory of all that was captured; nothing of it is replayed any more."""
        ...


class CudaGraphs:
    """Graphs that are captured on one side stream, from one pool of memory (CUDA semantics, "CUDA Graphs", in torch's
    notes).

    The pool may be shared although shapes come in any order, because nothing in it outlives a replay: batch, gradients
    and loss stand outside.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()

    def run(self, work: Work) -> None:
        # On the stream of the captures: autograd and cuBLAS cache objects for each stream, and a capture fails if it
        # meets one of another stream.
        current = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            work()
        current.wait_stream(self._stream)
        torch.cuda.empty_cache()  # else the allocator keeps it, and the graphs' pool needs as much again

    def capture(self, work: Work, generator: torch.Generator) -> Work:
        graph = torch.cuda.CUDAGraph()
        with warnings.catch_warnings():
            # From torch 2.14 on a generator registers itself, and this is a deprecated call without effect.
            warnings.simplefilter("ignore")
            graph.register_generator_state(generator)
        # This restores the present stream, which torch.cuda.graph does not do when the end of a capture fails.
        with torch.cuda.device(self._device), torch.cuda.stream(torch.cuda.current_stream(self._device)):
            try:
                # Other threads may allocate meanwhile.
                with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
                    work()
            except BaseException:
                self._end_allocating()
                raise
        return graph.replay

    def _end_allocating(self) -> None:
        """Tell the allocator that a broken capture is over; torch's `capture_end` raises before it does. Otherwise the
        allocator would never free memory again or release the pool."""
        # The first call raises if torch did end it, and then the graph lets go of the pool by itself.
        with suppress(RuntimeError, AttributeError):
            torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), self._pool)
            torch._C._cuda_releasePool(torch.cuda.current_device(), self._pool)

    def release(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()
        torch.cuda.empty_cache()


def graphs_for(device: torch.device) -> Graphs | None:
    """Return the graphs of a device, or None where there are none and nothing would be gained."""
    return CudaGraphs(device) if device.type == "cuda" else None


class _Known(NamedTuple):
    """A shape that was met: the tensors that its batches are copied into, and what is done with them."""

    inputs: Batch
    replay: Work


class Captured:
    """Replays the graph for the shape of each `Part`, in one process: it sums no gradients with others.

    When a shape is met first, it is done plainly, captured, and replayed, and both results are compared. The gradients
    of a part depend on its noise and its padded shape, not on what was captured before.
    """

    def __init__(self, objective: Objective, graphs: Graphs) -> None:
        self._objective, self._graphs = objective, graphs
        self._trained: list[nn.Parameter] = [one for one in objective.parameters() if one.requires_grad]
        self._gradients: list[Tensor] = []
        device = self._trained[0].device
        self._generator = torch.Generator(device)
        self._nll = torch.zeros((), dtype=torch.float64, device=device)
        self._num_tokens = torch.ones((), device=device)
        self._known: dict[Shape, _Known] = {}
        """The shape that was met last stands last."""

    def clear(self) -> None:
        """Set the gradients to zero, where they are: a graph has their addresses."""
        self._gradients = self._gradients or [torch.zeros_like(parameter) for parameter in self._trained]
        torch._foreach_zero_(self._gradients)
        for parameter, gradient in zip(self._trained, self._gradients, strict=True):
            parameter.grad = gradient

    def __call__(self, part: Part) -> Tensor:
        """Add the gradient of a part; return its summed nll.

        Raises:
            GraphsFailedError: a shape cannot be captured, or its replay differs; no graph is held any more.
        """
        shape = Shape.of(part.batch, bf16=part.bf16)
        padded = part.batch.padded(*shape[:3])
        self._num_tokens.fill_(part.num_tokens)
        try:
            known = self._known.pop(shape, None) or self._met(padded, part)
            if known is None:
                return self._nll.clone()
            for kept, values in zip(known.inputs, padded, strict=True):
                if kept is not None and values is not None:
                    kept.copy_(values, non_blocking=True)
            self._seeded(known.replay, part.seed)
        except (MemoryError, RuntimeError, GraphsFailedError) as error:
            if isinstance(error, GraphsFailedError) or is_out_of_memory(error):
                self._forget()
            raise
        self._known[shape] = known
        if len(self._known) > SHAPES_KEPT:
            del self._known[next(iter(self._known))]
        return self._nll.clone()

    def _met(self, inputs: Batch, part: Part) -> _Known | None:
        """Capture a shape, then restore the gradients.

        If any value of the plain run is not finite, nothing is captured, its gradients stay, and None is returned.
        """
        work = partial(self._work, inputs, bf16=part.bf16)
        before = [gradient.clone() for gradient in self._gradients]
        # The plain run is also the warm-up that torch asks for before a capture.
        plain = self._results(partial(self._graphs.run, work), part.seed)
        if not bool(torch.stack([tensor.isfinite().all() for tensor in plain]).all()):
            return None
        replay = self._capture(work)
        difference = _difference(plain, self._results(replay, part.seed))
        if not difference <= TOLERANCE:
            raise GraphsFailedError(f"a CUDA graph differs from the plain step by {difference:.2g} of its gradient")
        torch._foreach_copy_(self._gradients, before)
        if not self._known:
            log("forward and backward pass are replayed from CUDA graphs, one for each shape of batch")
        return _Known(inputs, replay)

    def _results(self, act: Work, seed: int) -> list[Tensor]:
        """Return loss and gradients of the part by itself."""
        torch._foreach_zero_(self._gradients)
        self._seeded(act, seed)
        return [tensor.clone() for tensor in (self._nll, *self._gradients)]

    def _seeded(self, act: Work, seed: int) -> None:
        self._generator.manual_seed(seed)
        act()

    def _forget(self) -> None:
        """Give back all graphs, and leave a generator behind that a broken capture may hold for ever."""
        self._known.clear()
        self._gradients = []
        self._graphs.release()
        self._generator = torch.Generator(self._nll.device)

    def _work(self, inputs: Batch, *, bf16: bool) -> None:
        device_type = self._nll.device.type
        # A cast that autocast remembers would belong to another graph, in memory that is no longer its own.
        with torch.autocast(device_type, dtype=torch.bfloat16, enabled=bf16, cache_enabled=False):
            loss: LossSum = self._objective(inputs, Noise(self._generator), fixed_shapes=True)
        (loss.total / self._num_tokens).backward()
        self._nll.copy_(loss.nll)

    def _capture(self, work: Work) -> Work:
        try:
            return self._graphs.capture(work, self._generator)
        except RuntimeError as error:
            # What fails inside a capture makes its end fail too, and that is what is raised.
            first = error.__context__ or error
            if is_out_of_memory(first):
                raise first from error
            reason = str(first).partition("\n")[0]  # what follows in a CUDA error is advice for debugging
            raise GraphsFailedError(f"CUDA graphs cannot be captured ({reason})") from error


def _difference(plain: list[Tensor], replayed: list[Tensor]) -> float:
    """Return the largest difference of loss or gradients, as `TOLERANCE` counts it; NaN where the replay has one."""
    sizes = torch.stack([tensor.double().norm() for tensor in plain])
    apart = torch.stack([(one - other).double().norm() for one, other in zip(plain, replayed, strict=True)])
    sizes[1:] = torch.maximum(sizes[1:], sizes[1:].norm() / 1000)
    return float(torch.where(apart == 0, 0.0, apart / sizes).max())
