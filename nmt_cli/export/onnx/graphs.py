"""The two graphs of a model: the encoder, and one step of the decoder. Their equations stand in `model/`.

Names: the encoder's outputs `memory.*` and `state.*` are inputs of the decoder; its outputs `next.*` are the `state.*`
of the following step.

Shapes: B sources, N rows (K of each source), P rows of the step before, S source, E embedding, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nmt_cli.config.model import ModelConfig
from nmt_cli.export.onnx import attention as attentions
from nmt_cli.export.onnx.attention import Attended, Look
from nmt_cli.export.onnx.cells import Cell, array, encoder_layers, linear, upper_layers
from nmt_cli.export.onnx.graph import Graph, Value
from nmt_cli.model.decoder import BahdanauRecurrence, ConditionalRecurrence, DeepReadout, LuongRecurrence
from nmt_cli.model.seq2seq import Seq2Seq
from nmt_cli.system.errors import InputError

Axes = tuple[str | int, ...]
DTYPES: dict[str, type[np.generic]] = {"valid": np.bool_}
"""The types of parts of the memory that are not float32."""


@dataclass(slots=True)
class Graphs:
    """The graphs of one model."""

    model: Seq2Seq
    config: ModelConfig
    banned: Sequence[int]
    """Pieces that no translation may hold: their log-probability is minus infinity."""
    quantised: bool = False
    """Matrices in int8."""
    description: str = ""
    """Stored in the files."""
    _memory_axes: dict[str, Axes] = field(default_factory=dict)
    _state_axes: dict[str, Axes] = field(default_factory=dict)

    def encoder(self) -> bytes:
        """Return the graph that reads sources.

        Raises:
            InputError: the model has a part that cannot be expressed.
        """
        graph, model = Graph("encoder", self.quantised), self.model
        source_bs = graph.input("source", np.int32, ["batch", "source"])
        lengths_b = graph.input("lengths", np.int32, ["batch"])
        positions_bs = graph.op("CumSum", source_bs * graph.constant(np.array(0, np.int32)) + _one(graph), np.array(1))
        valid_bs = graph.op("LessOrEqual", positions_bs, lengths_b.unsqueeze(1))
        embedded_bse = graph.embedding(array(model.source_embedding), source_bs)
        reverse = self.config.encoder.reverse_source
        states_bsc, final_bc = encoder_layers(graph, model.encoder, embedded_bse, valid_bs, reverse_source=reverse)
        memory = {"states": states_bsc, "valid": valid_bs, "final": final_bc, "embedded": embedded_bse}
        wanted = [*attentions.uses(model.decoder.attention), *(["embedded"] if model.lexical is not None else [])]
        if "keys" in wanted:
            memory["keys"] = attentions.keys(graph, model.decoder.attention, states_bsc)
        sizes = {
            "states": self.config.annotation_size,
            "embedded": self.config.embedding_size,
            "keys": self._key_size(),
        }
        for name in wanted:
            axes: Axes = ("batch", "source", sizes[name]) if name in sizes else ("batch", "source")
            axes = ("batch", self.config.annotation_size) if name == "final" else axes
            self._memory_axes[name] = axes
            graph.output(f"memory.{name}", memory[name], DTYPES.get(name, np.float32), axes)
        for name, (state, axes) in self._initial_states(graph, memory).items():
            self._state_axes[name] = axes
            graph.output(f"state.{name}", state, np.float32, ("batch", *axes))
        return graph.as_bytes(self.description)

    def decoder(self) -> bytes:
        """Return the graph of one step; ask for `encoder` first, whose outputs it takes."""
        graph, model = Graph("decoder", self.quantised), self.model
        pieces_n = graph.input("piece", np.int32, ["rows"])
        parents_n = graph.input("parent", np.int32, ["rows"])
        count_1 = graph.input("count", np.int64, [1])
        memory = {
            name: graph.input(f"memory.{name}", DTYPES.get(name, np.float32), axes)
            for name, axes in self._memory_axes.items()
        }
        states = {
            name: graph.op("Gather", graph.input(f"state.{name}", np.float32, ("previous_rows", *axes)), parents_n)
            for name, axes in self._state_axes.items()
        }
        embedded_ne = graph.embedding(array(model.target_embedding), pieces_n)
        query_size = self.config.decoder.hidden_size
        look = Look(graph, model.decoder.attention, self.config.attention, memory, query_size=query_size)
        readout_nr, attended, new_states = _Step(graph, model, look).run(embedded_ne, states)
        if model.lexical is not None:
            assert attended.weights_bks is not None
            looked_bke = attended.weights_bks @ memory["embedded"]
            direct_ne = look.rows.flat(looked_bke, self.config.embedding_size).tanh()
            readout_nr = readout_nr + (linear(graph, model.lexical.hidden, direct_ne).tanh() + direct_ne)
        logits_nv = graph.logits(readout_nr, array(model.output_weight), array(model.output_bias))
        log_probs_nv = graph.op("LogSoftmax", logits_nv, axis=-1)
        forbidden = np.zeros(model.output_bias.shape[0], np.float32)
        forbidden[list(self.banned)] = -np.inf
        log_probs_nv = log_probs_nv + graph.constant(forbidden)
        best, pieces = graph.ops("TopK", log_probs_nv, count_1, num_outputs=2)
        graph.output("log_probs", log_probs_nv, np.float32, ["rows", len(forbidden)])
        graph.output("best_log_probs", best, np.float32, ["rows", "count"])
        graph.output("best_pieces", pieces.cast(np.int32), np.int32, ["rows", "count"])
        if attended.weights_bks is not None:
            assert look.rows.width is not None
            weights_ns = look.rows.flat(attended.weights_bks, look.rows.width)
            graph.output("weights", weights_ns, np.float32, ["rows", "source"])
        for name, axes in self._state_axes.items():
            graph.output(f"next.{name}", new_states[name], np.float32, ("rows", *axes))
        return graph.as_bytes(self.description)

    def _key_size(self) -> int:
        """Return the units of a key, as many as `Attention.keys` gives."""
        states_bsc = self.model.source_embedding.new_zeros(1, 1, self.config.annotation_size)
        return int(self.model.decoder.attention.keys(states_bsc).shape[-1])

    def _initial_states(self, graph: Graph, memory: dict[str, Value]) -> dict[str, tuple[Value, Axes]]:
        decoder = self.model.decoder
        sizes = [decoder.recurrence.cell.state_size] * self.config.decoder.num_layers
        projection = decoder.initial.projection
        if projection is None:
            nothing_b1 = memory["valid"].cast(np.float32).sum(1, keepdims=True) * 0.0
            layers = [nothing_b1 * graph.constant(np.zeros(size, np.float32)) for size in sizes]
        else:
            layers = linear(graph, projection, self._summary(graph, memory)).tanh().split(*sizes)
        named: dict[str, tuple[Value, Axes]] = {
            f"layer{number}": (layer, (size,)) for number, (layer, size) in enumerate(zip(layers, sizes, strict=True))
        }
        if isinstance(decoder.recurrence, LuongRecurrence) and decoder.recurrence.feed is not None:
            size = decoder.recurrence.attentional.out_features
            nothing_b1 = memory["valid"].cast(np.float32).sum(1, keepdims=True) * 0.0
            named["feed"] = nothing_b1 * graph.constant(np.zeros(size, np.float32)), (size,)
        return named | attentions.initial_states(graph, decoder.attention, memory)

    def _summary(self, graph: Graph, memory: dict[str, Value]) -> Value:
        """Return the vector of which the first state is a projection."""
        kind, final_bc = self.model.decoder.initial.kind, memory["final"]
        if kind == "final":
            return final_bc
        if kind == "backward":
            return final_bc.split(*[self.config.encoder.hidden_size] * 2)[1]
        valid_b1s = memory["valid"].cast(np.float32).unsqueeze(1)
        count_b11 = graph.op("Max", valid_b1s.sum(2, keepdims=True), 1.0)
        return ((valid_b1s / count_b11) @ memory["states"]).sum(1)


class _Step:
    """One step of a recurrence and its readout."""

    def __init__(self, graph: Graph, model: Seq2Seq, look: Look) -> None:
        self._graph, self._look = graph, look
        self._decoder, self._recurrence = model.decoder, model.decoder.recurrence
        self._cell = Cell(graph, self._recurrence.cell)

    def run(self, embedded_ne: Value, states: dict[str, Value]) -> tuple[Value, Attended, dict[str, Value]]:
        """Return the readout (N, R), the look at the source, and the next states."""
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
                raise InputError(f"--format onnx: cannot express the recurrence {type(other).__name__}")
        named = {f"layer{number}": layer for number, layer in enumerate(layers)}
        kept = [name for name in states if name not in named and name != "feed"]
        return readout, attended, named | feed | dict(zip(kept, attended.states, strict=True))

    def _attend_first(self, embedded_ne: Value, states: dict[str, Value]) -> tuple[Value, Attended, list[Value]]:
        recurrence, cell = self._recurrence, self._cell
        assert isinstance(recurrence, (BahdanauRecurrence, ConditionalRecurrence))
        layers = [states[name] for name in states if name.startswith("layer")]
        projected = cell.inputs(recurrence.input, embedded_ne)
        if isinstance(recurrence, BahdanauRecurrence):
            attended = self._look(cell.output(layers[-1]), states)
            context = attended.context_nc if attended.context_nc is not None else embedded_ne
            first = cell.step(projected + cell.inputs(recurrence.context, context), layers[0])
        else:
            between = cell.step(projected, layers[0])
            attended = self._look(cell.output(between), states)
            context_cell = Cell(self._graph, recurrence.context_cell)
            context = attended.context_nc if attended.context_nc is not None else embedded_ne
            first = context_cell.step(context_cell.inputs(recurrence.context, context), between)
        hidden, above = upper_layers(self._graph, recurrence.upper, cell.output(first), layers[1:])
        return hidden, attended, [first, *above]

    def _update_first(
        self, luong: LuongRecurrence, embedded_ne: Value, states: dict[str, Value]
    ) -> tuple[Value, Attended, list[Value]]:
        layers = [states[name] for name in states if name.startswith("layer")]
        projected = self._cell.inputs(luong.input, embedded_ne)
        if luong.feed is not None:
            projected = projected + self._cell.inputs(luong.feed, states["feed"])
        first = self._cell.step(projected, layers[0])
        hidden, above = upper_layers(self._graph, luong.upper, self._cell.output(first), layers[1:])
        attended = self._look(hidden, states)
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


def _one(graph: Graph) -> Value:
    return graph.constant(np.array(1, np.int32))
