"""Trials of ways beside each other, by a clock that the ways themselves move."""

import pytest

from nmt_cli.training.trials import MAX_ROUNDS, MIN_ROUNDS, fastest_num_threads, time_alternately


class Works:
    """Ways whose trials take the given seconds, one after the other, and the last of them from then on."""

    def __init__(self, **seconds: list[float]) -> None:
        self.now, self.order, self._left = 0.0, "", {name: list(each) for name, each in seconds.items()}

    def way(self, name: str) -> None:
        self.order += name
        left = self._left[name]
        self.now += left.pop(0) if len(left) > 1 else left[0]

    def time_alternately(self, seconds: float) -> dict[str, list[float]]:
        ways = {name: lambda name=name: self.way(name) for name in self._left}
        return time_alternately(ways, seconds=seconds, clock=lambda: self.now)


def test_the_ways_take_turns_forwards_and_backwards_and_the_first_round_does_not_count():
    works = Works(a=[100.0, 1.0], b=[200.0, 2.0])
    assert works.time_alternately(seconds=1e6) == {"a": [1.0] * MAX_ROUNDS, "b": [2.0] * MAX_ROUNDS}
    assert works.order == "ab" + ("abba" * MAX_ROUNDS)[: 2 * MAX_ROUNDS]


@pytest.mark.parametrize(
    ("seconds", "rounds"),
    [(0.0, 1), (1.0, 1), (2.0, MIN_ROUNDS), (10.0, MIN_ROUNDS + 1), (1e6, MAX_ROUNDS)],
    ids=["at once", "slow machine", "least", "in between", "most"],
)
def test_no_round_begins_after_the_time_for_them_except_the_least(seconds, rounds):
    """A round takes two seconds, and so does the first one, which is not counted."""
    times = Works(a=[1.0], b=[1.0]).time_alternately(seconds)
    assert {name: len(each) for name, each in times.items()} == {"a": rounds, "b": rounds}


def test_the_number_of_threads_is_that_of_the_faster_trials_and_not_of_one_lucky_one():
    beside_others = {1: [0.50, 0.51, 0.52], 2: [0.30, 0.90, 0.95]}
    quiet = {1: [0.50, 0.51, 0.52], 2: [0.30, 0.31, 0.95]}
    equal = {2: [0.5, 0.5, 0.5], 1: [0.5, 0.5, 0.5]}
    assert [fastest_num_threads(times) for times in (beside_others, quiet, equal)] == [1, 2, 1]
