"""Profile of a language: the frequencies of its letter trigrams, kept with each model to tell languages apart.

Naive Bayes over trigrams (Dunning, 1994, "Statistical Identification of Language"), with a class for text in none of
the languages.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from nmt_cli.system.errors import ModelError

REMEDY = "delete it, and nmt serve learns the languages from the training text"
"""The remedy for a damaged file of profiles."""
MAX_LINES = 20_000
MAX_TRIGRAMS = 4_000
"""Number of trigrams that are kept, the most frequent ones; they take some 60 kB a language."""
MAX_CHARACTERS = 2_000
"""Characters at the beginning of a text or line that are read."""
_SMOOTHING = 0.5
_BACKGROUND_LOG_PROB = -8.5
"""Natural log-probability of a trigram in a text of none of the languages. By the profile of its language, a trigram of
a text has -6.7 on average (captions, English and German), or -7.8 if the text is of another domain; by the profile of
another language it has -9.2 or less."""
_EVIDENCE_DIVISOR = 3.0
"""Divisor of a text's log-odds: trigrams overlap, so three of them tell about as much as one that is independent."""
_NO_LETTERS = re.compile(r"[\W\d_]+")


@dataclass(frozen=True, slots=True)
class LanguageProfile:
    """The trigrams of a language with their counts."""

    counts: Mapping[str, int]
    total: int
    """Number of all trigrams that were counted, including those too rare to be kept."""

    @classmethod
    def of(cls, lines: Iterable[str]) -> LanguageProfile:
        """Return the profile of the first `MAX_LINES` lines of a text."""
        counts: Counter[str] = Counter()
        for line in islice(lines, MAX_LINES):
            counts.update(_trigrams(line[:MAX_CHARACTERS]))
        return cls(dict(counts.most_common(MAX_TRIGRAMS)), counts.total())

    @classmethod
    def from_json(cls, value: Any, origin: str) -> LanguageProfile:
        """Return the profile from `value`, which `to_json` made.

        Raises:
            ModelError: `value` is not such a profile; the message begins with `origin`.
        """
        try:
            counts = {str(key): int(number) for key, number in value["trigrams"].items()}
            total = int(value["total"])
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise ModelError(f"{origin}: is damaged; {REMEDY}") from error
        if total < 0 or any(number < 0 for number in counts.values()):
            raise ModelError(f"{origin}: is damaged; {REMEDY}")
        return cls(counts, total)

    def to_json(self) -> dict[str, Any]:
        """Return the profile as a value for JSON, which `from_json` reads."""
        return {"total": self.total, "trigrams": dict(self.counts)}

    def log_probs(self, trigrams: Iterable[str]) -> list[float]:
        """Return the natural log-probability of each trigram, smoothed so that it is finite for unknown ones."""
        whole = self.total + _SMOOTHING * 30 * MAX_TRIGRAMS
        return [math.log((self.counts.get(trigram, 0) + _SMOOTHING) / whole) for trigram in trigrams]


def language_probabilities(text: str, profiles: Mapping[str, LanguageProfile]) -> dict[str, float]:
    """Return the probability that a text is in each language, by its code, most probable first.

    The sum is below 1, because the text may be in none of them. A text without letters has 0 for each.
    """
    trigrams = _trigrams(text[:MAX_CHARACTERS])
    if not trigrams:
        return dict.fromkeys(sorted(profiles), 0.0)
    evidence = {
        language: (sum(profile.log_probs(trigrams)) - _BACKGROUND_LOG_PROB * len(trigrams)) / _EVIDENCE_DIVISOR
        for language, profile in profiles.items()
    }
    highest = max([0.0, *evidence.values()])
    weights = {language: math.exp(value - highest) for language, value in evidence.items()}
    whole = sum(weights.values()) + math.exp(-highest)
    return {
        language: weight / whole for language, weight in sorted(weights.items(), key=lambda item: (-item[1], item[0]))
    }


def _trigrams(text: str) -> list[str]:
    bare = f" {_NO_LETTERS.sub(' ', text.lower()).strip()} "
    return [bare[start : start + 3] for start in range(len(bare) - 2)]
