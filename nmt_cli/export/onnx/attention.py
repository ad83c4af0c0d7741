"""The attentions of `model/attention.py` as ONNX. The equations and their sources stand there.

A search gives each of B sources K rows, one after the other, so N = B x K rows share B memories.

Shapes: B sources, K rows of a source, N rows, S source, C annotation, H query, A attention, M heads, F filters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from torch import nn

from nmt_cli.config.model import AttentionConfig
from nmt_cli.export.onnx.cells import array, linear
from nmt_cli.export.onnx.graph import Graph, Value
from nmt_cli.model.attention import (
    AdditiveScore,
    Attention,
    CoverageAttention,
    DotScore,
    GeneralScore,
    GlobalAttention,
    LocalAttention,
    LocationAttention,
    MultiheadAttention,
    NoAttention,
    Score,
)
from nmt_cli.system.errors import InputError

Memory = Mapping[str, Value]
"""Outputs of the encoder that the decoder reads: states (B, S, C), keys (B, S, A), valid (B, S), final (B, C)."""


@dataclass(frozen=True, slots=True)
class Attended:
    """One look at the source."""

    context_nc: Value | None
    """None where the decoder sees no context."""
    weights_bks: Value | None
    """None where there is no attention."""
    states: tuple[Value, ...] = ()
    """The next states, each beginning with N."""


class Rows:
    """The way between rows (N, ...) and rows by source (B, K, ...)."""

    def __init__(self, memory: Memory) -> None:
        states = memory["states"] if "states" in memory else memory["final"]
        self.num_sources = states.size(0)
        self.width = states.size(1) if "states" in memory else None

    def by_source(self, rows: Value, *axes: int | Value) -> Value:
        """Return (B, K, axes) of (N, axes)."""
        return rows.reshape(self.num_sources, -1, *axes)

    def flat(self, by_source: Value, *axes: int | Value) -> Value:
        """Return (N, axes) of (B, K, axes)."""
        return by_source.reshape(-1, *axes)


def uses(attention: Attention) -> tuple[str, ...]:
    """Return the names of what the decoder needs of the memory.

    Raises:
        InputError: this attention cannot be exported.
    """
    match attention:
        case NoAttention():
            return ("final",)
        case GlobalAttention(score=DotScore() as score) | LocalAttention(score=DotScore() as score):
            return ("states", "keys", "valid") if isinstance(score, GeneralScore) else ("states", "valid")
        case (
            GlobalAttention() | LocalAttention() | LocationAttention() | CoverageAttention() | MultiheadAttention()
        ):  # fmt: skip
            return ("states", "keys", "valid")
    raise InputError(f"--format onnx: cannot express the attention {type(attention).__name__}")


def keys(graph: Graph, attention: Attention, states_bsc: Value) -> Value:
    """Return what does not depend on the query."""
    match attention:
        case MultiheadAttention():
            return linear(graph, attention.key, states_bsc)
        case CoverageAttention(update_key=nn.Linear() as update_key):
            own = linear(graph, attention.score.key, states_bsc)
            return graph.op("Concat", own, linear(graph, update_key, states_bsc), axis=-1)
        case GlobalAttention() | LocalAttention() | LocationAttention() | CoverageAttention():
            key = attention.score.key
            assert isinstance(key, nn.Linear)
            return linear(graph, key, states_bsc)
    raise AssertionError


def initial_states(
    graph: Graph, attention: Attention, memory: Memory
) -> dict[str, tuple[Value, tuple[str | int, ...]]]:
    """Return the states before the first step by name, each with its axes after the first."""
    if isinstance(attention, LocalAttention):
        return {"position": (memory["valid"].cast(np.float32).sum(1) * 0.0, ())}
    if isinstance(attention, LocationAttention):
        return {"previous": (memory["valid"].cast(np.float32) * 0.0, ("source",))}
    if isinstance(attention, CoverageAttention):
        units = attention.coverage.in_features
        zeros = memory["valid"].cast(np.float32).unsqueeze(-1) * graph.constant(np.zeros(units, np.float32))
        return {"coverage": (zeros, ("source", units))}
    return {}


class Look:
    """One step of attention."""

    def __init__(
        self, graph: Graph, attention: Attention, config: AttentionConfig, memory: Memory, *, query_size: int
    ) -> None:
        self._graph, self._attention, self._config, self._memory = graph, attention, config, memory
        self._query_size = query_size
        self.rows = Rows(memory)
        if "valid" in memory:
            self._valid_b1s = memory["valid"].unsqueeze(1)

    def __call__(self, query_nh: Value, states: Mapping[str, Value]) -> Attended:
        """Return context, weights and the next states."""
        match self._attention:
            case NoAttention() as attention:
                return self._nothing(attention, query_nh)
            case GlobalAttention() as attention:
                return self._attended(self._softmax(self._energies(attention.score, query_nh)))
            case LocalAttention() as attention:
                return self._local(attention, query_nh, states["position"])
            case LocationAttention() as attention:
                return self._location(attention, query_nh, states["previous"])
            case CoverageAttention() as attention:
                return self._coverage(attention, query_nh, states["coverage"])
            case MultiheadAttention() as attention:
                return self._multihead(attention, query_nh)
        raise AssertionError

    def _nothing(self, attention: NoAttention, query_nh: Value) -> Attended:
        if not attention.context_size:
            return Attended(None, None)
        by_row = self.rows.by_source(query_nh.sum(1, keepdims=True), 1) * 0.0  # for the number of rows alone
        context_bkc = by_row + self._memory["final"].unsqueeze(1)
        return Attended(self.rows.flat(context_bkc, attention.context_size), None)

    def _attended(self, weights_bks: Value, *states: Value) -> Attended:
        context_bkc = weights_bks @ self._memory["states"]
        return Attended(self.rows.flat(context_bkc, self._attention.context_size), weights_bks, states)

    def _softmax(self, energy_bks: Value, valid: Value | None = None) -> Value:
        """Return a softmax over valid positions, with exact zeros elsewhere."""
        valid = self._valid_b1s if valid is None else valid
        lowest = float(np.finfo(np.float32).min)
        weights = self._graph.op("Softmax", self._graph.op("Where", valid, energy_bks, lowest), axis=-1)
        return self._graph.op("Where", valid, weights, 0.0)

    def _energies(self, score: Score, query_nh: Value, extra_bksa: Value | None = None) -> Value:
        """Return energies (B, K, S)."""
        graph = self._graph
        if isinstance(score, DotScore):
            # Keys have the size of the query; without a matrix of their own they are the annotations.
            keys_bsa = self._memory["keys" if isinstance(score, GeneralScore) else "states"]
            return self.rows.by_source(query_nh, self._query_size) @ keys_bsa.transpose(0, 2, 1)
        assert isinstance(score, AdditiveScore)
        size = score.v.shape[0]
        query_bk1a = self.rows.by_source(graph.product(query_nh, array(score.query)), 1, size)
        keys_bsa = self._memory["keys"]
        if isinstance(self._attention, CoverageAttention):
            keys_bsa = self._keys_of_coverage()[0]
        summed_bksa = query_bk1a + keys_bsa.unsqueeze(1)
        if extra_bksa is not None:
            summed_bksa = summed_bksa + extra_bksa
        return summed_bksa.tanh() @ graph.constant(array(score.v))

    def _local(self, attention: LocalAttention, query_nh: Value, position_n: Value) -> Attended:
        graph, window = self._graph, self._config.window
        energy_bks = self._energies(attention.score, query_nh)
        last_b11 = self._valid_b1s.cast(np.float32).sum(2, keepdims=True) + (-1.0)
        last_b11 = graph.op("Max", last_b11, 0.0)
        if attention.position is None or attention.position_v is None:
            centre_bk1 = graph.op("Min", self.rows.by_source(position_n, 1), last_b11)
        else:
            hidden_nh = linear(graph, attention.position, query_nh).tanh()
            predicted_n1 = linear(graph, attention.position_v, hidden_nh).sigmoid()
            centre_bk1 = self.rows.by_source(predicted_n1, 1) * last_b11
        # Positions count from 0: the running sum of ones, less one.
        ones_b1s = self._valid_b1s.cast(np.float32) * 0.0 + 1.0
        distance_bks = graph.op("CumSum", ones_b1s, np.array(2)) - 1.0 - centre_bk1
        near_bks = graph.op("LessOrEqual", graph.op("Abs", distance_bks), float(window))
        weights_bks = self._softmax(energy_bks, graph.op("And", self._valid_b1s, near_bks))
        if attention.position is not None:
            weights_bks = weights_bks * graph.op("Exp", distance_bks * distance_bks / -(2 * (window / 2) ** 2))
        return self._attended(weights_bks, position_n + 1.0)

    def _location(self, attention: LocationAttention, query_nh: Value, previous_ns: Value) -> Attended:
        graph, config = self._graph, self._config
        half = config.filter_width // 2
        filters = array(attention.convolution.weight)
        features_nfs = graph.op("Conv", previous_ns.unsqueeze(1), filters, pads=[half, half])
        located_nsa = linear(graph, attention.location, features_nfs.transpose(0, 2, 1))
        assert self.rows.width is not None
        extra_bksa = self.rows.by_source(located_nsa, self.rows.width, attention.location.out_features)
        energy_bks = self._energies(attention.score, query_nh, extra_bksa) * config.sharpening
        if config.smoothing:  # the logarithm of the sigmoid
            energy_bks = graph.op("Softplus", energy_bks * -1.0) * -1.0
        weights_bks = self._softmax(energy_bks)
        return self._attended(weights_bks, self.rows.flat(weights_bks, self.rows.width))

    def _coverage(self, attention: CoverageAttention, query_nh: Value, coverage_nsu: Value) -> Attended:
        graph, rows, units = self._graph, self.rows, attention.coverage.in_features
        assert rows.width is not None
        coverage_bksu = rows.by_source(coverage_nsu, rows.width, units)
        energy_bks = self._energies(attention.score, query_nh, linear(graph, attention.coverage, coverage_bksu))
        weights_bks = self._softmax(energy_bks)
        weights_bks1 = weights_bks.unsqueeze(-1)
        if attention.update is None or attention.update_query is None:
            coverage_bksu = coverage_bksu + weights_bks1
        else:
            seen_bksu = linear(graph, attention.update, graph.op("Concat", coverage_bksu, weights_bks1, axis=-1))
            query_bk1u = rows.by_source(linear(graph, attention.update_query, query_nh), 1, units)
            coverage_bksu = (seen_bksu + self._keys_of_coverage()[1].unsqueeze(1) + query_bk1u).tanh()
        return self._attended(weights_bks, rows.flat(coverage_bksu, rows.width, units))

    def _keys_of_coverage(self) -> list[Value]:
        """Return the keys of the score, and the keys of the update where there is one."""
        attention = self._attention
        assert isinstance(attention, CoverageAttention)
        sizes = [attention.score.v.shape[0]]
        if attention.update_key is not None:
            sizes.append(attention.update_key.out_features)
        return self._memory["keys"].split(*sizes)

    def _multihead(self, attention: MultiheadAttention, query_nh: Value) -> Attended:
        graph, rows = self._graph, self.rows
        heads, size = attention.v.shape
        query_bk1a = rows.by_source(linear(graph, attention.query, query_nh), 1, heads * size)
        summed_bksa = query_bk1a + self._memory["keys"].unsqueeze(1)
        assert rows.width is not None
        hidden_bksma = rows.by_source(summed_bksa.tanh(), rows.width, heads, size)
        energy_bkms = (hidden_bksma * graph.constant(array(attention.v))).sum(-1).transpose(0, 1, 3, 2)
        weights_bkms = self._softmax(energy_bkms, self._valid_b1s.unsqueeze(1))
        contexts_bkmc = weights_bkms @ self._memory["states"].unsqueeze(1)
        contexts_nx = rows.flat(contexts_bkmc, heads * attention.context_size)
        return Attended(linear(graph, attention.mix, contexts_nx), weights_bkms.mean(2))
