"""Divides the translation of a sentence that was shown in several cues over these cues."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

MAX_CHARACTERS_PER_SECOND = 17.0
"""Reading speed that many guidelines for subtitles allow; spaces count as characters."""
_EMPTY_CUE_COST = 1e6
_TOO_FAST_COST = 10.0
"""Cost of a character that cannot be read in time; a word in the wrong cue costs 1."""
_SHARE_COST = 0.5
"""Cost of a seam, the border of two cues, for a difference of 1 between the shares of source and translation before
it."""


class CuePart(NamedTuple):
    """The part of a source sentence that one cue shows."""

    seconds: float
    """Seconds for which the cue is shown, or the share of them that belongs to this sentence."""
    num_characters: int
    """Characters of this part of the source sentence."""


def divide_words(
    words: Sequence[str], aligned_to: Sequence[int], seams: Sequence[int], cue_parts: Sequence[CuePart]
) -> list[int]:
    """Return the index of the target word that follows each seam, which is the border of two cues.

    `aligned_to` has the index of the source word of each target word, `seams` the index of the source word that follows
    each seam, and `cue_parts` the source part of each cue. A word should be in the cue of its source word. A cue that
    could be read in time should remain so, which weighs more. Dynamic programming finds the least cost.
    """
    if not seams:
        return []
    num_words, num_cues = len(words), len(seams) + 1
    columns = [0, *seams, 1 << 60]
    lengths = [0, *accumulate(len(word) + 1 for word in words)]
    num_characters = max(1, sum(part.num_characters for part in cue_parts))
    best = [0.0] + [float("inf")] * num_words
    choices: list[list[int]] = []
    share = 0.0
    for cue in range(num_cues):
        first, last = columns[cue], columns[cue + 1]
        wrong = [0, *accumulate(not first <= column < last for column in aligned_to)]
        share += cue_parts[cue].num_characters / num_characters
        away = [_SHARE_COST * abs(length / max(1, lengths[-1]) - share) for length in lengths]
        best, choice = _best_ends(best, lengths, wrong, away, limit_of(cue_parts[cue]))
        choices.append(choice)
    cuts = [num_words]
    for choice in reversed(choices):
        cuts.append(choice[cuts[-1]])
    return cuts[-2:0:-1]


def _best_ends(
    best: Sequence[float], lengths: Sequence[int], wrong: Sequence[int], away: Sequence[float], limit: float
) -> tuple[list[float], list[int]]:
    """Return, for each word before which a cue may end, the least cost up to this end, and the first word of the cue.

    For each word, `best` has the least cost of the earlier cues if they end before it, `lengths` the number of
    characters before it, `wrong` the number of words before it that belong to other cues, and `away` the cost of a seam
    (the border of two cues) before it. `limit` is the number of characters that can be read in time.

    A cue that is too long from some beginning is so for all later ends, so only the best such beginning is kept. Among
    the other beginnings, one is dropped as soon as a later one costs less, because the later one also stays short
    enough for longer. A queue holds the rest, the best first. So the time grows with the number of words, and not with
    its square.
    """
    new, choices = [], []
    free = [cost - own for cost, own in zip(best, wrong, strict=True)]
    """Cost of a cue for each beginning, apart from the terms that depend on its end."""
    too_long: tuple[float, int] = (float("inf"), 0)
    """The least cost, apart from the terms that depend on the end, of a cue with more characters than can be read in
    time, and the index of the first word of that cue."""
    queue: deque[int] = deque()
    oldest = 0
    for end, length in enumerate(lengths):
        cost, start = free[end] + _EMPTY_CUE_COST, end
        while oldest < end and length - lengths[oldest] - 1 > limit:
            too_long = min(too_long, (free[oldest] - _TOO_FAST_COST * lengths[oldest], oldest))
            oldest += 1
        while queue and queue[0] < oldest:
            queue.popleft()
        if queue:
            cost, start = min((cost, start), (free[queue[0]], queue[0]))
        if oldest:
            cost, start = min((cost, start), (too_long[0] + _TOO_FAST_COST * (length - 1 - limit), too_long[1]))
        new.append(cost + wrong[end] + away[end])
        choices.append(start)
        while queue and free[queue[-1]] > free[end]:
            queue.pop()
        queue.append(end)
    return new, choices


def limit_of(cue_part: CuePart) -> float:
    """Return the number of characters that can be read in time; infinity if the source part already has more."""
    limit = cue_part.seconds * MAX_CHARACTERS_PER_SECOND
    return limit if cue_part.num_characters <= limit else float("inf")
