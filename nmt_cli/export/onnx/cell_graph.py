"""The recurrent cells of `model/cells.py` as ONNX; that module gives the equations and their sources.

Shapes: N rows, H hidden, G gates x hidden, X state, S source, B batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor, nn

from nmt_cli.export.onnx.graph import Array, Graph, Value
from nmt_cli.model.cells import GateNorm, InputProjection, RecurrentCell
from nmt_cli.model.decoder import UpperLayers
from nmt_cli.model.encoder import Encoder, EncoderLayer


def array(tensor: Tensor) -> Array:
    """Return a parameter as an array of NumPy."""
    numbers: Array = tensor.detach().numpy()
    return numbers


def linear(graph: Graph, layer: nn.Linear, inputs: Value) -> Value:
    """Return x W^T + b, the outputs of a linear layer."""
    return graph.product(inputs, array(layer.weight).T, None if layer.bias is None else array(layer.bias))


def concat(graph: Graph, values: Sequence[Value]) -> Value:
    """Return the values concatenated along the last axis."""
    return values[0] if len(values) == 1 else graph.op("Concat", *values, axis=-1)


class Cell:
    """Writes the steps of a GRU or LSTM cell, or of one direction of an encoder's cell, to a graph."""

    def __init__(self, graph: Graph, cell: RecurrentCell, direction: int | None = None) -> None:
        self._graph, self._cell, self._direction = graph, cell, direction

    def inputs(self, projection: InputProjection, inputs: Value) -> Value:
        """Return the inputs times their gate weights, with bias or normalisation (..., G), as `step` expects them."""
        weight = self._parameter_array(projection.weight)
        if not len(weight):  # of an input without units only the bias is left
            norm = projection.norm
            assert norm is not None or projection.bias is not None
            bias = projection.bias if norm is None else norm.bias
            assert bias is not None
            return self._graph.constant(self._parameter_array(bias).reshape(1, -1))
        return self._affine(self._graph.product(inputs, weight), projection.norm, projection.bias)

    def step(self, inputs: Value, state: Value) -> Value:
        """Return the next state (N, X) from the current one (N, X) and the result (N, G) of the method `inputs`."""
        cell, size = self._cell, self._cell.hidden_size
        recurrent = self._affine(
            self._graph.product(self.output(state), self._parameter_array(cell.weight)), cell.norm, cell.bias
        )
        if cell.rnn_type == "gru":
            return self._gru_step(inputs.split(2 * size, size), recurrent.split(2 * size, size), state)
        gates = (inputs + recurrent).split(*[size] * 4)
        return self._lstm_step(*gates, previous_cell=state.split(size, size)[1])

    def output(self, state: Value) -> Value:
        """Return the hidden units (N, H) of a state; an LSTM's state holds its cell units too."""
        size = self._cell.hidden_size
        return state if self._cell.rnn_type == "gru" else state.split(size, size)[0]

    def _gru_step(self, inputs: Sequence[Value], recurrent: Sequence[Value], hidden: Value) -> Value:
        size = self._cell.hidden_size
        reset, update = (inputs[0] + recurrent[0]).sigmoid().split(size, size)
        proposal = (inputs[1] + reset * recurrent[1]).tanh()
        return proposal + update * (hidden - proposal)

    def _lstm_step(
        self, input_gate: Value, forget_gate: Value, output_gate: Value, proposal: Value, *, previous_cell: Value
    ) -> Value:
        cell = (forget_gate + 1.0).sigmoid() * previous_cell + input_gate.sigmoid() * proposal.tanh()
        shown = cell if self._cell.cell_norm is None else self._layer_norm(cell, self._cell.cell_norm)
        return self._graph.op("Concat", output_gate.sigmoid() * shown.tanh(), cell, axis=-1)

    def _affine(self, product: Value, norm: GateNorm | None, bias: Tensor | None) -> Value:
        if norm is not None:
            return self._layer_norm(product, norm)
        assert bias is not None
        return product + self._graph.constant(self._parameter_array(bias).reshape(-1))

    def _layer_norm(self, product: Value, norm: GateNorm) -> Value:
        """Return gain * LN(product) + bias, normalised for each gate by itself."""
        gain, bias = (self._parameter_array(tensor).reshape(tensor.shape[-2:]) for tensor in (norm.gain, norm.bias))
        gates = [
            self._graph.op("LayerNormalization", gate, own_gain, own_bias, axis=-1, epsilon=1e-5)
            for gate, own_gain, own_bias in zip(product.split(*[gain.shape[1]] * len(gain)), gain, bias, strict=True)
        ]
        return gates[0] if len(gates) == 1 else self._graph.op("Concat", *gates, axis=-1)

    def _parameter_array(self, tensor: Tensor) -> Array:
        return array(tensor if self._direction is None else tensor[self._direction])


