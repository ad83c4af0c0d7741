"""Writes an ONNX graph, equation by equation. Only this module uses the library `onnx`.

A `Value` stands for a tensor of the graph, so `(keys + query).tanh() @ v` reads here as it does in torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt_cli.system.errors import InputError, NmtError
from nmt_cli.translation.precision import MIN_MATRIX_SIDE

OPSET = 17
"""The version of ONNX's operator set, the first with layer normalisation (2022)."""
IR_VERSION = 8
"""The version of ONNX's file format that came with these operators."""
Array = NDArray[Any]
ScanBody = Callable[[Sequence["Value"], Sequence["Value"]], tuple[Sequence["Value"], Sequence["Value"]]]
"""The body of a loop: a function from the states and an element of each sequence to the next states and an element
of each result."""


@cache
def import_onnx() -> ModuleType:
    """Return the library `onnx`.

    Raises:
        InputError: it is not installed.
    """
    try:
        import onnx
    except ImportError:
        raise InputError("--format onnx: needs the library onnx: pip install 'nmt-cli[onnx]'") from None
    module: ModuleType = onnx
    return module


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of an ONNX graph that is being written. Arithmetic with it adds operators to the graph."""

    graph: Graph
    name: str

    def __add__(self, other: Value | float) -> Value:
        return self.graph.op("Add", self, other)

    def __radd__(self, other: float) -> Value:
        return self.graph.op("Add", other, self)

    def __sub__(self, other: Value | float) -> Value:
        return self.graph.op("Sub", self, other)

    def __rsub__(self, other: float) -> Value:
        return self.graph.op("Sub", other, self)

    def __mul__(self, other: Value | float) -> Value:
        return self.graph.op("Mul", self, other)

    def __truediv__(self, other: Value | float) -> Value:
        return self.graph.op("Div", self, other)

    def __matmul__(self, other: Value) -> Value:
        return self.graph.op("MatMul", self, other)

    def tanh(self) -> Value:
        return self.graph.op("Tanh", self)

    def sigmoid(self) -> Value:
        return self.graph.op("Sigmoid", self)

    def cast(self, dtype: type[np.generic]) -> Value:
        return self.graph.op("Cast", self, to=import_onnx().helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def transpose(self, *order: int) -> Value:
        return self.graph.op("Transpose", self, perm=order)

    def unsqueeze(self, axis: int) -> Value:
        return self.graph.op("Unsqueeze", self, np.array([axis]))

    def sum(self, axis: int, *, keepdims: bool = False) -> Value:
        return self.graph.op("ReduceSum", self, np.array([axis]), keepdims=int(keepdims))

    def mean(self, axis: int) -> Value:
        return self.graph.op("ReduceMean", self, axes=[axis], keepdims=0)

    def size(self, axis: int) -> Value:
        """Return the size of an axis, as a tensor of shape (1)."""
        return self.graph.op("Gather", self.graph.op("Shape", self), np.array([axis]))

    def reshape(self, *sizes: int | Value) -> Value:
        """Return the tensor in another shape, some of whose sizes may be known only when the graph runs."""
        if all(isinstance(size, int) for size in sizes):
            return self.graph.op("Reshape", self, np.array(sizes))
        parts = [size if isinstance(size, Value) else np.array([size]) for size in sizes]
        return self.graph.op("Reshape", self, self.graph.op("Concat", *parts, axis=0))

    def split(self, *sizes: int) -> list[Value]:
        """Return the parts, of these sizes, into which the tensor is split along the last axis."""
        if len(sizes) == 1:
            return [self]
        return self.graph.ops("Split", self, np.array(sizes), num_outputs=len(sizes), axis=-1)


@dataclass(slots=True)
class Graph:
    """An ONNX graph that is being written.

    If it is `quantised`, large matrices are stored in int8, and logits are computed in int8.
    """

    name: str
    quantised: bool = False
    _nodes: list[Any] = field(default_factory=list)
    _inputs: list[Any] = field(default_factory=list)
    _outputs: list[Any] = field(default_factory=list)
    _initializers: list[Any] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)
    _tables: dict[int, tuple[Value, Value]] = field(default_factory=dict)
    """The stored tables with their scales, by the memory address of their numbers: an embedding that is also the
    output matrix is stored once."""

    def input(self, name: str, dtype: type[np.generic], axes: Sequence[str | int]) -> Value:
        """Add an input and return it; each axis is a size, or the name of a size that is known only when the graph
        runs."""
        self._inputs.append(self._value_info(name, dtype, axes))
        return Value(self, name)

    def output(self, name: str, value: Value, dtype: type[np.generic], axes: Sequence[str | int]) -> None:
        """Make a tensor an output of the graph; each axis is a size, or the name of a size known only at run time."""
        self._nodes.append(import_onnx().helper.make_node("Identity", [value.name], [name]))
        self._outputs.append(self._value_info(name, dtype, axes))

    def op(self, op_type: str, *inputs: Value | float | Array | None, **attributes: Any) -> Value:
        """Add an operator and return its result; None stands for an input that is left out."""
        return self.ops(op_type, *inputs, **attributes)[0]

    def ops(
        self, op_type: str, *inputs: Value | float | Array | None, num_outputs: int = 1, **attributes: Any
    ) -> list[Value]:
        """Add an operator and return its `num_outputs` results; None stands for an input that is left out."""
        names = ["" if value is None else self._value(value).name for value in inputs]
        results = [Value(self, f"{op_type}.{next(self._numbers)}") for _ in range(num_outputs)]
        self._nodes.append(
            import_onnx().helper.make_node(op_type, names, [result.name for result in results], **attributes)
        )
        return results

    def constant(self, array: Array) -> Value:
        """Store an array in the graph, and return it as a tensor."""
        value = Value(self, f"constant.{next(self._numbers)}")
        self._initializers.append(import_onnx().numpy_helper.from_array(np.ascontiguousarray(array), value.name))
        return value

    def _value(self, value: Value | float | Array) -> Value:
        if isinstance(value, Value):
            return value
        return self.constant(value if isinstance(value, np.ndarray) else np.array(value, np.float32))

    @staticmethod
    def _value_info(name: str, dtype: type[np.generic], axes: Sequence[str | int | None]) -> Any:
        helper = import_onnx().helper
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), axes)

    # Products with matrices --------------------------------------------------------------------------------------

    def product(self, inputs: Value, weight_io: Array, bias: Array | None = None) -> Value:
        """Return `inputs` times a matrix, plus the bias, in float32; quantised graphs store a large matrix in int8."""
        if not self.quantised or min(weight_io.shape) < MIN_MATRIX_SIDE:
            result = inputs @ self.constant(weight_io)
        else:
            # Unfolded when the graph is loaded: rounded inputs would add their errors from step to step.
            scale_o = np.maximum(np.abs(weight_io).max(axis=0), 1e-12) / np.float32(127.0)
            weight = self.constant(np.round(weight_io / scale_o).astype(np.int8)).cast(np.float32)
            result = inputs @ (weight * self.constant(scale_o))
        return result if bias is None else result + self.constant(bias)

    def embedding(self, table_ve: Array, ids: Value) -> Value:
        """Return the rows (..., E) of a table (V, E) for some IDs (...)."""
        table, scale = self._table(table_ve)
        if not self.quantised:
            return self.op("Gather", table, ids)
        rounded = self.op("Gather", table, ids).cast(np.float32) - 128.0
        return rounded * self.op("Gather", scale, ids).unsqueeze(-1)

    def logits(self, readout: Value, table_ve: Array, bias: Array) -> Value:
        """Return readout @ table^T + bias (..., V); the table (V, E) may be an embedding of the graph too."""
        table, scale = self._table(table_ve)
        if not self.quantised:
            return self.op("Gemm", readout, table, bias, transB=1)
        return self._int8_product(readout, table.transpose(1, 0), scale) + self.constant(bias)

    def _table(self, table_ve: Array) -> tuple[Value, Value]:
        """Return a stored table (V, E) and the scales (V) of its rows.

        In a quantised graph the table is in int8, stored unsigned around 128; otherwise it is stored as it is, and
        there are no scales, so the second value is the table again.
        """
        key = table_ve.__array_interface__["data"][0]
        if key not in self._tables:
            scale_v = np.maximum(np.abs(table_ve).max(axis=1), 1e-12) / np.float32(127.0)
            rounded = (np.round(table_ve / scale_v[:, None]) + 128.0).astype(np.uint8)
            stored = self.constant(rounded if self.quantised else table_ve)
            self._tables[key] = stored, self.constant(scale_v) if self.quantised else stored
        return self._tables[key]

    def _int8_product(self, inputs: Value, weight: Value, scale: Value) -> Value:
        """Return inputs @ weight, computed in int8 with a scale for each row of inputs and column of weight."""
        largest = self.op("ReduceMax", self.op("Abs", inputs), axes=[-1], keepdims=1)
        row_scale = self.op("Max", largest, 1e-12) / 127.0
        # Both unsigned around 128: where a processor has no VNNI, onnxruntime's product with a signed matrix adds pairs
        # in 16 bits, which overflow.
        rounded = (self.op("Round", inputs / row_scale) + 128.0).cast(np.uint8)
        zero = np.array(128, np.uint8)
        return self.op("MatMulInteger", rounded, weight, zero, zero).cast(np.float32) * row_scale * scale

    # Loops -------------------------------------------------------------------------------------------------------

    def scan(
        self, step: ScanBody, states: Sequence[Value], sequences: Sequence[Value], backwards: Sequence[bool],
        result_backwards: Sequence[bool],
    ) -> tuple[list[Value], list[Value]]:  # fmt: skip
        """Return the states after a loop along the first axis of `sequences`, and the results of all steps, stacked.

        All states and elements are matrices in float32. `backwards` says for each sequence whether it is read from its
        end. `result_backwards` says for each result whether it is stacked from its end, which gives it the order of a
        sequence that is read backwards.
        """
        inside = [Value(self, f"inside.{next(self._numbers)}") for _ in (*states, *sequences)]
        with self._subgraph() as nodes:
            new_states, given = step(inside[: len(states)], inside[len(states) :])
            # What a body gives has to be computed in it.
            results = [self.op("Identity", value) for value in (*new_states, *given)]
        body = import_onnx().helper.make_graph(
            nodes,
            f"step.{next(self._numbers)}",
            [self._value_info(value.name, np.float32, [None, None]) for value in inside],
            [self._value_info(value.name, np.float32, [None, None]) for value in results],
        )
        values = self.ops(
            "Scan", *states, *sequences, num_outputs=len(states) + len(given), body=body,
            num_scan_inputs=len(sequences), scan_input_directions=list(map(int, backwards)),
            scan_output_directions=list(map(int, result_backwards)),
        )  # fmt: skip
        return values[: len(states)], values[len(states) :]

    @contextmanager
    def _subgraph(self) -> Iterator[list[Any]]:
        """Yield a list that collects the operators written in the block, the body of a loop, instead of the graph.

        The body may use tensors of the graph around it, but not the other way round.
        """
        around, self._nodes = self._nodes, []
        try:
            yield self._nodes
        finally:
            self._nodes = around

    def as_bytes(self, description: str) -> bytes:
        """Return the content of the ONNX file, checked. The same graph always has the same content.

        Raises:
            NmtError: it is too large for one file.
        """
        onnx = import_onnx()
        graph = onnx.helper.make_graph(self._nodes, self.name, self._inputs, self._outputs, self._initializers)
        model = onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)], producer_name="nmt", ir_version=IR_VERSION,
            doc_string=description,
        )  # fmt: skip
        try:
            onnx.checker.check_model(model)
            return bytes(model.SerializeToString())
        except ValueError as error:  # protobuf ends at two gigabytes
            raise NmtError(f"the {self.name} is too large for one ONNX file: {error}") from error


def graph_interface(file: bytes) -> list[tuple[str, str, str, str]]:
    """Return kind (`input` or `output`), name, NumPy type and axes of each input and output of an ONNX file (bytes)."""
    onnx = import_onnx()
    graph = onnx.load_model_from_string(file).graph
    found = []
    for kind, values in (("input", graph.input), ("output", graph.output)):
        for value in values:
            tensor = value.type.tensor_type
            axes = [axis.dim_param or str(axis.dim_value) for axis in tensor.shape.dim]
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            found.append((kind, value.name, str(dtype), ", ".join(axes)))
    return found
