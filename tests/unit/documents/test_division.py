"""The division of a sentence over its cues, compared with the costs of every division."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations_with_replacement

import pytest
from lines_run import LinesRun

from nmt_cli.documents import division
from nmt_cli.documents.division import CuePart, divide_words, limit_of


def cost_of(
    cuts: Sequence[int], words: Sequence[str], looks_at: Sequence[int], seams: Sequence[int], shown: Sequence[CuePart]
) -> float:
    """Return what a division costs."""
    lengths = [0]
    for word in words:
        lengths.append(lengths[-1] + len(word) + 1)
    columns, places = [0, *seams, 1 << 60], [0, *cuts, len(words)]
    cost = 0.0
    for cue, part in enumerate(shown):
        start, end = places[cue], places[cue + 1]
        wrong = sum(not columns[cue] <= column < columns[cue + 1] for column in looks_at[start:end])
        share = sum(one.num_characters for one in shown[: cue + 1]) / max(1, sum(one.num_characters for one in shown))
        length = max(0, lengths[end] - lengths[start] - 1)
        cost += wrong + division._SHARE_COST * abs(lengths[end] / max(1, lengths[-1]) - share)
        cost += division._TOO_FAST_COST * max(0.0, length - limit_of(part)) + division._EMPTY_CUE_COST * (start == end)
    return cost


@pytest.mark.parametrize("seed", range(10))
def test_no_division_costs_less_than_the_one_that_is_chosen(seed: int):
    draw = random.Random(seed)
    for _ in range(40):
        num_words, num_cues, num_source = draw.randint(0, 9), draw.randint(2, 4), draw.randint(2, 12)
        words = ["x" * draw.randint(1, 12) for _ in range(num_words)]
        looks_at = [draw.randrange(num_source) for _ in words]
        seams = sorted(draw.randrange(num_source + 1) for _ in range(num_cues - 1))
        shown = [CuePart(draw.choice([0.0, draw.random() * 3]), draw.randint(0, 40)) for _ in range(num_cues)]
        given = words, looks_at, seams, shown
        costs = {
            cuts: cost_of(cuts, *given) for cuts in combinations_with_replacement(range(num_words + 1), num_cues - 1)
        }
        chosen = tuple(divide_words(*given))
        assert chosen in costs
        assert costs[chosen] == pytest.approx(min(costs.values()), abs=1e-6)


def test_the_time_of_a_division_grows_with_the_number_of_words():
    def lines(num_words: int) -> int:
        words, seams = ["dog"] * num_words, [num_words // 3, num_words // 2]
        return LinesRun().of(lambda: divide_words(words, range(num_words), seams, [CuePart(2.0, num_words)] * 3))

    assert lines(400) <= 2.1 * lines(200)
