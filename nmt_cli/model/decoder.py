"""The recurrent decoder, in three orders of updating and attending: Bahdanau's, conditional (Nematus) and Luong's.

Computations that do not depend on the recurrence stay outside its loop: the embedded target is projected before it, the
readout is computed after it. One step of a search runs the same code with one target position.

Shapes: B batch, T target, E embedding, C context, H decoder hidden, X state, G gates, R readout, S source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt_cli.model.annotations import Memory
from nmt_cli.model.attention import Attention, AttentionOutput, AttentionState
from nmt_cli.model.cells import InputProjection, RecurrentCell
from nmt_cli.model.dropout import Noise, apply_dropout, dropout_mask
from nmt_cli.ops.attention_products import WeightedSums
from nmt_cli.ops.gates import Gates
from nmt_cli.ops.matmul import Linear


class DecoderState(NamedTuple):
    """The state of the decoder between two steps; each tensor begins with the batch dimension."""

    layers: tuple[Tensor, ...]
    """The state (B, X) of every layer, the bottom layer first."""
    feed: tuple[Tensor, ...]
    """Luong's attentional vector (B, R) if it is fed to the next step, else an empty tuple."""
    attention: AttentionState
    """The attention's own state: tensors (B,), or (B, S, ...) with a value for each position of the source."""

    def at_width(self, width: int) -> DecoderState:
        """Return the state with its attention tensors (B, S, ...) padded or cut to `width` source positions."""
        padded = tuple(
            part if part.dim() == 1 else F.pad(part, (0, 0) * (part.dim() - 2) + (0, width - part.shape[1]))
            for part in self.attention
        )
        return self._replace(attention=padded)

    def select(self, rows: Tensor) -> DecoderState:
        """Return the state of the given rows, in that order (beam reordering)."""
        return DecoderState(*(tuple(tensor.index_select(0, rows) for tensor in part) for part in self))

    def replace(self, rows: Tensor, other: DecoderState) -> DecoderState:
        """Return this state with row `rows[i]` replaced by row i of `other`."""
        return DecoderState(
            *(
                tuple(old.index_copy(0, rows, new[: len(rows)]) for old, new in zip(mine, theirs, strict=True))
                for mine, theirs in zip(self, other, strict=True)
            )
        )

    def join(self, other: DecoderState) -> DecoderState:
        """Return the states of both batches as one batch, this one first."""
        return DecoderState(
            *(
                tuple(torch.cat(pair) for pair in zip(mine, theirs, strict=True))
                for mine, theirs in zip(self, other, strict=True)
            )
        )


class DecoderOutput(NamedTuple):
    """The decoder's output for T target positions of each row."""

    readout_BTR: Tensor
    """The readout: the units that the output matrix turns into logits."""
    weights_BTS: Tensor
    """The attention weights over the source at each target position."""
    state: DecoderState
    """The state after the last position."""


class StepOutput(NamedTuple):
    """The output of one decoder step: hidden units and context for the readout, attention weights, and the next
    state."""

    hidden_BH: Tensor
    context_BC: Tensor
    weights_BS: Tensor
    state: DecoderState


RecurrenceStep = Callable[[Gates, DecoderState], StepOutput]
"""One decoder step: a function from the gate terms of a target piece and the state before it to the step's output."""
DropoutMasks = tuple[Tensor | None, ...]
"""The dropout mask (B, H) of every layer, the same at all steps; None where nothing is dropped."""


class Recurrence(nn.Module):
    """The recurrent part of a decoder, with its attention. The subclasses, one for each paper, differ in the order in
    which `unroll` updates the state and attends."""

    cell: RecurrentCell
    input: InputProjection
    attention: Attention

    def project(self, inputs_TBE: Tensor) -> Iterator[Gates]:
        """Yield for each of the T steps the gate terms (B, G) of the embedded target pieces, from one product."""
        num_steps, batch, _ = inputs_TBE.shape
        return self.input.steps(inputs_TBE.flatten(0, 1), [batch] * num_steps)

    def unroll(self, memory: Memory, dropout: DropoutMasks) -> RecurrenceStep:
        """Return the function that does one step over this memory; `dropout` has the mask (B, H) of each layer."""
        raise NotImplementedError


