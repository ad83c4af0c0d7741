"""The measures of confidence, compared with their definitions."""

from __future__ import annotations

import math
import random

import pytest

from nmt_cli.confidence.confidence_metrics import area_under_roc, calibration_error


def test_the_area_is_the_share_of_pairs_in_the_right_order():
    draw = random.Random(1)
    values = [draw.randrange(8) / 8 for _ in range(60)]  # with ties
    labels = [draw.random() < value for value in values]
    pairs = [(a, b) for a, right in zip(values, labels, strict=True) if right
             for b, other in zip(values, labels, strict=True) if not other]  # fmt: skip
    by_pairs = sum((a > b) + (a == b) / 2 for a, b in pairs) / len(pairs)
    assert area_under_roc(values, labels) == pytest.approx(by_pairs, abs=1e-12)


def test_without_a_wrong_one_there_is_no_area():
    assert math.isnan(area_under_roc([0.1, 0.9], [True, True]))


def test_the_calibration_error_is_the_distance_in_each_bin():
    # Bin 0.2-0.3: mean 0.25, half correct. Last bin, with 1.0 in it: mean 0.975, all correct.
    assert calibration_error([0.24, 0.26, 0.95, 1.0], [0, 1, 1, 1]) == pytest.approx(0.5 * 0.25 + 0.5 * 0.025)
    assert calibration_error([0.5] * 10, [0, 1] * 5) == 0.0
