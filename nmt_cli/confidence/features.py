"""Features of the words of a translation, from the model's predictions in forced decoding of this translation.

Shapes: T target pieces with `</s>`, S source pieces with `</s>`, W words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
MIN_LOG_PROB = -20.0
"""Lower bound to which log-probabilities are raised, so that one piece cannot decide everything."""
MIN_COVERAGE = 0.3
"""Attention on a source piece, summed over all target pieces, from which on the piece counts as translated."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    "probability": ("log_prob", "prob", "lowest_log_prob", "lowest_prob"),
    "form": ("log_pieces", "log_characters"),
    "entropy": ("entropy", "highest_entropy"),
    "attention": ("attention_entropy", "attention_peak", "attention_end"),
    "neighbours": ("before_log_prob", "before_prob", "after_log_prob", "after_prob"),
    "line": (
        "line_log_prob", "line_prob", "line_lowest_log_prob", "line_entropy", "line_log_words", "line_log_ratio",
        "line_unattended", "place",
    ),
}  # fmt: skip
"""Names of the features, grouped by the values from which they are made."""
FEATURES = tuple(name for names in GROUPS.values() for name in names)
"""The names of the columns of `word_features`."""


@dataclass(frozen=True, slots=True)
class Predictions:
    """Predictions of the model for the pieces of one translation."""

    log_probs_T: FloatArray
    """Log-probability of each piece, in nats; the last belongs to `</s>`."""
    entropies_T: FloatArray
    """Entropy of the predicted distribution at each piece, in nats."""
    weights_TS: FloatArray
    """Attention weights of each target piece on the source pieces."""


def word_features(predicted: Predictions, piece_words: Sequence[int], words: Sequence[str]) -> FloatArray:
    """Return a row of features for each word (W, features).

    Args:
        predicted: predictions for the pieces and `</s>`.
        piece_words: for each piece the index of its word, without `</s>`, which belongs to the last word.
        words: the words of the text.
    """
    if not words:
        return np.zeros((0, len(FEATURES)))
    last = len(words) - 1
    owners = np.array([*(min(word, last) for word in piece_words), last])
    pieces = [np.flatnonzero(owners == word) for word in range(len(words))]
    for word, own in enumerate(pieces):
        if not len(own):  # a piece that spells several words stands with the first of them
            pieces[word] = pieces[word - 1] if word else np.array([0])
    log_probs_T = np.maximum(predicted.log_probs_T, MIN_LOG_PROB)
    lowest_W = np.array([log_probs_T[own].min() for own in pieces])
    before_W, after_W = np.array([0.0, *lowest_W[:-1]]), np.array([*lowest_W[1:], log_probs_T[-1]])
    summed_W = np.maximum([log_probs_T[own].sum() for own in pieces], MIN_LOG_PROB)
    columns = [
        summed_W, np.exp(summed_W), lowest_W, np.exp(lowest_W),
        np.log([len(own) for own in pieces]), np.log([len(word) for word in words]),
        *_entropies(predicted, pieces), *_attention(predicted, pieces),
        before_W, np.exp(before_W), after_W, np.exp(after_W),
        *_line_columns(predicted, log_probs_T, len(words)),
    ]  # fmt: skip
    return np.stack(columns, axis=1)


def _entropies(predicted: Predictions, pieces: Sequence[NDArray[np.intp]]) -> list[FloatArray]:
    entropies_T = predicted.entropies_T
    return [
        np.array([entropies_T[own].mean() for own in pieces]),
        np.array([entropies_T[own].max() for own in pieces]),
    ]


def _attention(predicted: Predictions, pieces: Sequence[NDArray[np.intp]]) -> list[FloatArray]:
    weights_TS = predicted.weights_TS
    entropies_T = -(weights_TS * np.log(np.maximum(weights_TS, 1e-9))).sum(axis=1)
    return [
        np.array([values_T[own].mean() for own in pieces])
        for values_T in (entropies_T, weights_TS.max(axis=1), weights_TS[:, -1])
    ]


def _line_columns(predicted: Predictions, log_probs_T: FloatArray, num_words: int) -> list[FloatArray]:
    """Return the columns (W) of the group `line`: seven that all words share, and each word's place, in [0, 1)."""
    num_target, num_source = predicted.weights_TS.shape
    attended_S = predicted.weights_TS[:, :-1].sum(axis=0)
    shared = (
        log_probs_T.mean(), np.exp(log_probs_T).mean(), log_probs_T.min(), predicted.entropies_T.mean(),
        np.log(num_words), np.log(num_target / num_source),
        (attended_S < MIN_COVERAGE).mean() if len(attended_S) else 0.0,
    )  # fmt: skip
    return [*(np.full(num_words, value) for value in shared), np.arange(num_words) / num_words]
