"""Recurrent cells: the equations of the GRU and the LSTM.

The gates of a step are a sum of terms, W x_t + U h_{t-1} + ..., each a matrix product with its bias or its layer
normalisation. The products with inputs do not depend on the recurrence, so they are computed before the loop if all
inputs are known.

Shapes: B batch, H hidden, G gates x hidden, X state (H for GRU; 2H for LSTM: hidden and cell side by side), I input,
D directions (a leading dimension, absent in the decoder).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from nmt_cli.ops.gates import GateAffine, Gates, GateTerm, batch_invariant_sigmoid, gate_norm, sum_terms
from nmt_cli.ops.gru import gru_step
from nmt_cli.ops.loop_product import LoopModule

CellStep = Callable[[Gates, Tensor], Tensor]
"""A step of a cell: a function from the gate terms of the inputs and the previous state (B, X) to the next state."""


class RecurrentCell(LoopModule):
    """One step of a recurrence: computes the new state from the gate terms of the inputs and the previous state.

    `rnn_type` "gru": Cho et al. (2014), with the reset gate after the product (docs/adr/0003):

        r, z = sigmoid(W x + U h);  n = tanh(W x + r * U h);  h' = (1 - z) * n + z * h

    `rnn_type` "lstm": Hochreiter & Schmidhuber (1997) with the forget gate of Gers et al. (2000):

        i, o = sigmoid(W x + U h);  f = sigmoid(W x + U h + 1);  n = tanh(W x + U h)
        c' = f * c + i * n;  h' = o * tanh(c')

    With layer normalisation, c' is normalised before that tanh.

    The matrix U and its bias or layer normalisation belong to the cell, W to an `InputProjection`. With `directions`
    (D,) all tensors have that leading dimension, and each direction its own weights.
    """

    def __init__(
        self, rnn_type: str, hidden_size: int, *, layer_norm: bool = False, directions: tuple[int, ...] = ()
    ) -> None:
        super().__init__()
        self.rnn_type, self.hidden_size, self.directions = rnn_type, hidden_size, directions
        self.num_gates = {"gru": 3, "lstm": 4}[rnn_type]
        self.gates_size = self.num_gates * hidden_size
        self.state_size = hidden_size * {"gru": 1, "lstm": 2}[rnn_type]
        self.weight = nn.Parameter(torch.empty(*directions, hidden_size, self.gates_size))
        self.bias = None if layer_norm else nn.Parameter(torch.zeros(*_leading_dimensions(directions), self.gates_size))
        self.norm = GateNorm(self.num_gates, hidden_size, directions) if layer_norm else None
        self.cell_norm = GateNorm(1, hidden_size, directions) if layer_norm and rnn_type == "lstm" else None

    def unroll(self, dropout_BH: Tensor | None = None) -> CellStep:
        """Return the function from the gate terms of the inputs (B, G) and the state (B, X) to the next state.

        Call `unroll` again for each loop. `dropout_BH` is one mask on h for all steps of a sentence (Gal & Ghahramani,
        2016).
        """
        product, affine = self.product(), _affine(self.norm, self.bias)
        update = gru_step if self.rnn_type == "gru" else self._lstm_step

        def step(inputs: Gates, state_BX: Tensor) -> Tensor:
            hidden_BH = self.output(state_BX)
            kept_BH = hidden_BH if dropout_BH is None else hidden_BH * dropout_BH
            return update(inputs, GateTerm(product(kept_BH), affine), state_BX)

        return step

    def _lstm_step(self, inputs: Gates, recurrent: GateTerm, state_BX: Tensor) -> Tensor:
        input_gate, forget_gate, output_gate, proposal = sum_terms((*inputs, recurrent)).chunk(4, dim=-1)
        # The forget gate begins open (Gers et al., 2000): its bias starts at 0 here, so 1 is added.
        kept = batch_invariant_sigmoid(forget_gate + 1.0) * state_BX.chunk(2, dim=-1)[1]
        cell = torch.addcmul(kept, torch.sigmoid(input_gate), torch.tanh(proposal))
        shown = cell if self.cell_norm is None else self.cell_norm(cell)
        return torch.cat([torch.sigmoid(output_gate) * torch.tanh(shown), cell], dim=-1)

    def output(self, state_BX: Tensor) -> Tensor:
        """Return the hidden units h (B, H) of a state (B, X), which for LSTM holds h and c."""
        return state_BX if self.rnn_type == "gru" else state_BX.chunk(2, dim=-1)[0]

    def initialize(self, generator: torch.Generator) -> None:
        """Fill the recurrent matrix with random orthogonal matrices, one for each gate (Saxe et al., 2014)."""
        with torch.no_grad():
            for weight in self.weight.view(-1, self.hidden_size, self.num_gates, self.hidden_size):
                for gate in range(self.num_gates):
                    weight[:, gate].copy_(orthogonal(self.hidden_size, generator))


class InputProjection(LoopModule):
    """Projects one input x of a cell to all gates of the cell: W x + b, or layer-normalised W x."""

    def __init__(self, input_size: int, cell: RecurrentCell, *, layer_norm: bool) -> None:
        super().__init__()
        # The matrices of all directions stand in one tensor, so that one batched product serves them.
        self.weight = nn.Parameter(torch.empty(*cell.directions, input_size, cell.gates_size))
        # The bias of the normalisation does the work of this one.
        self.bias = (
            None if layer_norm else nn.Parameter(torch.zeros(*_leading_dimensions(cell.directions), cell.gates_size))
        )
        self.norm = GateNorm(cell.num_gates, cell.hidden_size, cell.directions) if layer_norm else None
        self.num_gates = cell.num_gates

    def steps(self, inputs_NI: Tensor, counts: Sequence[int]) -> Iterator[Gates]:
        """Yield the gate terms (B, G) of each step of a loop whose inputs are all known before it.

        `inputs_NI` has the rows of all steps, step after step; `counts` has the number of rows of each step. The shapes
        begin with D if the cell has directions."""
        affine = _affine(self.norm, self.bias)
        for product_BG in self.products_of_steps(inputs_NI, counts):
            yield (GateTerm(product_BG, affine),)

    def unroll(self) -> Callable[[Tensor], Gates]:
        """Return a function, for one loop, from the input (B, I) of a step to its gate terms (B, G)."""
        product, affine = self.product(), _affine(self.norm, self.bias)
        return lambda inputs_BI: (GateTerm(product(inputs_BI), affine),)


class GateNorm(nn.Module):
    """Layer normalisation of each gate separately (Ba et al., 2016, section 3.1 and supplement)."""

    def __init__(self, num_gates: int, hidden_size: int, directions: tuple[int, ...] = ()) -> None:
        super().__init__()
        shape = (*directions, *(1 for _ in directions), num_gates, hidden_size)
        self.gain = nn.Parameter(torch.ones(shape))
        self.bias = nn.Parameter(torch.zeros(shape))

    def forward(self, gates_BG: Tensor) -> Tensor:
        """Return the gates (..., G), each normalised over its hidden units."""
        return gate_norm(gates_BG, self.gain, self.bias)


def _affine(norm: GateNorm | None, bias: nn.Parameter | None) -> GateAffine:
    if norm is not None:
        return GateAffine(norm.gain, norm.bias)
    assert bias is not None
    return GateAffine(None, bias)


def _leading_dimensions(directions: tuple[int, ...]) -> tuple[int, ...]:
    """Return the leading dimensions of a bias: (D, 1) with directions, to be added to (D, B, G), else none."""
    return (*directions, *(1 for _ in directions))


def orthogonal(size: int, generator: torch.Generator) -> Tensor:
    """Return a random orthogonal matrix (size, size), uniformly distributed."""
    q, r = torch.linalg.qr(torch.randn(size, size, generator=generator))
    orthogonal_matrix: Tensor = q * r.diagonal().sign()
    return orthogonal_matrix


def glorot_(weight: Tensor, fan_in: int, fan_out: int, generator: torch.Generator) -> None:
    """Fill `weight` uniformly from +-sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio, 2010)."""
    with torch.no_grad():
        weight.uniform_(-1.0, 1.0, generator=generator).mul_(math.sqrt(6.0 / max(1, fan_in + fan_out)))
