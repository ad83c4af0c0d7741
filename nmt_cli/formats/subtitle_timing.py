"""Estimates how the times of two files of subtitles differ: by frame rate, by a shift, and by parts that one lacks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

_RATES = (24000 / 1001, 24.0, 25.0, 30000 / 1001, 30.0)
"""Frames a second of films, as they are made and as they are broadcast."""
MIN_CUES = 10
"""Smallest number of cues in a file for which the times can be corrected."""
_MIN_REFUSED = 50
"""Smallest number of cues for which two files are refused if hardly more cues agree than by chance."""
_SAMPLE = 200
_MAX_SHIFT = 900.0
"""Seconds around these shifts that are searched: 0, and those with which the first or the last cues begin together."""
_BIN = 0.2
_TOLERANCE = 0.4
"""Largest difference, in seconds, between the beginnings of two cues that agree."""
_NUM_SHIFTS = 8
"""Number of shifts that are tried; they change where one version of a film lacks a scene or has an advertisement."""
_CHANGE = 6.0
"""Number of further cues that must agree to make up for a change of the shift."""
_CERTAIN, _CHANCE = (0.6, 12.0), (0.45, 9.0)
"""The share of the cues that agree, and their standard deviations above what chance gives. With one of the first pair
the times are certain; with neither of the second they have nothing in common. Files of different films reach 0.45 with
twenty cues and 0.3 with some hundred, and 8 deviations; two translations of a film 0.8, and 15 with sixty cues."""


class Fit(NamedTuple):
    """The linear map from the times of one file to those of another: `scale * time + shift`, in seconds."""

    scale: float
    shift: float

    def apply(self, time: float) -> float:
        """Return the time in the other file that belongs to a time in the first."""
        return self.scale * time + self.shift


IDENTITY = Fit(1.0, 0.0)


class Timing(NamedTuple):
    """The map from the times of one file to those of another, part by part."""

    begins: tuple[float, ...]
    """The time at which each part begins, in seconds of the first of the two files."""
    fits: tuple[Fit, ...]
    """The map of each part; all have one scale, unless they need no correction."""
    is_certain: bool

    def fit_at(self, time: float) -> Fit:
        """Return the map of the part that a time belongs to; the first part also has all times before it."""
        return self.fits[max(0, bisect_right(self.begins, time) - 1)]


def estimate_timing(times: Sequence[float], others: Sequence[float]) -> Timing | None:
    """Return the map from the times of cues to those of the cues of another file; None if they have nothing in common.

    For each usual ratio of frame rates, the differences between the beginnings vote for shifts. A path through the
    shifts with the most votes has the most beginnings that agree (Viterbi), and pays for each change. The shifts on it
    are made exact by least squares. Times that agree as they are stay so.
    """
    times, others = sorted(times), sorted(others)
    fewest = min(len(times), len(others))
    num_near = _num_near(times, others, IDENTITY)
    if fewest < MIN_CUES:
        return Timing((times[0],), (IDENTITY,), is_certain=2 * num_near >= fewest)
    scale = _scale_of(times, others, is_same=num_near >= 0.8 * len(times))
    candidates = [Fit(scale, shift) for shift, _ in _best_shifts(times, others, scale)]
    parts = _parts(times, others, [*candidates, IDENTITY] if scale == 1 else candidates)
    longest = max(parts, key=lambda part: part[1] - part[0])
    scale = _refit(times[longest[0] : longest[1]], others, longest[2]).scale
    begins, fits, num_near = list[float](), list[Fit](), 0
    for first, end, shifted in parts:
        own = times[first:end]
        fit = _refit(own, others, shifted, scale)
        num_own, num_same = _num_near(own, others, fit), _num_near(own, others, IDENTITY)
        if num_same >= 0.8 * num_own:
            fit, num_own = IDENTITY, num_same
        num_near += num_own
        if not fits or fits[-1] != fit:
            begins.append(own[0])
            fits.append(fit)
    density = len(others) / max(1.0, others[-1] - others[0])
    chance = min(1.0, 2 * _TOLERANCE * density) * len(times)
    reached = (num_near / fewest, (num_near - chance) / sqrt(chance))
    if fewest >= _MIN_REFUSED and reached[0] < _CHANCE[0] and reached[1] < _CHANCE[1]:
        return None
    return Timing(tuple(begins), tuple(fits), reached[0] >= _CERTAIN[0] or reached[1] >= _CERTAIN[1])


def _scale_of(times: Sequence[float], others: Sequence[float], *, is_same: bool) -> float:
    """Return the ratio of frame rates at which most beginnings agree for one shift; 1.0 with `is_same`."""
    if is_same:
        return 1.0
    sample = times[:: max(1, len(times) // _SAMPLE)]
    span = (others[-1] - others[0]) / max(1e-9, sample[-1] - sample[0])
    scales = {1.0, *(one / other for one in _RATES for other in _RATES)} | ({span} if 0.9 < span < 1.1 else set())
    found = [(votes, Fit(scale, shift)) for scale in scales for shift, votes in _best_shifts(sample, others, scale)[:1]]
    _, best = max(found, key=lambda one: (one[0], -abs(one[1].scale - 1), -abs(one[1].shift)))
    refined = _refit(sample, others, best)
    return refined.scale if best.scale != 1 or abs(refined.scale - 1) * times[-1] > _TOLERANCE else 1.0


def _best_shifts(times: Sequence[float], others: Sequence[float], scale: float) -> list[tuple[float, int]]:
    """Return the shifts, in seconds, at which most beginnings of cues agree, best first, with about how many agree."""
    times = times[:: max(1, len(times) // _SAMPLE)]
    centres = (0.0, others[0] - scale * times[0], others[-1] - scale * times[-1])
    votes: Counter[int] = Counter()
    for centre in [one for one in centres if one == 0 or abs(one) > _MAX_SHIFT / 2]:
        own: Counter[int] = Counter()
        for time in times:
            moved = scale * time
            first = bisect_left(others, moved + centre - _MAX_SHIFT)
            end = bisect_left(others, moved + centre + _MAX_SHIFT)
            own.update({round((other - moved) / _BIN) for other in others[first:end]})
        votes |= own
    sums = {place: votes[place - 1] + votes[place] + votes[place + 1] for place in tuple(votes)}
    peaks: list[int] = []
    for place in sorted(sums, key=lambda one: (-sums[one], -votes[one], abs(one))):
        if all(abs(place - peak) > _TOLERANCE / _BIN + 1 for peak in peaks):
            peaks.append(place)
        if len(peaks) == _NUM_SHIFTS:
            break
    return [(place * _BIN, sums[place]) for place in peaks]


def _parts(times: Sequence[float], others: Sequence[float], fits: Sequence[Fit]) -> list[tuple[int, int, Fit]]:
    """Return the parts, with one map each, for which most beginnings of cues agree.

    Each part is (index of its first cue, index after its last cue, map).
    """
    scores, came_from = [0.0] * len(fits), list[list[int]]()
    for time in times:
        top = max(range(len(fits)), key=scores.__getitem__)
        came_from.append([one if scores[one] >= scores[top] - _CHANGE else top for one in range(len(fits))])
        scores = [max(scores[one], scores[top] - _CHANGE) + _is_near(time, others, fit) for one, fit in enumerate(fits)]
    state, end = max(range(len(fits)), key=scores.__getitem__), len(times)
    parts: list[tuple[int, int, Fit]] = []
    for place in reversed(range(len(times))):
        before = came_from[place][state]
        if before != state or place == 0:
            parts.insert(0, (place, end, fits[state]))
            state, end = before, place
    return parts


def _nearest(others: Sequence[float], time: float) -> float:
    place = bisect_left(others, time)
    return min(others[max(0, place - 1) : place + 1], key=lambda other: abs(other - time))


def _is_near(time: float, others: Sequence[float], fit: Fit) -> bool:
    moved = fit.apply(time)
    return abs(_nearest(others, moved) - moved) <= _TOLERANCE


def _num_near(times: Sequence[float], others: Sequence[float], fit: Fit) -> int:
    return sum(_is_near(time, others, fit) for time in times)


def _refit(times: Sequence[float], others: Sequence[float], fit: Fit, scale: float | None = None) -> Fit:
    """Return a map fitted to the cues near each other, by least squares, twice; with `scale`, only its shift is new."""
    for _ in range(2):
        both = [(time, _nearest(others, fit.apply(time))) for time in times]
        near = [(time, other) for time, other in both if abs(other - fit.apply(time)) <= _TOLERANCE]
        if len(near) < (MIN_CUES if scale is None else 1):
            return fit
        mean, mean_other = (sum(side) / len(near) for side in zip(*near, strict=True))
        spread = sum((time - mean) ** 2 for time, _ in near)
        own = sum((time - mean) * (other - mean_other) for time, other in near) / spread if spread else fit.scale
        own = scale or (own if abs(own - fit.scale) < 0.002 else fit.scale)
        fit = Fit(own, mean_other - own * mean)
    return fit
