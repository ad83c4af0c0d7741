"""Packs a model into bytes for the offline page: its description as JSON, then all numbers, found by address.

The order is: the length of the JSON with its blanks (4 bytes, little endian), the JSON in UTF-8, blanks up to a
multiple of 16, and the numbers. An address is a number of bytes from the beginning of the numbers, a multiple of 16.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from torch import Tensor, nn

from nmt_cli.translation.precision import Int8Product, is_large

BYTE_ALIGNMENT = 16
VECTOR_WIDTH = 8
"""Numbers of a row that the WebAssembly kernel multiplies at once; rows are padded with zeros to a multiple of it."""
Record = dict[str, Any]


class Packer:
    """Collects the numbers of a model, and returns records (for the JSON description) of their addresses and sizes."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._tables: dict[int, tuple[Tensor, Record]] = {}
        """Each stored table with its record, by `id` of the tensor: a table that is used twice is stored once."""

    def packed(self, description: Record) -> bytes:
        """Return all bytes: the length of the description, the description in JSON, padding, and the stored numbers."""
        text = json.dumps(description, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        text += b" " * (-(4 + len(text)) % BYTE_ALIGNMENT)
        return len(text).to_bytes(4, "little") + text + b"".join(self._parts)

    def store_bytes(self, content: bytes) -> int:
        """Store bytes and return their address, a number of bytes from the first stored one."""
        address = self._size
        padded = content + bytes(-len(content) % BYTE_ALIGNMENT)
        self._parts.append(padded)
        self._size += len(padded)
        return address

    def store_floats(self, tensor: Tensor) -> int:
        """Store a tensor in float32, row by row, and return its address (see `store_bytes`)."""
        return self.store_bytes(tensor.detach().float().numpy().astype("<f4").tobytes())

    def store_product(self, weight_io: Tensor, bias_o: Tensor | None = None) -> Record:
        """Store a matrix (inputs, outputs) in int8, and its bias in float32; return their record.

        The rounding is the same as for `nmt translate --precision int8`. A matrix without inputs is stored in float32.
        """
        if not len(weight_io):  # a context of no units
            return self.store_float_product(weight_io, bias_o)
        product = Int8Product.of(weight_io.detach())
        outputs, inputs = product.weight_OI.shape
        padded = inputs + -inputs % VECTOR_WIDTH
        weights = np.zeros((outputs, padded), np.int8)
        weights[:, :inputs] = product.weight_OI.numpy()
        sizes = {"inputs": inputs, "outputs": outputs, "padded": padded}
        addresses = {"weights": self.store_bytes(weights.tobytes()), "scales": self.store_floats(product.scale_O)}
        return sizes | addresses | self._bias(bias_o)

    def store_float_product(self, weight_io: Tensor, bias_o: Tensor | None = None) -> Record:
        """Store a matrix (inputs, outputs) and its bias in float32; return their record, which has no scales."""
        inputs, outputs = weight_io.shape
        sizes = {"inputs": inputs, "outputs": outputs, "padded": inputs}
        return sizes | {"weights": self.store_floats(weight_io.t())} | self._bias(bias_o)

    def _bias(self, bias_o: Tensor | None) -> Record:
        return {} if bias_o is None else {"bias": self.store_floats(bias_o)}

    def store_linear(self, layer: nn.Linear) -> Record:
        """Store a linear layer, in int8 if its matrix is large (`is_large`), otherwise in float32; return the
        record."""
        store = self.store_product if is_large(layer.weight) else self.store_float_product
        return store(layer.weight.t(), layer.bias)

    def store_table(self, table_ve: Tensor) -> Record:
        """Store an embedding table (pieces, units) in int8, transposed to a matrix as in `store_product`; return its
        record."""
        known = self._tables.get(id(table_ve))
        if known is None:
            self._tables[id(table_ve)] = known = (table_ve, self.store_product(table_ve.t()))
        return known[1]
