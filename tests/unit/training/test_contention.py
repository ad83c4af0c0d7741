"""A training that others slow down, by clocks that the test moves."""

import pytest

from nmt_cli.system.console import reset
from nmt_cli.system.processors import Usage
from nmt_cli.training.contention import WINDOW_SECONDS, ContentionMonitor


class Machine:
    """A training with some threads on two processors, which computes and whose clocks go on."""

    def __init__(self, threads: int) -> None:
        self.clock = self.process_seconds = self.total_seconds = 0.0
        self.contention = ContentionMonitor(
            threads, 2, lambda: Usage(self.clock, self.process_seconds, self.total_seconds)
        )
        self._threads = threads
        self.train(speed=0.0, others=0.0, windows=0.0)

    def train(self, *, speed: float, others: float, windows: float) -> None:
        """Train for some windows, in updates of three seconds."""
        for _ in range(max(1, round(windows * WINDOW_SECONDS / 3.0))):
            self.contention.record(round(3.0 * speed), 3.0)
            self.clock += 3.0
            share = min(1.0, 2.0 / max(1.0, self._threads + others))  # threads that wait are busy too
            self.process_seconds += 3.0 * share * self._threads
            self.total_seconds += 3.0 * share * (self._threads + others)


@pytest.fixture(autouse=True)
def _new_command():
    reset()


def test_it_says_once_that_others_slow_two_threads_down_and_what_to_do(capsys):
    machine = Machine(threads=2)
    machine.train(speed=6_000, others=0.0, windows=4)
    machine.train(speed=2_000, others=1.0, windows=20)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith(
        "warning: training makes 2,000 pieces/s now, after 6,000 before, because other programs use 0.7 of the 2 "
        "processors, and the 2 threads of the training wait for each other. If these programs go on, stop the training"
    )
    assert "--set training.threads=1" in said


def test_one_thread_has_no_other_number_to_go_to(capsys):
    machine = Machine(threads=1)
    machine.train(speed=3_000, others=0.0, windows=3)
    machine.train(speed=1_000, others=2.0, windows=5)
    said = capsys.readouterr().err
    assert "because other programs use 1.3 of the 2 processors. End them" in said
    assert "--set" not in said


@pytest.mark.parametrize(
    ("speed", "others", "windows"),
    [(2_000, 0.0, 9), (5_500, 1.0, 9), (2_000, 1.0, 1)],
    ids=["slow alone", "others but not slow", "slow for a moment"],
)
def test_it_says_nothing_where_others_are_not_to_blame_or_soon_gone(capsys, speed, others, windows):
    machine = Machine(threads=2)
    machine.train(speed=6_000, others=0.0, windows=3)
    machine.train(speed=speed, others=others, windows=windows)
    machine.train(speed=6_000, others=0.0, windows=3)
    assert capsys.readouterr().err == ""


def test_a_machine_that_was_busy_from_the_beginning_is_not_complained_of(capsys):
    machine = Machine(threads=2)
    machine.train(speed=2_000, others=1.0, windows=9)
    assert capsys.readouterr().err == ""


def test_one_thread_beside_another_program_has_a_processor_of_its_own(capsys):
    machine = Machine(threads=1)
    machine.train(speed=3_000, others=0.0, windows=3)
    machine.train(speed=1_500, others=0.9, windows=9)
    assert capsys.readouterr().err == ""


def test_a_system_that_does_not_say_what_others_use_is_asked_once():
    asked = []
    contention = ContentionMonitor(2, 2, lambda: asked.append(1))
    for _ in range(100):
        contention.record(1_000, 3.0)
    assert asked == [1]
