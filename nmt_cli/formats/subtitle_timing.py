"""Estimates the frame-rate ratio and the shift between the times of two files of subtitles."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

_RATES = (24000 / 1001, 24.0, 25.0, 30000 / 1001, 30.0)
"""Frames a second of films, as they are made and as they are broadcast."""
MIN_CUES = 10
"""Cues of a file; of fewer, nothing is told."""
_SAMPLE = 200
_MAX_SHIFT = 900.0
_BIN = 0.2
_NEAR = 0.4
"""Seconds between the beginnings of two cues that are taken for one."""
_CERTAIN, _CHANCE = 6.0, 4.0
"""Standard deviations above what chance gives: from the one on a fit is certain, below the other there is none."""


class Fit(NamedTuple):
    """The linear map from the times of one file to those of another: `scale * time + shift`."""

    scale: float
    shift: float
    is_certain: bool = True

    @property
    def is_same(self) -> bool:
        """True if the times need no correction."""
        return self.scale == 1 and self.shift == 0

    def of(self, time: float) -> float:
        """Return a time in the other file."""
        return self.scale * time + self.shift


SAME = Fit(1.0, 0.0)


def fit(times: Sequence[float], others: Sequence[float]) -> Fit | None:
    """Return where the times of cues lie in those of others, or None if they have nothing in common.

    For each usual ratio of frame rates, the differences between the beginnings vote for a shift. The best is made exact
    by a line through the cues that lie near each other. Times that fit as they are stay so.
    """
    if min(len(times), len(others)) < MIN_CUES:
        return SAME
    others = sorted(others)
    sample = sorted(times)[:: max(1, len(times) // _SAMPLE)]
    same = _num_near(sample, others, SAME)
    if same >= 0.8 * len(sample):
        return SAME
    span = (others[-1] - others[0]) / max(1e-9, sample[-1] - sample[0])
    scales = {1.0, *(one / other for one in _RATES for other in _RATES)} | ({span} if 0.9 < span < 1.1 else set())
    found = [(*_best_shift(sample, others, scale), scale) for scale in sorted(scales)]
    _, shift, scale = max(found, key=lambda one: (one[0], -abs(one[2] - 1), -abs(one[1])))
    density = len(others) / max(1.0, others[-1] - others[0])
    chance = min(1.0, 2 * _NEAR * density) * len(sample)
    enough = chance + _CERTAIN * sqrt(chance)
    best = _refined(sample, others, Fit(scale, shift))
    num_best = _num_near(sample, others, best)
    if same >= 0.8 * num_best:
        best, num_best = SAME, same
    if num_best >= min(enough, 0.8 * len(sample)):
        return best
    if len(sample) >= 5 * MIN_CUES and num_best < chance + _CHANCE * sqrt(chance):
        return None
    return SAME._replace(is_certain=len(sample) < 3 * MIN_CUES)


def _best_shift(times: Sequence[float], others: Sequence[float], scale: float) -> tuple[int, float]:
    """Return the shift for which most beginnings agree, with their number."""
    votes: Counter[int] = Counter()
    for time in times:
        moved = scale * time
        first = bisect_left(others, moved - _MAX_SHIFT)
        end = bisect_left(others, moved + _MAX_SHIFT)
        votes.update({round((other - moved) / _BIN) for other in others[first:end]})
    if not votes:
        return 0, 0.0
    place = max(votes, key=lambda one: (votes[one - 1] + votes[one] + votes[one + 1], votes[one], -abs(one)))
    return votes[place - 1] + votes[place] + votes[place + 1], place * _BIN


def _nearest(others: Sequence[float], time: float) -> float:
    place = bisect_left(others, time)
    return min(others[max(0, place - 1) : place + 1], key=lambda other: abs(other - time))


def _num_near(times: Sequence[float], others: Sequence[float], fit: Fit) -> int:
    return sum(abs(_nearest(others, fit.of(time)) - fit.of(time)) <= _NEAR for time in times)


def _refined(times: Sequence[float], others: Sequence[float], fit: Fit) -> Fit:
    """Return the line through the cues that lie near each other, by least squares, twice."""
    for _ in range(2):
        both = [(time, _nearest(others, fit.of(time))) for time in times]
        near = [(time, other) for time, other in both if abs(other - fit.of(time)) <= _NEAR]
        if len(near) < MIN_CUES:
            return fit
        mean, mean_other = (sum(side) / len(near) for side in zip(*near, strict=True))
        spread = sum((time - mean) ** 2 for time, _ in near)
        scale = sum((time - mean) * (other - mean_other) for time, other in near) / spread if spread else fit.scale
        scale = scale if abs(scale - fit.scale) < 0.002 else fit.scale
        fit = Fit(scale, mean_other - scale * mean)
    return fit
