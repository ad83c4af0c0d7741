"""The memory that a client may take, and how long it waits."""

from __future__ import annotations

import pytest

from nmt_cli.serve import limits
from nmt_cli.serve.limits import Budget, RateLimiter


@pytest.mark.parametrize("per_minute", [1, 7, 50, 90, 10_000])
def test_who_waits_as_long_as_told_is_not_refused_again(per_minute, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(limits, "monotonic", lambda: now)
    rate = RateLimiter(per_minute)
    refused = 0
    for number in range(3 * per_minute):
        now += 0.37 / per_minute * (number % 7)
        if wait := rate.take_token("a"):
            refused += 1
            now += wait
            assert rate.take_token("a") == 0
    assert refused


def test_a_client_takes_no_more_than_its_share_and_gets_back_what_it_had():
    budget = Budget(100, 60)
    assert budget.take(60, "a")
    assert not budget.take(1, "a")
    assert budget.take(40, "b")
    assert not budget.take(1, "c")  # nothing is left
    budget.give_back(60, "a")
    assert not budget.take(61, "a")
    assert budget.take(60, "a")
