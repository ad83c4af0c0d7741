"""Learns pairs of words and their translations from parallel text, to train on them in addition to its sentences.

A model that has seen nothing but sentences turns a single word into a sentence. Two IBM Models 1 (Brown et al., 1993),
one for each direction, link the words of each pair of lines. Words that are linked with one another, and with nothing
else, are a unit: `phone` and `điện thoại`. Two units make a pair if each is the most frequent translation of the other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

NUM_ITERATIONS = 6
"""Iterations of expectation maximisation; Och & Ney (2003) make five."""
MIN_COUNT = 2
"""Least number of different pairs of lines in which a pair of words or phrases must occur."""
MAX_WORDS = 50
"""Most words of a line that is read, on either side; the word links of longer lines are seldom right."""
MAX_UNIT_WORDS = 3
"""Most words on the longer side of a word or phrase and its translation; the other side is a single word."""
MAX_LINKS = 10_000_000
"""Most possible word links in all lines that are read; they need about 700 MB of memory. A pair of lines of seven words
each has 56."""
NULL_INDEX = -1
"""Index of the source word for a target word that translates no source word."""
Words = tuple[str, ...]
WordIds = NDArray[Any]


class WordPair(NamedTuple):
    """A word or short phrase and its translation; at least one of the two is a single word."""

    source: Words
    target: Words


def learn_word_pairs(lines: Iterable[tuple[Words, Words]]) -> list[WordPair]:
    """Return source words and phrases with their translations, the pairs that occur in most lines first.

    Args:
        lines: the words of the source and of the target of each pair of lines. Equal pairs count once. Reading stops
            before there are more than `MAX_LINKS` possible links.
    """
    pairs = list(_usable_lines(lines))
    if not pairs:
        return []
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    sources_of, targets_of = _viterbi_alignments(sources, targets), _viterbi_alignments(targets, sources)
    counts: Counter[WordPair] = Counter()
    for source, target, source_of, target_of in zip(sources, targets, sources_of, targets_of, strict=True):
        counts.update({WordPair(*unit) for unit in _units(source, target, source_of, target_of)})
    of_source: dict[Words, WordPair] = {}
    of_target: dict[Words, WordPair] = {}
    for pair, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if count >= MIN_COUNT:
            of_source.setdefault(pair.source, pair)
            of_target.setdefault(pair.target, pair)
    return [pair for pair in of_source.values() if of_target[pair.target] == pair]


def _usable_lines(lines: Iterable[tuple[Words, Words]]) -> Iterator[tuple[Words, Words]]:
    seen: set[tuple[Words, Words]] = set()
    num_links = 0
    for pair in lines:
        source, target = pair
        if not (0 < len(source) <= MAX_WORDS and 0 < len(target) <= MAX_WORDS) or pair in seen:
            continue
        num_links += (len(source) + 1) * len(target)
        if num_links > MAX_LINKS:
            return
        seen.add(pair)
        yield pair


def _viterbi_alignments(sources: Sequence[Words], targets: Sequence[Words]) -> list[list[int]]:
    """Return the most likely source word of each target word: a list of source indices for each line.

    It is `NULL_INDEX` for a target word that translates none. The arrays hold the possible links of all lines, target
    word by target word. The first link of each target word is to the empty word.
    """
    source_ids, target_ids = _word_ids(sources, first=1), _word_ids(targets, first=0)
    num_targets = 1 + max(int(ids.max()) for ids in target_ids)
    rows = [np.append(0, ids) for ids in source_ids]
    kinds = np.concatenate(
        [np.add.outer(target, num_targets * row).ravel() for row, target in zip(rows, target_ids, strict=True)]
    )
    widths = np.concatenate([np.full(len(target), len(row)) for row, target in zip(rows, target_ids, strict=True)])
    kinds, kind_of_link = np.unique(kinds, return_inverse=True)
    source_of_kind, word_of_link = kinds // num_targets, np.repeat(np.arange(len(widths)), widths)
    probability = np.ones(len(kinds))
    for _ in range(NUM_ITERATIONS):
        weights = probability[kind_of_link]
        weights /= np.bincount(word_of_link, weights)[word_of_link]
        expected = np.bincount(kind_of_link, weights)
        probability = expected / np.bincount(source_of_kind, expected)[source_of_kind]
    link_probabilities = probability[kind_of_link]
    begins = np.cumsum(widths) - widths
    is_best = link_probabilities == np.maximum.reduceat(link_probabilities, begins)[word_of_link]
    best = np.flatnonzero(is_best)
    _, firsts = np.unique(word_of_link[best], return_index=True)
    places = (best[firsts] - begins + NULL_INDEX).tolist()
    ends = list(accumulate(map(len, targets)))
    return [places[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def _word_ids(lines: Sequence[Words], *, first: int) -> list[WordIds]:
    numbers: dict[str, int] = {}
    return [np.array([numbers.setdefault(word, len(numbers) + first) for word in line]) for line in lines]


def _units(
    source: Words, target: Words, source_of: Sequence[int], target_of: Sequence[int]
) -> Iterator[tuple[Words, Words]]:
    """Yield the source words and the target words of each unit of a pair of lines.

    `source_of` has the index of the linked source word for each target word, `target_of` the reverse, or `NULL_INDEX`.
    Words that a link of either direction joins belong to one unit. A unit is yielded if both directions agree on one of
    its links, one side has a single word, and the other side has at most `MAX_UNIT_WORDS` words without a gap.
    """
    linked = {(place, other) for other, place in enumerate(source_of) if place != NULL_INDEX}
    back = {(place, other) for place, other in enumerate(target_of) if other != NULL_INDEX}
    both = linked & back
    unit_of = list(range(len(source) + len(target)))
    for one, two in linked | back:
        kept, dropped = sorted((unit_of[one], unit_of[len(source) + two]))
        if kept != dropped:
            unit_of = [kept if unit == dropped else unit for unit in unit_of]
    sides: dict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for number, unit in enumerate(unit_of):
        sides[unit][number >= len(source)].append(number if number < len(source) else number - len(source))
    for places, others in sides.values():
        sizes = sorted((len(places), len(others)))
        are_contiguous = all(own and own[-1] - own[0] == len(own) - 1 for own in (places, others))
        agree = any((one, two) in both for one in places for two in others)
        if sizes[0] == 1 and sizes[1] <= MAX_UNIT_WORDS and are_contiguous and agree:
            yield source[places[0] : places[-1] + 1], target[others[0] : others[-1] + 1]
