"""Corrects typing errors in words that the training text lacks to words that it has."""

from __future__ import annotations

from collections.abc import Iterator

from nmt_cli.normalization.known_words import KnownWords
from nmt_cli.normalization.sentence_ends import ends_sentence
from nmt_cli.normalization.step import Step
from nmt_cli.normalization.word_case import Truecaser
from nmt_cli.text.edits import Change
from nmt_cli.text.letters import WORD
from nmt_cli.text.line import Line


class Spelling(Step):
    """Corrects typing errors in words; the translation is unchanged."""

    name = "spelling"

    def __init__(self, words: KnownWords, truecaser: Truecaser) -> None:
        """Correct words to those of the training text; `truecaser` says in which lines capitals mark names."""
        self._words, self._truecaser = words, truecaser

    def read(self, line: Line) -> Line:
        """Return the line without typing errors."""
        return line.apply_step(self.name, self._changes(line))

    def _changes(self, line: Line) -> Iterator[Change]:
        recases, begins = self._truecaser.has_uninformative_case(line.plain_text()), True
        for word in line.words():
            for match in WORD.finditer(word[0]):
                corrected = self._words.correct(match[0], any_case=recases or begins)
                begin, end = word.start() + match.start(), word.start() + match.end()
                if corrected != match[0] and line.is_free(begin, end):
                    yield Change(begin, end, corrected)
                begins = False
            begins = begins or ends_sentence(word[0])
