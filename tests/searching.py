"""A list of sentences as the search takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nmt_cli.search.beam import NewSentences, NextSentences
from nmt_cli.search.hypothesis import SearchState


def in_order(start: Callable[[Sequence[int]], SearchState], max_lengths: Sequence[int]) -> NextSentences:
    """Return what gives a search the sentences 0, 1, 2, ...; `start` encodes those of the given numbers."""
    waiting = list(range(len(max_lengths)))

    def begin(room: int) -> NewSentences | None:
        numbers = waiting[:room]
        del waiting[:room]
        return NewSentences(numbers, [max_lengths[number] for number in numbers], start(numbers)) if numbers else None

    return begin
