"""Times the matrix products of a model in float32 and in bfloat16, in the shapes that its training gives them.

Not every processor with instructions for bfloat16 is faster with them: see docs/performance.md.

Shapes: N rows, I inputs, O outputs.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from nmt_cli.model.cells import InputProjection
from nmt_cli.model.seq2seq import Seq2Seq
from nmt_cli.ops.cross_entropy import ROWS_AT_ONCE
from nmt_cli.ops.loop_product import LoopModule
from nmt_cli.ops.matmul import matmul, sum_of_outer_products
from nmt_cli.training.trials import Clock, time_alternately

MAX_TRIAL_SECONDS = 0.7
"""Seconds after which no further round of trials begins."""
MAX_TRIAL_OPERATIONS = 1e9
"""Most multiplications and additions of one trial, roughly; only a part of a larger product is timed."""
MAX_TRIAL_ROWS = 512
"""Most rows of a trial; more would not change how the precisions compare."""
BF16_GAIN = 1.15
"""bf16 is chosen if its products are at least this many times as fast. The products are only a part of an update, so a
smaller gain would not be noticed, and fp32 is more exact."""
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class MatmulShape(NamedTuple):
    """The sizes of a matrix product: rows (N, I) times a matrix (I, O)."""

    num_rows: int
    num_inputs: int
    num_outputs: int

    @property
    def size(self) -> int:
        """Number of multiplications: rows x inputs x outputs."""
        return self.num_rows * self.num_inputs * self.num_outputs

    def limit_size(self) -> MatmulShape:
        """Return the shape to time: this one, or a part of it with about `MAX_TRIAL_OPERATIONS` operations.

        The part has at most `MAX_TRIAL_ROWS` rows. If that is still too large, it has fewer outputs, not fewer rows:
        with few rows the processor waits for memory, in fp32 twice as long.
        """
        num_rows = min(self.num_rows, MAX_TRIAL_ROWS)
        most = max(1, round(MAX_TRIAL_OPERATIONS / (6 * num_rows * self.num_inputs)))
        return MatmulShape(num_rows, self.num_inputs, min(self.num_outputs, most))


class PrecisionTimes(NamedTuple):
    """Seconds of the matrix products of an update in each precision."""

    fp32: float
    bf16: float

    @property
    def is_bf16_faster(self) -> bool:
        """True if the products in bf16 are at least `BF16_GAIN` times as fast."""
        return self.fp32 >= BF16_GAIN * self.bf16


def products_of(model: Seq2Seq, num_sentences: int, num_tokens: int) -> dict[MatmulShape, float]:
    """Return the matrix products of the forward pass of an update, each with the number of times it is computed.

    A recurrent matrix multiplies the rows of one step at a time, other matrices the rows of all steps. A product that
    is too large for a trial is replaced by a part of it, whose number is increased in proportion.
    """
    counts: dict[MatmulShape, float] = defaultdict(float)
    for sizes in _matrices(model, num_sentences, num_tokens):
        if 0 not in sizes:  # without attention there is no context
            whole, part = MatmulShape(*sizes), MatmulShape(*sizes).limit_size()
            counts[part] += num_tokens / whole.num_rows * whole.size / part.size
    return dict(counts)


def _matrices(model: Seq2Seq, num_sentences: int, num_tokens: int) -> Iterator[tuple[int, int, int]]:
    """Yield three numbers for each matrix: the rows that it multiplies at a time, its inputs and its outputs."""
    for module in model.modules():
        if isinstance(module, LoopModule):
            *directions, num_inputs, num_outputs = module.matrix.shape
            num_rows = num_tokens if isinstance(module, InputProjection) else num_sentences
            yield from [(num_rows, num_inputs, num_outputs)] * math.prod(directions)
        elif isinstance(module, nn.Linear):
            yield num_tokens, module.in_features, module.out_features
    num_pieces, num_units = model.output_weight.shape
    yield min(num_tokens, ROWS_AT_ONCE), num_units, num_pieces


def time_products(
    model: Seq2Seq, num_sentences: int, num_tokens: int, *, clock: Clock = time.perf_counter
) -> PrecisionTimes:
    """Return the seconds of all matrix products of an update on the CPU in each precision, from the fastest trial of
    each product."""
    counts = products_of(model, num_sentences, num_tokens)
    ways = {(product, name): _trial(product, dtype) for product in counts for name, dtype in DTYPES.items()}
    best = {way: min(times) for way, times in time_alternately(ways, seconds=MAX_TRIAL_SECONDS, clock=clock).items()}
    sums = {name: sum(count * best[product, name] for product, count in counts.items()) for name in DTYPES}
    return PrecisionTimes(**sums)


def _trial(product: MatmulShape, dtype: torch.dtype) -> Callable[[], object]:
    """Return a function that computes the product and both of its gradients, as an update does."""
    num_rows, num_inputs, num_outputs = product
    # Not random: the global generator belongs to the training. Not zero: some processors are faster with zeros.
    rows_NI, weight_IO, gradient_NO = (
        torch.linspace(-1.0, 1.0, height * width).view(height, width).to(dtype)
        for height, width in ((num_rows, num_inputs), (num_inputs, num_outputs), (num_rows, num_outputs))
    )
    return partial(_multiply, rows_NI, weight_IO, gradient_NO)


@torch.no_grad()
def _multiply(rows_NI: Tensor, weight_IO: Tensor, gradient_NO: Tensor) -> None:
    matmul(rows_NI, weight_IO)
    matmul(gradient_NO, weight_IO.t())
    sum_of_outer_products(rows_NI, gradient_NO)
