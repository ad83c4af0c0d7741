"""Attention between pieces, merged to the words of the raw text.

Words are the white-space split of the raw lines, numbered from 0. The weight of a word pair is the sum over its source
pieces, averaged over its target pieces.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

AlignmentMatrix = NDArray[np.float64]
"""Attention weights (target words, source words), from some functions with a last column for other pieces."""
Link = tuple[int, int]
"""Index of a source word, and index of the target word that is aligned to it."""
MAX_WEIGHTS = 16_000_000
"""Largest number of word pairs of a line with a matrix of weights; lines with more have hard links alone."""


def merge_to_words(
    weights: NDArray[np.floating], source_words: Sequence[int], target_words: Sequence[int], shape: tuple[int, int]
) -> AlignmentMatrix:
    """Return attention between words, merged from pieces: (target words, source words and one more column).

    The last column has the attention to source pieces that belong to no word: `</s>`, and white space that may have
    pieces beyond the last word. Target pieces that belong to no word are left out.

    Args:
        weights: attention (target pieces, source pieces and `</s>`).
        source_words: the index of the word of each source piece; the number of words or more if it belongs to none.
        target_words: likewise for each target piece.
        shape: the numbers of target words and of source words.
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


def hard_alignment(weights: NDArray[np.floating]) -> list[Link]:
    """Return a link from each target word to its heaviest source word, in target order; none if all weights are 0."""
    if weights.size == 0:
        return []
    heaviest = weights.argmax(axis=1)
    return [(int(source), target) for target, source in enumerate(heaviest) if weights[target, source] > 0.0]


def format_pharaoh(links: Sequence[Link]) -> str:
    """Return links in Pharaoh format: `0-0 1-2`."""
    return " ".join(f"{source}-{target}" for source, target in links)


def alignment_error_rate(
    hypotheses: Sequence[Sequence[Link]], sure: Sequence[set[Link]], possible: Sequence[set[Link]]
) -> float:
    """Return 1 - (|A & S| + |A & P|) / (|A| + |S|), each size summed over all sentences (Och & Ney, 2003).

    A are the hypotheses, S the sure links, and P the possible ones, among which the sure ones count too.
    """
    hits = size = 0
    for links, sure_links, possible_links in zip(hypotheses, sure, possible, strict=True):
        found = set(links)
        hits += len(found & sure_links) + len(found & (possible_links | sure_links))
        size += len(found) + len(sure_links)
    return 1.0 - hits / size if size else 0.0
