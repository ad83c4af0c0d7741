"""Attention: the alignment models of the literature, with a common interface.

An attention takes a query (a decoder state), the `Memory` of the source and the state that the attention keeps from
step to step, and returns a context and its weights. Weights on padding are exactly zero, and so are all weights on an
empty source. The products of each step with annotations and keys are computed in float32: memory bounds their speed,
not arithmetic.

Shapes: B batch, S source, C annotation, H query, A attention, M heads, F filters, N coverage units.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt_cli.model.annotations import Memory
from nmt_cli.ops.additive import AdditiveEnergies
from nmt_cli.ops.attention_products import InnerProducts, WeightedSums, bmm
from nmt_cli.ops.loop_product import LoopModule
from nmt_cli.ops.matmul import Linear, full_precision

AttentionState = tuple[Tensor, ...]
"""The tensors that an attention remembers between steps; each begins with the batch dimension."""


class AttentionOutput(NamedTuple):
    """The result of one attention step: the context, the weights, and the state for the next step."""

    context_BC: Tensor
    """The context vector c_i: the sum of the annotations with these weights. Multihead attention projects it; without
    attention it is a fixed source vector or empty."""
    weights_BS: Tensor
    """The attention weights. They sum to one over the source, except with local-p, whose Gaussian comes after the
    softmax, with an empty source, and without attention, where they are zeros."""
    state: AttentionState


AttentionStep = Callable[[Tensor, AttentionState], AttentionOutput]
"""One step of attention: a function from query (B, H) and state to context, weights and the next state."""
Energies = Callable[..., Tensor]
"""A function from a query (B, H) to energies (B, S), the scores before the softmax. For the additive score it has an
optional second argument, `extra_BSA`, which is added inside the tanh."""


class Attention(Protocol):
    """The interface of an attention mechanism: keys, the state before the first step, and the function of one step."""

    context_size: int
    can_share_sources: bool
    """True if `unroll` accepts a memory in which several rows attend to one source."""

    def keys(self, states_BSC: Tensor) -> Tensor:
        """Return the keys (B, S, A), the projection of the annotations that does not depend on the query.

        They are computed once for each batch. Some attentions append further projections of the annotations."""
        ...

    def initial_state(self, memory: Memory) -> AttentionState:
        """Return the state before the first target piece, such as zeros for the alignment or the coverage so far."""
        ...

    def unroll(self, memory: Memory) -> AttentionStep:
        """Return the function that does one attention step over this memory; call `unroll` again for the next loop."""
        ...


def masked_softmax(energy_BS: Tensor, valid_BS: Tensor) -> Tensor:
    """Return the softmax (B, S) of the energies over valid positions, with exact zeros on padding.

    A row without valid positions gets zeros only."""
    lowest = torch.finfo(energy_BS.dtype).min
    weights_BS = energy_BS.masked_fill(~valid_BS, lowest).softmax(dim=-1)
    return weights_BS.masked_fill(~valid_BS, 0.0)


# Scores -----------------------------------------------------------------------------------------------------------


def additive_energies(query_BA: Tensor, keys_BSA: Tensor, v_MX: Tensor) -> Tensor:
    """Return e_ij = v . tanh(W s_{i-1} + U h_j) (B, S, M) of M heads (Bahdanau et al., 2015, A.1.2).

    `query_BA` is W s_{i-1}, and `keys_BSA` is U h_j. Each head has X = A / M of the units.
    """
    hidden_BSMX: Tensor = torch.tanh(keys_BSA + query_BA.unsqueeze(1)).unflatten(-1, v_MX.shape)
    return (hidden_BSMX * v_MX).sum(dim=-1)


class AdditiveScore(LoopModule):
    """The additive score of one head (Bahdanau et al., 2015, A.1.2), with a bias in the keys; computed by
    ops/additive.py.

    Luong's `concat`, v . tanh(W [s_i; h_j]), is the same function of the query s_i, with W cut into two matrices."""

    matrix_name = "query"

    def __init__(self, query_size: int, annotation_size: int, size: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.empty(query_size, size))
        self.key = Linear(annotation_size, size)
        self.v = nn.Parameter(torch.empty(size))

    def keys(self, states_BSC: Tensor) -> Tensor:
        return cast(Tensor, self.key(states_BSC)).to(states_BSC.dtype)

    def unroll(self, keys_BSA: Tensor, valid_BS: Tensor, rows: int = 1) -> Energies:
        """Return a function from the query (B, H) to the energies e_ij (B, S), for one loop.

        The optional second argument of that function, `extra_BSA`, is added to query and keys inside the tanh. `rows`
        consecutive rows of the query attend to each source. At positions where `valid_BS` is False, the energies are
        meaningless."""
        product = self.product()
        additive = AdditiveEnergies(keys_BSA, self.v, valid_BS, rows)

        def energies(query_BH: Tensor, extra_BSA: Tensor | None = None) -> Tensor:
            return additive(product(query_BH).to(query_BH.dtype), extra_BSA)

        return energies