def upper_layers(
    graph: Graph, layers: UpperLayers, hidden: Value, states: Sequence[Value]
) -> tuple[Value, list[Value]]:
    """Return the output of a decoder's last layer, and the new states of all layers above the first."""
    new_states = []
    for cell, projection, state in zip(layers.cells, layers.projections, states, strict=True):
        assert isinstance(cell, RecurrentCell)
        assert isinstance(projection, InputProjection)
        own = Cell(graph, cell)
        new_states.append(own.step(own.inputs(projection, hidden), state))
        hidden = own.output(new_states[-1]) + hidden
    return hidden, new_states


def encoder_layers(graph: Graph, encoder: Encoder, embedded_bse: Value, valid_bs: Value) -> tuple[Value, Value]:
    """Return the annotations (B, S, C) of an encoder's last layer, and its last hidden units (B, C)."""
    inputs_sbi, mask_sb1 = embedded_bse.transpose(1, 0, 2), valid_bs.cast(np.float32).transpose(1, 0).unsqueeze(-1)
    final_bc = inputs_sbi
    for index, layer in enumerate(encoder.layers):
        assert isinstance(layer, EncoderLayer)
        annotations_sbc, final_bc = _encoder_layer(graph, layer, inputs_sbi, mask_sb1, encoder.reverse_source)
        inputs_sbi = annotations_sbc + inputs_sbi if index else annotations_sbc
    return inputs_sbi.transpose(1, 0, 2), final_bc


def _encoder_layer(
    graph: Graph, layer: EncoderLayer, inputs_sbi: Value, mask_sb1: Value, reverse_source: bool
) -> tuple[Value, Value]:
    """Return the annotations (S, B, C) and the last hidden units (B, C) of a layer, with its directions concatenated.

    A direction that reads backwards meets the padding first. Padding leaves the state as it is, which is zero there.
    """
    cells = [Cell(graph, layer.cell, direction) for direction in range(layer.directions)]
    backwards = [reverse_source, not reverse_source][: layer.directions]

    def step(states: Sequence[Value], elements: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        new_states, hidden = [], []
        for place, (cell, state) in enumerate(zip(cells, states, strict=True)):
            projected, mask_b1 = elements[2 * place : 2 * place + 2]
            after = state + mask_b1 * (cell.step(projected, state) - state)
            new_states.append(after)
            hidden.append(cell.output(after))
        return new_states, hidden

    batch = inputs_sbi.size(1)
    zeros = graph.op("Expand", np.zeros((1, layer.cell.state_size), np.float32), _shape(graph, batch, 1))
    sequences = [value for cell in cells for value in (cell.inputs(layer.projection, inputs_sbi), mask_sb1)]
    readings = [is_backwards for is_backwards in backwards for _ in range(2)]
    finals, hidden = graph.scan(step, [zeros] * len(cells), sequences, readings, backwards)
    last = [cell.output(final) for cell, final in zip(cells, finals, strict=True)]
    return concat(graph, hidden), concat(graph, last)


def _shape(graph: Graph, *sizes: Value | int) -> Value:
    parts = [size if isinstance(size, Value) else np.array([size]) for size in sizes]
    return graph.op("Concat", *parts, axis=0)
