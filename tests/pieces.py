"""Pieces of translations with their words."""

from __future__ import annotations

from collections.abc import Sequence

from nmt_cli.data.tokenizer import PieceWords, Tokenizer, _with_words


def decode_words(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[str, PieceWords]:
    """Return the text of piece ids, and the pieces, each with the number of its word in this text."""
    text, spans = tokenizer.decode_spans(ids)
    return text, _with_words(text, ids, spans)
