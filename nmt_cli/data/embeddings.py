"""Embeddings from a text file in word2vec or GloVe format: a word and its numbers a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from nmt_cli.data.lines import iter_lines, open_input
from nmt_cli.system.errors import InputError

SPACE_SYMBOL = "▁"


def load_embeddings(path: Path, pieces: Sequence[str], table: nn.Parameter) -> list[int]:
    """Fill rows of `table` (V, E) with the vectors of pieces in `path`; return the filled rows in rising order.

    A piece gets the vector of the word with the same text or, if it begins with `▁`, of the word without this mark. If
    a word has several lines, the first counts.

    Raises:
        InputError: the file cannot be read, or a line is not a word with E finite numbers; the message names the line.
    """
    ids = {piece: id_ for id_, piece in enumerate(pieces)}
    as_itself: set[int] = set()
    as_word: set[int] = set()
    for place, word, numbers in _lines(path, table.shape[1]):
        rows = []
        itself = ids.get(word)
        if itself is not None and itself not in as_itself:
            as_itself.add(itself)
            rows.append(itself)
        beginning = ids.get(SPACE_SYMBOL + word)
        if beginning is not None and beginning not in as_itself and beginning not in as_word:
            as_word.add(beginning)
            rows.append(beginning)
        if rows:
            with torch.no_grad():
                table[rows] = _numbers(numbers, place)
    return sorted(as_itself | as_word)


def check_embeddings(path: Path, size: int) -> None:
    """Raise `InputError` if the first word of the file does not have `size` numbers, or if the file cannot be read."""
    next(_lines(path, size), None)


def _lines(path: Path, size: int) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each line as its place (`path:number`), its word, which may contain blanks, and its numbers as text."""
    with open_input(path) as stream:
        for number, line in enumerate(iter_lines(stream), start=1):
            fields = line.decode("utf-8", errors="replace").rstrip().split(" ")
            if number == 1 and len(fields) == 2:  # word2vec's head: how many words, how many numbers
                continue
            place = f"{path}:{number}"
            if len(fields) <= size or any(map(_is_number, fields[1:-size])):
                raise InputError(
                    f"{place}: has {len(fields) - 1} numbers after the word, but model.embedding_size is {size}; set "
                    f"it to {len(fields) - 1}, or take other vectors"
                )
            yield place, " ".join(fields[:-size]), fields[-size:]


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _numbers(fields: Sequence[str], place: str) -> Tensor:
    try:
        numbers = torch.tensor([float(field) for field in fields])
    except ValueError as error:
        wrong = next(field for field in fields if not _is_number(field))
        raise InputError(f"{place}: {wrong!r} is not a number; a line is a word and its numbers") from error
    if not bool(numbers.isfinite().all()):
        raise InputError(f"{place}: has a number that is not finite; remove the line, or take other vectors")
    return numbers
