"""A model of the two languages of a corpus, learned from the character trigrams of its two sides.

A part of the lines that it learns from may be in a wrong language. Each round learns again from the lines that were
right by the last round, so the others lose their influence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

NUM_BUCKETS = 2**18
"""Number of hash values (buckets) of trigrams. Trigrams with the same hash are not told apart."""
MAX_CHARACTERS = 400
"""Characters at the beginning of a line that are read."""
SMOOTHING = 0.1
ROUNDS = 4
"""First rounds of learning, after each of which only the `TRUSTED_SHARE` of lines that fit best are learned from."""
GROWING_ROUNDS = 3
"""Rounds after the first `ROUNDS`. They learn from all but the strangest lines, so that rare words are learned too."""
GROWING_LIMIT_SHARE = 0.6
"""Distance below the median fit (mean log-probability of a trigram) at which the `GROWING_ROUNDS` ignore a line, as a
share of the distance at which a line is in neither language."""
TRUSTED_SHARE = 0.65
"""Share of the lines, those that fit best, from which the next round learns. Up to 30 % of all lines may be wrong."""
MIN_LINES = 200
MIN_TRIGRAMS = 12
"""Least trigrams of a line to learn from; in shorter lines names and loan words decide."""
MIN_STRANGE_TRIGRAMS = 20
"""Least trigrams of a line that can be found to be in neither language."""
MIN_EVIDENCE = 15.0
"""Least log-odds, in nats, for the other language, summed over a line, with which it can be found to be in it."""
MIN_GAP = 0.4
"""Least evidence of a trigram for its own language, in nats, in the median line. With less, the languages are too alike
to be told apart."""
MIN_CORRECT_SHARE = 0.6
"""Least share of the lines that are nearer to their own language; with less, the model is not used."""
FOREIGN_SHARE = 0.3
"""Least log-odds for the other language, per trigram, of a foreign line, as a share of the median for the own one."""
STRANGE_SHARE = 0.8
"""Least distance below the median fit (mean log-probability of a trigram) of a line in neither language, as a share of
the gap between the median fits of lines of both languages."""
STRANGE_SPREADS = 5.0
"""Least distance below the median fit of a line in neither language, as a multiple of the median absolute deviation."""
MIN_OWN_LANGUAGE_SHARE = 0.5
"""A line with this share of the median evidence for its own language is never in neither, however rare its words."""
MAX_LANGUAGE_GAP = 4.0
"""Upper limit, in nats per trigram, for the gap that `STRANGE_SHARE` is a share of. The gap to a language in another
script is large, although a third language in the same script may be much nearer."""
_SCRIPT_STARTS = np.array(
    (0x21, 0x370, 0x400, 0x530, 0x590, 0x600, 0x900, 0x980, 0xA00, 0xA80, 0xB00, 0xB80, 0xC00, 0xC80, 0xD00, 0xD80,
     0xE00, 0xE80, 0xF00, 0x1000, 0x10A0, 0x1100, 0x1200, 0x1780, 0x1E00, 0x2E80, 0xAC00, 0xD7B0), dtype=np.uint32,
)  # fmt: skip
"""Code points at which ranges of scripts begin, in rising order. Kana and ideographs are one range."""
_NO_LETTERS = re.compile(r"[\W\d_]+")
_IDEOGRAPH = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
"""Matches ideographs, kana and Hangul. Three in a row are too rare to learn, so blanks are put between them and a
trigram holds one or two."""
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class LanguageFlags(NamedTuple):
    """Two flags for each pair: its sides are exchanged; its sides are not exchanged but one is in a wrong language."""

    swapped: Flags
    wrong_language: Flags


class _Trigrams(NamedTuple):
    """The hash values (buckets) of the trigrams of several lines; line i has `lengths[i]` of them from `starts[i]`."""

    buckets: NDArray[np.uint32]
    starts: NDArray[Any]
    lengths: NDArray[Any]
    scripts: NDArray[Any]
    """The script of most letters of each line: its number in `_SCRIPT_STARTS`, from 1; 0 if there is no letter."""

    def means(self, table: NDArray[np.float32]) -> Floats:
        """Return for each line the mean over its trigrams of the values in a table, which has one for each bucket."""
        return np.asarray(np.add.reduceat(table[self.buckets].astype(np.float64), self.starts) / self.lengths)

    def learn(self, lines: Flags) -> NDArray[np.float32]:
        """Return the log-probability of each bucket in the lines flagged by `lines`; all lines have the same weight."""
        counts, _ = self._count(lines)
        return np.asarray(np.log(counts / counts.sum()), dtype=np.float32)

    def held_out_means(self, lines: Flags) -> Floats:
        """Return the mean log-probability of each line's trigrams by the model that `learn` gives without that line.

        If a line has a trigram several times, only one occurrence is left out.
        """
        counts, weights = self._count(lines)
        of_others = np.maximum(counts[self.buckets] - np.repeat(weights, self.lengths), SMOOTHING)
        sums = np.add.reduceat(np.log(of_others), self.starts)
        return np.asarray(sums / self.lengths - np.log(counts.sum() - weights * self.lengths))

    def _count(self, lines: Flags) -> tuple[Floats, Floats]:
        """Return the smoothed total weight of each bucket in flagged lines, and the weight per trigram of each line."""
        weights = np.where(lines, self.lengths[lines].mean() / self.lengths, 0.0)
        counts = np.bincount(self.buckets, np.repeat(weights, self.lengths), minlength=NUM_BUCKETS)
        return np.asarray(counts + SMOOTHING), np.asarray(weights)


def _trigrams(texts: Sequence[str]) -> _Trigrams:
    spaced = (_IDEOGRAPH.sub(r"\g<0> ", text[:MAX_CHARACTERS]) for text in texts)
    # Two blanks mark the beginning of a line and one its end, so a line has two trigrams fewer than characters.
    bare = [f"  {_NO_LETTERS.sub(' ', text.lower()).strip()} " for text in spaced]
    sizes = np.array([len(text) for text in bare])
    codes = np.frombuffer("".join(bare).encode("utf-32-le"), dtype=np.uint32)
    mixed = codes[:-2] * np.uint32(0x9E3779B1) ^ codes[1:-1] * np.uint32(0x85EBCA77) ^ codes[2:] * np.uint32(0xC2B2AE3D)
    mixed ^= mixed >> np.uint32(15)
    mixed = mixed * np.uint32(0x2C1B3C6D)
    ends = np.cumsum(sizes)[:-1]
    mixed = np.delete(mixed, np.concatenate((ends - 2, ends - 1)))  # these hold letters of two lines
    lengths = sizes - 2
    return _Trigrams(mixed >> np.uint32(14), np.cumsum(lengths) - lengths, lengths, _scripts(codes, sizes))


def _scripts(codes: NDArray[np.uint32], sizes: NDArray[Any]) -> NDArray[Any]:
    kinds = np.searchsorted(_SCRIPT_STARTS, codes, side="right")
    kinds[(codes >= 0x1E00) & (codes < 0x1F00)] = 1  # Latin letters with two marks
    lines = np.repeat(np.arange(len(sizes)), sizes)
    letters = codes != ord(" ")
    num_kinds = len(_SCRIPT_STARTS) + 1
    counts = np.bincount(lines[letters] * num_kinds + kinds[letters], minlength=len(sizes) * num_kinds)
    return np.asarray(counts.reshape(len(sizes), num_kinds).argmax(axis=1))


class _SideLimits(NamedTuple):
    """Values learned from one side of the corpus, with which its lines are compared."""

    evidence: float
    """Log-odds per trigram, in nats, for the language of this side against the other, in the median line."""
    strange: float
    """Mean log-probability of the trigrams of a line below which it is in neither language."""


class LanguageFilter:
    """Finds lines that are in the other language of the corpus, or in neither, by character trigrams."""

    def __init__(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        self._tables: list[NDArray[np.float32]] = []
        self._sides: list[_SideLimits] = []
        self.is_sure = len(sources) >= MIN_LINES and self._learn([_trigrams(sources), _trigrams(targets)])
        """False if the languages cannot be told apart. Then no line is flagged."""

    def _learn(self, sides: list[_Trigrams]) -> bool:
        # Lines in another script than most are never learned from: few letters are learned faster than many ideographs.
        trusted = [
            (side.lengths >= MIN_TRIGRAMS) & (side.scripts == np.bincount(side.scripts).argmax()) for side in sides
        ]
        if min(flags.sum() for flags in trusted) < MIN_LINES // 2:
            return False
        judged = [flags.copy() for flags in trusted]
        for number in range(ROUNDS + GROWING_ROUNDS):
            self._tables = [side.learn(flags) for side, flags in zip(sides, trusted, strict=True)]
            # A line that is learned from would fit better than others like it, above all in a small corpus.
            fits = [
                [side.held_out_means(trusted[own]) if own == of else side.means(self._tables[of]) for of in (0, 1)]
                for own, side in enumerate(sides)
            ]
            evidence = [fits[own][own] - fits[own][1 - own] for own in (0, 1)]
            for own in (0, 1):
                fit = fits[own][own]
                limit = np.quantile(fit[judged[own]], 1 - TRUSTED_SHARE)
                if number >= ROUNDS:
                    limit = _fit_limit(fit[trusted[own]], fits[1 - own][own][trusted[1 - own]], GROWING_LIMIT_SHARE)
                trusted[own] = judged[own] & (evidence[own] > 0) & (fit >= limit)
                if not trusted[own].any():
                    return False
        for own in (0, 1):
            gap = float(np.median(evidence[own][trusted[own]]))
            strange = _fit_limit(fits[own][own][trusted[own]], fits[1 - own][own][trusted[1 - own]])
            self._sides.append(_SideLimits(gap, strange))
            if gap < MIN_GAP or np.mean(evidence[own][judged[own]] > 0) < MIN_CORRECT_SHARE:
                return False
        return True

    def flag(self, sources: Sequence[str], targets: Sequence[str]) -> LanguageFlags:
        """Return two flags for each pair: its sides are exchanged; otherwise, a side is in a wrong language."""
        if not self.is_sure or not sources:
            none = np.zeros(len(sources), dtype=bool)
            return LanguageFlags(none, none)
        foreign, leaning, strange = [], [], []
        for own, texts in enumerate((sources, targets)):
            side = _trigrams(texts)
            fit = side.means(self._tables[own])
            evidence = fit - side.means(self._tables[1 - own])
            limits = self._sides[own]
            leaning.append(evidence * side.lengths < -MIN_EVIDENCE)
            foreign.append(leaning[own] & (evidence < -FOREIGN_SHARE * limits.evidence))
            is_own = (side.lengths < MIN_STRANGE_TRIGRAMS) | (evidence >= MIN_OWN_LANGUAGE_SHARE * limits.evidence)
            strange.append(~is_own & (fit < limits.strange))
        swapped = (foreign[0] & leaning[1]) | (leaning[0] & foreign[1])
        return LanguageFlags(swapped, (foreign[0] | foreign[1] | strange[0] | strange[1]) & ~swapped)


def _fit_limit(fit: Floats, other: Floats, part: float = 1.0) -> float:
    """Return the fit (mean log-probability of a trigram) below which a line of a side is in neither language.

    `fit` has the fits of trusted lines of this side, and `other` the fits of trusted lines of the other side. `part` is
    a factor on the distance between the median fit and the limit.
    """
    usual = float(np.median(fit))
    spread = float(np.median(np.abs(fit - usual)))
    return usual - part * max(
        STRANGE_SPREADS * spread, STRANGE_SHARE * min(usual - float(np.median(other)), MAX_LANGUAGE_GAP)
    )
