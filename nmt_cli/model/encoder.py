"""The recurrent encoder: annotations h_j that join a forward and a backward reading of the source.

Shapes: B batch, S source, E embedding, C annotation, H hidden, D directions, G gates, X state.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from nmt_cli.model.cells import InputProjection, RecurrentCell
from nmt_cli.model.noise import Noise, dropped, mask_for
from nmt_cli.ops.reverse import reversed_in_time


class Encoded(NamedTuple):
    """The encoder's output before the attention prepares it."""

    states_BSC: Tensor
    final_BC: Tensor


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
        """Read the sources. `reversal_BS` has, for each position, the position that stands there when the source is
        read backwards (padding stays at the end); `last_B` is the position of the last piece."""
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
        self._reverse_source = reverse_source
        self._recurrent_dropout, self._annotation_dropout = recurrent_dropout, annotation_dropout

    def forward(self, embedded_BSE: Tensor, valid_BS: Tensor, noise: Noise | None = None) -> Encoded:
        """Return annotations in the order of the source (whichever way it was read) and the last states."""
        lengths_B = valid_BS.sum(dim=1)
        last_B = (lengths_B - 1).clamp(min=0)
        positions_BS = torch.arange(valid_BS.shape[1], device=valid_BS.device).expand_as(valid_BS)
        reversal_BS = torch.where(valid_BS, last_B.unsqueeze(1) - positions_BS, positions_BS)
        inputs = reversed_in_time(embedded_BSE, reversal_BS) if self._reverse_source else embedded_BSE
        encoded = Encoded(inputs, inputs)
        for index, layer in enumerate(self.layers):
            assert isinstance(layer, EncoderLayer)
            shape = (layer.directions, valid_BS.shape[0], layer.cell.hidden_size)
            dropout = mask_for(noise, shape, self._recurrent_dropout, inputs, rows_dim=1)
            # Only what enters the layer is dropped; what goes around it stays whole.
            entering = dropped(inputs, self._recurrent_dropout, noise, shared_dim=1) if index > 0 else inputs
            encoded = layer(entering, reversal_BS, last_B, dropout)
            inputs = encoded.states_BSC + inputs if index > 0 else encoded.states_BSC
        states_BSC = reversed_in_time(inputs, reversal_BS) if self._reverse_source else inputs
        return Encoded(dropped(states_BSC, self._annotation_dropout, noise, shared_dim=1), encoded.final_BC)
