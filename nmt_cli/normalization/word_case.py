"""Gives words the case in which the training text has them, if a line's case tells nothing, or a word's case is odd.

The case of a line tells nothing if all of it is in capitals, or nothing of it, or if it is a title (`How To Train Your
Dog`), or a single word, whose capital may be there because it begins the line. In other lines a word is odd if it is in
capitals for stress (`I am VERY tired`), or a name is in small letters (`I saw tom`), and the training text has no such
form of it.
"""

from __future__ import annotations

import re

from nmt_cli.normalization.profile import TextProfile
from nmt_cli.text.letters import WORD, is_all_caps, lower, upper

MIN_SENTENCE = 3
"""Least number of known words for a line without capitals to be taken for a sentence in small letters."""
MIN_UNKNOWN = 3
"""Least number of unknown words for a line in capitals to be taken for one, if all its known words are acronyms."""
MIN_OF_TITLE = 3
"""Least number of words after the first with a capital that they lack in sentences, for a line to be a title."""
MIN_SMALL = 4
"""Least length of a word in small letters that shows that a line is no title; titles have shorter ones (*of the*)."""
_FIRST_LETTER = re.compile(r"\A(\W*)([^\W\d_])")


class Truecaser:
    """Writes words in the case in which a training text has them."""

    def __init__(self, profile: TextProfile, language: str, *, knows_words: bool) -> None:
        """Judge words by the profile of a text; `knows_words` says that the model has trained on single words too."""
        self._profile, self._language, self._knows_words = profile, language, knows_words
        self._other_forms = None if profile.other_forms is None else frozenset(profile.other_forms)
        # Capitals may lack what small letters have: ß becomes SS, and in Greek accents are left out.
        self._by_capitals = {
            capitals: form
            for form in reversed(list(profile.forms.values()))  # the most usual one last, so it stays
            if lower(capitals := upper(form, language), language) != lower(form, language)
        }

    def has_uninformative_case(self, text: str) -> bool:
        """Return whether the case of a text says nothing about its words.

        It does so if the text is in capitals, a title or a single word, or has no capitals though the training text has
        some, or has some though the training text has none.
        """
        if not self._profile.has_case:
            return lower(text, self._language) != text
        kinds = (self.is_word, self.is_in_capitals, self._is_in_small_letters, self._is_title)
        return any(is_one(text) for is_one in kinds)

    def is_word(self, text: str) -> bool:
        """Return whether a text is a single word, of two letters or more, that the training text has.

        For a model that knows sentences only, such a text is a short sentence.
        """
        word = text.strip()
        return self._knows_words and len(word) > 1 and WORD.fullmatch(word) is not None and self._form(word) is not None

    def is_capitalised_word(self, text: str) -> bool:
        """Return whether a text is a single word with a capital, which the training text usually writes without one."""
        form = self._form(text.strip()) if self.is_word(text) else None
        return form is not None and form[0].islower() and text.strip()[0].isupper()

    def is_in_capitals(self, text: str) -> bool:
        """Return whether a text is written in capitals throughout, and is not made of acronyms alone.

        It has no small letters, and a word that the training text usually writes otherwise or several unknown words.
        """
        if not is_all_caps(text):
            return False
        long = [word for word in WORD.findall(text) if len(word) > 1]
        forms = [self._form(word) for word in long]
        known = any(form is not None and form != word for form, word in zip(forms, long, strict=True))
        return known or forms.count(None) >= MIN_UNKNOWN

    def _is_in_small_letters(self, text: str) -> bool:
        """Return whether a text has no capitals, and at least `MIN_SENTENCE` words that the training text has."""
        if any(map(str.isupper, text)) or not any(map(str.islower, text)):
            return False
        return sum(word in self._profile.forms for word in WORD.findall(text)) >= MIN_SENTENCE

    def _is_title(self, text: str) -> bool:
        """Return whether a text is a title: several of its words have a capital that they usually lack."""
        words = WORD.findall(text)[1:]
        if any(word.islower() and len(word) >= MIN_SMALL for word in words):
            return False
        forms = [self._form(word) for word in words if word[0].isupper() and not is_all_caps(word)]
        return sum(form is not None and form[0].islower() for form in forms) >= MIN_OF_TITLE

    def has_odd_word(self, text: str) -> bool:
        """Return whether a word of a text has a case in which the training text does not have it."""
        return any(map(self._is_odd_word, WORD.findall(text)))

    def _is_odd_word(self, word: str) -> bool:
        """Return whether a word is in capitals, or in small letters, and the training text has it in other case only.

        A capital at its beginning is not odd: such a word may begin a sentence, or be a name.
        """
        if not self._profile.has_case or self._other_forms is None:
            return False
        form = self._form(word)
        if form is None or form == word or word in self._other_forms:
            return False
        return word == lower(word, self._language) or (len(word) > 1 and is_all_caps(word))

    def truecase(self, text: str, *, begins: bool, every_word: bool) -> str:
        """Return a text in its usual case; if it `begins` a sentence, it then has a capital.

        Unless `every_word` is true, only odd words change.
        """
        if not self._profile.has_case:
            return lower(text, self._language)
        read = WORD.sub(
            lambda match: self._truecase_word(match[0]) if every_word or self._is_odd_word(match[0]) else match[0], text
        )
        if begins and (every_word or read != text):
            return _FIRST_LETTER.sub(lambda match: match[1] + upper(match[2], self._language), read)
        return read

    def _truecase_word(self, word: str) -> str:
        """Return the usual form of a word; of an unknown word with apostrophes, the usual forms of its parts."""
        form = self._form(word)
        if form is None and len(parts := re.split("(['’])", word)) > 1:
            return "".join(self._form(part) or lower(part, self._language) for part in parts)
        return form or lower(word, self._language)

    def _form(self, word: str) -> str | None:
        """Return the form in which the training text has a word, or None if it has none."""
        return self._profile.forms.get(lower(word, self._language)) or self._by_capitals.get(word)
