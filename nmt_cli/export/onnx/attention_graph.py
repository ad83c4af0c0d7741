"""The attentions of `model/attention.py` as ONNX; that module gives the equations and their sources.

A row is an unfinished translation. A search gives each of B sources K consecutive rows, so there are N = B x K rows.

Shapes: B sources, K rows of a source, N rows, S source, C annotation, H query, A attention, M heads, F filters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from nmt_cli.export.onnx.cell_graph import array, concat, linear
from nmt_cli.export.onnx.graph import Graph, Value
from nmt_cli.model.attention import (
    AdditiveScore,
    Attention,
    CoverageAttention,
    GeneralScore,
    GlobalAttention,
    LocalAttention,
    LocationAttention,
    MultiheadAttention,
    NoAttention,
)
from nmt_cli.system.errors import InputError

Memory = Mapping[str, Value]
"""Outputs of the encoder graph, by name: the fields of `model.annotations.Memory` without their shapes (`states`)."""


@dataclass(frozen=True, slots=True)
class AttentionOutput:
    """Tensors of the graph that one step of attention computes."""

    context_nc: Value | None
    """Context vector of each row (N, C); None if the decoder uses no context."""
    weights_bks: Value | None
    """Attention weights of K rows for each of B sources over S positions; None without attention."""
    states: tuple[Value, ...] = ()
    """State for the next step of the attention, in the order of `state_names`; the first axis of each is the rows."""


class RowReshaper:
    """Reshapes tensors between all rows (N, ...) and the K rows of each of B sources (B, K, ...); N = B x K."""

    def __init__(self, memory: Memory) -> None:
        states = memory["states"] if "states" in memory else memory["final"]
        self.num_sources = states.size(0)
        self.width = states.size(1) if "states" in memory else None

    def by_source(self, rows: Value, *axes: int | Value) -> Value:
        """Return `rows` (N, *axes) in the shape (B, K, *axes)."""
        return rows.reshape(self.num_sources, -1, *axes)

    def flatten(self, by_source: Value, *axes: int | Value) -> Value:
        """Return `by_source` (B, K, *axes) in the shape (N, *axes)."""
        return by_source.reshape(-1, *axes)


def keys(graph: Graph, attention: Attention, states_bsc: Value) -> Value:
    """Return the keys (B, S, A) of an attention: the annotations times the matrices of all layers named `key`,
    concatenated."""
    assert isinstance(attention, nn.Module)
    named = attention.named_modules()
    layers = [layer for name, layer in named if name.endswith("key") and isinstance(layer, nn.Linear)]
    return concat(graph, [linear(graph, layer, states_bsc) for layer in layers])


class AttentionStep:
    """Writes one step of an attention to a graph; this class, global attention: a softmax over the whole source."""

    state_names: tuple[str, ...] = ()
    """Names of the tensors that a step passes to the next one, in the order of `AttentionState`."""

    def __init__(self, graph: Graph, attention: Any, memory: Memory) -> None:
        self._graph, self._attention, self._memory = graph, attention, memory
        self.rows = RowReshaper(memory)
        if "states" in memory:
            self._valid_b1s = memory["valid"].unsqueeze(1)
            self._keys_bsa = memory.get("keys", memory["states"])

    def __call__(self, query_nh: Value, states: Mapping[str, Value]) -> AttentionOutput:  # noqa: ARG002
        """Write a step for the queries (N, H); return context, weights and the states for the next step."""
        return self._attention_output(self._softmax(self._energies(query_nh)))

    def _attention_output(self, weights_bks: Value, *states: Value) -> AttentionOutput:
        context_bkc = weights_bks @ self._memory["states"]
        return AttentionOutput(self.rows.flatten(context_bkc, self._attention.context_size), weights_bks, states)

    def _softmax(self, energy_bks: Value, valid: Value | None = None) -> Value:
        """Return the softmax over the positions where `valid` is True (default: not padding), with zeros elsewhere."""
        valid = self._valid_b1s if valid is None else valid
        lowest = float(np.finfo(np.float32).min)
        weights = self._graph.op("Softmax", self._graph.op("Where", valid, energy_bks, lowest), axis=-1)
        return self._graph.op("Where", valid, weights, 0.0)

    def _energies(self, query_nh: Value, extra_bksa: Value | None = None) -> Value:
        """Return the scores (B, K, S) before softmax; `extra_bksa` is added before the tanh of an additive score."""
        graph, score = self._graph, self._attention.score
        if not isinstance(score, AdditiveScore):
            # Keys have the size of the query; without a matrix of their own they are the annotations.
            size = score.key.out_features if isinstance(score, GeneralScore) else self._attention.context_size
            return self.rows.by_source(query_nh, size) @ self._keys_bsa.transpose(0, 2, 1)
        query_bk1a = self.rows.by_source(graph.product(query_nh, array(score.query)), 1, score.v.shape[0])
        summed_bksa = query_bk1a + self._keys_bsa.unsqueeze(1)
        if extra_bksa is not None:
            summed_bksa = summed_bksa + extra_bksa
        return summed_bksa.tanh() @ graph.constant(array(score.v))


class LocalAttentionStep(AttentionStep):
    """Writes a step of `LocalAttention`: Luong's attention to a window of the source."""

    state_names = ("position",)
    _attention: LocalAttention

    def __call__(self, query_nh: Value, states: Mapping[str, Value]) -> AttentionOutput:
        graph, window = self._graph, self._attention.window
        position, position_v = self._attention.position, self._attention.position_v
        energy_bks = self._energies(query_nh)
        last_b11 = self._valid_b1s.cast(np.float32).sum(2, keepdims=True) + (-1.0)
        last_b11 = graph.op("Max", last_b11, 0.0)
        if position is None or position_v is None:
            centre_bk1 = graph.op("Min", self.rows.by_source(states["position"], 1), last_b11)
        else:
            predicted_n1 = linear(graph, position_v, linear(graph, position, query_nh).tanh()).sigmoid()
            centre_bk1 = self.rows.by_source(predicted_n1, 1) * last_b11
        # Positions count from 0: the running sum of ones, less one.
        ones_b1s = self._valid_b1s.cast(np.float32) * 0.0 + 1.0
        distance_bks = graph.op("CumSum", ones_b1s, np.array(2)) - 1.0 - centre_bk1
        near_bks = graph.op("LessOrEqual", graph.op("Abs", distance_bks), float(window))
        weights_bks = self._softmax(energy_bks, graph.op("And", self._valid_b1s, near_bks))
        if position is not None:
            weights_bks = weights_bks * graph.op("Exp", distance_bks * distance_bks / -(2 * (window / 2) ** 2))
        return self._attention_output(weights_bks, states["position"] + 1.0)


