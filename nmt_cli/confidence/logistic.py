"""Logistic regression with a quadratic penalty, fitted by Newton's method: a dozen weights need no library."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
PENALTY = 10.0
"""Factor of half the sum of squared weights of standardised features, which is added to the negative log-likelihood."""
MAX_STEPS = 100


@dataclass(frozen=True, slots=True)
class LogisticRegression:
    """Logistic regression: P(y = 1 | x) = 1 / (1 + exp(-(offset + bias + w . (x - mean) / scale)))."""

    means: tuple[float, ...]
    scales: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float

    @classmethod
    def fit(
        cls,
        features: FloatArray,
        labels: FloatArray,
        offsets: FloatArray | None = None,
        *,
        penalises_bias: bool = False,
    ) -> LogisticRegression:
        """Return the regression that fits labels of 0 and 1 best; the same input gives the same result.

        Args:
            features: a row for each example. Columns are standardised; a constant column gets no weight.
            labels: 0 or 1 for each example.
            offsets: log-odds of each example to which the regression adds; zeros if None.
            penalises_bias: penalise the bias too, so that few examples leave the offsets nearly as they are.
        """
        means, scales = features.mean(axis=0), features.std(axis=0)
        scales[scales < 1e-6] = np.inf
        design = np.concatenate([np.ones((len(features), 1)), (features - means) / scales], axis=1)
        penalties = np.full(design.shape[1], PENALTY)
        if not penalises_bias:
            penalties[0] = 0.0
        start = np.zeros(len(labels)) if offsets is None else offsets
        weights = np.zeros(design.shape[1])
        loss = _loss(design, labels, start, weights, penalties)
        for _ in range(MAX_STEPS):
            probabilities = sigmoid(start + design @ weights)
            gradient = design.T @ (labels - probabilities) - penalties * weights
            curvature = (design * (probabilities * (1.0 - probabilities))[:, None]).T @ design + np.diag(penalties)
            step = np.linalg.solve(curvature + 1e-9 * np.eye(len(weights)), gradient)
            # Newton's step may lead too far from a bad start; half of it, or less, never does.
            while (new := _loss(design, labels, start, weights + step, penalties)) > loss and np.abs(step).max() > 1e-9:
                step /= 2.0
            weights, loss = weights + step, new
            if np.abs(step).max() < 1e-9:
                break
        scales[np.isinf(scales)] = 0.0
        as_floats = [tuple(float(value) for value in values) for values in (means, scales, weights[1:])]
        return cls(as_floats[0], as_floats[1], as_floats[2], float(weights[0]))

    def log_odds(self, features: FloatArray, offsets: FloatArray | None = None) -> FloatArray:
        """Return the log-odds of each row of features, added to its offset if offsets are given."""
        scales = np.array(self.scales)
        standardised = (features - np.array(self.means)) / np.where(scales > 0.0, scales, np.inf)
        found: FloatArray = standardised @ np.array(self.weights) + self.bias
        return found if offsets is None else found + offsets

    def probabilities(self, features: FloatArray, offsets: FloatArray | None = None) -> FloatArray:
        """Return the probability of label 1 for each row of features; `offsets` are log-odds that are added."""
        return sigmoid(self.log_odds(features, offsets))


def sigmoid(log_odds: FloatArray) -> FloatArray:
    """Return probabilities from log-odds."""
    found: FloatArray = np.exp(-np.logaddexp(0.0, -log_odds))
    return found


def _loss(
    design: FloatArray, labels: FloatArray, offsets: FloatArray, weights: FloatArray, penalties: FloatArray
) -> float:
    log_odds = offsets + design @ weights
    # -log P(y): log(1 + e^-z) for y = 1, log(1 + e^z) for y = 0.
    nll = np.logaddexp(0.0, np.where(labels > 0.5, -log_odds, log_odds)).sum()
    return float(nll + 0.5 * (penalties * weights**2).sum())
