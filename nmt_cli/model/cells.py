"""Recurrent cells. The product with the input does not depend on the recurrence, so it is made outside the loop.

Shapes: B batch, H hidden, G gates x hidden, X state (H for GRU; 2H for LSTM: hidden and cell side by side), I input,
D directions (a leading dimension, absent in the decoder).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from nmt_cli import native
from nmt_cli.model.loops import LoopInputs, LoopProduct, Place, share, tanh, tanh_

Product = Callable[[Tensor], Tensor]


class Term(NamedTuple):
    """One of the products whose sum are the gates of a step."""

    product_BG: Tensor
    place: Place | None
    """Where the gradient of the product belongs, if somewhere."""
    finish: Finish


Gates = tuple[Term, ...]
"""A sum, so more of it is added with `+`; what it is when finished, only a cell needs to know."""
Update = Callable[[Gates, Tensor], Tensor]
"""From projected inputs and the state before (B, X) to the state after."""


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
        self.num_gates, self.rnn_type = cell.num_gates, cell.rnn_type
        self.quantised: Product | None = None

    def steps(self, inputs_TBI: Tensor) -> Iterator[Gates]:
        """The part of the gates of each step of a loop whose inputs are all known: (T, B, I), with D leading if the
        cell has directions."""
        finish = self._finish()
        if self.quantised is not None:
            all_NG = self.quantised(inputs_TBI.flatten(-3, -2))
            for product_BG in all_NG.unflatten(-2, inputs_TBI.shape[-3:-1]).unbind(-3):
                yield (Term(product_BG, None, finish),)
            return
        products = LoopInputs(inputs_TBI, self.weight)
        for step in range(inputs_TBI.shape[-3]):
            yield (finish.term(products, step),)

    def unroll(self) -> Callable[[Tensor], Gates]:
        """The part of the gates that comes of a step's input, as a step of one loop."""
        finish, product = self._finish(), self.quantised or LoopProduct(self.weight)
        return lambda inputs_BI: (finish.term(product, inputs_BI),)

    def _finish(self) -> Finish:
        return Finish(self.norm, self.bias, kernels=takes_kernels(self.rnn_type, self.weight))


class Finish:
    """What the products of a loop still want: the normalisation of their gates, a bias, or nothing."""

    def __init__(self, norm: GateNorm | None, bias: Tensor | None, *, kernels: bool) -> None:
        self._norm, self._bias = norm, bias
        self.by_kernels = None
        self.shared: tuple[Tensor, ...] = ()
        if kernels:
            parameters = [norm.gain, norm.bias] if norm is not None else [bias] if bias is not None else []
            self.by_kernels = FinishSteps(parameters)
            self.shared = share(self.by_kernels.gradients, *parameters)

    def term(self, product: Any, argument: Any) -> Term:
        """A product of the loop as a part of the gates; as it was multiplied where kernels do the rest."""
        multiply = getattr(product, "as_multiplied", None) if self.by_kernels else None
        product_BG, place = (product(argument), None) if multiply is None else multiply(argument)
        return Term(product_BG, place, self)

    def __call__(self, product_BG: Tensor) -> Tensor:
        """The product, finished."""
        if self._bias is not None:
            product_BG = product_BG + self._bias
        return product_BG if self._norm is None else self._norm(product_BG)


class FinishSteps:
    """What the kernels get of a `Finish`, and the gradients of its parameters. The graph holds it, so it does not hold
    the graph."""

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        """Gain and bias, a bias, or nothing."""
        self._parameters = [parameter.detach() for parameter in parameters]
        self._sums: list[Tensor] = []

    def term(self, product_BG: Tensor) -> native.Term:
        """What a kernel gets of a product."""
        rows_BG = product_BG if native.are_rows(product_BG) else product_BG.contiguous()
        return native.Term(rows_BG, *_gain_and_bias(self._parameters))

    def gradient(self, gradient_BG: Tensor, num_chunks: int) -> native.TermGradient:
        """Where a kernel writes the gradient of a product, and adds those of the parameters."""
        if not self._sums:
            self._sums = [parameter.new_zeros(num_chunks, *parameter.shape) for parameter in self._parameters]
        return native.TermGradient(gradient_BG, *_gain_and_bias(self._sums))

    def gradients(self) -> tuple[Tensor, ...]:
        """Of the parameters, when all steps have been gone back."""
        sums, self._sums = self._sums, []
        return tuple(total.sum(dim=0) for total in sums)


def _gain_and_bias(parameters: Sequence[Tensor]) -> tuple[Tensor | None, Tensor | None]:
    gain, bias = [None, None, *parameters][-2:]
    return gain, bias


def takes_kernels(rnn_type: str, weight: Tensor) -> bool:
    """Whether a cell with such weights is stepped by the kernels."""
    return rnn_type == "gru" and native.takes(weight)


