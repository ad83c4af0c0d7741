"""Fits a calibration to translations with references."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nmt_cli.confidence.calibration import Calibration, Origin, line_features
from nmt_cli.confidence.confidence_metrics import area_under_roc, calibration_error
from nmt_cli.confidence.features import FloatArray
from nmt_cli.confidence.labels import correct_words, is_correct
from nmt_cli.confidence.logistic import LogisticRegression
from nmt_cli.system.console import format_count
from nmt_cli.system.errors import InputError

MIN_WORDS = 10
"""Fewest correct words, and fewest wrong words, for a fit."""
FOLDS = 5


@dataclass(frozen=True, slots=True)
class LabelledLine:
    """A translated line with the features of its words, and labels from its reference."""

    features: FloatArray
    """Features of the words (words, features)."""
    log_prob: float
    word_labels: tuple[bool, ...]
    """For each word, True if it is correct."""
    is_correct: bool
    """True if the line needs no edit to become the reference, by TER."""

    @classmethod
    def of(cls, features: FloatArray, log_prob: float, text: str, reference: str) -> LabelledLine:
        """Return a line whose words are labelled as correct or wrong by its reference.

        Words whose features are NaN are symbols that the model has not generated. They are left out.
        """
        generated = np.flatnonzero(~np.isnan(features).any(axis=1))
        labels = correct_words(text, reference)
        return cls(
            features[generated], log_prob, tuple(labels[word] for word in generated), is_correct(text, reference)
        )


def digest_of(sources: Sequence[str], references: Sequence[str]) -> str:
    """Return the SHA-256 of sources and references, in hexadecimal digits."""
    return hashlib.sha256(json.dumps([list(sources), list(references)]).encode()).hexdigest()


def fit(lines: Sequence[LabelledLine], origin: Origin) -> Calibration:
    """Return the calibration that fits the lines best, with its quality by cross-validation.

    Raises:
        InputError: there are too few correct words or too few wrong ones, or only one line has words.
    """
    used = [line for line in lines if line.word_labels]
    num_correct = sum(sum(line.word_labels) for line in used)
    num_wrong = sum(len(line.word_labels) for line in used) - num_correct
    if num_correct < MIN_WORDS or num_wrong < MIN_WORDS:
        raise InputError(
            f"too few words to calibrate confidence: of the translations of {format_count(len(lines), 'line')}, "
            f"{format_count(num_correct, 'word')} {'is' if num_correct == 1 else 'are'} correct and {num_wrong:,} "
            f"{'is' if num_wrong == 1 else 'are'} wrong, but {MIN_WORDS} of each are needed. Train longer, or "
            "give more text to `nmt evaluate --calibrate --source FILE --reference FILE`"
        )
    if len(used) < 2:  # each line is judged by a calibration that is fitted to others
        raise InputError(
            f"too few lines to calibrate confidence: of the translations of {format_count(len(lines), 'line')}, "
            f"only {len(used)} has words, but 2 are needed"
        )
    whole = _fit_without_quality(used, origin)
    return replace(whole, quality=_cross_validate(used, origin))


def _fit_without_quality(lines: Sequence[LabelledLine], origin: Origin) -> Calibration:
    features = np.concatenate([line.features for line in lines])
    labels = np.array([label for line in lines for label in line.word_labels], dtype=float)
    words = LogisticRegression.fit(features, labels)
    of_lines = np.stack([_features_of_line(words, line) for line in lines])
    whole = np.array([line.is_correct for line in lines], dtype=float)
    # Few lines may be correct as a whole, so the words decide first.
    return Calibration(words, LogisticRegression.fit(of_lines, whole, of_lines[:, 0], penalises_bias=True), origin)


def _features_of_line(words: LogisticRegression, line: LabelledLine) -> FloatArray:
    return line_features([float(value) for value in words.probabilities(line.features)], line.log_prob)


def _cross_validate(lines: Sequence[LabelledLine], origin: Origin) -> dict[str, float]:
    """Return `Calibration.quality` by cross-validation: a calibration fitted to the other lines judges each fifth."""
    word_confidence: list[float] = []
    labels: list[bool] = []
    for fold in range(FOLDS):
        others = [line for number, line in enumerate(lines) if number % FOLDS != fold]
        fitted = _fit_without_quality(others, origin)
        for line in lines[fold::FOLDS]:
            word_confidence += fitted.word_confidence(line.features)
            labels += line.word_labels
    return {
        "words": len(labels),
        "correct": sum(labels) / len(labels),
        "area_under_roc": area_under_roc(word_confidence, labels),
        "calibration_error": calibration_error(word_confidence, labels),
    }