class LocationAttentionStep(AttentionStep):
    """Writes a step of `LocationAttention`, by Chorowski: it also sees a convolution of the previous weights."""

    state_names = ("previous",)
    _attention: LocationAttention

    def __call__(self, query_nh: Value, states: Mapping[str, Value]) -> AttentionOutput:
        graph, attention = self._graph, self._attention
        assert self.rows.width is not None
        filters = array(attention.convolution.weight)
        half = filters.shape[-1] // 2
        features_nfs = graph.op("Conv", states["previous"].unsqueeze(1), filters, pads=[half, half])
        located_nsa = linear(graph, attention.location, features_nfs.transpose(0, 2, 1))
        extra_bksa = self.rows.by_source(located_nsa, self.rows.width, attention.location.out_features)
        energy_bks = self._energies(query_nh, extra_bksa) * attention.sharpening
        if attention.smoothing:  # the logarithm of the sigmoid
            energy_bks = graph.op("Softplus", energy_bks * -1.0) * -1.0
        weights_bks = self._softmax(energy_bks)
        return self._attention_output(weights_bks, self.rows.flatten(weights_bks, self.rows.width))


class CoverageAttentionStep(AttentionStep):
    """Writes a step of `CoverageAttention`: additive attention that also sees where it has attended so far."""

    state_names = ("coverage",)
    _attention: CoverageAttention

    def __init__(self, graph: Graph, attention: CoverageAttention, memory: Memory) -> None:
        super().__init__(graph, attention, memory)
        sizes = [attention.score.v.shape[0]]
        if attention.update_key is not None:
            sizes.append(attention.update_key.out_features)
        self._keys_bsa, *self._update_keys = memory["keys"].split(*sizes)

    def __call__(self, query_nh: Value, states: Mapping[str, Value]) -> AttentionOutput:
        graph, rows, attention = self._graph, self.rows, self._attention
        assert rows.width is not None
        units = attention.coverage.in_features
        coverage_bksu = rows.by_source(states["coverage"], rows.width, units)
        weights_bks = self._softmax(self._energies(query_nh, linear(graph, attention.coverage, coverage_bksu)))
        weights_bks1 = weights_bks.unsqueeze(-1)
        if attention.update is None or attention.update_query is None:
            coverage_bksu = coverage_bksu + weights_bks1
        else:
            seen_bksu = linear(graph, attention.update, graph.op("Concat", coverage_bksu, weights_bks1, axis=-1))
            query_bk1u = rows.by_source(linear(graph, attention.update_query, query_nh), 1, units)
            coverage_bksu = (seen_bksu + self._update_keys[0].unsqueeze(1) + query_bk1u).tanh()
        return self._attention_output(weights_bks, rows.flatten(coverage_bksu, rows.width, units))


