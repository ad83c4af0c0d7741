"""Applies all filters of pairs, some of which first learn from a sample of the corpus."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np

from nmt_cli.corpora.character_filters import failed_character_filters
from nmt_cli.corpora.filters import FILTER_NAMES
from nmt_cli.corpora.language_filter import LanguageFilter
from nmt_cli.corpora.out_of_step import OutOfStepDetector

RATIO_FACTOR = 3.0
"""Largest factor by which the ratio of lengths in characters may be above or below the median ratio of the corpus."""
MIN_RATIO_CHARACTERS = 20
"""Least characters of the longer side for which the ratio is checked. The ratio of shorter pairs means nothing."""
_RANK = {name: rank for rank, name in enumerate(FILTER_NAMES)}
Pairs = Sequence[tuple[str, str]]


class PairFilters:
    """Finds the names of the filters that each pair of a corpus fails."""

    def __init__(self, sample: Pairs) -> None:
        """Learn the languages, the usual ratio of lengths and the words that translate each other from a sample."""
        whole = [pair for pair in sample if pair[0].strip() and pair[1].strip()]
        ratios = [log(len(target.strip()) / len(source.strip())) for source, target in whole]
        self._usual_ratio = float(np.median(ratios)) if ratios else 0.0
        self.languages = LanguageFilter([source for source, _ in whole], [target for _, target in whole])
        self.out_of_step = OutOfStepDetector(whole)

    @property
    def inactive_filters(self) -> tuple[str, ...]:
        """Names of the filters that find nothing because the sample is too small, or its sides are too alike."""
        languages = () if self.languages.is_sure else ("swapped", "wrong-language")
        return (*languages, *(() if self.out_of_step.is_sure else ("out-of-step",)))

    def failed_filters(self, pairs: Pairs, marks: Sequence[Sequence[str]]) -> list[list[str]]:
        """Return for each pair of the next block the names of the filters that it fails, worst first.

        `marks` has the filters that each pair fails for reasons found before, such as repetition. Blocks must come in
        the order of the corpus.
        """
        languages = self.languages.flag([source for source, _ in pairs], [target for _, target in pairs])
        out_of_step = self.out_of_step.flag(pairs)
        found = []
        for row, (source, target) in enumerate(pairs):
            names = failed_character_filters(source, target)
            if "empty" not in names:
                if languages.swapped[row]:
                    names.append("swapped")
                if languages.wrong_language[row] and "copy" not in names:
                    names.append("wrong-language")
                if out_of_step[row]:
                    names.append("out-of-step")
                if self._is_beyond_ratio(source, target):
                    names.append("length-ratio")
                if "mixed-encodings" in marks[row] and "encoding" in names:
                    names.remove("encoding")  # U+FFFD stands there for the bytes that are not UTF-8
                names += marks[row]
                names.sort(key=_RANK.__getitem__)
            found.append(names)
        return found

    def _is_beyond_ratio(self, source: str, target: str) -> bool:
        lengths = len(source.strip()), len(target.strip())
        if max(lengths) < MIN_RATIO_CHARACTERS:
            return False
        return abs(log(lengths[1] / lengths[0]) - self._usual_ratio) > log(RATIO_FACTOR)
