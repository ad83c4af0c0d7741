"""Tells where a sentence ends within a line, by its signs alone."""

from __future__ import annotations

_SENTENCE_ENDS = ".!?…"


def ends_sentence(word: str) -> bool:
    """Return whether the signs at the end of a word end a sentence, perhaps within brackets or quotes."""
    for character in reversed(word):
        if character in _SENTENCE_ENDS:
            return True
        if character.isalnum() or character == "_":
            return False
    return False
