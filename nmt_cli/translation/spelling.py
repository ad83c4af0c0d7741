"""Mends typing errors in words that the training text does not have.

A word is mended if one slip makes it of a known word: two letters next to each other exchanged, a letter doubled, or a
letter left out, neither the first nor the last. These three seldom make one word of a language from another, so an
unknown word that is right is seldom changed. A wrong letter often does, so it is not mended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nmt_cli.data.writing import lower, upper

MIN_LETTERS = 4
"""Letters of the shortest word that is mended."""
MIN_LETTERS_LEFT = 5
"""Letters of the shortest word in which one is looked for that was left out. Short words are too like each other."""
MAX_LETTERS = 40
"""Letters of the longest."""
MAX_ALPHABET = 200
"""Letters of the largest alphabet. Scripts with more, such as Han, are not written letter by letter."""


class Spelling:
    """The words of a training text, to which words with typing errors are led back."""

    def __init__(self, forms: Mapping[str, str], language: str) -> None:
        """Take the usual form of each word, by the word in small letters, the most frequent first."""
        self._forms, self._language = forms, language
        self._ranks = {word: rank for rank, word in enumerate(forms)}
        self._letters = sorted({letter for word in forms for letter in word if letter.isalpha()})

    def mended(self, word: str, *, any_case: bool = False) -> str:
        """Return a word without its typing error, in its own case; the word itself if it is known or none is found.

        The usual case of the known word is to be that of the word, unless `any_case` is true: a name stays unless it
        is like a known name.
        """
        key = lower(word, self._language)
        is_spelt = MIN_LETTERS <= len(word) <= MAX_LETTERS and len(self._letters) <= MAX_ALPHABET
        if key in self._forms or not (is_spelt and word.isalpha()):
            return word
        begins = word[0].isupper()
        found = [
            one
            for one in set(self._sources(key))
            if one in self._ranks and (any_case or begins == self._forms[one][:1].isupper())
        ]
        if not found:
            return word
        best = min(found, key=self._ranks.__getitem__)
        if word.isupper():
            return upper(best, self._language)
        return upper(best[0], self._language) + best[1:] if begins else best

    def _sources(self, word: str) -> Iterator[str]:
        """Yield all that one slip may have made this word of."""
        for place in range(len(word) - 1):
            before, one, two, after = word[:place], word[place], word[place + 1], word[place + 2 :]
            yield before + one + after if one == two else before + two + one + after
        for place in range(1, len(word)) if len(word) >= MIN_LETTERS_LEFT else ():
            for letter in self._letters:
                yield word[:place] + letter + word[place:]
