"""The amount and the variety of parallel text, by which the size of a model is chosen."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nmt_cli.data.pairs import Corpus, FilterReport, has_both_sides, read_pairs
from nmt_cli.system.console import Progress

SURVEYED_PAIRS = 500_000
"""Words and characters are counted in this many pairs at the beginning; the pairs are all counted."""
COVERAGE = 0.9995
TRIAL_BYTES = 4_000_000
"""Most bytes of training text for which a tokenizer is trained on trial before there is a run; it takes a second or
two."""


@dataclass(frozen=True, slots=True)
class TextSurvey:
    """Counts of the pairs, words and characters of some corpora together, and averages per line."""

    num_pairs: int
    """All pairs."""
    num_invalid: int
    """Pairs that are not UTF-8."""
    num_whole: int
    """Pairs in UTF-8 with text on both sides."""
    words_per_line: float
    """Average number of words of a target line, in the first `SURVEYED_PAIRS` pairs."""
    characters_per_line: float
    """Average number of characters of a target line, white space not counted, in the first `SURVEYED_PAIRS` pairs."""
    distinct_words: int
    """Distinct words of both sides together, in the first `SURVEYED_PAIRS` pairs."""
    distinct_characters: int
    covering_characters: int
    """Number of distinct characters, the most frequent ones, that make up 99.95 % of the text."""


def survey(corpora: Sequence[Corpus]) -> TextSurvey:
    """Return the counts and averages over all these corpora together.

    Raises:
        InputError: a corpus cannot be read or has unequal line counts.
    """
    num_whole = num_surveyed = num_words = num_characters = 0
    words: set[int] = set()
    characters: Counter[str] = Counter()
    read = FilterReport()
    with Progress("counting", unit="pair") as progress:
        for corpus in corpora:
            for pair in read_pairs(corpus, invalid_utf8="skip", report=read):
                progress.advance()
                num_whole += has_both_sides(pair)
                if num_surveyed == SURVEYED_PAIRS:
                    continue
                num_surveyed += 1
                target_words = pair.target.split()
                num_words += len(target_words)
                num_characters += sum(map(len, target_words))
                for text in (pair.source, pair.target):
                    split = unicodedata.normalize("NFKC", text).split()
                    words.update(map(hash, split))
                    characters.update("".join(split))
    shares = np.cumsum(sorted(characters.values(), reverse=True))
    covering = int(np.searchsorted(shares, COVERAGE * shares[-1])) + 1 if len(shares) else 0
    return TextSurvey(
        num_pairs=read.read,
        num_invalid=sum(read.left_out.values()),
        num_whole=num_whole,
        words_per_line=num_words / max(1, num_surveyed),
        characters_per_line=num_characters / max(1, num_surveyed),
        distinct_words=len(words),
        distinct_characters=len(characters),
        covering_characters=covering,
    )
