"""Logistic regression: its optimum, and what happens without enough examples."""

from __future__ import annotations

import numpy as np
import torch

from nmt_cli.confidence.logistic import PENALTY, LogisticRegression


def drawn(count=400, columns=3, seed=1):
    draw = np.random.default_rng(seed)
    features = draw.normal(2.0, 3.0, (count, columns))
    log_odds = features @ np.array([1.0, -0.5, 0.0][:columns]) + 0.3
    return features, (draw.random(count) < 1 / (1 + np.exp(-log_odds))).astype(float)


def loss_of(weights, bias, features, labels, offsets):
    """The penalised loss, by torch."""
    scaled = torch.tensor((features - features.mean(0)) / features.std(0))
    log_odds = scaled @ weights + bias + torch.tensor(offsets)
    nll = torch.nn.functional.binary_cross_entropy_with_logits(log_odds, torch.tensor(labels), reduction="sum")
    return nll + 0.5 * PENALTY * (weights**2).sum()


def test_the_gradient_vanishes_at_the_fit():
    features, labels = drawn()
    offsets = np.linspace(-1.0, 1.0, len(labels))
    fitted = LogisticRegression.fit(features, labels, offsets)
    weights = torch.tensor(fitted.weights, dtype=torch.float64, requires_grad=True)
    bias = torch.tensor(fitted.bias, dtype=torch.float64, requires_grad=True)
    loss_of(weights, bias, features, labels, offsets).backward()
    assert weights.grad.abs().max() < 1e-6
    assert abs(bias.grad) < 1e-6


def test_labels_that_a_line_separates_give_finite_weights():
    features = np.concatenate([np.full((50, 1), -1.0), np.full((50, 1), 1.0)])
    fitted = LogisticRegression.fit(features, np.repeat([0.0, 1.0], 50))
    assert np.isfinite(fitted.weights).all()
    assert fitted.probabilities(np.array([[-1.0], [1.0]])).round().tolist() == [0.0, 1.0]


def test_a_bad_start_does_not_lead_away():
    """Without shorter steps Newton's method diverges from log-odds this wrong."""
    features, labels = drawn(columns=1)
    offsets = np.where(labels > 0.5, -30.0, 30.0)
    fitted = LogisticRegression.fit(features, labels, offsets)
    assert np.isfinite([*fitted.weights, fitted.bias]).all()


def test_a_constant_feature_gets_no_weight_and_no_say():
    features, labels = drawn()
    with_constant = np.concatenate([features, np.full((len(features), 1), 7.0)], axis=1)
    fitted = LogisticRegression.fit(with_constant, labels)
    assert fitted.weights[-1] == 0.0
    with_constant[:, -1] = 1e6
    assert np.allclose(
        fitted.probabilities(with_constant), LogisticRegression.fit(features, labels).probabilities(features)
    )


def test_few_examples_leave_the_offsets_as_they_are():
    features = np.random.default_rng(1).normal(size=(3, 2))
    offsets = np.array([-2.0, 0.0, 2.0])
    fitted = LogisticRegression.fit(features, np.zeros(3), offsets, penalises_bias=True)
    assert np.abs(fitted.log_odds(features, offsets) - offsets).max() < 0.3
