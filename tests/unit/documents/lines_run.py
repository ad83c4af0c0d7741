"""Counts the lines of Python that a call runs: a measure of its time that no other program changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


class LinesRun:
    """Counts the lines that run while it is on."""

    def __init__(self) -> None:
        self.count = 0

    def of(self, call: Callable[[], object]) -> int:
        """Return how many lines a call runs."""

        def trace(_: FrameType, event: str, __: object):
            self.count += event == "line"
            return trace

        before = sys.gettrace()
        self.count = 0
        sys.settrace(trace)
        try:
            call()
        finally:
            sys.settrace(before)
        return self.count
