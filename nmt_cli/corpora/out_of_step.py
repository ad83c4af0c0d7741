"""Out-of-step detection: stretches in which the lines of two files are shifted against each other.

The evidence is words that translate each other, learned from the corpus itself by counting, and words and numbers that
are the same on both sides. A path through the possible shifts then finds where a stretch begins and ends.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

MAX_SHIFT = 5
SHIFTS = (0, *(sign * distance for distance in range(1, MAX_SHIFT + 1) for sign in (1, -1)))
"""Shifts in lines (target line minus source line), each a state of the hidden Markov model; 0 is in step. The model has
one more state, the last, for rows in which no line nearby fits."""
MIN_PAIRS = 300
MAX_WORDS = 25
"""Number of words at the beginning of a line that are used; further ones are ignored."""
MIN_COOCCURRENCES = 3
MIN_DICE = 0.1
MAX_SHARE = 0.2
"""Largest share of the lines that may have a word whose translations are learned; others fit everywhere."""
MAX_TRANSLATIONS = 3
MIN_CONTRAST = 0.15
"""Least `OutOfStepDetector.contrast` with which lines are flagged; with less, the words show too little."""
EVIDENCE_WEIGHT = 0.5
"""Factor on the log-odds of a line. It is less than 1 because the words of a line depend on each other."""
MAX_EVIDENCE = 3.0
TRANSITION_COST = 12.0
"""Evidence, in nats, that each change of the shift needs, such as the beginning or end of a stretch out of step."""
MIN_SUSPECT_EVIDENCE = 6.0
"""Total evidence against being in step, in nats, from which the shifts other than 0 are tried in a stretch."""
MARGIN_ROWS = 64
"""Number of rows before and after a suspected stretch for which the shifts are tried too."""
NO_MATCH_EVIDENCE = -0.7
"""Evidence of any line, in nats, for the state in which no line nearby fits. It is below 0, so that loose translations
do not count as out of step."""
MIN_COGNATE = 4
_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]|\w+")
Words = frozenset[str]
Evidence = NDArray[np.float64]


def _token_set(text: str) -> Words:
    return frozenset(_TOKEN.findall(text[:1_000].lower())[:MAX_WORDS])


class OutOfStepDetector:
    """Finds stretches out of step, block after block, as the states of a hidden Markov model."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Learn which words translate each other from pairs drawn from the corpus (Dice's coefficient)."""
        sides = [(_token_set(source), _token_set(target)) for source, target in pairs]
        self._lexicon = _lexicon(sides) if len(pairs) >= MIN_PAIRS else {}
        matched = self._hit_rate(sides)
        others = sides[1:] + sides[:1]
        random.Random(1).shuffle(others)
        strange = self._hit_rate([(source, target) for (source, _), (_, target) in zip(sides, others, strict=True)])
        self.contrast = matched - strange
        """Hit rate (`_hit_rate`, 0 to 1) of the given pairs minus the hit rate of the same lines paired at random."""
        self.is_sure = self.contrast >= MIN_CONTRAST
        """False if the words do not separate pairs from unrelated lines. Then no line is flagged."""
        matched, strange = (min(0.98, max(0.02, rate)) for rate in (matched, strange))
        self._hit_log_odds, self._miss_log_odds = np.log(matched / strange), np.log((1 - matched) / (1 - strange))
        self.reset()

    def reset(self) -> None:
        """Start again: the next block is the first of a corpus, which is in step."""
        self._scores = self._initial_scores()

    def _initial_scores(self) -> Evidence:
        scores = np.full(len(SHIFTS) + 1, -TRANSITION_COST)
        scores[0] = 0.0
        return scores

    def _hit_rate(self, sides: Sequence[tuple[Words, Words]]) -> float:
        """Return the hit rate: of the source words with known translations, the share that have one in the target.

        Words and numbers that are equal on both sides count as hits too.
        """
        counts = [self._hits(*pair) for pair in sides]
        return sum(hits for hits, _ in counts) / max(1, sum(total for _, total in counts))

    def _hits(self, source: Words, target: Words) -> tuple[int, int]:
        hits = total = 0
        for word in source:
            if (translations := self._lexicon.get(word)) is not None:
                total += 1
                hits += word in target or not translations.isdisjoint(target)
            elif word in target and (len(word) >= MIN_COGNATE or word.isdecimal()):
                total += 1
                hits += 1
        return hits, total

    def _evidence(self, source: Words, target: Words) -> float:
        """Return the weighted log-odds, in nats, that these sides translate each other, at most `MAX_EVIDENCE`."""
        hits, total = self._hits(source, target)
        evidence = EVIDENCE_WEIGHT * (hits * self._hit_log_odds + (total - hits) * self._miss_log_odds)
        return float(min(MAX_EVIDENCE, max(-MAX_EVIDENCE, evidence)))

    def flag(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.bool_]:
        """Return a flag for each pair of the next block, True if it is out of step. Stretches may span blocks."""
        flags = np.zeros(len(pairs), dtype=bool)
        if not self.is_sure or not pairs:
            return flags
        sides = [(_token_set(source), _token_set(target)) for source, target in pairs]
        straight = np.array([self._evidence(*pair) for pair in sides])
        suspected = _suspected(straight, begins_suspected=int(self._scores.argmax()) > 0)
        if not suspected.any():
            self._scores = self._initial_scores()
            return flags
        table = np.full((len(pairs), len(SHIFTS) + 1), -MAX_EVIDENCE)
        table[:, 0] = straight
        table[:, -1] = NO_MATCH_EVIDENCE
        for row in np.flatnonzero(suspected).tolist():
            for column, shift in enumerate(SHIFTS[1:], start=1):
                is_within = 0 <= row + shift < len(pairs)
                table[row, column] = self._evidence(sides[row][0], sides[row + shift][1]) if is_within else 0.0
        return self._path(table) > 0

    def _path(self, table: Evidence) -> NDArray[np.intp]:
        """Return the likeliest state of each row (Viterbi), as an index of `SHIFTS`, or their number if no line fits.

        `table` has the evidence of each row for each state, in nats. The path continues from the block before.
        """
        previous_states = np.zeros(table.shape, dtype=np.int8)
        scores = self._scores
        stay = np.arange(table.shape[1], dtype=np.int8)
        for row, evidence in enumerate(table):
            best = int(scores.argmax())
            moved = scores[best] - TRANSITION_COST
            previous_states[row] = np.where(scores >= moved, stay, best)
            scores = np.maximum(scores, moved) + evidence
        path = np.zeros(len(table), dtype=np.intp)
        state = int(scores.argmax())
        for row in range(len(table) - 1, -1, -1):
            path[row] = state
            state = int(previous_states[row, state])
        self._scores = scores - scores.max()
        return path


