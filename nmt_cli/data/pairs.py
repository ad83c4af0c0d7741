"""Two files of parallel text, for commands that work on given pairs."""

from __future__ import annotations

from collections.abc import Iterator

from nmt_cli.data.corpus import Corpus, Pair, read_pairs
from nmt_cli.errors import InputError


def windows_of_pairs(source: str, target: str, size: int) -> Iterator[list[Pair]]:
    """The pairs of two files, `size` at a time; `InputError` names both counts where the files differ in length."""
    if source == "-" and target == "-":
        raise InputError("source and target cannot both come from standard input")
    window: list[Pair] = []
    for pair in read_pairs(Corpus(source, target), invalid_utf8="replace"):
        window.append(pair)
        if len(window) == size:
            yield window
            window = []
    if window:
        yield window
