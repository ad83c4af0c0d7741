"""Attention between pieces, merged to the words of the raw text.

Words are the white-space split of the raw lines, from 0. The weight of a word pair is the sum over its source pieces,
averaged over its target pieces.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
"""Weights (target words, source words)."""
Link = tuple[int, int]
"""Source word, target word."""
MAX_WEIGHTS = 16_000_000
"""Word pairs of a line beyond which it has hard links but no matrix of weights."""


def merge_to_words(
    weights: NDArray[np.floating], source_words: Sequence[int], target_words: Sequence[int], shape: tuple[int, int]
) -> Matrix:
    """Return weights of words from weights of (target pieces, source pieces and `</s>`).

    `shape` is (target words, source words). The result has one more column, for what lies on no word of the source: on
    `</s>`, and on white space, which may have pieces beyond the last word. Such pieces of the target are left out.
    """
    by_source = np.zeros((len(target_words), shape[1] + 1))
    for piece, word in enumerate((*source_words, shape[1])):
        by_source[:, min(word, shape[1])] += weights[:, piece]
    merged = np.zeros((shape[0], shape[1] + 1))
    counts = np.zeros(shape[0])
    for piece, word in enumerate(target_words):
        if word < shape[0]:
            merged[word] += by_source[piece]
            counts[word] += 1
    return merged / np.maximum(counts, 1)[:, None]


def hard_links(weights: NDArray[np.floating]) -> list[Link]:
    """Return each target word with its heaviest source word, in the order of the target; none where all weights are
    zero."""
    if weights.size == 0:
        return []
    heaviest = weights.argmax(axis=1)
    return [(int(source), target) for target, source in enumerate(heaviest) if weights[target, source] > 0.0]


def pharaoh(links: Sequence[Link]) -> str:
    """Return links in Pharaoh format: `0-0 1-2`."""
    return " ".join(f"{source}-{target}" for source, target in links)


def alignment_error_rate(
    hypotheses: Sequence[Sequence[Link]], sure: Sequence[set[Link]], possible: Sequence[set[Link]]
) -> float:
    """Return 1 - (|A & S| + |A & P|) / (|A| + |S|), summed over sentences (Och & Ney, 2003); S counts as possible
    too."""
    hits = size = 0
    for links, sure_links, possible_links in zip(hypotheses, sure, possible, strict=True):
        found = set(links)
        hits += len(found & sure_links) + len(found & (possible_links | sure_links))
        size += len(found) + len(sure_links)
    return 1.0 - hits / size if size else 0.0
