"""Changes the case of lines to that of the training text, where their case tells nothing or words are in unusual case.

The translation of a line in capitals is in capitals, too; that of a single word with a capital begins with a capital.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nmt_cli.normalization.profile import TextProfile
from nmt_cli.normalization.sentence_ends import ends_sentence
from nmt_cli.normalization.step import RestoringStep
from nmt_cli.normalization.word_case import Truecaser
from nmt_cli.text.edits import Change
from nmt_cli.text.letters import upper
from nmt_cli.text.line import Line, UndoRecord
from nmt_cli.text.translation import Translation

_WORD = re.compile(r"\S+")
_FIRST_LETTER = re.compile(r"\W*([^\W\d_])")
_CAPITALS, _CAPITAL = "capitals", "capital"


class Case(RestoringStep):
    """Reads words in the case of the training text, and gives the translation the case of the line."""

    name = "case"

    def __init__(
        self, profile: TextProfile, truecaser: Truecaser, *, source_lang: str, target_lang: str, code: re.Pattern[str]
    ) -> None:
        """Write words in the case that `truecaser` gives them; words of translations in which `code` is found stay."""
        self._truecaser, self._languages, self._code = truecaser, (source_lang, target_lang), code
        self._begins_with_capital = profile.begins_with_capital

    def read(self, line: Line) -> Line:
        """Return the line in usual case, with a record of the case in which its translation is to be written."""
        plain_text = line.plain_text()
        recases = self._truecaser.has_uninformative_case(plain_text)
        changes: list[Change] = []
        if recases or self._truecaser.has_odd_word(plain_text):
            changes = list(self._changes(line, plain_text, recases=recases))
        case = None
        if self._truecaser.is_in_capitals(plain_text):
            case = _CAPITALS
        elif self._truecaser.is_capitalised_word(line.text):
            case = _CAPITAL
        return line.apply_step(self.name, changes, case)

    def undo(self, undo: UndoRecord, translation: Translation) -> list[Change]:
        """Return the changes that write the translation in capitals, or with a capital, as its line was written.

        After a prefix, only the translation of a line in capitals changes, and only if the prefix has no small letters.
        """
        prefix = translation.text[: translation.prefix_length]
        if undo.data == _CAPITALS and not any(map(str.islower, prefix.replace("ß", ""))):
            spans = [
                word.span()
                for word in _WORD.finditer(translation.text, translation.prefix_length)
                if not self._code.search(word[0])
            ]
        elif undo.data == _CAPITAL and not prefix and (first := _FIRST_LETTER.match(translation.text)):
            spans = [first.span(1)]
        else:
            return []
        return [self._uppercase_change(translation.text, begin, end) for begin, end in spans]

    def _uppercase_change(self, text: str, begin: int, end: int) -> Change:
        capitals = upper(text[begin:end], self._languages[1])
        return Change(begin, end, capitals, one_to_one=len(capitals) == end - begin)

    def _changes(self, line: Line, plain_text: str, *, recases: bool) -> Iterator[Change]:
        begins = has_beginnings = self._begins_with_capital and not self._truecaser.is_word(plain_text)
        for match in line.words():
            word, (begin, end) = match[0], match.span()
            cased = self._truecaser.truecase(word, begins=begins, every_word=recases)
            if len(cased) != len(word):  # a letter may become two, as in Turkish
                yield from [Change(begin, end, cased)] if line.is_free(begin, end) else ()
            elif line.is_free(begin, end):
                yield Change(begin, end, cased, one_to_one=True)
            else:
                yield from (
                    Change(begin + place, begin + place + 1, one, one_to_one=True)
                    for place, one in enumerate(cased)
                    if line.is_free(begin + place, begin + place + 1)
                )
            if any(map(str.isalnum, cased)):
                begins = has_beginnings and ends_sentence(cased)
