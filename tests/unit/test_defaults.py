"""The split of the study of the default sizes."""

from __future__ import annotations

import random
from itertools import combinations

from benchmarks.defaults import split


def test_no_sentence_of_either_side_stands_in_two_splits():
    """Seen to fail with groups that are made by the source alone."""
    draw = random.Random(3)
    pairs = [(f"s{draw.randrange(400)}", f"T{draw.randrange(600)}") for _ in range(300)]
    parts = split(pairs, 20)
    assert [len(parts[name]) for name in ("dev", "test")] == [20, 20]
    for one, other in combinations(parts.values(), 2):
        for side in (0, 1):
            assert not {pair[side] for pair in one} & {pair[side] for pair in other}
    assert set(parts["train"]) <= set(pairs)
    order = [pairs.index(pair) for pair in parts["train"]]
    assert order == sorted(order) or len(set(pairs)) < len(pairs)
    assert split(pairs, 20) == parts
