"""Quality of confidence values: do they rank words (area under ROC), and are they probabilities (calibration)?"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

NUM_BINS = 10


def area_under_roc(values: ArrayLike, labels: ArrayLike) -> float:
    """Return the probability that a correct word has a higher value than a wrong one, ties counted half; 0.5 is chance.

    The result is NaN if all words are correct or all are wrong.
    """
    given, correct = np.asarray(values, dtype=float), np.asarray(labels, dtype=bool)
    num_correct, num_wrong = int(correct.sum()), int((~correct).sum())
    if not num_correct or not num_wrong:
        return float("nan")
    _, places, counts = np.unique(given, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return float((ranks[correct].sum() - num_correct * (num_correct + 1) / 2) / (num_correct * num_wrong))


def calibration_error(values: ArrayLike, labels: ArrayLike) -> float:
    """Return the expected calibration error: the distance between mean confidence and share of correct words, averaged
    over ten bins of equal width, weighted by the number of values in each (Guo et al., 2017, eq. 3)."""
    given, correct = np.asarray(values, dtype=float), np.asarray(labels, dtype=float)
    bins = np.minimum((given * NUM_BINS).astype(int), NUM_BINS - 1)
    error = 0.0
    for number in range(NUM_BINS):
        inside = bins == number
        if inside.any():
            error += abs(given[inside].mean() - correct[inside].mean()) * inside.mean()
    return float(error)