class MultiheadAttentionStep(AttentionStep):
    """Writes a step of `MultiheadAttention`: several heads with additive scores."""

    _attention: MultiheadAttention

    def __call__(self, query_nh: Value, states: Mapping[str, Value]) -> AttentionOutput:  # noqa: ARG002
        graph, rows, attention = self._graph, self.rows, self._attention
        assert rows.width is not None
        heads, size = attention.v.shape
        query_bk1a = rows.by_source(linear(graph, attention.query, query_nh), 1, heads * size)
        hidden_bksma = rows.by_source((query_bk1a + self._keys_bsa.unsqueeze(1)).tanh(), rows.width, heads, size)
        energy_bkms = (hidden_bksma * graph.constant(array(attention.v))).sum(-1).transpose(0, 1, 3, 2)
        weights_bkms = self._softmax(energy_bkms, self._valid_b1s.unsqueeze(1))
        contexts_bkmc = weights_bkms @ self._memory["states"].unsqueeze(1)
        contexts_nx = rows.flatten(contexts_bkmc, heads * attention.context_size)
        return AttentionOutput(linear(graph, attention.mix, contexts_nx), weights_bkms.mean(2))


class FixedContextStep(AttentionStep):
    """Writes a step of `NoAttention`: the context is the same source vector at every step, or there is none."""

    _attention: NoAttention

    def __call__(self, query_nh: Value, states: Mapping[str, Value]) -> AttentionOutput:  # noqa: ARG002
        if not self._attention.context_size:
            return AttentionOutput(None, None)
        by_row = self.rows.by_source(query_nh.sum(1, keepdims=True), 1) * 0.0  # for the number of rows alone
        context_bkc = by_row + self._memory["final"].unsqueeze(1)
        return AttentionOutput(self.rows.flatten(context_bkc, self._attention.context_size), None)


STEPS: dict[type, type[AttentionStep]] = {
    GlobalAttention: AttentionStep,
    LocalAttention: LocalAttentionStep,
    LocationAttention: LocationAttentionStep,
    CoverageAttention: CoverageAttentionStep,
    MultiheadAttention: MultiheadAttentionStep,
    NoAttention: FixedContextStep,
}


def attention_step(attention: Attention) -> type[AttentionStep]:
    """Return the class that writes the steps of this attention to a graph.

    Raises:
        InputError: this attention cannot be expressed in ONNX.
    """
    found = STEPS.get(type(attention))
    if found is None:
        raise InputError(
            f"--format onnx: has no equations for the attention {type(attention).__name__}; use nmt translate or nmt "
            "serve"
        )
    return found
