"""Calibrations: fitted, written, read, and refused where they are damaged."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from nmt_cli.confidence.calibration import Calibration, Origin, line_features
from nmt_cli.confidence.features import FEATURES
from nmt_cli.confidence.fitting import LabelledLine, fit
from nmt_cli.system.errors import InputError, ModelError

ORIGIN = Origin("f" * 64, "step-00000012", "0" * 64, 80)
NUM_FEATURES = len(FEATURES)


def lines(count=80, seed=1, share=0.8):
    """Lines whose words are right more often where the second feature, a probability, is high."""
    draw = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        probabilities = draw.beta(2, 2 * (1 - share) / share, draw.integers(1, 9))
        features = np.zeros((len(probabilities), NUM_FEATURES))
        features[:, 1] = probabilities
        words = tuple(bool(value) for value in draw.random(len(probabilities)) < probabilities)
        found.append(LabelledLine(features, float(np.log(probabilities).sum()), words, all(words)))
    return found


@pytest.fixture(scope="module")
def calibration():
    return fit(lines(), ORIGIN)


def test_what_is_written_is_read_again(calibration, tmp_path):
    calibration.write(tmp_path / "confidence.json")
    assert Calibration.read(tmp_path / "confidence.json") == calibration


def test_the_same_lines_give_the_same_bytes(calibration, tmp_path):
    for name in "ab":
        fit(lines(), ORIGIN).write(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_confidence_means_what_it_says(calibration):
    assert calibration.quality["area_under_roc"] > 0.7
    unseen = lines(2000, seed=2)
    given = np.array([value for line in unseen for value in calibration.word_confidence(line.features)])
    assert abs(given.mean() - np.mean([word for line in unseen for word in line.word_labels])) < 0.03
    of_lines = [
        calibration.line_confidence(calibration.word_confidence(line.features), line.log_prob) for line in unseen
    ]
    assert abs(np.mean(of_lines) - np.mean([line.is_correct for line in unseen])) < 0.05


def test_a_line_is_less_sure_than_its_least_sure_word_where_few_lines_are_known():
    few = [LabelledLine(line.features, line.log_prob, line.word_labels, False) for line in lines(40)]
    fitted = fit(few, ORIGIN)
    sure, unsure = (fitted.line_confidence(words, -1.0) for words in ([0.99, 0.98], [0.99, 0.5]))
    assert 0.0 < unsure < sure < 0.98


def test_a_line_is_never_surer_than_its_least_sure_word(calibration):
    """With a weight of chance, an improbable line that a prefix has forced passed for certain."""
    lines = replace(calibration.lines, weights=(0.1, -0.5, 0.1))
    assert replace(calibration, lines=lines).line_confidence([0.9, 0.6], -1_000.0) == 0.6


def test_a_line_without_words_is_wrong(calibration):
    assert calibration.word_confidence(np.zeros((0, NUM_FEATURES))) == ()
    assert calibration.line_confidence((), 0.0) == 0.0


def test_a_certain_line_has_finite_features():
    assert np.isfinite(line_features([1.0, 1.0], 0.0)).all()
    assert np.isfinite(line_features([0.0], -1000.0)).all()


@pytest.mark.parametrize("label", [True, False])
def test_words_that_are_all_right_or_all_wrong_tell_nothing(label):
    same = [LabelledLine(line.features, line.log_prob, (label,) * len(line.word_labels), label) for line in lines(40)]
    with pytest.raises(InputError, match=r"^too few words to calibrate confidence: of the translations of 40 lines, "):
        fit(same, ORIGIN)


def of_two_labels():
    """Return a line of ten correct and ten wrong words."""
    return LabelledLine(np.random.default_rng(1).random((20, NUM_FEATURES)), -9.0, (True, False) * 10, False)


def test_one_line_leaves_none_to_judge_it_by():
    without_words = LabelledLine(np.zeros((0, NUM_FEATURES)), 0.0, (), False)
    message = (
        r"^too few lines to calibrate confidence: of the translations of 2 lines, only 1 has words, but 2 are needed$"
    )
    with pytest.raises(InputError, match=message):
        fit([of_two_labels(), without_words], ORIGIN)


def test_two_lines_judge_each_other():
    assert fit([of_two_labels()] * 2, ORIGIN).quality["words"] == 40


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda values: values.update(format=2),
            "has format version 2, this program reads 1; fit it again: nmt evaluate",
        ),
        (lambda values: values.pop("words"), "is damaged; fit it again: nmt evaluate --calibrate --model "),
        (lambda values: values["words"]["weights"].pop(), "is damaged"),
        (lambda values: values["words"]["features"].reverse(), "is damaged"),
        (lambda values: values["lines"].update(bias=float("nan")), "is damaged"),
        (lambda values: values["lines"].update(bias="0"), None),
        (
            lambda values: values.update(dropout_samples=8),
            "was fitted to passes with dropout, which",
        ),
        (lambda values: values.update(quality=[]), "is damaged"),
        (lambda values: values["words"].update(means=[10**400] * NUM_FEATURES), "is damaged"),
    ],
)
def test_a_damaged_file_is_named(calibration, tmp_path, change, message):
    path = tmp_path / "confidence.json"
    calibration.write(path)
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))
    if message is None:
        assert Calibration.read(path).lines.bias == 0.0
        return
    with pytest.raises(ModelError) as error:
        Calibration.read(path)
    assert str(error.value).startswith(f"{path}: {message}")
