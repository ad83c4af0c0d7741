"""Finds sentences of dev and test sets in the training text of the other directions of the same model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from nmt_cli.corpora.corpus_report import NUM_EXAMPLES, CorpusReport, Finding
from nmt_cli.corpora.duplicates import NO_HASH, hashes_by_line, line_hashes

FINDING = "other_directions"


def record_other_directions(texts: Sequence[tuple[CorpusReport, tuple[str, str]]]) -> None:
    """Record, for each dev and test set, the pairs of which a side is in the training text of another direction.

    White space around a sentence makes no difference. A pair counts if the training text has the sentence in the same
    language: its decoder, or its encoder, has learned this sentence with another translation. Corpora with problems are
    left out, because they may not be readable.

    Args:
        texts: the report of each corpus, with its source and target language.
    """
    readable = [(report, languages) for report, languages in texts if not report.problems]
    training = [(report, languages) for report, languages in readable if report.is_training]
    hashes_of = cache(lambda path: line_hashes([path]))  # a file may be the text of two directions
    for report, languages in readable:
        if report.is_training:
            continue
        is_shared = np.zeros(report.num_pairs, dtype=bool)
        for path, language in zip((report.source, report.target), languages, strict=True):
            own = hashes_by_line(path)
            for other, its_languages in training:
                for training_path, its_language in zip((other.source, other.target), its_languages, strict=True):
                    if its_languages != languages and its_language == language:
                        is_shared |= np.isin(own, hashes_of(training_path)) & (own != NO_HASH)
        rows = np.flatnonzero(is_shared)
        examples = [f"{report.source}:{row + 1}" for row in rows[:NUM_EXAMPLES]]
        report.findings[FINDING] = Finding(len(rows), examples)
