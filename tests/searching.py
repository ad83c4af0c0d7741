"""A list of sentences as the search takes them."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from nmt_cli.search.beam import NewSentences, NextSentences
from nmt_cli.search.hypothesis import SearchState


def in_order(
    start: Callable[[Sequence[int]], SearchState], max_lengths: Sequence[int], *, with_weights: Container[int] | bool
) -> NextSentences:
    """Return what gives a search the sentences 0, 1, 2, ...; `start` encodes those of the given numbers.

    `with_weights` tells which of them get their attention weights: all, none, or some numbers.
    """
    recorded = with_weights if not isinstance(with_weights, bool) else range(len(max_lengths) * with_weights)
    waiting = list(range(len(max_lengths)))

    def begin(room: int) -> NewSentences | None:
        numbers = waiting[:room]
        del waiting[:room]
        if not numbers:
            return None
        limits = [max_lengths[number] for number in numbers]
        return NewSentences(numbers, limits, start(numbers), [number in recorded for number in numbers])

    return begin
