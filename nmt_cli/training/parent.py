"""Initialises a model (the child) with the parameters of another run (its parent), whose vocabulary may differ.

A parent trained on many pairs of another language helps a child with few (Zoph et al., 2016; Nguyen & Chiang, 2017, for
vocabularies that share pieces).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from nmt_cli.system.errors import ModelError
from nmt_cli.system.storage import read_tensors
from nmt_cli.training.checkpoints import load_parameters, parameters_of

SOURCE_VOCAB_PARAMETERS = ("source_embedding",)
TARGET_VOCAB_PARAMETERS = ("target_embedding", "output_weight", "output_bias")
"""Names of the parameters with one row for each target piece. An embedding that both sides share is named
`source_embedding`."""


class SharedPieceCounts(NamedTuple):
    """Vocabulary sizes of a child model: pieces that it shares with its parent (`source`, `target`), and all its pieces
    (`num_source_pieces`, `num_target_pieces`)."""

    source: int
    target: int
    num_source_pieces: int
    num_target_pieces: int


def load_parent(
    model: nn.Module, path: Path, *, pieces: Sequence[Sequence[str]], parent_pieces: Sequence[Sequence[str]]
) -> SharedPieceCounts:
    """Copy a parent's parameters into `model`, whose vocabulary may differ; return how many pieces they share.

    Recurrent and attention weights are copied whole. Of embeddings and of the output layer, the rows of pieces that
    both vocabularies have are copied. The other rows keep their initial values.

    Args:
        model: the child with its initial values; all sizes except the vocabularies are the parent's.
        path: the parent's `model.safetensors`.
        pieces: the child's pieces of the source and of the target side, in the order of their rows.
        parent_pieces: the parent's pieces of both sides.

    Raises:
        ModelError: the parent has other parameters, sizes that differ in more than the vocabularies, or other numbers
            of rows than its tokenizer has pieces.
    """
    rows = [_shared_rows(own, theirs) for own, theirs in zip(pieces, parent_pieces, strict=True)]
    tensors = dict(read_tensors(path))
    merged: dict[str, Tensor] = {}
    for name, first in parameters_of(model).items():
        if name in SOURCE_VOCAB_PARAMETERS + TARGET_VOCAB_PARAMETERS and name in tensors:
            is_target = name in TARGET_VOCAB_PARAMETERS
            (child_rows, parent_rows), num_pieces = rows[is_target], len(parent_pieces[is_target])
            if tensors[name].shape[:1] != (num_pieces,):
                raise ModelError(
                    f"{path}: {name} has the shape {list(tensors[name].shape)}, but the parent's tokenizer has "
                    f"{num_pieces:,} pieces; the model is damaged"
                )
            merged[name] = _copy_rows(first, tensors[name], child_rows, parent_rows)
    load_parameters(model, path, replacements=merged)
    return SharedPieceCounts(len(rows[0][0]), len(rows[1][0]), len(pieces[0]), len(pieces[1]))


def _shared_rows(pieces: Sequence[str], parent_pieces: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the rows of the pieces that both vocabularies have: in the child, and in the parent."""
    parent_rows: Mapping[str, int] = {piece: row for row, piece in enumerate(parent_pieces)}
    child_rows = [row for row, piece in enumerate(pieces) if piece in parent_rows]
    return child_rows, [parent_rows[pieces[row]] for row in child_rows]


def _copy_rows(first: Tensor, parent: Tensor, child_rows: Sequence[int], parent_rows: Sequence[int]) -> Tensor:
    """Return a copy of `first` (V, ...) whose rows `child_rows` are the rows `parent_rows` of `parent` (W, ...).

    If rows differ in size or `parent` is not float32, return `parent` itself, for `load_parameters` to refuse.
    """
    if first.shape[1:] != parent.shape[1:] or parent.dtype != torch.float32:
        return parent  # whose sizes are refused with the others
    merged = first.clone()
    merged[list(child_rows)] = parent[list(parent_rows)]
    return merged