def finished(gates: Gates) -> Tensor:
    """The sum of finished terms."""
    first, *others = [term.finish(term.product_BG) for term in gates]
    return sum(others, start=first)


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
        """A step (projected, state_BX) -> state_BX of one loop; `dropout_BH` is one mask for all steps of a sentence
        (Gal & Ghahramani, 2016)."""
        first = self._unroll_one(dropout_BH)
        if not self.transitions:
            return first
        transitions = [cast(RecurrentCell, cell).unroll(dropout_BH) for cell in self.transitions]

        def step(projected: Gates, state_BX: Tensor) -> Tensor:
            state_BX = first(projected, state_BX)
            for transition in transitions:
                state_BX = transition((), state_BX)
            return state_BX

        return step

    def _unroll_one(self, dropout_BH: Tensor | None) -> Update:
        product = self.quantised or LoopProduct(self.weight)
        kernels = takes_kernels(self.rnn_type, self.weight)
        finish = Finish(self.norm, self.bias, kernels=kernels)
        update = _native_gru if kernels else self._gru if self.rnn_type == "gru" else self._lstm

        def step(projected: Gates, state_BX: Tensor) -> Tensor:
            hidden_BH = self.output(state_BX)
            recurrent = finish.term(product, hidden_BH if dropout_BH is None else hidden_BH * dropout_BH)
            return update(projected, recurrent, state_BX)

        return step

    def output(self, state_BX: Tensor) -> Tensor:
        """The hidden units of a state."""
        return state_BX if self.rnn_type == "gru" else state_BX.chunk(2, dim=-1)[0]

    def _gru(self, projected: Gates, recurrent: Term, hidden_BH: Tensor) -> Tensor:
        recurrent_BG = finished((recurrent,))
        projected_BG = finished(projected) if projected else recurrent_BG.new_zeros(()).expand_as(recurrent_BG)
        if not torch.is_grad_enabled():
            return gru_update(projected_BG, recurrent_BG, hidden_BH)[0]
        updated_BH: Tensor = _GruUpdate.apply(projected_BG, recurrent_BG, hidden_BH)  # type: ignore[no-untyped-call]
        return updated_BH

    def _lstm(self, projected: Gates, recurrent: Term, state_BX: Tensor) -> Tensor:
        input_gate, forget_gate, output_gate, proposal = finished((*projected, recurrent)).chunk(4, dim=-1)
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


def gru_update(projected_BG: Tensor, recurrent_BG: Tensor, hidden_BH: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """r, z = sigmoid(W x + U h); n = tanh(W x + r * U h); h' = (1 - z) n + z h. h', r beside z, and n come back."""
    size = hidden_BH.shape[-1]
    gates_BX = torch.add(projected_BG[..., : 2 * size], recurrent_BG[..., : 2 * size]).sigmoid_()
    reset_BH, update_BH = gates_BX.split(size, dim=-1)
    proposal_BH = tanh_(torch.addcmul(projected_BG[..., 2 * size :], reset_BH, recurrent_BG[..., 2 * size :]))
    return torch.lerp(proposal_BH, hidden_BH, update_BH), gates_BX, proposal_BH


class _GruUpdate(torch.autograd.Function):
    """`gru_update` with its backward pass."""

    @staticmethod
    def forward(ctx: Any, projected_BG: Tensor, recurrent_BG: Tensor, hidden_BH: Tensor) -> Tensor:
        updated_BH, gates_BX, proposal_BH = gru_update(projected_BG, recurrent_BG, hidden_BH)
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


def _native_gru(projected: Gates, recurrent: Term, hidden_BH: Tensor) -> Tensor:
    """`gru_update` by the kernels, from products that are not finished."""
    terms = (*projected, recurrent)
    products = [term.product_BG.to(recurrent.product_BG.dtype) for term in terms]
    finishes = [cast(FinishSteps, term.finish.by_kernels) for term in terms]
    if not torch.is_grad_enabled():
        ready = [finish.term(product) for finish, product in zip(finishes, products, strict=True)]
        return native.gru(ready, hidden_BH.contiguous())
    places = [term.place for term in terms]
    shared = [parameter for term in terms for parameter in term.finish.shared]
    updated_BH: Tensor = _NativeGru.apply(hidden_BH, finishes, places, *products, *shared)  # type: ignore[no-untyped-call]
    return updated_BH


class _NativeGru(torch.autograd.Function):
    """A step of which nothing is kept but its products and the state before."""

    @staticmethod
    def forward(
        ctx: Any, hidden_BH: Tensor, finishes: list[FinishSteps], places: list[Place | None], *tensors: Tensor
    ) -> Tensor:
        hidden_BH, products = hidden_BH.contiguous(), tensors[: len(finishes)]
        ctx.finishes, ctx.places, ctx.num_shared = finishes, places, len(tensors) - len(finishes)
        ctx.save_for_backward(hidden_BH, *products)
        return native.gru([finish.term(one) for finish, one in zip(finishes, products, strict=True)], hidden_BH)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_BH: Tensor) -> tuple[Tensor | None, ...]:
        hidden_BH, *products = ctx.saved_tensors
        chunks, terms, gradients = native.gru_chunks(hidden_BH), [], []
        for finish, place, product_BG in zip(ctx.finishes, ctx.places, products, strict=True):
            gradient_BG = product_BG.new_empty(product_BG.shape) if place is None else place(product_BG)
            terms.append(finish.term(product_BG))
            gradients.append(finish.gradient(gradient_BG, chunks))
        kept_BH = native.gru_backward(terms, gradients, hidden_BH, gradient_BH.contiguous())
        return kept_BH, None, None, *(one.product_DBG for one in gradients), *[None] * ctx.num_shared


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
