"""Marks for the cases of parametrized tests."""

from __future__ import annotations

import pytest


def others_soak(first: object, *others: object) -> list[object]:
    """Return the cases of a test that takes long: the first is quick, and the others are marked `soak`."""
    return [first, *(pytest.param(other, marks=pytest.mark.soak) for other in others)]


def others_slow(first: object, *others: object) -> list[object]:
    """Return the cases of a test that takes long: the first is quick, and the others are marked `slow`."""
    return [first, *(pytest.param(other, marks=pytest.mark.slow) for other in others)]


def some_or_all_of(num: int) -> list[object]:
    """Return numbers of random examples: an eighth of `num`, and in `make soak` all."""
    return others_soak(num // 8, num)


def some_or_all(num: int) -> pytest.MarkDecorator:
    """Give a test of random examples their number as `num`: an eighth of it, and in `make soak` all."""
    return pytest.mark.parametrize("num", some_or_all_of(num))
