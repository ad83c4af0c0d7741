"""Translators for tests of documents: lines in, translations with weights out, without a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nmt_cli.documents.sentences import splitter
from nmt_cli.translation.results import Translation

SPLIT = splitter("en")


def translator(change: Callable[[list[str]], list[str]], order: Callable[[int], list[int]] | None = None):
    """Return a translator that changes the words; target word i looks at source word i, or at `order(n)[i]`."""

    def translate(lines: Sequence[str]) -> list[Translation]:
        translations = []
        for line in lines:
            words = line.split()
            new = change(list(words))
            weights = np.zeros((len(new), len(words) + 1))
            columns = order(len(words)) if order else list(range(len(words)))
            for row in range(len(new)):
                weights[row, columns[min(row, len(columns) - 1)]] = 1.0
            translations.append(Translation(" ".join(new), 0.0, 0.0, weights, None, len(new)))
        return translations

    return translate


unchanged = translator(lambda words: words)
upper = translator(lambda words: [word.upper() for word in words])
backwards = translator(lambda words: [word.upper() for word in reversed(words)], lambda n: list(range(n))[::-1])