class UpperLayers(nn.Module):
    """The decoder layers above the first: ordinary cells with residual connections."""

    def __init__(self, hidden_size: int, num_layers: int, *, rnn_type: str, layer_norm: bool) -> None:
        super().__init__()
        self.cells = nn.ModuleList(
            RecurrentCell(rnn_type, hidden_size, layer_norm=layer_norm) for _ in range(num_layers)
        )
        self.projections = nn.ModuleList(
            InputProjection(hidden_size, cast(RecurrentCell, cell), layer_norm=layer_norm) for cell in self.cells
        )

    def unroll(
        self, dropout: DropoutMasks
    ) -> Callable[[Tensor, tuple[Tensor, ...]], tuple[Tensor, tuple[Tensor, ...]]]:
        """Return a function from the hidden units of the layer below (B, H) and the states (B, X) of these layers to
        the hidden units of the top layer and the new states."""
        cells = [cast(RecurrentCell, cell) for cell in self.cells]
        steps = [cell.unroll(mask_BH) for cell, mask_BH in zip(cells, dropout, strict=True)]
        projections = [cast(InputProjection, projection).unroll() for projection in self.projections]

        def step(hidden_BH: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
            new_states = []
            for cell, update, project, state_BX, mask_BH in zip(
                cells, steps, projections, states, dropout, strict=True
            ):
                inputs_BH = hidden_BH if mask_BH is None else hidden_BH * mask_BH
                new_states.append(update(project(inputs_BH), state_BX))
                hidden_BH = cell.output(new_states[-1]) + hidden_BH
            return hidden_BH, tuple(new_states)

        return step


class BahdanauRecurrence(Recurrence):
    """Bahdanau et al. (2015), appendix A: attend with s_{i-1}, then s_i = f(s_{i-1}, y_{i-1}, c_i)."""

    def __init__(
        self, input_size: int, hidden_size: int, attention: Attention, *, rnn_type: str, num_layers: int,
        layer_norm: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self.cell = RecurrentCell(rnn_type, hidden_size, layer_norm=layer_norm)
        self.input = InputProjection(input_size, self.cell, layer_norm=layer_norm)
        self.context = InputProjection(attention.context_size, self.cell, layer_norm=layer_norm)
        self.upper = UpperLayers(hidden_size, num_layers - 1, rnn_type=rnn_type, layer_norm=layer_norm)
        self.attention = attention

    def unroll(self, memory: Memory, dropout: DropoutMasks) -> RecurrenceStep:
        update, upper = self.cell.unroll(dropout[0]), self.upper.unroll(dropout[1:])
        attend, add_context = self.attention.unroll(memory), self.context.unroll()

        def step(projected: Gates, state: DecoderState) -> StepOutput:
            query_BH = self.cell.output(state.layers[-1])
            context_BC, weights_BS, attention_state = attend(query_BH, state.attention)
            first_BX = update(projected + add_context(context_BC), state.layers[0])
            hidden_BH, above = upper(self.cell.output(first_BX), state.layers[1:])
            return StepOutput(hidden_BH, context_BC, weights_BS, DecoderState((first_BX, *above), (), attention_state))

        return step


class ConditionalRecurrence(Recurrence):
    """The conditional GRU of Nematus (Sennrich et al., 2017, section 3): s'_i = f1(s_{i-1}, y_{i-1}), attend with s'_i,
    s_i = f2(s'_i, c_i).

    With LSTM both steps pass hidden and cell on. Layers above the first are ordinary cells on s_i.
    """

    def __init__(
        self, input_size: int, hidden_size: int, attention: Attention, *, rnn_type: str, num_layers: int,
        layer_norm: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self.cell = RecurrentCell(rnn_type, hidden_size, layer_norm=layer_norm)
        self.input = InputProjection(input_size, self.cell, layer_norm=layer_norm)
        self.context_cell = RecurrentCell(rnn_type, hidden_size, layer_norm=layer_norm)
        self.context = InputProjection(attention.context_size, self.context_cell, layer_norm=layer_norm)
        self.upper = UpperLayers(hidden_size, num_layers - 1, rnn_type=rnn_type, layer_norm=layer_norm)
        self.attention = attention

    def unroll(self, memory: Memory, dropout: DropoutMasks) -> RecurrenceStep:
        update, upper = self.cell.unroll(dropout[0]), self.upper.unroll(dropout[1:])
        attend, add_context = self.attention.unroll(memory), self.context.unroll()
        update_with_context = self.context_cell.unroll(dropout[0])

        def step(projected: Gates, state: DecoderState) -> StepOutput:
            between_BX = update(projected, state.layers[0])
            query_BH = self.cell.output(between_BX)
            context_BC, weights_BS, attention_state = attend(query_BH, state.attention)
            first_BX = update_with_context(add_context(context_BC), between_BX)
            hidden_BH, above = upper(self.cell.output(first_BX), state.layers[1:])
            return StepOutput(hidden_BH, context_BC, weights_BS, DecoderState((first_BX, *above), (), attention_state))

        return step


class LuongRecurrence(Recurrence):
    """Luong et al. (2015), section 3: update, attend with s_i, attentional vector h~_i = tanh(W [c_i; s_i]), which with
    input feeding (3.3) enters the next step."""

    def __init__(
        self, input_size: int, hidden_size: int, attention: Attention, *, rnn_type: str, num_layers: int,
        layer_norm: bool, readout_size: int, input_feeding: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self.cell = RecurrentCell(rnn_type, hidden_size, layer_norm=layer_norm)
        self.input = InputProjection(input_size, self.cell, layer_norm=layer_norm)
        self.feed = InputProjection(readout_size, self.cell, layer_norm=layer_norm) if input_feeding else None
        self.upper = UpperLayers(hidden_size, num_layers - 1, rnn_type=rnn_type, layer_norm=layer_norm)
        self.attentional = Linear(attention.context_size + hidden_size, readout_size)
        self.attention = attention

    def unroll(self, memory: Memory, dropout: DropoutMasks) -> RecurrenceStep:
        update, upper = self.cell.unroll(dropout[0]), self.upper.unroll(dropout[1:])
        attend = self.attention.unroll(memory)
        add_feed = self.feed.unroll() if self.feed is not None else None

        def step(projected: Gates, state: DecoderState) -> StepOutput:
            if add_feed is not None:
                projected = projected + add_feed(state.feed[0])
            first_BX = update(projected, state.layers[0])
            hidden_BH, above = upper(self.cell.output(first_BX), state.layers[1:])
            attended: AttentionOutput = attend(hidden_BH, state.attention)
            joined = torch.cat([attended.context_BC, hidden_BH], dim=-1)
            attentional_BR = torch.tanh(self.attentional(joined).to(hidden_BH.dtype))
            feed = (attentional_BR,) if add_feed is not None else ()
            new_state = DecoderState((first_BX, *above), feed, attended.state)
            return StepOutput(attentional_BR, attended.context_BC, attended.weights_BS, new_state)

        return step


class DeepReadout(nn.Module):
    """Deep output: s_i, y_{i-1} and c_i joined before the softmax. `maxout`: pairs compete (Bahdanau et al., 2015,
    A.2.2); `tanh`: as in Nematus."""

    def __init__(self, hidden_size: int, input_size: int, context_size: int, size: int, *, maxout: bool) -> None:
        super().__init__()
        width = 2 * size if maxout else size
        self.hidden = Linear(hidden_size, width)
        self.input = Linear(input_size, width, bias=False)
        self.context = Linear(context_size, width, bias=False) if context_size else None
        self.maxout = maxout

    def forward(self, hidden_BTH: Tensor, inputs_BTE: Tensor, contexts_BTC: Tensor) -> Tensor:
        summed = self.hidden(hidden_BTH) + self.input(inputs_BTE)
        if self.context is not None:
            summed = summed + self.context(contexts_BTC)
        summed = summed.to(hidden_BTH.dtype)
        return summed.unflatten(-1, (-1, 2)).amax(dim=-1) if self.maxout else torch.tanh(summed)


class InitialState(nn.Module):
    """The first state of every layer: tanh of a learned projection of the mean annotation, of the backward state at the
    first word (Bahdanau et al., 2015, A.2.2) or of the last states; or zeros."""

    def __init__(self, annotation_size: int, state_sizes: tuple[int, ...], *, kind: str) -> None:
        super().__init__()
        self.kind, self._state_sizes = kind, state_sizes
        source_size = {"mean": annotation_size, "final": annotation_size, "backward": annotation_size // 2, "zero": 0}
        self.projection = Linear(source_size[kind], sum(state_sizes)) if kind != "zero" else None

    def forward(self, memory: Memory) -> tuple[Tensor, ...]:
        if self.projection is None:
            return tuple(memory.final_BC.new_zeros(memory.final_BC.shape[0], size) for size in self._state_sizes)
        if self.kind == "mean":
            valid_BS = memory.valid_BS.to(memory.states_BSC.dtype)
            summary = WeightedSums(memory.states_BSC)(valid_BS / valid_BS.sum(dim=1, keepdim=True).clamp(min=1.0))
        else:
            summary = memory.final_BC if self.kind == "final" else memory.final_BC.chunk(2, dim=-1)[1]
        states = torch.tanh(self.projection(summary).to(memory.states_BSC.dtype))
        return tuple(torch.split(states, list(self._state_sizes), dim=-1))


class Decoder(nn.Module):
    """A decoder: initial state, recurrence and readout."""

    def __init__(
        self,
        recurrence: Recurrence,
        readout: DeepReadout | None,
        initial: InitialState,
        *,
        readout_size: int,
        recurrent_dropout: float = 0.0,
        readout_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.recurrence, self.readout, self.initial = recurrence, readout, initial
        self._readout_size = readout_size
        self._recurrent_dropout, self._readout_dropout = recurrent_dropout, readout_dropout

    @property
    def attention(self) -> Attention:
        """The attention mechanism that the recurrence uses."""
        return self.recurrence.attention

    def initial_state(self, memory: Memory) -> DecoderState:
        """Return the state before the first target piece: layers from `InitialState`, input feeding from zeros."""
        feeds = isinstance(self.recurrence, LuongRecurrence) and self.recurrence.feed is not None
        feed = (memory.final_BC.new_zeros(memory.final_BC.shape[0], self._readout_size),) if feeds else ()
        return DecoderState(self.initial(memory), feed, self.attention.initial_state(memory))

    def forward(
        self, inputs_BTE: Tensor, memory: Memory, state: DecoderState, noise: Noise | None = None
    ) -> DecoderOutput:
        """Return readout, attention weights and last state for T embedded target pieces after `state`.

        This is teacher forcing in training, and one step of a search with T = 1. Without `noise` nothing is dropped."""
        batch = inputs_BTE.shape[0]
        hidden_size = self.recurrence.cell.hidden_size
        masks = tuple(
            dropout_mask(noise, (batch, hidden_size), self._recurrent_dropout, inputs_BTE) for _ in state.layers
        )
        step = self.recurrence.unroll(memory, masks)
        outputs = []
        for projected in self.recurrence.project(inputs_BTE.transpose(0, 1)):
            output = step(projected, state)
            state = output.state
            outputs.append(output)
        hidden_BTH = torch.stack([output.hidden_BH for output in outputs], dim=1)
        weights_BTS = torch.stack([output.weights_BS for output in outputs], dim=1)
        if self.readout is None:
            readout_BTR = hidden_BTH
        else:
            contexts_BTC = torch.stack([output.context_BC for output in outputs], dim=1)
            readout_BTR = self.readout(hidden_BTH, inputs_BTE, contexts_BTC)
        return DecoderOutput(apply_dropout(readout_BTR, self._readout_dropout, noise), weights_BTS, state)
