"""Embeddings from a text file in word2vec or GloVe format: a word and its numbers a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from nmt_cli.data.lines import iter_lines, open_input
from nmt_cli.errors import InputError

WORD_BEGINS = "▁"


def load_embeddings(path: Path, pieces: Sequence[str], table: nn.Parameter, *, freeze: bool) -> int:
    """Put the vectors of the pieces found in `path` into `table` (V, E); how many were found.

    A piece is found as itself, or, where it begins a word, as that word. With `freeze` the found rows get no gradient.

    Raises:
        InputError: a line is not a word with E numbers; its place is named.
    """
    ids: dict[str, int] = {}
    for id_, piece in enumerate(pieces):
        ids.setdefault(piece.removeprefix(WORD_BEGINS), id_)
    ids |= {piece: id_ for id_, piece in enumerate(pieces)}
    size = table.shape[1]
    found: set[int] = set()
    with open_input(path) as stream:
        for number, line in enumerate(iter_lines(stream), start=1):
            fields = line.decode("utf-8", errors="replace").rstrip().split(" ")
            if number == 1 and len(fields) == 2:  # word2vec's head: how many words, how many numbers
                continue
            if len(fields) != size + 1:
                raise InputError(
                    f"{path}:{number}: has {len(fields) - 1} numbers after the word, model.embedding_size is {size}"
                )
            row = ids.get(fields[0])
            if row is None or row in found:
                continue
            with torch.no_grad():
                table[row] = _numbers(fields[1:], f"{path}:{number}")
            found.add(row)
    if freeze and found:
        is_free = torch.ones(len(pieces), 1)
        is_free[sorted(found)] = 0.0
        table.register_hook(lambda gradient: gradient * is_free.to(gradient.device))
    return len(found)


def _numbers(fields: Sequence[str], place: str) -> Tensor:
    try:
        return torch.tensor([float(field) for field in fields])
    except ValueError as error:
        raise InputError(f"{place}: {error}; a line is a word and its numbers") from error
