"""Labels for calibration: which words of a translation are correct, by the alignment of TER in sacreBLEU."""

from __future__ import annotations

from collections.abc import Sequence

from sacrebleu import TER
from sacrebleu.metrics import lib_ter


class _PlacedWord(str):
    """A word with its place in the hypothesis, which it keeps when TER shifts it."""

    place: int

    @classmethod
    def at(cls, place: int, word: str) -> _PlacedWord:
        """Return a word with its place, the index among the words of the hypothesis."""
        placed = cls(word)
        placed.place = place
        return placed


def correct_words(hypothesis: str, reference: str) -> list[bool]:
    """Return for each white-space word of a hypothesis True if TER's alignment finds it correct.

    TER (Snover et al., 2006) shifts runs of words until no shift saves an edit, and then takes the edit distance. A
    word is correct if it needs no edit there; a word that was shifted to its match is correct too. Like TER, this
    ignores case. sacreBLEU returns the number of edits alone, so its steps are repeated here.
    """
    return ter_alignment(_ter_words(hypothesis), _ter_words(reference))[1]


def ter_alignment(words: Sequence[str], reference: Sequence[str]) -> tuple[int, list[bool]]:
    """Return the number of edits that TER counts from `words` to `reference`, and whether each word needs none."""
    if not reference:
        return len(words), [False] * len(words)
    distance = lib_ter.BeamEditDistance(list(reference))
    shifted: list[str] = [_PlacedWord.at(place, word) for place, word in enumerate(words)]
    num_candidates = num_shifts = 0
    while True:
        gain, candidate, num_candidates = lib_ter._shift(shifted, list(reference), distance, num_candidates)
        if num_candidates >= lib_ter._MAX_SHIFT_CANDIDATES or gain <= 0:
            break
        shifted = candidate
        num_shifts += 1
    num_edits, trace = distance(shifted)
    # The reference is edited into the hypothesis, so that there is an entry for each word of the hypothesis.
    _, _, is_wrong = lib_ter.trace_to_alignment(trace.translate(lib_ter._FLIP_OPS))
    correct = [False] * len(words)
    for word, wrong in zip(shifted, is_wrong, strict=True):
        assert isinstance(word, _PlacedWord)
        correct[word.place] = not wrong
    return num_shifts + num_edits, correct


def is_correct(hypothesis: str, reference: str) -> bool:
    """Return whether the TER of a hypothesis is zero."""
    return _ter_words(hypothesis) == _ter_words(reference)


def _ter_words(text: str) -> list[str]:
    """Return the words of a text after the preprocessing of TER."""
    preprocessed: str = TER()._preprocess_segment(text)
    return preprocessed.split()
