"""Features of words, by hand."""

from __future__ import annotations

import numpy as np

from nmt_cli.confidence.features import FEATURES, MIN_LOG_PROB, Predictions, word_features


def predictions(log_probs, num_source=3):
    count = len(log_probs)
    weights = np.full((count, num_source), 1 / num_source)
    return Predictions(np.array(log_probs), np.arange(count, dtype=float), weights)


def named(features):
    return dict(zip(FEATURES, features.T, strict=True))


def test_pieces_are_gathered_to_their_words_and_the_end_belongs_to_the_last():
    found = named(word_features(predictions([-1.0, -2.0, -0.5, -0.25]), [0, 0, 1], ["deux", "mots"]))
    assert found["log_prob"].tolist() == [-3.0, -0.75]
    assert found["lowest_log_prob"].tolist() == [-2.0, -0.5]
    assert np.allclose(found["prob"], np.exp([-3.0, -0.75]))
    assert np.allclose(np.exp(found["log_pieces"]), [2, 2])
    assert found["entropy"].tolist() == [0.5, 2.5]
    assert found["before_log_prob"].tolist() == [0.0, -2.0]
    assert found["after_log_prob"].tolist() == [-0.5, -0.25]  # after the last word comes </s>
    assert np.allclose(found["attention_entropy"], np.log(3))
    assert np.allclose(found["line_log_prob"], -3.75 / 4)
    assert found["place"].tolist() == [0.0, 0.5]


def test_a_source_piece_that_nothing_looks_at_is_counted():
    weights = np.array([[0.9, 0.05, 0.05], [0.9, 0.05, 0.05]])
    seen = Predictions(np.zeros(2), np.zeros(2), weights)
    assert named(word_features(seen, [0], ["mot"]))["line_unattended"].tolist() == [0.5]  # </s> is no source piece


def test_a_piece_that_spells_two_words_gives_both_its_values():
    found = named(word_features(predictions([-1.0, -2.0]), [0], ["deux", "mots"]))
    assert found["log_prob"].tolist() == [-1.0, -2.0]
    found = named(word_features(predictions([-1.0, -3.0, -2.0]), [0, 2], ["un", "deux", "trois"]))
    assert found["log_prob"].tolist() == [-1.0, -1.0, -5.0]


def test_an_impossible_piece_does_not_count_without_bound():
    found = word_features(predictions([-np.inf, -1.0]), [0], ["mot"])
    assert np.isfinite(found).all()
    assert named(found)["lowest_log_prob"].tolist() == [MIN_LOG_PROB]


def test_no_words_give_no_rows():
    assert word_features(predictions([-1.0]), [], []).shape == (0, len(FEATURES))
