"""Warns once if a training has become slow because other programs use its processors (contention).

The processor time of the training alone does not show this: threads that wait for each other keep their processors
busy. So the speed of the training is compared with its best speed so far, and the processor time of all programs with
that of the training.
"""

from __future__ import annotations

from collections.abc import Callable

from nmt_cli.system.console import format_count, warn
from nmt_cli.system.processors import Usage

WINDOW_SECONDS = 30.0
"""Seconds of training over which a speed is measured."""
SLOW_SPEED_SHARE = 0.65
"""A speed below this share of the best speed is slow. Next to one busy program, two threads on two processors reach 0.3
to 0.5 of the best speed."""
MIN_TAKEN_PROCESSORS = 0.4
"""Least number of processors that other programs must use to be named as the cause."""
PATIENCE = 2
"""Slow windows in a row after which the warning is given."""


class ContentionMonitor:
    """Warns once if a training is slower than it was before while other programs use its processors."""

    def __init__(self, num_threads: int, num_processors: int, read: Callable[[], Usage | None]) -> None:
        """Prepare for a training with `num_threads` threads.

        `read` returns the processor times so far, like `system.processors.usage`; None if the system does not measure
        them.
        """
        self._num_threads, self._num_processors, self._read = num_threads, num_processors, read
        self._is_switched_off = False
        """True if nothing is measured any more: the warning was given, or the system lacks the times of other
        programs."""
        self._before: Usage | None = None
        self._num_tokens, self._seconds = 0, 0.0
        self._best = 0.0
        self._slow_in_a_row = 0

    def record(self, num_tokens: int, seconds: float) -> None:
        """Record an update of `num_tokens` target pieces, and warn if the last ones were slow because of contention."""
        if self._is_switched_off:
            return
        if self._before is None:
            self._before = self._read()
            self._is_switched_off = self._before is None
            return
        self._num_tokens, self._seconds = self._num_tokens + num_tokens, self._seconds + seconds
        if self._seconds >= WINDOW_SECONDS:
            self._check(self._num_tokens / self._seconds)
            self._num_tokens, self._seconds = 0, 0.0

    def _check(self, speed: float) -> None:
        before, now = self._before, self._read()
        self._before = now
        if before is None or now is None:
            return
        num_other_processors = max(
            0.0,
            (now.total_seconds - before.total_seconds - now.process_seconds + before.process_seconds)
            / max(1e-9, now.clock - before.clock),
        )
        has_contention = (
            num_other_processors >= MIN_TAKEN_PROCESSORS
            and num_other_processors + self._num_threads > self._num_processors
        )
        self._slow_in_a_row = self._slow_in_a_row + 1 if speed < SLOW_SPEED_SHARE * self._best and has_contention else 0
        self._best = max(self._best, speed)
        if self._slow_in_a_row == PATIENCE:
            self._is_switched_off = True
            warn(self._message(speed, num_other_processors))

    def _message(self, speed: float, num_other_processors: float) -> str:
        found = (
            f"training makes {speed:,.0f} pieces/s now, after {self._best:,.0f} before, because other programs use "
            f"{num_other_processors:.1f} of the {format_count(self._num_processors, 'processor')}"
        )
        if self._num_threads == 1:
            return f"{found}. End them, or wait until they end"
        return (
            f"{found}, and the {self._num_threads} threads of the training wait for each other. If these programs go "
            "on, stop the training with Ctrl-C and run the same command again with --set training.threads=1. One "
            "thread is faster then, but the result differs in the last digits"
        )
