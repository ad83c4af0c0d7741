"""The log-softmax over the vocabulary in a search, and a fold that makes the best pieces faster to find.

Shapes: N rows, V vocabulary, F folds, M places (V // F).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from nmt_cli.ops import native

_LOG_SOFTMAX = native.Kernel("log_softmax", native.SIZE, native.SIZE, native.COUNT, native.POINTER)
_FOLD = native.Kernel("fold", native.SIZE, native.SIZE, native.SIZE, native.COUNT, native.POINTER, native.POINTER)


def log_softmax_(logits_NV: Tensor) -> Tensor:
    """Return the log-probabilities (N, V); they may overwrite the logits."""
    if not native.has_kernels_for(logits_NV):
        return F.log_softmax(logits_NV, dim=-1)
    num_rows, vocab_size = logits_NV.shape
    chunks = native.num_chunks(num_rows, vocab_size)
    _LOG_SOFTMAX(logits_NV.dtype, num_rows, vocab_size, chunks, native.address(logits_NV))
    return logits_NV


def fold(values_NV: Tensor, folds: int) -> Tensor:
    """Return the largest value of each group of `folds` values: (N, M + V % folds), where M = V // folds.

    Column m below M has the largest of the values at m, m + M, m + 2M, ... The last V % folds values follow unchanged.
    """
    num_rows, vocab_size = values_NV.shape
    num_places = vocab_size // folds
    if not native.has_kernels_for(values_NV):
        folded_NFM = values_NV[:, : num_places * folds].unflatten(1, (folds, num_places))
        return torch.cat([folded_NFM.amax(dim=1), values_NV[:, num_places * folds :]], dim=1)
    values_NV = values_NV.contiguous()
    best_NM = values_NV.new_empty(num_rows, num_places + vocab_size % folds)
    chunks = native.num_chunks(num_rows, vocab_size)
    _FOLD(values_NV.dtype, num_rows, vocab_size, folds, chunks, native.address(values_NV), native.address(best_NM))
    return best_NM
