"""Repeated timing of one or several ways of doing some work, to compare them.

A machine slows down and speeds up while it is measured, because other programs run on it. So the ways are timed in
turns, and one slow trial does not decide.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import TypeVar

MIN_ROUNDS, MAX_ROUNDS = 3, 9
PATIENCE = 4
"""Longest that trials may take on a busy machine, as a multiple of the `seconds` of `time_alternately`."""
Way = TypeVar("Way")
Clock = Callable[[], float]


def time_alternately(
    ways: Mapping[Way, Callable[[], object]], *, seconds: float, clock: Clock = time.perf_counter
) -> dict[Way, list[float]]:
    """Return, for each function in `ways`, the seconds that each of its trials took, in the order of the trials.

    A round tries each way once, and every second round goes backwards, so that no way always follows the same other
    way. A first round is not counted, because caches are empty then. No new round begins after `seconds`, or, as long
    as there were fewer than `MIN_ROUNDS`, after `PATIENCE` times as long. At least one round is counted, and at most
    `MAX_ROUNDS`.
    """
    times: dict[Way, list[float]] = {way: [] for way in ways}
    start = clock()
    for work in ways.values():
        work()
    for number in range(MAX_ROUNDS):
        patience = 1 if number >= MIN_ROUNDS else PATIENCE
        if number and clock() - start >= patience * seconds:
            break
        for way in reversed(list(ways)) if number % 2 else ways:
            began = clock()
            ways[way]()
            times[way].append(clock() - began)
    return times


def fastest_num_threads(times: Mapping[int, list[float]]) -> int:
    """Return the number of threads whose trials are the fastest by their median; the smaller number if two are equal.

    The shortest trial would mislead: two threads are fast whenever the other programs pause.
    """
    return min(sorted(times), key=lambda number: median(times[number]))