def _suspected(evidence: Evidence, *, begins_suspected: bool) -> NDArray[np.bool_]:
    """Return a flag for each row, True in and around stretches that may be out of step, so that shifts must be tried.

    `evidence` is for being in step. `begins_suspected` is True if the block before ended out of step. A stretch ends
    where later evidence for being in step makes up for the evidence against it.
    """
    suspected = np.zeros(len(evidence), dtype=bool)
    begin, evidence_against, is_far = 0, TRANSITION_COST if begins_suspected else 0.0, begins_suspected
    for row, value in enumerate(evidence.tolist()):
        evidence_against = max(0.0, evidence_against - value)
        is_far = is_far or evidence_against >= MIN_SUSPECT_EVIDENCE
        if evidence_against == 0.0:
            if is_far:
                suspected[max(0, begin - MARGIN_ROWS) : row + MARGIN_ROWS] = True
            begin, is_far = row, False
    if is_far:
        suspected[max(0, begin - MARGIN_ROWS) :] = True
    return suspected


def _lexicon(sides: Sequence[tuple[Words, Words]]) -> dict[str, Words]:
    """Return for each source word the target words, at most `MAX_TRANSLATIONS`, that occur with it most (Dice's
    coefficient)."""
    vocabularies, frequencies = [], []
    for side in (0, 1):
        counts = Counter(word for pair in sides for word in pair[side])
        most = MAX_SHARE * len(sides)
        vocabulary = [word for word, count in counts.items() if MIN_COOCCURRENCES <= count <= most]
        vocabularies.append({word: number for number, word in enumerate(vocabulary)})
        frequencies.append(np.array([counts[word] for word in vocabulary]))
    sources, targets = vocabularies
    if not sources or not targets:
        return {}
    size = len(targets)
    together: list[NDArray[np.int64]] = []
    for source, target in sides:
        known = ([sources[word] * size for word in source if word in sources],
                 [targets[word] for word in target if word in targets])  # fmt: skip
        together.append(np.fromiter((first + second for first, second in product(*known)), dtype=np.int64))
    keys, counts_of_keys = np.unique(np.concatenate(together), return_counts=True)
    rows, columns = keys // size, keys % size
    dice = 2 * counts_of_keys / (frequencies[0][rows] + frequencies[1][columns])
    is_good = (counts_of_keys >= MIN_COOCCURRENCES) & (dice >= MIN_DICE)
    rows, columns, dice = rows[is_good], columns[is_good], dice[is_good]
    order = np.lexsort((-dice, rows))
    source_words, target_words = list(sources), list(targets)
    found: dict[str, list[str]] = {}
    for index in order:
        translations = found.setdefault(source_words[rows[index]], [])
        if len(translations) < MAX_TRANSLATIONS:
            translations.append(target_words[columns[index]])
    return {word: frozenset(translations) for word, translations in found.items()}
