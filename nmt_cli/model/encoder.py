"""The recurrent encoder: annotations h_j that join a forward and a backward reading of the source.

Shapes: B batch, S source, E embedding, C annotation, H hidden, D directions, G gates, X state, N the rows of all steps.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from nmt_cli.model.cells import InputProjection, RecurrentCell
from nmt_cli.model.dropout import Noise, apply_dropout, dropout_mask
from nmt_cli.ops.reverse import reverse_sequence
from nmt_cli.ops.step_layout import StepLayout, step_layout


class EncoderOutput(NamedTuple):
    """The output of the encoder or of one of its layers."""

    states_BSC: Tensor
    """The annotations h_j: the hidden units of all directions, concatenated."""
    final_BC: Tensor
    """The hidden units of each direction after the last piece that it reads, concatenated."""


class EncoderLayer(nn.Module):
    """One recurrent layer; both directions run as one batched recurrence, each with its own weights."""

    def __init__(
        self, input_size: int, hidden_size: int, *, rnn_type: str, bidirectional: bool, layer_norm: bool
    ) -> None:
        super().__init__()
        self.directions = 2 if bidirectional else 1
        self.cell = RecurrentCell(rnn_type, hidden_size, layer_norm=layer_norm, directions=(self.directions,))
        self.projection = InputProjection(input_size, self.cell, layer_norm=layer_norm)

    def forward(self, inputs_BSI: Tensor, layout: StepLayout, dropout_DBH: Tensor | None) -> EncoderOutput:
        """Return the annotations of this layer and its last states; `dropout_DBH` is one mask for all steps.

        ->h_t = f(x_t, ->h_{t-1}) and <-h_t = f(x_t, <-h_{t+1}) (Bahdanau et al., 2015, A.2.1)."""
        inputs_DNI = layout.rows_of_steps(inputs_BSI, self.directions)
        state_DBX = inputs_BSI.new_zeros(self.directions, layout.counts[0], self.cell.state_size)
        step = self.cell.unroll(dropout_DBH)
        states = []
        for projected, count in zip(self.projection.steps(inputs_DNI, layout.counts), layout.counts, strict=True):
            unfinished_DBX = state_DBX if count == state_DBX.shape[1] else state_DBX[:, :count]
            state_DBX = step(projected, unfinished_DBX)
            states.append(self.cell.output(state_DBX))
        return EncoderOutput(*layout.annotations(states))


class Encoder(nn.Module):
    """A stack of `EncoderLayer`s, residual from the second on.

    Padding is at the end of a row in both directions of reading, so it cannot influence a state that is used.
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

    def forward(self, embedded_BSE: Tensor, valid_BS: Tensor, noise: Noise | None = None) -> EncoderOutput:
        """Return the annotations (B, S, C) and the last states (B, C); `valid_BS` is False on padding.

        The annotations are in the order of the source, also with `reverse_source`. Without `noise` nothing is dropped.
        """
        lengths_B = valid_BS.sum(dim=1)
        positions_BS = torch.arange(valid_BS.shape[1], device=valid_BS.device).expand_as(valid_BS)
        reversal_BS = torch.where(valid_BS, lengths_B.unsqueeze(1) - 1 - positions_BS, positions_BS)
        layout = step_layout(lengths_B, reversal_BS, has_dropout=noise is not None)
        inputs = reverse_sequence(embedded_BSE, reversal_BS) if self.reverse_source else embedded_BSE
        encoded = EncoderOutput(inputs, inputs)
        for index, layer in enumerate(self.layers):
            assert isinstance(layer, EncoderLayer)
            shape = (layer.directions, valid_BS.shape[0], layer.cell.hidden_size)
            dropout = dropout_mask(noise, shape, self._recurrent_dropout, inputs)
            # Only what enters the layer is dropped; what goes around it stays whole.
            entering = apply_dropout(inputs, self._recurrent_dropout, noise) if index > 0 else inputs
            encoded = layer(entering, layout, dropout)
            inputs = encoded.states_BSC + inputs if index > 0 else encoded.states_BSC
        states_BSC = reverse_sequence(inputs, reversal_BS) if self.reverse_source else inputs
        return EncoderOutput(apply_dropout(states_BSC, self._annotation_dropout, noise), encoded.final_BC)
