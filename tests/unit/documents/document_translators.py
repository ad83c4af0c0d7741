"""Translators for tests of documents: lines in, translations with weights out, without a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from nmt_cli.documents.sentences import splitter
from nmt_cli.text.edits import word_spans
from nmt_cli.text.unit_alignment import Alignment
from nmt_cli.translation.results import Translation

SPLIT = splitter("en")


def translator(change: Callable[[list[str]], list[str]], order: Callable[[int], list[int]] | None = None):
    """Return a translator that changes the words; target word i looks at source word i, or at `order(n)[i]`."""

    def translate(lines: Sequence[str]) -> list[Translation]:
        translations = []
        for line in lines:
            words = line.split()
            new = change(list(words))
            columns = order(len(words)) if order else list(range(len(words)))
            looks = tuple(columns[min(row, len(columns) - 1)] for row in range(len(new)))
            ends = list(accumulate(len(word) + 1 for word in new))
            spans = tuple((end - len(word) - 1, end - 1) for word, end in zip(new, ends, strict=True))
            alignment = Alignment(tuple(word_spans(line)), spans, None, looks)
            translations.append(Translation(" ".join(new), 0.0, 0.0, alignment=alignment))
        return translations

    return translate


unchanged = translator(lambda words: words)
upper = translator(lambda words: [word.upper() for word in words])
backwards = translator(lambda words: [word.upper() for word in reversed(words)], lambda n: list(range(n))[::-1])
