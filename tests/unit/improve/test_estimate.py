"""The speed of this machine, from the report of `nmt check` on the pairs of the trial."""

import json

import pytest

from nmt_cli.improve.estimate import Speed, TrialError, _read_check_report


def report(minutes):
    expected = {"minutes": minutes, "updates": 40, "disk_bytes": {"checkpoints": 3_000}}
    return json.dumps({"expected": expected})


def test_the_speed_of_training_is_that_of_an_epoch_on_the_pairs_of_the_trial():
    speed = Speed()
    _read_check_report(f"warning: odd text\n{report(2.0)}\n", speed, num_pairs=6_000)
    assert (speed.pairs_per_second, speed.pairs_per_step, speed.checkpoint_bytes) == (50.0, 150.0, 1_000.0)


def test_a_speed_that_check_could_not_measure_makes_the_trial_fail_with_its_reason():
    with pytest.raises(TrialError, match="this machine failed: memory ran out"):
        _read_check_report(f"warning: memory ran out\n{report(None)}\n", Speed(), num_pairs=6_000)
