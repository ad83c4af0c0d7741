"""Measures `nmt translate --confidence`: which words are wrong, do the probabilities mean what they say, at what cost?

Run it as `python -m benchmarks.confidence --model DIR [--test SOURCE REFERENCE]`. Everything is fitted to the dev set
of the model's configuration and measured on its first test set, or on the text of `--test`. It prints tables in
Markdown.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nmt_cli.assembly.file_checks import read_parallel
from nmt_cli.assembly.trained_translator import open_translator
from nmt_cli.confidence.calibration import Calibration, Origin
from nmt_cli.confidence.confidence_metrics import area_under_roc, calibration_error
from nmt_cli.confidence.features import FEATURES, GROUPS
from nmt_cli.confidence.fitting import LabelledLine, fit
from nmt_cli.confidence.logistic import LogisticRegression
from nmt_cli.experiment import Experiment
from nmt_cli.scoring import score_corpus
from nmt_cli.translation.confidence_estimator import ConfidenceEstimator
from nmt_cli.translation.translator import Translator

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Text:
    """A translated text with the labels of its words."""

    lines: list[LabelledLine]
    chrf: FloatArray
    """chrF of each line."""
    seconds: float
    """Time of the processor."""

    @property
    def features(self) -> FloatArray:
        """A row for each word of all lines."""
        return np.concatenate([line.features for line in self.lines])

    @property
    def labels(self) -> FloatArray:
        """1 for each correct word."""
        return np.array([word for line in self.lines for word in line.word_labels], dtype=float)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--test", nargs=2, metavar=("SOURCE", "REFERENCE"))
    given = parser.parse_args()
    data = Experiment(given.model).config.data
    (dev_set,) = data.dev_sets
    test_files = given.test or (data.test[0].source, data.test[0].target)
    translator = open_translator([given.model], threads=1)
    dev = translated(translator, (dev_set.source, dev_set.target))
    test = translated(translator, test_files)
    print(f"{len(test.lines):,} lines, {len(test.labels):,} words, {test.labels.mean():.1%} correct\n")
    by_features(dev, test)
    by_bins(dev, test)
    of_lines(dev, test)
    costs(translator, test_files)


def translated(translator: Translator, files: Sequence[str]) -> Text:
    """Translate a text and measure the features of its words."""
    sources, references = read_parallel(files)
    translator.estimator = ConfidenceEstimator()
    began, lines, chrf = time.process_time(), [], []
    found = [one.translations[0] for one in translator.translate(sources)]
    seconds = time.process_time() - began
    for one, reference in zip(found, references, strict=True):
        if one.features is not None and len(one.features):
            lines.append(LabelledLine.of(one.features, one.log_prob, one.text, reference))
            chrf.append(score_corpus([one.text], [[reference]], metrics=("chrf",))[0].score)
    return Text(lines, np.array(chrf), seconds)


def columns_of(*groups: str) -> list[int]:
    """Return the columns of some groups of features."""
    return [FEATURES.index(name) for group in groups for name in GROUPS[group]]


def by_features(dev: Text, test: Text) -> None:
    """Print what each group of features adds, and what all lack without it."""

    def row(name: str, columns: list[int]) -> None:
        found = LogisticRegression.fit(dev.features[:, columns], dev.labels).probabilities(test.features[:, columns])
        nll = -np.log(np.where(test.labels > 0.5, found, 1 - found)).mean()
        print(
            f"| {name} | {area_under_roc(found, test.labels):.4f} | {calibration_error(found, test.labels):.4f} | "
            f"{nll:.4f} |"
        )

    print("| features | area under the ROC curve | calibration error | log loss |\n|---|---|---|---|")
    for name in ("prob", "lowest_prob"):
        raw = test.features[:, FEATURES.index(name)]
        shown = {"prob": "probability of the word, as it is", "lowest_prob": "its least probable piece, as it is"}[name]
        print(f"| {shown} | {area_under_roc(raw, test.labels):.4f} | {calibration_error(raw, test.labels):.4f} | |")
    groups: list[str] = []
    for group in GROUPS:
        groups.append(group)
        row(f"{'' if len(groups) == 1 else '+ '}{group}", columns_of(*groups))
    for group in GROUPS:
        row(f"all without {group}", columns_of(*(other for other in GROUPS if other != group)))
    print()


def calibrated(dev: Text) -> Calibration:
    """Return the calibration that training would keep."""
    return fit(dev.lines, Origin("", "", "", len(dev.lines)))


def by_bins(dev: Text, test: Text) -> None:
    """Print how many words have a confidence, and how many of these are correct."""
    calibration = calibrated(dev)
    found = np.array([value for line in test.lines for value in calibration.word_confidence(line.features)])
    quality = calibration.quality
    print(
        f"Cross-validated on the dev set: area {quality['area_under_roc']:.4f}, calibration error "
        f"{quality['calibration_error']:.4f}.\n"
    )
    print("| confidence | words | mean confidence | correct |\n|---|---|---|---|")
    for low in range(10):
        inside = np.minimum((found * 10).astype(int), 9) == low
        if inside.any():
            print(
                f"| {low / 10:.1f} to {(low + 1) / 10:.1f} | {inside.sum():,} | {found[inside].mean():.3f} | "
                f"{test.labels[inside].mean():.3f} |"
            )
    worst = np.argsort(found, kind="stable")[: len(found) // 10]
    caught = (1 - test.labels[worst]).sum() / (1 - test.labels).sum()
    print(f"\nThe tenth of the words with the least confidence holds {caught:.0%} of the wrong words.\n")


def of_lines(dev: Text, test: Text) -> None:
    """Print how the confidence of lines goes with their quality."""
    calibration, lines = calibrated(dev), test.lines
    words = [calibration.word_confidence(line.features) for line in lines]
    labels = np.array([line.is_correct for line in lines], dtype=float)
    share = np.array([np.mean(line.word_labels) for line in lines])
    given = {
        "confidence": np.array(
            [calibration.line_confidence(own, line.log_prob) for own, line in zip(words, lines, strict=True)]
        ),
        "mean of word_confidence": np.array([np.mean(own) for own in words]),
        "log-probability per word": np.array([line.log_prob / len(line.word_labels) for line in lines]),
    }
    print(f"{labels.mean():.1%} of the lines need no edit.\n")
    print(
        "| value of a line | area: needs no edit | calibration error | with the share of correct words | correlation "
        "with chrF | of the ranks |\n|---|---|---|---|---|---|"
    )
    for name, values in given.items():
        is_probability = "log" not in name
        errors = [f"{calibration_error(values, truth):.4f}" if is_probability else "" for truth in (labels, share)]
        print(
            f"| {name} | {area_under_roc(values, labels):.4f} | {errors[0]} | {errors[1]} | "
            f"{np.corrcoef(values, test.chrf)[0, 1]:.3f} | {np.corrcoef(ranks(values), ranks(test.chrf))[0, 1]:.3f} |"
        )
    print()


def ranks(values: FloatArray) -> FloatArray:
    """Return the rank of each value, the mean of their ranks for equal ones."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    mean: FloatArray = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return mean


def costs(translator: Translator, files: Sequence[str]) -> None:
    """Print the time of the processor, against that of a translation without confidence."""
    sources = read_parallel(files)[0]
    ways = {"without confidence": None, "with confidence": ConfidenceEstimator()}
    seconds: dict[str, float] = {}
    for _ in range(2):  # the first round warms up
        for name, translator.estimator in ways.items():
            began = time.process_time()
            for _ in translator.translate(sources):
                pass
            seconds[name] = time.process_time() - began
    print("| translation | time |\n|---|---|")
    for name, own in seconds.items():
        print(f"| {name} | {own / seconds['without confidence']:.2f} |")


if __name__ == "__main__":
    main()
