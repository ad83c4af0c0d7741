"""A sentence that was shown in several cues, divided over them again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

MAX_CHARACTERS_PER_SECOND = 17.0
"""Reading speed that many guidelines for subtitles allow, of spaces too."""
_EMPTY = 1e6
_TOO_FAST = 10.0
"""Cost of a character that cannot be read in time; a word in the wrong cue costs 1."""
_SHARE = 0.5
"""Cost of being a whole sentence away from the share of the text that the source had by this seam."""


class Shown(NamedTuple):
    """A part of a sentence in a cue."""

    seconds: float
    """Seconds for which the cue is shown, or the share of them that belongs to this sentence."""
    num_characters: int
    """Characters of the original."""


def divided(words: Sequence[str], looks_at: Sequence[int], seams: Sequence[int], shown: Sequence[Shown]) -> list[int]:
    """Return the numbers of the target words that follow each seam, by dynamic programming.

    A word should stand in the cue whose words it looks at (`looks_at` has the source word of each, `seams` the source
    word that follows each). A cue that could be read in time should remain so, which weighs more.
    """
    if not seams:
        return []
    num_words, num_cues = len(words), len(seams) + 1
    columns = [0, *seams, 1 << 60]
    lengths = [0]
    for word in words:
        lengths.append(lengths[-1] + len(word) + 1)
    best = [0.0] + [float("inf")] * num_words
    choices: list[list[int]] = []
    for cue in range(num_cues):
        first, last = columns[cue], columns[cue + 1]
        wrong = [0]
        for column in looks_at:
            wrong.append(wrong[-1] + (not first <= column < last))
        limit = limit_of(shown[cue])
        share = sum(part.num_characters for part in shown[: cue + 1]) / max(1, sum(s.num_characters for s in shown))
        new, choice = [float("inf")] * (num_words + 1), [0] * (num_words + 1)
        for end in range(num_words + 1):
            away = _SHARE * abs(lengths[end] / max(1, lengths[-1]) - share)
            for start in range(end + 1):
                length = max(0, lengths[end] - lengths[start] - 1)
                cost = best[start] + wrong[end] - wrong[start] + away + _TOO_FAST * max(0.0, length - limit)
                cost += _EMPTY * (start == end)
                if cost < new[end]:
                    new[end], choice[end] = cost, start
        best = new
        choices.append(choice)
    cuts = [num_words]
    for choice in reversed(choices):
        cuts.append(choice[cuts[-1]])
    return cuts[-2:0:-1]


def limit_of(shown: Shown) -> float:
    """Return how many characters can be read in time; there is no limit if the original has too many."""
    limit = shown.seconds * MAX_CHARACTERS_PER_SECOND
    return limit if shown.num_characters <= limit else float("inf")
