"""The yardstick: the same default model in plain PyTorch, with autograd doing everything.

Length buckets and the input projections hoisted out of the loop, nothing else: `nn.GRU` cells step by step, the logits
of the whole batch at once, keys projected once a sentence. Written to be read, and to be beaten.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt_cli.data.batch import Batch
from nmt_cli.data.tokenizer import BOS, EOS


class PlainModel(nn.Module):
    """BiGRU encoder, conditional GRU decoder, additive attention, all embeddings tied."""

    def __init__(self, vocab_size: int, embedding_size: int, hidden_size: int, attention_size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_size)
        self.encoder = nn.GRU(embedding_size, hidden_size, batch_first=True, bidirectional=True)
        self.initial = nn.Linear(2 * hidden_size, hidden_size)
        self.input = nn.Linear(embedding_size, 3 * hidden_size)
        self.recurrent = nn.Linear(hidden_size, 3 * hidden_size)
        self.context = nn.Linear(2 * hidden_size, 3 * hidden_size)
        self.context_recurrent = nn.Linear(hidden_size, 3 * hidden_size)
        self.query = nn.Linear(hidden_size, attention_size, bias=False)
        self.key = nn.Linear(2 * hidden_size, attention_size)
        self.v = nn.Linear(attention_size, 1, bias=False)
        self.readout = nn.Linear(3 * hidden_size + embedding_size, embedding_size)

    def encode(self, source: Tensor, valid: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Annotations, keys, first decoder state."""
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(source), valid.sum(1).cpu(), batch_first=True, enforce_sorted=False
        )
        states, _ = nn.utils.rnn.pad_packed_sequence(self.encoder(packed)[0], batch_first=True)
        mean = states.sum(1) / valid.sum(1, keepdim=True)
        return states, self.key(states), torch.tanh(self.initial(mean))

    def step(
        self, projected: Tensor, hidden: Tensor, states: Tensor, keys: Tensor, valid: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The next state and its context."""
        hidden = _gru(projected, self.recurrent(hidden), hidden)
        energy = self.v(torch.tanh(self.query(hidden).unsqueeze(1) + keys)).squeeze(-1)
        weights = energy.masked_fill(~valid, -1e9).softmax(-1)
        context = torch.bmm(weights.unsqueeze(1).to(states.dtype), states).squeeze(1)
        return _gru(self.context(context), self.context_recurrent(hidden), hidden), context

    def loss(self, batch: Batch, smoothing: float = 0.1) -> Tensor:
        """The summed loss of a batch."""
        states, keys, hidden = self.encode(batch.source_BS, batch.source_valid_BS)
        embedded = self.embedding(batch.inputs_BT)
        outputs = []
        for projected in self.input(embedded).unbind(1):
            hidden, context = self.step(projected, hidden, states, keys, batch.source_valid_BS)
            outputs.append(torch.cat([hidden, context], -1))
        readout = torch.tanh(self.readout(torch.cat([torch.stack(outputs, 1), embedded], -1)))
        logits = F.linear(readout[batch.target_valid_BT], self.embedding.weight)
        targets = batch.outputs_BT[batch.target_valid_BT]
        return F.cross_entropy(logits.float(), targets, reduction="sum", label_smoothing=smoothing)

    @torch.inference_mode()
    def translate(self, source: Tensor, valid: Tensor, *, beam_size: int, max_length: int) -> Tensor:
        """Beam search with a fixed number of rows, all of them to the end: (B, T) of the best."""
        batch, width, vocab_size = len(source), beam_size, self.embedding.num_embeddings
        states, keys, hidden = (x.repeat_interleave(width, 0) for x in self.encode(source, valid))
        valid = valid.repeat_interleave(width, 0)
        ids = torch.full((batch * width, 1), BOS)
        totals = torch.zeros(batch, width)
        totals[:, 1:] = -1e9
        ended = torch.zeros(batch * width, dtype=torch.bool)
        for _ in range(max_length):
            embedded = self.embedding(ids[:, -1])
            hidden, context = self.step(self.input(embedded), hidden, states, keys, valid)
            readout = torch.tanh(self.readout(torch.cat([hidden, context, embedded], -1)))
            log_probs = F.linear(readout, self.embedding.weight).float().log_softmax(-1)
            log_probs[ended] = -1e9
            log_probs[ended, EOS] = 0.0
            totals, flat = (totals.unsqueeze(-1) + log_probs.view(batch, width, -1)).flatten(1).topk(width, 1)
            rows = (flat // vocab_size + torch.arange(batch).unsqueeze(1) * width).flatten()
            ids = torch.cat([ids[rows], (flat % vocab_size).view(-1, 1)], 1)
            hidden, ended = hidden[rows], ended[rows] | (ids[:, -1] == EOS)
            if bool(ended.all()):
                break
        return ids.view(batch, width, -1)[:, 0, 1:]


def _gru(projected: Tensor, recurrent: Tensor, hidden: Tensor) -> Tensor:
    reset_x, update_x, proposal_x = projected.chunk(3, -1)
    reset_h, update_h, proposal_h = recurrent.chunk(3, -1)
    update = torch.sigmoid(update_x + update_h)
    proposal = torch.tanh(proposal_x + torch.sigmoid(reset_x + reset_h) * proposal_h)
    return (1 - update) * proposal + update * hidden
