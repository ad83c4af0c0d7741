"""Checkpoints that fail to load are tried again."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from nmt_cli.serve.metrics import Metrics
from nmt_cli.serve.model_reload import LONGEST_PAUSE, WatchedModel, reload_if_newer


@dataclass
class Directory:
    """A model directory with a checkpoint that may be damaged, or whose name cannot be read."""

    checkpoint: str = "step-1"
    damage: str = ""
    is_unreadable: bool = False
    tries: list[float] = field(default_factory=list)
    now: float = 0.0

    def newest(self):
        if self.is_unreadable:
            raise OSError(self.damage)
        return self.checkpoint

    def reload(self):
        self.tries.append(self.now)
        if self.damage:
            raise ValueError(self.damage)

    def look_every_second_until(self, end, watched, metrics):
        while self.now < end:
            self.now += 1
            reload_if_newer(watched, metrics, self.now, 1.0)


@pytest.fixture
def directory():
    return Directory()


@pytest.fixture
def watched(directory):
    return WatchedModel("en-fr", directory.newest, directory.reload, "step-1")


def test_a_checkpoint_that_cannot_be_loaded_is_tried_again_ever_more_seldom(directory, watched, capsys):
    """It was never tried again."""
    metrics = Metrics()
    directory.checkpoint, directory.damage = "step-2", "no space"
    directory.look_every_second_until(400, watched, metrics)
    pauses = [after - before for before, after in zip(directory.tries, directory.tries[1:], strict=False)]
    assert pauses[:6] == [1, 2, 4, 8, 16, 32]
    assert set(pauses[6:]) == {LONGEST_PAUSE}
    told = capsys.readouterr().err
    assert told.count("en-fr: step-2 cannot be loaded; the old checkpoint stays in use: no space") == 1
    assert metrics.reloads == {"failed": 1}
    directory.damage = ""
    directory.look_every_second_until(500, watched, metrics)
    assert capsys.readouterr().err == "en-fr: loaded step-2\n"
    assert metrics.reloads == {"failed": 1, "loaded": 1}
    tries = len(directory.tries)
    directory.look_every_second_until(600, watched, metrics)
    assert len(directory.tries) == tries


def test_another_failure_is_told_and_another_checkpoint_is_tried_at_once(directory, watched, capsys):
    metrics = Metrics()
    directory.checkpoint, directory.damage = "step-2", "no space"
    directory.look_every_second_until(100, watched, metrics)
    directory.damage = "no memory"
    directory.look_every_second_until(200, watched, metrics)
    directory.checkpoint = "step-3"
    directory.look_every_second_until(201, watched, metrics)
    assert directory.tries[-1] == 201
    told = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[-2:] for line in told] == [
        ["step-2 cannot be loaded; the old checkpoint stays in use", "no space"],
        ["step-2 cannot be loaded; the old checkpoint stays in use", "no memory"],
        ["step-3 cannot be loaded; the old checkpoint stays in use", "no memory"],
    ]


def test_a_checkpoint_whose_name_cannot_be_read_is_told_once_and_loaded_as_soon_as_it_can(directory, watched, capsys):
    metrics = Metrics()
    directory.is_unreadable, directory.damage = True, "index.json is cut off"
    directory.look_every_second_until(50, watched, metrics)
    assert capsys.readouterr().err.count("the newest checkpoint cannot be loaded") == 1
    assert directory.tries == []
    directory.is_unreadable, directory.damage, directory.checkpoint = False, "", "step-2"
    directory.look_every_second_until(51, watched, metrics)
    assert capsys.readouterr().err == "en-fr: loaded step-2\n"


def test_the_served_checkpoint_that_comes_back_is_not_loaded_again(directory, watched):
    metrics = Metrics()
    directory.checkpoint, directory.damage = "step-2", "no space"
    directory.look_every_second_until(2, watched, metrics)
    directory.checkpoint = "step-1"
    tries = len(directory.tries)
    directory.look_every_second_until(100, watched, metrics)
    assert len(directory.tries) == tries
