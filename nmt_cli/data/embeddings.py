"""Embeddings from a text file in word2vec or GloVe format: a word and its numbers a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from nmt_cli.data.lines import iter_lines, open_input
from nmt_cli.errors import InputError

WORD_BEGINS = "▁"


def load_embeddings(path: Path, pieces: Sequence[str], table: nn.Parameter, *, freeze: bool) -> list[int]:
    """Put the vectors of the pieces found in `path` into `table` (V, E); the rows that were found, rising.

    A piece is found as itself, or, where it begins a word, as that word; of lines of one word the first counts. With
    `freeze` the found rows get no gradient.

    Raises:
        InputError: a line is not a word with E finite numbers; its place is named.
    """
    ids = {piece: id_ for id_, piece in enumerate(pieces)}
    size = table.shape[1]
    as_itself: set[int] = set()
    as_word: set[int] = set()
    with open_input(path) as stream:
        for number, line in enumerate(iter_lines(stream), start=1):
            word, *numbers = line.decode("utf-8", errors="replace").rstrip().split(" ")
            if number == 1 and len(numbers) == 1:  # word2vec's head: how many words, how many numbers
                continue
            if len(numbers) != size:
                raise InputError(
                    f"{path}:{number}: has {len(numbers)} numbers after the word, model.embedding_size is {size}"
                )
            rows = []
            itself = ids.get(word)
            if itself is not None and itself not in as_itself:
                as_itself.add(itself)
                rows.append(itself)
            beginning = ids.get(WORD_BEGINS + word)
            if beginning is not None and beginning not in as_itself and beginning not in as_word:
                as_word.add(beginning)
                rows.append(beginning)
            if rows:
                with torch.no_grad():
                    table[rows] = _numbers(numbers, f"{path}:{number}")
    found = sorted(as_itself | as_word)
    if freeze and found:
        _freeze(table, found)
    return found


def _freeze(table: nn.Parameter, rows: Sequence[int]) -> None:
    """Have the rows get no gradient."""
    is_free = torch.ones(len(table), 1)
    is_free[rows] = 0.0
    on_device: dict[torch.device, Tensor] = {}

    def mask(gradient: Tensor) -> Tensor:
        if gradient.device not in on_device:  # copied once: nothing may be copied while a CUDA graph is captured
            on_device[gradient.device] = is_free.to(gradient.device)
        return gradient * on_device[gradient.device]

    table.register_hook(mask)


def _numbers(fields: Sequence[str], place: str) -> Tensor:
    try:
        numbers = torch.tensor([float(field) for field in fields])
    except ValueError as error:
        raise InputError(f"{place}: {error}; a line is a word and its numbers") from error
    if not bool(numbers.isfinite().all()):
        raise InputError(f"{place}: holds a number that is not finite")
    return numbers
