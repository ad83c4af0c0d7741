"""Forward and backward pass as graphs that are captured once and replayed: training where launches are the bound.

A recurrent loop launches many short kernels for every position, and a GPU is done with most of them sooner than the
host has launched the next. Here batches are padded to few shapes, and each shape's kernels, forward and backward, are
launched as one CUDA graph (docs/adr/0014). What cannot be captured is launched kernel by kernel, on the same padded
batch with the same noise: whether a step is replayed changes its speed and nothing else. This file knows of no
optimizer and of no step.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from nmt_cli.allocator import is_out_of_memory
from nmt_cli.console import log, warn
from nmt_cli.data.batch import Batch, round_up
from nmt_cli.model.noise import Noise
from nmt_cli.model.seq2seq import Seq2Seq
from nmt_cli.training.loss import LossSum, TranslationLoss

SHAPES_KEPT = 64
"""More than a corpus of sentences usually has; beyond it the shape that was not met for longest is forgotten."""

Work = Callable[[], None]


class Shape(NamedTuple):
    """What batches must share to share a graph."""

    num_sentences: int
    source_width: int
    target_width: int
    has_links: bool
    bf16: bool

    @classmethod
    def of(cls, batch: Batch, *, bf16: bool) -> Shape:
        """The shape up to which a batch is padded."""
        (rows, source), (_, target) = batch.source_BS.shape, batch.outputs_BT.shape
        return cls(bucket(rows), bucket(source), bucket(target), batch.links_BTS is not None, bf16)


def bucket(size: int) -> int:
    """The next multiple of 4, or of an eighth of the next power of two if that is more: at most four sizes for every
    doubling, so the number of graphs grows with the logarithm of the lengths."""
    return round_up(size, max(4, (1 << (size - 1).bit_length()) // 8))


class Graphs(Protocol):
    """The device's side of it."""

    def run(self, work: Work) -> None:
        """Do the work once, as it would be captured."""
        ...

    def capture(self, work: Work, generator: torch.Generator) -> Work:
        """What does the work again, with the masks that the generator's seed of that moment gives. The work itself is
        not done."""
        ...

    def release(self) -> None:
        """Nothing that was captured will be asked for any more."""
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
        # On the stream of the captures: autograd and cuBLAS keep what they make for a stream, and what belongs to
        # another ends a capture.
        current = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            work()
        current.wait_stream(self._stream)

    def capture(self, work: Work, generator: torch.Generator) -> Work:
        graph = torch.cuda.CUDAGraph()
        with warnings.catch_warnings():
            # From torch 2.14 on a generator registers itself, and this is a deprecated call without effect.
            warnings.simplefilter("ignore")
            graph.register_generator_state(generator)
        # The outer stream is today's: torch.cuda.graph leaves its own in place when the end of a capture fails.
        with torch.cuda.device(self._device), torch.cuda.stream(torch.cuda.current_stream(self._device)):
            # Other threads may allocate meanwhile.
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
                work()
        return graph.replay

    def release(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()


def graphs_for(device: torch.device) -> Graphs | None:
    """The graphs of a device; None where there are none and nothing would be gained."""
    return CudaGraphs(device) if device.type == "cuda" else None


@dataclass(slots=True)
class _Known:
    """A shape that was met: the tensors that its batches are copied into, and what is done with them."""

    inputs: Batch
    replay: Work | None = None


class CapturedBackward:
    """Adds the gradients of batches to those of a model's parameters.

    A shape is run when it is met first, which is the warm-up that a capture needs, captured when it is met again, and
    replayed from then on.
    """

    def __init__(self, model: Seq2Seq, loss: TranslationLoss, graphs: Graphs) -> None:
        self._model, self._loss, self._graphs = model, loss, graphs
        self._trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._gradients = [torch.zeros_like(parameter) for parameter in self._trained]
        device = self._trained[0].device
        self._generator = torch.Generator(device)
        self._nll = torch.zeros((), dtype=torch.float64, device=device)
        self._num_tokens = torch.ones((), device=device)
        self._known: dict[Shape, _Known] = {}
        """The shape that was met last stands last."""
        self._captures = True

    def clear(self) -> None:
        """Set the gradients to zero, where they are: a graph has their addresses."""
        torch._foreach_zero_(self._gradients)
        for parameter, gradient in zip(self._trained, self._gradients, strict=True):
            parameter.grad = gradient

    def __call__(self, batch: Batch, num_tokens: int, seed: int, *, bf16: bool) -> Tensor:
        """Add the gradient of a batch's loss over `num_tokens`; its summed nll comes back, on the device.

        The noise depends on `seed` and on the padded shape, not on what was captured before.
        """
        shape = Shape.of(batch, bf16=bf16)
        try:
            known, is_new = self._put(batch, shape)
            self._num_tokens.fill_(num_tokens)
            work = partial(self._work, known.inputs, bf16=bf16)
            if known.replay is None and not is_new and self._captures:
                known.replay = self._capture(work)
            self._generator.manual_seed(seed)
            if known.replay is None:
                self._graphs.run(work)
            else:
                known.replay()
        except (MemoryError, RuntimeError) as error:
            if is_out_of_memory(error):
                self._forget()
            raise
        return self._nll.clone()

    def _put(self, batch: Batch, shape: Shape) -> tuple[_Known, bool]:
        """Copy the batch to where its shape's graph reads it. True if the shape is new."""
        padded = batch.padded(*shape[:3])
        known = self._known.pop(shape, None)
        is_new = known is None
        if known is None:
            known = _Known(padded.to(self._nll.device))
        else:
            for kept, values in zip(known.inputs, padded, strict=True):
                if kept is not None and values is not None:
                    kept.copy_(values, non_blocking=True)
        self._known[shape] = known
        if len(self._known) > SHAPES_KEPT:
            del self._known[next(iter(self._known))]
        return known, is_new

    def _forget(self) -> None:
        """Give back all graphs, and leave a generator behind that a broken capture may hold for ever."""
        self._known.clear()
        self._graphs.release()
        self._generator = torch.Generator(self._nll.device)

    def _work(self, inputs: Batch, *, bf16: bool) -> None:
        device_type = self._nll.device.type
        # A cast that autocast remembers would be that of another graph, in memory that is no longer its own.
        with torch.autocast(device_type, dtype=torch.bfloat16, enabled=bf16, cache_enabled=False):
            loss: LossSum = self._loss(self._model, inputs, Noise(self._generator), fixed_shapes=True)
        (loss.total / self._num_tokens).backward()
        self._nll.copy_(loss.nll)

    def _capture(self, work: Work) -> Work | None:
        try:
            replay = self._graphs.capture(work, self._generator)
        except RuntimeError as error:
            # What fails inside a capture makes its end fail too, and that is what is raised.
            first = error.__context__ or error
            if is_out_of_memory(first):
                raise first from error
            self._captures = False
            self._forget()
            reason = str(first).partition("\n")[0]  # what follows in a CUDA error is advice for debugging
            warn(f"CUDA graphs cannot be captured ({reason}); training goes on kernel by kernel, more slowly")
            return None
        if not any(known.replay for known in self._known.values()):
            log("forward and backward pass are replayed from CUDA graphs, one for each shape of batch")
        return replay
