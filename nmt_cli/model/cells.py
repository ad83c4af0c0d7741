"""Recurrent cells. The product with the input does not depend on the recurrence, so it is made outside the loop.

Shapes: B batch, H hidden, G gates x hidden, X state (H for GRU; 2H for LSTM: hidden and cell side by side), I input,
D directions (a leading dimension, absent in the decoder).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from nmt_cli.model.loops import LoopInputs, LoopProduct, tanh, tanh_

Product = Callable[[Tensor], Tensor]
Update = Callable[[Tensor, Tensor], Tensor]
"""From projected inputs (B, G) and the state before (B, X) to the state after."""


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

    def steps(self, inputs_TBI: Tensor) -> Iterator[Tensor]:
        """The gates (B, G) of each step of a loop whose inputs are all known: (T, B, I), with D leading if the cell has
        directions."""
        if self.quantised is None:
            products = map(LoopInputs(inputs_TBI, self.weight), range(inputs_TBI.shape[-3]))
        else:
            all_NG = self.quantised(inputs_TBI.flatten(-3, -2))
            products = iter(all_NG.unflatten(-2, inputs_TBI.shape[-3:-1]).unbind(-3))
        return map(self._finish, products)

    def unroll(self) -> Product:
        """The gates of a step's input, as a step of one loop."""
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
    dimension, and each direction its own weights. With `depth` above 1 the new state goes through so many cells at
    every step, of which only the first has an input: deep transition (Miceli Barone et al., 2017, section 2.2).
    """

    def __init__(
        self, rnn_type: str, hidden_size: int, *, layer_norm: bool = False, directions: tuple[int, ...] = (),
        depth: int = 1,
    ) -> None:  # fmt: skip
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
        self.transitions = nn.ModuleList(
            RecurrentCell(rnn_type, hidden_size, layer_norm=layer_norm, directions=directions) for _ in range(depth - 1)
        )

    def unroll(self, dropout_BH: Tensor | None = None) -> Update:
        """A step (projected_BG, state_BX) -> state_BX of one loop; `dropout_BH` is one mask for all steps of a sentence
        (Gal & Ghahramani, 2016)."""
        first = self._unroll_one(dropout_BH)
        if not self.transitions:
            return first
        transitions = [cast(RecurrentCell, cell).unroll(dropout_BH) for cell in self.transitions]

        def step(projected_BG: Tensor, state_BX: Tensor) -> Tensor:
            state_BX = first(projected_BG, state_BX)
            no_input_BG = projected_BG.new_zeros(()).expand_as(projected_BG)
            for transition in transitions:
                state_BX = transition(no_input_BG, state_BX)
            return state_BX

        return step

    def _unroll_one(self, dropout_BH: Tensor | None) -> Update:
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
        if not torch.is_grad_enabled():
            return _gru_update(projected_BG, recurrent_BG, hidden_BH)[0]
        updated_BH: Tensor = _GruUpdate.apply(projected_BG, recurrent_BG, hidden_BH)  # type: ignore[no-untyped-call]
        return updated_BH

    def _lstm(self, projected_BG: Tensor, recurrent_BG: Tensor, state_BX: Tensor) -> Tensor:
        input_gate, forget_gate, output_gate, proposal = (projected_BG + recurrent_BG).chunk(4, dim=-1)
        # The forget gate begins open (Gers et al., 2000): its bias starts at 0 here, so 1 is added.
        kept = torch.sigmoid(forget_gate + 1.0) * state_BX.chunk(2, dim=-1)[1]
        cell = torch.addcmul(kept, torch.sigmoid(input_gate), tanh(proposal))
        shown = cell if self.cell_norm is None else self.cell_norm(cell)
        return torch.cat([torch.sigmoid(output_gate) * tanh(shown), cell], dim=-1)

    def initialize(self, generator: torch.Generator) -> None:
        """Orthogonal recurrent matrices, one for each gate (Saxe et al., 2014)."""
        with torch.no_grad():
            for weight in self.weight.view(-1, self.hidden_size, self.num_gates, self.hidden_size):
                for gate in range(self.num_gates):
                    weight[:, gate].copy_(orthogonal(self.hidden_size, generator))


def _gru_update(projected_BG: Tensor, recurrent_BG: Tensor, hidden_BH: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """r, z = sigmoid(W x + U h); n = tanh(W x + r * U h); h' = (1 - z) n + z h. h', r beside z, and n come back."""
    size = hidden_BH.shape[-1]
    gates_BX = torch.add(projected_BG[..., : 2 * size], recurrent_BG[..., : 2 * size]).sigmoid_()
    reset_BH, update_BH = gates_BX.split(size, dim=-1)
    proposal_BH = tanh_(torch.addcmul(projected_BG[..., 2 * size :], reset_BH, recurrent_BG[..., 2 * size :]))
    return torch.lerp(proposal_BH, hidden_BH, update_BH), gates_BX, proposal_BH


class _GruUpdate(torch.autograd.Function):
    """`_gru_update` with its backward pass."""

    @staticmethod
    def forward(ctx: Any, projected_BG: Tensor, recurrent_BG: Tensor, hidden_BH: Tensor) -> Tensor:
        updated_BH, gates_BX, proposal_BH = _gru_update(projected_BG, recurrent_BG, hidden_BH)
        carried_BH = recurrent_BG[..., 2 * hidden_BH.shape[-1] :]
        ctx.save_for_backward(gates_BX, proposal_BH, carried_BH, hidden_BH)
        return updated_BH

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_BH: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        gates_BX, proposal_BH, carried_BH, hidden_BH = ctx.saved_tensors
        size = hidden_BH.shape[-1]
        reset_BH, update_BH = gates_BX.split(size, dim=-1)
        kept_BH = gradient_BH * update_BH
        projected_BG = gradient_BH.new_empty(*gradient_BH.shape[:-1], 3 * size)
        recurrent_BG = torch.empty_like(projected_BG)
        inner_BH = torch.ops.aten.tanh_backward(gradient_BH - kept_BH, proposal_BH)
        projected_BG[..., 2 * size :] = inner_BH
        torch.mul(inner_BH, reset_BH, out=recurrent_BG[..., 2 * size :])
        # The gradients of r and z, then of what their sigmoid is taken of.
        gates_gradient_BX = recurrent_BG[..., : 2 * size]
        torch.mul(inner_BH, carried_BH, out=gates_gradient_BX[..., :size])
        torch.mul(gradient_BH, hidden_BH - proposal_BH, out=gates_gradient_BX[..., size:])
        torch.ops.aten.sigmoid_backward.grad_input(gates_gradient_BX, gates_BX, grad_input=gates_gradient_BX)
        projected_BG[..., : 2 * size] = gates_gradient_BX
        return projected_BG, recurrent_BG, kept_BH


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
