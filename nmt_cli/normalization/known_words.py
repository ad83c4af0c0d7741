"""Corrects typing errors in words that the training text does not have.

A word is corrected if one slip makes it of a known word: an apostrophe left out, two letters next to each other
exchanged, a letter doubled, or a letter left out, neither the first nor the last. These seldom make one word of a
language from another, so an unknown word that is right is seldom changed. A wrong letter often does, so it is not
corrected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from nmt_cli.text.letters import lower, upper

MIN_LETTERS = 4
"""Letters of the shortest word that is corrected."""
MIN_LETTERS_LEFT = 5
"""Letters of the shortest word that may get back a letter that was left out. Short words are too like each other."""
MIN_CAPITALS = 4
"""Letters of the shortest word in capitals that gets back its apostrophe: *ID* is not *I'd*."""
MAX_RANK_WITH_S = 1_000
"""Number of the most frequent words that may get an apostrophe and s, as *that's*. A rarer one, such as *computer's*,
is less likely than the plural."""
MAX_LETTERS = 40
"""Letters of the longest word that is corrected."""
MAX_ALPHABET = 200
"""Letters of the largest alphabet. Scripts with more, such as Han, are not written letter by letter."""
_APOSTROPHE = re.compile("['’]")
_FINAL_S = re.compile(r"['’]s\Z")


class KnownWords:
    """The words of a training text, to which words with typing errors are corrected."""

    def __init__(self, forms: Mapping[str, str], language: str) -> None:
        """Know these words: `forms` maps each in small letters to its usual form, the most frequent first."""
        self._forms, self._language = forms, language
        self._ranks = {word: rank for rank, word in enumerate(forms)}
        self._by_letters: dict[str, str] = {}
        """Words with an apostrophe, by their letters without it."""
        for word, rank in self._ranks.items():
            letters = _APOSTROPHE.sub("", word)
            if letters != word and (rank < MAX_RANK_WITH_S or not _FINAL_S.search(word)):
                self._by_letters.setdefault(letters, word)
        self._letters = sorted({letter for word in forms for letter in word if letter.isalpha()})

    def correct(self, word: str, *, any_case: bool = False) -> str:
        """Return a word without its typing error, in its own case; the word itself if it is known or no error is found.

        Unless `any_case` is true, the known word must usually have a capital if the word has one, and none otherwise:
        so a name is corrected to a known name only. But a word may lack an apostrophe and a capital at once, as *im*
        does for *I'm*.
        """
        key = lower(word, self._language)
        if key in self._forms:
            return word
        if (whole := self._with_apostrophe(word, any_case=any_case)) is not None:
            return self._with_case_of(word, whole)
        if not (MIN_LETTERS <= len(word) <= MAX_LETTERS and len(self._letters) <= MAX_ALPHABET and word.isalpha()):
            return word
        begins = word[0].isupper()
        found = [
            one
            for one in set(self._candidates(key))
            if one in self._ranks and (any_case or begins == self._forms[one][:1].isupper())
        ]
        if not found:
            return word
        return self._with_case_of(word, min(found, key=self._ranks.__getitem__))

    def _with_apostrophe(self, word: str, *, any_case: bool) -> str | None:
        """Return the known word with an apostrophe and the same letters; None if none fits or it may be a name."""
        whole = self._by_letters.get(lower(word, self._language))
        if whole is None:
            return None
        if word.isupper():
            return whole if len(word) >= MIN_CAPITALS else None
        is_name = word[0].isupper() and not any_case and self._forms[whole][0].islower()
        return None if is_name else whole

    def _with_case_of(self, word: str, correct: str) -> str:
        """Return the corrected form in capitals, or with a capital, if the word was written so."""
        if word.isupper():
            return upper(correct, self._language)
        return upper(correct[0], self._language) + correct[1:] if word[0].isupper() else correct

    def _candidates(self, word: str) -> Iterator[str]:
        """Yield all words of which one slip may have made this word: letters exchanged, doubled or left out."""
        for place in range(len(word) - 1):
            before, one, two, after = word[:place], word[place], word[place + 1], word[place + 2 :]
            yield before + one + after if one == two else before + two + one + after
        for place in range(1, len(word)) if len(word) >= MIN_LETTERS_LEFT else ():
            for letter in self._letters:
                yield word[:place] + letter + word[place:]
