"""Puts source words in the place of unknown pieces in a translation, as the attention aligns them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nmt_cli.data.tokenizer import UNK
from nmt_cli.text.edits import Change, Edits, Span, word_spans
from nmt_cli.text.line import Line
from nmt_cli.text.translation import Translation
from nmt_cli.translation.results import Part

UNK_SURFACE = "\u2047"
"""The text that SentencePiece writes for a piece that it does not know."""
_WORD = re.compile(r"\S+")


def copy_unknown_words(line: Line, parts: Sequence[Part], translations: Sequence[Translation]) -> list[Translation]:
    """Return the translations with source words, as the user wrote them, in the place of words with an unknown piece.

    Words of the source that are one unknown piece together are copied together.
    """
    if not any(UNK_SURFACE in found.text for found in translations):
        return list(translations)
    unknown = [
        span for part in parts for id_, span in zip(part.ids[part.num_tags :], part.spans, strict=True) if id_ == UNK
    ]
    return [found.with_changes(_copies(line.edits, unknown, found)) for found in translations]


def _copies(edits: Edits, unknown: Sequence[Span], found: Translation) -> list[Change]:
    """Return the changes that put words of the line in the place of words with an unknown piece; none before the end
    of the prefix, and none without attention weights."""
    source = word_spans(edits.new)
    if found.alignment is None or found.alignment.weights is None or not source:
        return []
    text = found.text
    words = [
        word.span()
        for side in ((0, found.prefix_length), (found.prefix_length, len(text)))
        for word in _WORD.finditer(text, *side)
    ]
    changes = []
    for (begin, end), aligned in zip(words, found.alignment.aligned_to(source, words), strict=True):
        if begin < found.prefix_length or UNK_SURFACE not in text[begin:end]:
            continue
        first, last = source[max(aligned, 0)]
        for piece in unknown:
            own = edits.new[slice(*piece)]
            if first <= piece[1] - len(own.lstrip()) < last:  # blanks may be of an unknown piece, or be one
                last = max(last, piece[0] + len(own.rstrip()))
        changes.append(Change(begin, end, edits.old[slice(*edits.old_span(first, last))], (first, last)))
    return changes
