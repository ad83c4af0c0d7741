"""The two graphs of a model: the encoder, and one step of the decoder. `model/` gives their equations.

Names: the encoder's outputs `memory.*` and `state.*` are inputs of the decoder; its outputs `next.*` are the `state.*`
of the following step.

Shapes: B sources, N rows (K of each source), P rows of the step before, S source, E embedding, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from nmt_cli.export.onnx.attention_graph import AttentionOutput, AttentionStep, attention_step, keys
from nmt_cli.export.onnx.cell_graph import Cell, array, encoder_layers, linear, upper_layers
from nmt_cli.export.onnx.graph import Graph, Value
from nmt_cli.model.annotations import Memory
from nmt_cli.model.decoder import BahdanauRecurrence, ConditionalRecurrence, DeepReadout, LuongRecurrence
from nmt_cli.model.seq2seq import Seq2Seq
from nmt_cli.system.errors import InputError

Axes = tuple[str | int, ...]
DTYPES: dict[str, type[np.generic]] = {"valid": np.bool_}
"""NumPy types of the encoder outputs that are not float32, by name without `memory.`."""


@dataclass(slots=True)
class Graphs:
    """Writes the ONNX files of one model: the encoder, and one step of the decoder.

    Raises:
        InputError: the model has an attention that cannot be expressed in ONNX.
    """

    model: Seq2Seq
    banned_ids: Sequence[int]
    """IDs of pieces that no translation may hold: the decoder gives them the log-probability minus infinity."""
    quantised: bool = False
    """True if large matrices are stored in int8; otherwise all are in float32."""
    description: str = ""
    """Text about the model that is stored in the files."""
    _memory_axes: dict[str, Axes] = field(init=False)
    _state_axes: dict[str, Axes] = field(init=False)
    """Axes of each decoder state after the first (rows), by name without `state.`: a size, or `source` for S."""

    def __post_init__(self) -> None:
        # The model itself says what it carries over when it has read a source of one piece.
        state_names = attention_step(self.model.decoder.attention).state_names
        with torch.inference_mode():
            memory = self.model.encode(torch.zeros(1, 1, dtype=torch.long), torch.ones(1, 1, dtype=torch.bool))
            state = self.model.initial_state(memory)
        self._memory_axes = _memory_axes(memory, has_attention=self.model.has_attention)
        self._state_axes = {f"layer{number}": tuple(layer.shape[1:]) for number, layer in enumerate(state.layers)}
        for vector in state.feed:
            self._state_axes["feed"] = tuple(vector.shape[1:])
        for name, part in zip(state_names, state.attention, strict=True):
            self._state_axes[name] = () if part.dim() == 1 else ("source", *part.shape[2:])

    def encoder(self) -> bytes:
        """Return the content of the ONNX file of the encoder."""
        graph, model = Graph("encoder", self.quantised), self.model
        source_bs = graph.input("source", np.int32, ["batch", "source"])
        lengths_b = graph.input("lengths", np.int32, ["batch"])
        positions_bs = graph.op("CumSum", source_bs * graph.constant(np.array(0, np.int32)) + _one(graph), np.array(1))
        valid_bs = graph.op("LessOrEqual", positions_bs, lengths_b.unsqueeze(1))
        embedded_bse = graph.embedding(array(model.source_embedding), source_bs)
        states_bsc, final_bc = encoder_layers(graph, model.encoder, embedded_bse, valid_bs)
        memory = {"states": states_bsc, "valid": valid_bs, "final": final_bc, "embedded": embedded_bse}
        if "keys" in self._memory_axes:
            memory["keys"] = keys(graph, model.decoder.attention, states_bsc)
        for name, axes in self._memory_axes.items():
            graph.output(f"memory.{name}", memory[name], DTYPES.get(name, np.float32), ("batch", *axes))
        layers = self._initial_states(graph, memory)
        for name, axes in self._state_axes.items():
            state = layers[name] if name in layers else _zeros(graph, valid_bs, axes)
            graph.output(f"state.{name}", state, np.float32, ("batch", *axes))
        return graph.as_bytes(self.description)

    def decoder(self) -> bytes:
        """Return the content of the ONNX file of one decoder step, which reads the outputs of the encoder.

        Raises:
            InputError: the recurrence cannot be expressed in ONNX.
        """
        graph, model = Graph("decoder", self.quantised), self.model
        pieces_n = graph.input("piece", np.int32, ["rows"])
        parents_n = graph.input("parent", np.int32, ["rows"])
        count_1 = graph.input("count", np.int64, [1])
        memory = {
            name: graph.input(f"memory.{name}", DTYPES.get(name, np.float32), ("batch", *axes))
            for name, axes in self._memory_axes.items()
        }
        states = {
            name: graph.op("Gather", graph.input(f"state.{name}", np.float32, ("previous_rows", *axes)), parents_n)
            for name, axes in self._state_axes.items()
        }
        embedded_ne = graph.embedding(array(model.target_embedding), pieces_n)
        attention = attention_step(model.decoder.attention)(graph, model.decoder.attention, memory)
        readout_nr, attended, new_states = _DecoderStep(graph, model, attention).run(embedded_ne, states)
        if model.lexical is not None:
            assert attended.weights_bks is not None
            attended_bke = attended.weights_bks @ memory["embedded"]
            direct_ne = attention.rows.flatten(attended_bke, model.lexical.hidden.in_features).tanh()
            readout_nr = readout_nr + (linear(graph, model.lexical.hidden, direct_ne).tanh() + direct_ne)
        logits_nv = graph.logits(readout_nr, array(model.output_weight), array(model.output_bias))
        log_probs_nv = graph.op("LogSoftmax", logits_nv, axis=-1)
        forbidden = np.zeros(model.output_bias.shape[0], np.float32)
        forbidden[list(self.banned_ids)] = -np.inf
        log_probs_nv = log_probs_nv + graph.constant(forbidden)
        best, pieces = graph.ops("TopK", log_probs_nv, count_1, num_outputs=2)
        graph.output("log_probs", log_probs_nv, np.float32, ["rows", len(forbidden)])
        graph.output("best_log_probs", best, np.float32, ["rows", "count"])
        graph.output("best_pieces", pieces.cast(np.int32), np.int32, ["rows", "count"])
        if attended.weights_bks is not None:
            assert attention.rows.width is not None
            weights_ns = attention.rows.flatten(attended.weights_bks, attention.rows.width)
            graph.output("weights", weights_ns, np.float32, ["rows", "source"])
        for name, axes in self._state_axes.items():
            graph.output(f"next.{name}", new_states[name], np.float32, ("rows", *axes))
        return graph.as_bytes(self.description)

    def _initial_states(self, graph: Graph, memory: dict[str, Value]) -> dict[str, Value]:
        """Return the first state of each decoder layer by its name; empty if the first states do not depend on the
        source."""
        projection = self.model.decoder.initial.projection
        if projection is None:
            return {}
        names = [name for name in self._state_axes if name.startswith("layer")]
        sizes = [projection.out_features // len(names)] * len(names)
        layers = linear(graph, projection, self._summary(graph, memory)).tanh().split(*sizes)
        return dict(zip(names, layers, strict=True))

    def _summary(self, graph: Graph, memory: dict[str, Value]) -> Value:
        """Return the vector (B, ...) from which the first states of all layers are projected."""
        initial, final_bc = self.model.decoder.initial, memory["final"]
        if initial.kind == "final":
            return final_bc
        if initial.kind == "backward":
            return final_bc.split(*[self.model.encoder.annotation_size // 2] * 2)[1]
        valid_b1s = memory["valid"].cast(np.float32).unsqueeze(1)
        count_b11 = graph.op("Max", valid_b1s.sum(2, keepdims=True), 1.0)
        return ((valid_b1s / count_b11) @ memory["states"]).sum(1)


def _memory_axes(memory: Memory, *, has_attention: bool) -> dict[str, Axes]:
    """Return the axes, after the batch, of each encoder output that the decoder reads, by name without `memory.`."""
    if not has_attention:
        return {"final": tuple(memory.final_BC.shape[1:])}
    parts = {"states": memory.states_BSC, "keys": memory.keys_BSA, "valid": memory.valid_BS}
    if memory.keys_BSA is memory.states_BSC:  # one tensor serves as both
        del parts["keys"]
    if memory.embedded_BSE is not None:
        parts["embedded"] = memory.embedded_BSE
    return {name: ("source", *part.shape[2:]) for name, part in parts.items()}


class _DecoderStep:
    """Writes one step of the decoder's recurrence, with its attention and readout, to a graph."""

    def __init__(self, graph: Graph, model: Seq2Seq, attention: AttentionStep) -> None:
        self._graph, self._attention = graph, attention
        self._decoder, self._recurrence = model.decoder, model.decoder.recurrence
        self._cell = Cell(graph, self._recurrence.cell)

    def run(self, embedded_ne: Value, states: dict[str, Value]) -> tuple[Value, AttentionOutput, dict[str, Value]]:
        """Add a step to the graph; return its readout (N, R units), the attention's results, and the next states.

        The names of the next states are those in `states`, such as `layer0`.

        Raises:
            InputError: the recurrence cannot be expressed in ONNX.
        """
        match self._recurrence:
            case BahdanauRecurrence() | ConditionalRecurrence():
                hidden, attended, layers = self._attend_first(embedded_ne, states)
                feed = {}
                assert self._decoder.readout is not None
                readout = self._readout(self._decoder.readout, hidden, embedded_ne, attended.context_nc)
            case LuongRecurrence() as luong:
                readout, attended, layers = self._update_first(luong, embedded_ne, states)
                feed = {} if luong.feed is None else {"feed": readout}
            case other:
                raise InputError(
                    f"--format onnx: has no equations for the recurrence {type(other).__name__}; use nmt translate or "
                    "nmt serve"
                )
        named = {f"layer{number}": layer for number, layer in enumerate(layers)}
        return readout, attended, named | feed | dict(zip(self._attention.state_names, attended.states, strict=True))

    def _attend_first(self, embedded_ne: Value, states: dict[str, Value]) -> tuple[Value, AttentionOutput, list[Value]]:
        recurrence, cell = self._recurrence, self._cell
        assert isinstance(recurrence, (BahdanauRecurrence, ConditionalRecurrence))
        layers = [states[name] for name in states if name.startswith("layer")]
        projected = cell.inputs(recurrence.input, embedded_ne)
        if isinstance(recurrence, BahdanauRecurrence):
            attended = self._attention(cell.output(layers[-1]), states)
            context = attended.context_nc if attended.context_nc is not None else embedded_ne
            first = cell.step(projected + cell.inputs(recurrence.context, context), layers[0])
        else:
            between = cell.step(projected, layers[0])
            attended = self._attention(cell.output(between), states)
            context_cell = Cell(self._graph, recurrence.context_cell)
            context = attended.context_nc if attended.context_nc is not None else embedded_ne
            first = context_cell.step(context_cell.inputs(recurrence.context, context), between)
        hidden, above = upper_layers(self._graph, recurrence.upper, cell.output(first), layers[1:])
        return hidden, attended, [first, *above]

    def _update_first(
        self, luong: LuongRecurrence, embedded_ne: Value, states: dict[str, Value]
    ) -> tuple[Value, AttentionOutput, list[Value]]:
        layers = [states[name] for name in states if name.startswith("layer")]
        projected = self._cell.inputs(luong.input, embedded_ne)
        if luong.feed is not None:
            projected = projected + self._cell.inputs(luong.feed, states["feed"])
        first = self._cell.step(projected, layers[0])
        hidden, above = upper_layers(self._graph, luong.upper, self._cell.output(first), layers[1:])
        attended = self._attention(hidden, states)
        joined = hidden
        if attended.context_nc is not None:
            joined = self._graph.op("Concat", attended.context_nc, hidden, axis=-1)
        return linear(self._graph, luong.attentional, joined).tanh(), attended, [first, *above]

    def _readout(self, readout: DeepReadout, hidden_nh: Value, embedded_ne: Value, context_nc: Value | None) -> Value:
        summed = linear(self._graph, readout.hidden, hidden_nh) + linear(self._graph, readout.input, embedded_ne)
        if readout.context is not None:
            assert context_nc is not None
            summed = summed + linear(self._graph, readout.context, context_nc)
        if not readout.maxout:
            return summed.tanh()
        pairs = summed.reshape(0, -1, 2)
        return self._graph.op("ReduceMax", pairs, axes=[-1], keepdims=0)


def _zeros(graph: Graph, valid_bs: Value, axes: Axes) -> Value:
    """Return zeros (B, ...) with these axes after the first; the axis `source` has the length of `valid_bs`."""
    zeros = valid_bs.cast(np.float32) * 0.0
    if "source" not in axes:
        zeros = zeros.sum(1)
    sizes = [size for size in axes if isinstance(size, int)]
    return zeros.unsqueeze(-1) * graph.constant(np.zeros(sizes, np.float32)) if sizes else zeros


def _one(graph: Graph) -> Value:
    return graph.constant(np.array(1, np.int32))
