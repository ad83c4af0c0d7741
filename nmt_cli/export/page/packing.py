"""A model as bytes for the page: its description as JSON, then all numbers, which the description finds by address.

The length of the JSON with its blanks (4 bytes, little endian), the JSON in UTF-8, blanks up to a multiple of
16, and the numbers. An address is a number of bytes from the beginning of the numbers, and a multiple of 16.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from torch import Tensor, nn

from nmt_cli.translation.precision import Int8Product, is_large

BYTE_ALIGNMENT = 16
VECTOR_WIDTH = 8
"""Numbers of a row that the kernel multiplies at once; rows are padded with zeros to a multiple."""
Record = dict[str, Any]


class Packer:
    """Writes the binary file of a page: stores arrays, and returns the records by which its description finds them."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._tables: dict[int, tuple[Tensor, Record]] = {}
        """The stored tables with their records, by `id`: a table that is used twice is stored once."""

    def packed(self, description: Record) -> bytes:
        """Return the file: the length of the description, the description in JSON, padding, and the numbers."""
        text = json.dumps(description, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        text += b" " * (-(4 + len(text)) % BYTE_ALIGNMENT)
        return len(text).to_bytes(4, "little") + text + b"".join(self._parts)

    def store_bytes(self, content: bytes) -> int:
        """Store bytes and return their address."""
        address = self._size
        padded = content + bytes(-len(content) % BYTE_ALIGNMENT)
        self._parts.append(padded)
        self._size += len(padded)
        return address

    def store_floats(self, tensor: Tensor) -> int:
        """Store numbers in float32 and return their address."""
        return self.store_bytes(tensor.detach().float().numpy().astype("<f4").tobytes())

    def store_product(self, weight_io: Tensor, bias_o: Tensor | None = None) -> Record:
        """Store the matrix (inputs, outputs) and the bias of a product in int8, as `nmt translate --precision int8`
        computes it; return the record. A matrix without inputs is stored in float32."""
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
        """Store the matrix (inputs, outputs) and the bias of a product in float32, and return the record, which has
        no scales."""
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
        """Store a table (pieces, units) in int8, as the matrix of a product that has an output for each piece;
        return the record."""
        known = self._tables.get(id(table_ve))
        if known is None:
            self._tables[id(table_ve)] = known = (table_ve, self.store_product(table_ve.t()))
        return known[1]
