"""The lexical model: predicts the next piece from the attended source pieces alone.

Shapes: B batch, T target, S source, E embedding, N rows of a search, of which R share a source.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nmt_cli.model.annotations import Memory
from nmt_cli.ops.attention_products import bmm, weighted_sum
from nmt_cli.ops.matmul import Linear, full_precision


class LexicalModel(nn.Module):
    """Nguyen & Chiang (2018), section 4: f_t = tanh(sum_s a_ts e_s), h_t = tanh(W f_t) + f_t.

    Here a_ts are the attention weights and e_s the embedded source pieces. In the paper a separate matrix scores h_t.
    Here h_t is added to the readout, so that the output matrix, which often is the embedding matrix too, scores both.
    """

    def __init__(self, embedding_size: int) -> None:
        super().__init__()
        self.hidden = Linear(embedding_size, embedding_size, bias=False)

    def forward(self, weights_BTS: Tensor, memory: Memory) -> Tensor:
        """Return the term (B, T, E) that is added to the readout, from the attention weights and the memory's embedded
        source."""
        assert memory.embedded_BSE is not None
        with full_precision(weights_BTS):
            if memory.rows == 1:
                attended_BTE = bmm(weights_BTS, memory.embedded_BSE)
            else:
                attended_BTE = weighted_sum(weights_BTS[:, 0], memory.embedded_BSE, memory.rows).unsqueeze(1)
        direct_BTE = torch.tanh(attended_BTE)
        return torch.tanh(self.hidden(direct_BTE).to(direct_BTE.dtype)) + direct_BTE
