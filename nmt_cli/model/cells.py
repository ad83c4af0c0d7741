"""Recurrent cells. The product with the input does not depend on the recurrence, so it is made outside the loop.

Shapes: B batch, H hidden, G gates x hidden, X state (H for GRU; 2H for LSTM: hidden and cell side by side), I input,
D directions (a leading dimension, absent in the decoder).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt_cli.model.products import LoopProduct

Product = Callable[[Tensor], Tensor]


class GateNorm(nn.Module):
    """Layer normalisation of each gate by itself (Ba et al., 2016, section 3.1 and supplement)."""

    def __init__(self, num_gates: int, hidden_size: int, directions: tuple[int, ...] = ()) -> None:
        super().__init__()
        shape = (*directions, *(1 for _ in directions), num_gates, hidden_size)
        self.gain = nn.Parameter(torch.ones(shape))
        self.bias = nn.Parameter(torch.zeros(shape))
        self._num_gates, self._hidden_size = num_gates, hidden_size

    def forward(self, gates_BG: Tensor) -> Tensor:
        """Normalise (..., G) gate by gate."""
        by_gate = gates_BG.view(*gates_BG.shape[:-1], self._num_gates, self._hidden_size)
        return torch.addcmul(self.bias, F.layer_norm(by_gate, (self._hidden_size,)), self.gain).flatten(-2)


class InputProjection(nn.Module):
    """W x (+ b) for all gates of a cell, of one input among perhaps several that are added."""

    def __init__(self, input_size: int, cell: RecurrentCell, *, layer_norm: bool) -> None:
        super().__init__()
        # One leading D as in the cell: a direction has its own matrix but not a product of its own.
        self.weight = nn.Parameter(torch.empty(*cell.directions, input_size, cell.gates_size))
        # The bias of the normalisation does the work of this one.
        self.bias = None if layer_norm else nn.Parameter(torch.zeros(*_beside_rows(cell.directions), cell.gates_size))
        self.norm = GateNorm(cell.num_gates, cell.hidden_size, cell.directions) if layer_norm else None
        self.num_gates = cell.num_gates
        self.quantised: Product | None = None

    def forward(self, inputs_BI: Tensor) -> Tensor:
        """(..., I) to (..., G), or for a cell of D directions (D, N, I) to (D, N, G); outside a loop."""
        if self.quantised is not None:
            return self._finish(self.quantised(inputs_BI))
        return self._finish(torch.matmul(inputs_BI, self.weight).to(inputs_BI.dtype))

    def unroll(self) -> Product:
        """The same as a step of one loop."""
        product = self.quantised or LoopProduct(self.weight)
        return lambda inputs_BI: self._finish(product(inputs_BI))

    def _finish(self, gates_BG: Tensor) -> Tensor:
        if self.bias is not None:
            gates_BG = gates_BG + self.bias
        return gates_BG if self.norm is None else self.norm(gates_BG)


class RecurrentCell(nn.Module):
    """One step of a recurrence: the new state from projected inputs and the state before.

    `rnn_type` gru: Cho et al. (2014), with the reset gate after the product so that one product serves all gates;
    lstm: Hochreiter & Schmidhuber (1997) with forget gate. With `directions` (D,) all tensors have that leading
    dimension, and each direction its own weights.
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
        self.bias = None if layer_norm else nn.Parameter(torch.zeros(*_beside_rows(directions), self.gates_size))
        self.norm = GateNorm(self.num_gates, hidden_size, directions) if layer_norm else None
        self.cell_norm = GateNorm(1, hidden_size, directions) if layer_norm and rnn_type == "lstm" else None
        self.quantised: Product | None = None

    def unroll(self, dropout_BH: Tensor | None = None) -> Callable[[Tensor, Tensor], Tensor]:
        """A step (projected_BG, state_BX) -> state_BX of one loop; `dropout_BH` is one mask for all steps of a sentence
        (Gal & Ghahramani, 2016)."""
        product = self.quantised or LoopProduct(self.weight)
        update = self._gru if self.rnn_type == "gru" else self._lstm

        def step(projected_BG: Tensor, state_BX: Tensor) -> Tensor:
            hidden_BH = self.output(state_BX)
            recurrent_BG = product(hidden_BH if dropout_BH is None else hidden_BH * dropout_BH)
            if self.bias is not None:
                recurrent_BG = recurrent_BG + self.bias
            if self.norm is not None:
                recurrent_BG = self.norm(recurrent_BG)
            return update(projected_BG, recurrent_BG, state_BX)

        return step

    def output(self, state_BX: Tensor) -> Tensor:
        """The hidden units of a state."""
        return state_BX if self.rnn_type == "gru" else state_BX.chunk(2, dim=-1)[0]

    def _gru(self, projected_BG: Tensor, recurrent_BG: Tensor, hidden_BH: Tensor) -> Tensor:
        # split, not slices: the backward pass of a slice fills a whole tensor with zeros first.
        sizes = [2 * self.hidden_size, self.hidden_size]
        projected_gates, projected_proposal = projected_BG.split(sizes, dim=-1)
        recurrent_gates, recurrent_proposal = recurrent_BG.split(sizes, dim=-1)
        reset, update = torch.sigmoid(projected_gates + recurrent_gates).chunk(2, dim=-1)
        proposal = torch.tanh(torch.addcmul(projected_proposal, reset, recurrent_proposal))
        return torch.lerp(proposal, hidden_BH, update)

    def _lstm(self, projected_BG: Tensor, recurrent_BG: Tensor, state_BX: Tensor) -> Tensor:
        input_gate, forget_gate, output_gate, proposal = (projected_BG + recurrent_BG).chunk(4, dim=-1)
        # The forget gate begins open (Gers et al., 2000): its bias starts at 0 here, so 1 is added.
        kept = torch.sigmoid(forget_gate + 1.0) * state_BX.chunk(2, dim=-1)[1]
        cell = torch.addcmul(kept, torch.sigmoid(input_gate), torch.tanh(proposal))
        shown = cell if self.cell_norm is None else self.cell_norm(cell)
        return torch.cat([torch.sigmoid(output_gate) * torch.tanh(shown), cell], dim=-1)

    def initialize(self, generator: torch.Generator) -> None:
        """Orthogonal recurrent matrices, one for each gate (Saxe et al., 2014)."""
        with torch.no_grad():
            for weight in self.weight.view(-1, self.hidden_size, self.num_gates, self.hidden_size):
                for gate in range(self.num_gates):
                    weight[:, gate].copy_(orthogonal(self.hidden_size, generator))


def _beside_rows(directions: tuple[int, ...]) -> tuple[int, ...]:
    """The leading dimensions of a bias that is added to (D, B, G), or to (B, G)."""
    return (*directions, *(1 for _ in directions))


def orthogonal(size: int, generator: torch.Generator) -> Tensor:
    """A random orthogonal matrix."""
    q, r = torch.linalg.qr(torch.randn(size, size, generator=generator))
    orthogonal_matrix: Tensor = q * r.diagonal().sign()
    return orthogonal_matrix


def glorot_(weight: Tensor, fan_in: int, fan_out: int, generator: torch.Generator) -> None:
    """Uniform in +-sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio, 2010)."""
    with torch.no_grad():
        weight.uniform_(-1.0, 1.0, generator=generator).mul_(math.sqrt(6.0 / max(1, fan_in + fan_out)))