class DotScore(nn.Module):
    """Luong et al. (2015), section 3.1, dot: e_ij = s_i . h_j; both must have the same size."""

    def keys(self, states_BSC: Tensor) -> Tensor:
        return states_BSC

    def unroll(self, keys_BSA: Tensor, valid_BS: Tensor, rows: int = 1) -> Energies:  # noqa: ARG002
        """Return a function from the query (B, H) to the energies e_ij (B, S), for one loop.

        `rows` rows of the query attend to each source."""
        return InnerProducts(keys_BSA, rows)


class GeneralScore(DotScore):
    """Luong et al. (2015), section 3.1, general: e_ij = s_i . W h_j."""

    def __init__(self, query_size: int, annotation_size: int) -> None:
        super().__init__()
        self.key = Linear(annotation_size, query_size, bias=False)

    def keys(self, states_BSC: Tensor) -> Tensor:
        return cast(Tensor, self.key(states_BSC)).to(states_BSC.dtype)


Score = AdditiveScore | DotScore


# Attentions -------------------------------------------------------------------------------------------------------


class GlobalAttention(nn.Module):
    """A softmax over the whole source, with any score; it has no state."""

    can_share_sources = True

    def __init__(self, score: Score, annotation_size: int) -> None:
        super().__init__()
        self.score = score
        self.context_size = annotation_size

    def keys(self, states_BSC: Tensor) -> Tensor:
        return self.score.keys(states_BSC)

    def initial_state(self, memory: Memory) -> AttentionState:  # noqa: ARG002
        return ()

    def unroll(self, memory: Memory) -> AttentionStep:
        energies = self.score.unroll(memory.keys_BSA, memory.valid_BS, memory.rows)
        weighted_sum = WeightedSums(memory.states_BSC, memory.rows)

        def attend(query_BH: Tensor, state: AttentionState) -> AttentionOutput:
            weights_BS = masked_softmax(energies(query_BH), memory.valid_for(query_BH.shape[0]))
            return AttentionOutput(weighted_sum(weights_BS), weights_BS, state)

        return attend


class LocalAttention(nn.Module):
    """Luong et al. (2015), section 3.2: a softmax over the window [p - D, p + D] around a centre p.

    Monotonic (local-m): p = t, but at most the last position. Predictive (local-p): p = (S - 1) . sigmoid(v . tanh(W
    s)), and the weights are multiplied by a Gaussian of deviation D/2 around p, after the softmax. Positions count from
    0.
    """

    can_share_sources = False

    def __init__(self, score: Score, query_size: int, annotation_size: int, *, window: int, predictive: bool) -> None:
        super().__init__()
        self.score = score
        self.context_size = annotation_size
        self.window = window
        self.position = Linear(query_size, query_size, bias=False) if predictive else None
        self.position_v = Linear(query_size, 1, bias=False) if predictive else None

    def keys(self, states_BSC: Tensor) -> Tensor:
        return self.score.keys(states_BSC)

    def initial_state(self, memory: Memory) -> AttentionState:
        return (memory.valid_BS.new_zeros(memory.valid_BS.shape[0], dtype=torch.long),)

    def unroll(self, memory: Memory) -> AttentionStep:
        energies = self.score.unroll(memory.keys_BSA, memory.valid_BS)
        weighted_sum = WeightedSums(memory.states_BSC)
        last_B = (memory.valid_BS.sum(dim=1) - 1).clamp(min=0)
        positions_S = torch.arange(memory.valid_BS.shape[1], device=memory.valid_BS.device)

        def attend(query_BH: Tensor, state: AttentionState) -> AttentionOutput:
            (step_B,) = state
            energy_BS = energies(query_BH)
            centre_B = self._centre(query_BH, step_B, last_B).to(energy_BS.dtype)
            distance_BS = positions_S - centre_B.unsqueeze(1)
            valid_BS = memory.valid_for(query_BH.shape[0])
            weights_BS = masked_softmax(energy_BS, valid_BS & (distance_BS.abs() <= self.window))
            if self.position is not None:
                weights_BS = weights_BS * torch.exp(-(distance_BS**2) / (2 * (self.window / 2) ** 2))
            return AttentionOutput(weighted_sum(weights_BS), weights_BS, (step_B + 1,))

        return attend

    def _centre(self, query_BH: Tensor, step_B: Tensor, last_B: Tensor) -> Tensor:
        if self.position is None or self.position_v is None:
            return torch.minimum(step_B, last_B)
        predicted_B = (
            self.position_v(torch.tanh(self.position(query_BH).to(query_BH.dtype))).squeeze(-1).to(query_BH.dtype)
        )
        # S - 1 in the place of the paper's S: its positions count from 1.
        # In float32 torch computes numbers that do not fill a last group of 32 by another function, which rounds
        # differently. In float64 that does not reach the result.
        return (last_B * torch.sigmoid(predicted_B.double())).to(query_BH.dtype)


