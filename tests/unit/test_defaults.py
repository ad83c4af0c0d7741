"""The split of the study of the default sizes."""

from __future__ import annotations

import json
import random
from itertools import combinations

import pytest

from benchmarks import defaults
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


@pytest.mark.parametrize(("row", "steps"), [(None, 1200), ({"steps": 2500}, 1000)], ids=["minutes", "default's time"])
def test_a_neighbour_gets_the_time_of_the_default_on_this_machine(tmp_path, monkeypatch, row, steps):
    """vie has ten minutes. On another machine its default made 2,500 updates, which take 0.2 s each on this one."""
    monkeypatch.setattr(defaults, "DIRECTORY", tmp_path)
    monkeypatch.setattr(defaults, "RESULTS", tmp_path / "rows.jsonl")
    if row is not None:
        defaults.RESULTS.write_text(json.dumps({"corpus": "vie", "variant": "default", **row}) + "\n")
    (tmp_path / "vie").mkdir()
    for name, seconds in (("default", 0.2), ("hidden-double-1", 0.5)):
        (tmp_path / "vie" / f"{name}.probe.json").write_text(json.dumps({"seconds_an_update": seconds}))
    run = defaults._run("vie", "hidden-double", 1, tmp_path / "default.yaml", ())
    assert f"training.max_steps={steps}" in run.overrides
    monkeypatch.setitem(defaults.MINUTES, "vie", 99)  # who goes on keeps the number
    assert defaults._run("vie", "hidden-double", 1, tmp_path / "default.yaml", ()).overrides == run.overrides
