"""The calibration of a model: from features of words to the probability that a word, or a line, is correct.

It is stored as `confidence.json` in the model directory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nmt_cli.confidence.features import FEATURES, FloatArray
from nmt_cli.confidence.logistic import LogisticRegression
from nmt_cli.system.errors import ModelError
from nmt_cli.system.storage import read_json, write_json

FORMAT_VERSION = 1
LINE_FEATURES = ("log_odds_of_all_words", "log_prob_per_word", "log_words")
_REFIT_ADVICE = "fit it again: nmt evaluate --calibrate --model"


@dataclass(frozen=True, slots=True)
class Origin:
    """The model and the text to which a calibration was fitted."""

    model: str
    """Fingerprint of the model (`Experiment.fingerprint`)."""
    checkpoint: str
    """Name of the checkpoint."""
    text: str
    """SHA-256 of sources and references."""
    lines: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """Two logistic regressions: one for words and one for lines."""

    words: LogisticRegression
    lines: LogisticRegression
    origin: Origin
    quality: Mapping[str, float] = field(default_factory=dict)
    """Cross-validated measures of words: number `words`, share `correct`, `area_under_roc`, `calibration_error`."""

    def word_confidence(self, features: FloatArray) -> tuple[float, ...]:
        """Return the probability that each word is correct, from `word_features` (words, features)."""
        return tuple(float(value) for value in self.words.probabilities(features)) if len(features) else ()

    def line_confidence(self, word_confidence: Sequence[float], log_prob: float) -> float:
        """Return the probability that a whole line is correct, from the probabilities of its words.

        `log_prob` is the log-probability of the line, in nats. The result is never above that of the worst word: the
        regression of few lines may not hold for a line that a glossary or a prefix has made improbable. It is 0 for a
        line without words: an empty translation is wrong, because its source has words.
        """
        if not word_confidence:
            return 0.0
        features = line_features(word_confidence, log_prob)[None]
        return min(float(self.lines.probabilities(features, features[:, 0])[0]), *word_confidence)

    def summary(self) -> str:
        """Return `quality` as one line of text for users."""
        quality = self.quality
        return (
            f"{quality['words']:,.0f} words, {quality['correct']:.1%} correct; area under the ROC curve "
            f"{quality['area_under_roc']:.3f}, calibration error {quality['calibration_error']:.3f}"
        )

    def write(self, path: Path) -> None:
        """Write the calibration, whole or not at all."""
        write_json(
            path,
            {
                "format": FORMAT_VERSION,
                "fitted_on": asdict(self.origin),
                "words": {"features": FEATURES, **asdict(self.words)},
                "lines": {"features": LINE_FEATURES, **asdict(self.lines)},
                "quality": dict(self.quality),
            },
        )

    @classmethod
    def read(cls, path: Path) -> Calibration:
        """Return the calibration in a JSON file. All values are checked, because the file may come from a stranger.

        Raises:
            ModelError: the file is damaged, or of another version.
        """
        advice = f"{_REFIT_ADVICE} {path.parent}"
        try:
            values = read_json(path)
        except ModelError as error:
            raise ModelError(f"{error}; {advice}") from error
        if values.get("format") != FORMAT_VERSION:
            raise ModelError(
                f"{path}: has format version {values.get('format')!r}, this program reads {FORMAT_VERSION}; {advice}"
            )
        if values.get("dropout_samples"):
            raise ModelError(f"{path}: was fitted to passes with dropout, which this program does not make; {advice}")
        try:
            origin = _origin(values["fitted_on"])
            quality = {str(name): float(value) for name, value in values["quality"].items()}
            words, lines = (
                _regression(values[key], wanted) for key, wanted in (("words", FEATURES), ("lines", LINE_FEATURES))
            )
            return cls(words, lines, origin, quality)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise ModelError(f"{path}: is damaged; {advice}") from None


def _origin(values: dict[str, Any]) -> Origin:
    return Origin(str(values["model"]), str(values["checkpoint"]), str(values["text"]), int(values["lines"]))


def _regression(values: dict[str, Any], names: Sequence[str]) -> LogisticRegression:
    """Return a regression from JSON values; `ValueError` or `KeyError` if they are not for the features `names`."""
    columns = [tuple(float(value) for value in values[key]) for key in ("means", "scales", "weights")]
    bias = float(values["bias"])
    numbers = [bias, *(value for column in columns for value in column)]
    if values["features"] != list(names) or any(len(column) != len(names) for column in columns):
        raise ValueError
    if not all(map(math.isfinite, numbers)):
        raise ValueError
    return LogisticRegression(columns[0], columns[1], columns[2], bias)


def line_features(word_confidence: Sequence[float], log_prob: float) -> FloatArray:
    """Return the three features of a line: the log-odds that all words are correct if they are independent, the
    log-probability divided by the number of words, and the logarithm of that number."""
    all_correct = min(float(np.log(np.maximum(word_confidence, 1e-12)).sum()), -1e-9)
    log_odds = all_correct - math.log(-math.expm1(all_correct))
    return np.array([log_odds, log_prob / len(word_confidence), math.log(len(word_confidence))])
