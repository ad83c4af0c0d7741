"""The recurrent encoder: annotations h_j that join a forward and a backward reading of the source.

Shapes: B batch, S source, E embedding, C annotation, H hidden, D directions, G gates, X state, N the rows of all steps
without those that have ended.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from nmt_cli.model.cells import InputProjection, RecurrentCell
from nmt_cli.model.noise import Noise, dropped, mask_for
from nmt_cli.ops.matmul import MULTIPLE
from nmt_cli.ops.reverse import reversed_in_time


class Encoded(NamedTuple):
    """The encoder's output before the attention prepares it."""

    states_BSC: Tensor
    """The annotations h_j: the hidden units of all directions, side by side."""
    final_BC: Tensor
    """The last hidden units of each direction."""


class Packed(NamedTuple):
    """A packed batch: the places that are read at each step. Rows leave when they end; the longest come first."""

    rows_N: Tensor
    """The row of each place."""
    positions_DN: tuple[Tensor, Tensor]
    """Its position in the reading from left to right, and in that from right to left."""
    counts: list[int]
    """Number of rows at each step. It falls by multiples of 16, which keep the results batch-invariant."""
    last_B: Tensor
    """The position of each row's last piece."""

    @classmethod
    def of(cls, reversal_BS: Tensor, last_B: Tensor) -> Packed:
        """Return the places up to the last piece of each row; `reversal_BS` is as in `EncoderLayer`."""
        steps_T = torch.arange(int(last_B.max()) + 1, device=last_B.device)
        alive_T = (last_B.unsqueeze(1) >= steps_T).sum(dim=0)
        counts_T = (-(-alive_T // MULTIPLE) * MULTIPLE).clamp(max=len(last_B))
        begins_T = counts_T.cumsum(0) - counts_T
        forward_N = steps_T.repeat_interleave(counts_T)
        ranks_N = torch.arange(len(forward_N), device=last_B.device) - begins_T[forward_N]
        rows_N = last_B.argsort(descending=True, stable=True)[ranks_N]
        return cls(rows_N, (forward_N, reversal_BS[rows_N, forward_N]), counts_T.tolist(), last_B)


class EncoderLayer(nn.Module):
    """One recurrent layer; both directions run as one batched recurrence, each with its own weights."""

    def __init__(
        self, input_size: int, hidden_size: int, *, rnn_type: str, bidirectional: bool, layer_norm: bool
    ) -> None:
        super().__init__()
        self.directions = 2 if bidirectional else 1
        self.cell = RecurrentCell(rnn_type, hidden_size, layer_norm=layer_norm, directions=(self.directions,))
        self.projection = InputProjection(input_size, self.cell, layer_norm=layer_norm)

    def forward(self, inputs_BSI: Tensor, reversal_BS: Tensor, last_B: Tensor, dropout_BH: Tensor | None) -> Encoded:
        """Return the annotations of this layer and its last states.

        `reversal_BS` has, for each position, the position that stands there when the source is read backwards (padding
        stays at the end). `last_B` is the position of the last piece. `dropout_BH` is one mask for all steps."""
        batch = inputs_BSI.shape[0]
        readings = [inputs_BSI, reversed_in_time(inputs_BSI, reversal_BS)][: self.directions]
        inputs_DSBI = torch.stack([reading_BSI.transpose(0, 1) for reading_BSI in readings])
        state_DBX = inputs_BSI.new_zeros(self.directions, batch, self.cell.state_size)
        step = self.cell.unroll(dropout_BH)
        states = []
        for projected in self.projection.steps(inputs_DSBI):
            state_DBX = step(projected, state_DBX)
            states.append(self.cell.output(state_DBX))
        forward_BSH, *backward_BSH = torch.stack(states, dim=2).unbind(0)
        rows = torch.arange(batch, device=last_B.device)
        final_BC = torch.cat([hidden_BSH[rows, last_B] for hidden_BSH in (forward_BSH, *backward_BSH)], dim=-1)
        in_order = [reversed_in_time(hidden_BSH, reversal_BS) for hidden_BSH in backward_BSH]
        return Encoded(torch.cat([forward_BSH, *in_order], dim=-1), final_BC)

    def read(self, inputs_BSI: Tensor, packed: Packed) -> Encoded:
        """Return the output of `forward` without dropout and gradients, with few steps on padding.

        The annotations at padding are undefined."""
        positions = packed.positions_DN[: self.directions]
        inputs_DNI = torch.stack([inputs_BSI[packed.rows_N, position_N] for position_N in positions])
        state_DBX = inputs_BSI.new_zeros(self.directions, packed.counts[0], self.cell.state_size)
        step = self.cell.unroll()
        states = []
        for projected, count in zip(
            self.projection.packed_steps(inputs_DNI, packed.counts), packed.counts, strict=True
        ):
            state_DBX = step(projected, state_DBX[:, :count])
            states.append(self.cell.output(state_DBX))
        states_DNH = torch.cat(states, dim=1)
        states_BSDH = states_DNH.new_zeros(*inputs_BSI.shape[:2], self.directions, self.cell.hidden_size)
        for direction, (states_NH, position_N) in enumerate(zip(states_DNH, positions, strict=True)):
            states_BSDH[packed.rows_N, position_N, direction] = states_NH
        rows = torch.arange(len(inputs_BSI), device=inputs_BSI.device)
        ends = [states_BSDH[rows, packed.last_B, 0], states_BSDH[:, 0, -1]][: self.directions]
        return Encoded(states_BSDH.flatten(2), torch.cat(ends, dim=-1))


class Encoder(nn.Module):
    """A stack of `EncoderLayer`s, residual from the second on.

    Padding stands at the end of a row in both readings, so it cannot reach a state that is used.
    """

    def __init__(
        self,
        embedding_size: int,
        hidden_size: int,
        *,
        rnn_type: str = "gru",
        bidirectional: bool = True,
        num_layers: int = 1,
        layer_norm: bool = False,
        reverse_source: bool = False,
        recurrent_dropout: float = 0.0,
        annotation_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.annotation_size = hidden_size * (2 if bidirectional else 1)
        self.layers = nn.ModuleList(
            EncoderLayer(
                embedding_size if index == 0 else self.annotation_size,
                hidden_size,
                rnn_type=rnn_type,
                bidirectional=bidirectional,
                layer_norm=layer_norm,
            )
            for index in range(num_layers)
        )
        self.reverse_source = reverse_source
        self._recurrent_dropout, self._annotation_dropout = recurrent_dropout, annotation_dropout

    def forward(self, embedded_BSE: Tensor, valid_BS: Tensor, noise: Noise | None = None) -> Encoded:
        """Return the annotations (B, S, C) and the last states.

        The annotations are in the order of the source, whichever way it was read.
        """
        lengths_B = valid_BS.sum(dim=1)
        last_B = (lengths_B - 1).clamp(min=0)
        positions_BS = torch.arange(valid_BS.shape[1], device=valid_BS.device).expand_as(valid_BS)
        reversal_BS = torch.where(valid_BS, last_B.unsqueeze(1) - positions_BS, positions_BS)
        inputs = reversed_in_time(embedded_BSE, reversal_BS) if self.reverse_source else embedded_BSE
        packed = None if noise is not None or torch.is_grad_enabled() else Packed.of(reversal_BS, last_B)
        encoded = Encoded(inputs, inputs)
        for index, layer in enumerate(self.layers):
            assert isinstance(layer, EncoderLayer)
            shape = (layer.directions, valid_BS.shape[0], layer.cell.hidden_size)
            dropout = mask_for(noise, shape, self._recurrent_dropout, inputs)
            # Only what enters the layer is dropped; what goes around it stays whole.
            entering = dropped(inputs, self._recurrent_dropout, noise) if index > 0 else inputs
            encoded = layer.read(entering, packed) if packed else layer(entering, reversal_BS, last_B, dropout)
            inputs = encoded.states_BSC + inputs if index > 0 else encoded.states_BSC
        states_BSC = reversed_in_time(inputs, reversal_BS) if self.reverse_source else inputs
        return Encoded(dropped(states_BSC, self._annotation_dropout, noise), encoded.final_BC)