class LocationAttention(nn.Module):
    """Chorowski et al. (2015), eqs. 8-9: convolutional features of the previous alignment inside the additive score.

    `sharpening` is the inverse temperature beta. With `smoothing` the weights are sigmoids divided by their sum, not a
    softmax.
    """

    can_share_sources = False

    def __init__(
        self, score: AdditiveScore, annotation_size: int, *, size: int, filters: int, filter_width: int,
        sharpening: float = 1.0, smoothing: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.score = score
        self.context_size = annotation_size
        self.convolution = nn.Conv1d(1, filters, filter_width, padding=filter_width // 2, bias=False)
        self.location = Linear(filters, size, bias=False)
        self.sharpening, self.smoothing = sharpening, smoothing

    def keys(self, states_BSC: Tensor) -> Tensor:
        return self.score.keys(states_BSC)

    def initial_state(self, memory: Memory) -> AttentionState:
        return (torch.zeros_like(memory.states_BSC[:, :, 0]),)

    def unroll(self, memory: Memory) -> AttentionStep:
        energies = self.score.unroll(memory.keys_BSA, memory.valid_BS)
        weighted_sum = WeightedSums(memory.states_BSC)

        def attend(query_BH: Tensor, state: AttentionState) -> AttentionOutput:
            (previous_BS,) = state
            valid_BS = memory.valid_for(query_BH.shape[0])
            with full_precision(query_BH):
                features_BSF = self.convolution(previous_BS.unsqueeze(1)).transpose(1, 2)
                located_BSA = self.location(features_BSF)
            weights_BS = self._weights(energies(query_BH, located_BSA) * self.sharpening, valid_BS)
            return AttentionOutput(weighted_sum(weights_BS), weights_BS, (weights_BS,))

        return attend

    def _weights(self, energy_BS: Tensor, valid_BS: Tensor) -> Tensor:
        # Sigmoids divided by their sum are the softmax of their logarithms, which do not vanish.
        return masked_softmax(F.logsigmoid(energy_BS) if self.smoothing else energy_BS, valid_BS)


class CoverageAttention(nn.Module):
    """Additive attention with coverage, a record of the source positions that were attended to.

    Linguistic: the sum of the weights so far (See et al., 2017, section 2.3). Neural: a vector of N units at each
    source position, C_ij = tanh(C_{i-1,j} V + alpha_ij v + h_j U + s_{i-1} W) (Tu et al., 2016, eq. 9).
    """

    can_share_sources = False

    def __init__(
        self, score: AdditiveScore, query_size: int, annotation_size: int, *, size: int, units: int | None = None
    ) -> None:
        super().__init__()
        self.score = score
        self.context_size = annotation_size
        self._size = size
        self._units = 1 if units is None else units
        self.coverage = Linear(self._units, size, bias=False)
        self.update = Linear(self._units + 1, units, bias=False) if units is not None else None
        self.update_key = Linear(annotation_size, units, bias=False) if units is not None else None
        self.update_query = Linear(query_size, units, bias=False) if units is not None else None

    def keys(self, states_BSC: Tensor) -> Tensor:
        keys_BSA = self.score.keys(states_BSC)
        if self.update_key is None:
            return keys_BSA
        return torch.cat([keys_BSA, self.update_key(states_BSC).to(keys_BSA.dtype)], dim=-1)

    def initial_state(self, memory: Memory) -> AttentionState:
        return (memory.states_BSC.new_zeros(*memory.valid_BS.shape, self._units),)

    def unroll(self, memory: Memory) -> AttentionStep:
        keys_BSA, update_keys_BSN = memory.keys_BSA[..., : self._size], memory.keys_BSA[..., self._size :]
        energies = self.score.unroll(keys_BSA, memory.valid_BS)
        weighted_sum = WeightedSums(memory.states_BSC)

        def attend(query_BH: Tensor, state: AttentionState) -> AttentionOutput:
            (coverage_BSN,) = state
            with full_precision(query_BH):
                energy_BS = energies(query_BH, self.coverage(coverage_BSN))
                weights_BS = masked_softmax(energy_BS, memory.valid_for(query_BH.shape[0]))
                context_BC = weighted_sum(weights_BS)
                if self.update is None or self.update_query is None:
                    coverage_BSN = coverage_BSN + weights_BS.unsqueeze(-1)
                else:
                    seen_BSN = self.update(torch.cat([coverage_BSN, weights_BS.unsqueeze(-1)], dim=-1))
                    coverage_BSN = torch.tanh(seen_BSN + update_keys_BSN + self.update_query(query_BH).unsqueeze(1))
            return AttentionOutput(context_BC, weights_BS, (coverage_BSN,))

        return attend


class MultiheadAttention(nn.Module):
    """Several additive heads (as in Chen et al., 2018, RNMT+); the weights returned are the mean of the heads' weights.

    A value projection commutes with the weighted sum, so it is applied once a step to the joined contexts of the heads.
    """

    can_share_sources = False

    def __init__(self, query_size: int, annotation_size: int, *, size: int, heads: int) -> None:
        super().__init__()
        self.context_size = annotation_size
        self.query = Linear(query_size, size, bias=False)
        self.key = Linear(annotation_size, size)
        self.v = nn.Parameter(torch.empty(heads, size // heads))
        self.mix = Linear(heads * annotation_size, annotation_size, bias=False)

    def keys(self, states_BSC: Tensor) -> Tensor:
        return cast(Tensor, self.key(states_BSC)).to(states_BSC.dtype)

    def initial_state(self, memory: Memory) -> AttentionState:  # noqa: ARG002
        return ()

    def unroll(self, memory: Memory) -> AttentionStep:
        def attend(query_BH: Tensor, state: AttentionState) -> AttentionOutput:
            query_BA = self.query(query_BH).to(query_BH.dtype)
            with full_precision(query_BH):
                energy_BMS = additive_energies(query_BA, memory.keys_BSA, self.v).transpose(1, 2)
                weights_BMS = masked_softmax(energy_BMS, memory.valid_for(query_BH.shape[0]).unsqueeze(1))
                contexts_BX = bmm(weights_BMS, memory.states_BSC).flatten(1)
            context_BC = self.mix(contexts_BX).to(query_BH.dtype)
            return AttentionOutput(context_BC, weights_BMS.mean(dim=1), state)

        return attend


class NoAttention(nn.Module):
    """Replaces attention in a plain encoder-decoder: the context is a fixed source vector at every step (Cho et al.,
    2014), or there is none after the first state (Sutskever et al., 2014). All weights are zeros."""

    can_share_sources = False

    def __init__(self, annotation_size: int, *, every_step: bool) -> None:
        super().__init__()
        self.context_size = annotation_size if every_step else 0

    def keys(self, states_BSC: Tensor) -> Tensor:
        return states_BSC[:, :, :0]

    def initial_state(self, memory: Memory) -> AttentionState:  # noqa: ARG002
        return ()

    def unroll(self, memory: Memory) -> AttentionStep:
        context_BC = memory.final_BC[:, : self.context_size]
        weights_BS = torch.zeros_like(memory.states_BSC[:, :, 0])
        return lambda query_BH, state: AttentionOutput(context_BC, weights_BS, state)  # noqa: ARG005
