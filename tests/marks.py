"""Marks for the cases of parametrized tests."""

from __future__ import annotations

import pytest


def others_soak(first: object, *others: object) -> list[object]:
    """Return the cases of a test that takes long: the first is quick, and the others are marked `soak`."""
    return [first, *(pytest.param(other, marks=pytest.mark.soak) for other in others)]


def others_slow(first: object, *others: object) -> list[object]:
    """Return the cases of a test that takes long: the first is quick, and the others are marked `slow`."""
    return [first, *(pytest.param(other, marks=pytest.mark.slow) for other in others)]
