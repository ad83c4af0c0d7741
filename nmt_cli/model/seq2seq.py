"""The complete encoder-decoder.

Shapes: B batch, S source, T target, E embedding, R readout, V vocabulary, N rows (positions of any sentence).
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt_cli.model.annotations import Memory
from nmt_cli.model.attention import NoAttention
from nmt_cli.model.decoder import Decoder, DecoderOutput, DecoderState
from nmt_cli.model.dropout import Noise, apply_dropout, dropout_mask
from nmt_cli.model.encoder import Encoder
from nmt_cli.model.lexical import LexicalModel
from nmt_cli.ops.matmul import LinearMap, linear


class OutputProjection(Protocol):
    """Computes logits from readouts in another precision or memory layout than the model's own output matrix has."""

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return the logits (N, V) of readouts (N, R)."""
        ...

    def columns(self, outputs: Tensor) -> LinearMap:
        """Return a function from readouts (N, R) to the logits (N, U) of the pieces `outputs` (U)."""
        ...


class Seq2Seq(nn.Module):
    """Embeddings, encoder, decoder and the projection to the vocabulary.

    The embeddings of source and target and the projection may share one matrix.
    """

    def __init__(
        self,
        encoder: Encoder,
        decoder: Decoder,
        *,
        source_vocab_size: int,
        target_vocab_size: int,
        embedding_size: int,
        readout_size: int,
        tied_embeddings: str = "none",
        embedding_dropout: float = 0.0,
        source_word_dropout: float = 0.0,
        target_word_dropout: float = 0.0,
        lexical_model: bool = False,
    ) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.source_embedding = nn.Parameter(torch.empty(source_vocab_size, embedding_size))
        shares_source = tied_embeddings in ("source-target", "all")
        self.target_embedding = (
            self.source_embedding if shares_source else nn.Parameter(torch.empty(target_vocab_size, embedding_size))
        )
        shares_output = tied_embeddings in ("target", "all")
        self.output_weight = (
            self.target_embedding if shares_output else nn.Parameter(torch.empty(target_vocab_size, readout_size))
        )
        self.output_bias = nn.Parameter(torch.zeros(target_vocab_size))
        self.lexical = LexicalModel(embedding_size) if lexical_model else None
        self.output_replacement: OutputProjection | None = None
        self._embedding_dropout = embedding_dropout
        self._source_word_dropout, self._target_word_dropout = source_word_dropout, target_word_dropout

    @property
    def has_attention(self) -> bool:
        """True if the model has attention, whose weights are an alignment."""
        return not isinstance(self.decoder.attention, NoAttention)

    def encode(self, source_BS: Tensor, valid_BS: Tensor, noise: Noise | None = None) -> Memory:
        """Return the encoded sources, with annotations and keys, from piece ids; `valid_BS` is False on padding.

        Without `noise` nothing is dropped.
        """
        embedded_BSE = self._embed(self.source_embedding, source_BS, self._source_word_dropout, noise)
        states_BSC, final_BC = self.encoder(embedded_BSE, valid_BS, noise)
        for_lexical = None if self.lexical is None else embedded_BSE
        return Memory(states_BSC, self.decoder.attention.keys(states_BSC), valid_BS, final_BC, for_lexical)

    def initial_state(self, memory: Memory) -> DecoderState:
        """Return the decoder's state before the first target piece, with one row for each source."""
        return self.decoder.initial_state(memory)

    def decode(
        self, inputs_BT: Tensor, memory: Memory, state: DecoderState, noise: Noise | None = None
    ) -> DecoderOutput:
        """Return readouts (B, T, R), attention weights and last state for T target pieces after `state`.

        From `initial_state` on, the first input is <s>. The readout at t, given to `logits`, predicts the piece after
        input t.
        """
        embedded_BTE = self._embed(self.target_embedding, inputs_BT, self._target_word_dropout, noise)
        decoded: DecoderOutput = self.decoder(embedded_BTE, memory, state, noise)
        if self.lexical is None:
            return decoded
        return decoded._replace(readout_BTR=decoded.readout_BTR + self.lexical(decoded.weights_BTS, memory))

    def logits(self, readout_NR: Tensor) -> Tensor:
        """Return the logits (N, V) of readouts: unnormalised log-probabilities of all pieces."""
        if self.output_replacement is not None:
            return self.output_replacement(readout_NR)
        return linear(readout_NR, self.output_weight, self.output_bias)

    def logits_of(self, pieces_U: Tensor) -> LinearMap:
        """Return a function from readouts (N, R) to the logits (N, U) of the pieces `pieces_U` alone."""
        if self.output_replacement is not None:
            return self.output_replacement.columns(pieces_U)
        return partial(linear, weight_OI=self.output_weight[pieces_U], bias_O=self.output_bias[pieces_U])

    def _embed(self, table: Tensor, ids_BT: Tensor, word_dropout: float, noise: Noise | None) -> Tensor:
        embedded_BTE = apply_dropout(F.embedding(ids_BT, table), self._embedding_dropout, noise)
        mask = dropout_mask(noise, (*ids_BT.shape, 1), word_dropout, embedded_BTE)
        return embedded_BTE if mask is None else embedded_BTE * mask
