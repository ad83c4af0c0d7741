"""The values that a line becomes on its way through translation.

A line of bytes becomes `Part`s (pieces to translate together), each part becomes `Translation`s, and these are joined
to the `Translation`s of the line, which leave as a `Translated`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from nmt_cli.confidence.features import Values
from nmt_cli.data.tokenizer import PieceWords
from nmt_cli.search.constraints import Constraints, Term
from nmt_cli.system.console import counted, warn
from nmt_cli.text.alignment import Link, Matrix, hard_links
from nmt_cli.translation.signs import Signs

if TYPE_CHECKING:
    from nmt_cli.translation.prefix import Prefix


WordSpan = tuple[int, int]
"""The first of some words, and the word after the last."""


@dataclass(frozen=True, slots=True)
class TermFound:
    """A term of a part: one of a glossary, or a number."""

    text: str
    words: WordSpan
    """Its words in the line."""
    term: Term
    """Its pieces in the part, and the pieces of its translations."""
    forms: tuple[str, ...]
    spellings: tuple[tuple[int, ...], ...] = ()
    """The pieces of a number that stays as it is; empty for a term of the glossary. The model generates a form of
    `term`, and the sequence with the same index takes its place."""

    @property
    def is_number(self) -> bool:
        """True if it is not of the glossary."""
        return bool(self.spellings)

    def within(self, begin: int, end: int) -> TermFound:
        """Return the term of a line as a term of one part, which is given by its pieces."""
        places = tuple(place - begin for place in self.term.places if place < end)
        return replace(self, term=replace(self.term, places=places))


@dataclass(frozen=True, slots=True)
class TermUse:
    """A term of a glossary and its translation."""

    term: str
    source: WordSpan
    """Its words in the line."""
    translation: str | None = None
    """The words that translate it, or None where there are none."""
    target: WordSpan | None = None
    """These words in the translation."""

    def after(self, num_words: int) -> TermUse:
        """Return the use in a translation that has some words before this one."""
        return (
            self
            if self.target is None
            else replace(self, target=(self.target[0] + num_words, self.target[1] + num_words))
        )


NO_WORD = 2**31
"""Number of a word beyond the last of any line."""


@dataclass(frozen=True, slots=True)
class Part:
    """Pieces to translate together: a line, or a part of a long one."""

    line: int
    """The number of the line in its window, from 0."""
    number: int
    """The number of the line in the whole input, from 0."""
    part: int
    """The number of this part in its line, from 0."""
    ids: tuple[int, ...]
    words: tuple[int, ...]
    """The number of each piece's word in the line; empty where no alignment is wanted."""
    prefix: Prefix | None = None
    """The beginning of its translation."""
    terms: tuple[TermFound, ...] = ()
    """Terms of the glossary and numbers in it, without those that the prefix covers."""
    covered: tuple[TermUse, ...] = ()
    """Terms of the glossary in it that the prefix translates."""
    keeps_numbers: bool = False
    """True if the translation may have only the digits of its terms and its prefix."""
    num_tags: int = 0
    """Tags of languages with which `ids` begin. They belong to no word: their number is `NO_WORD`."""
    words_of_terms: tuple[int, ...] = ()
    """The number of each piece's word, as terms are compared with their neighbours; empty where there are no terms."""

    @property
    def constraints(self) -> Constraints | None:
        """The constraints on its translation, or None."""
        terms = tuple(found.term for found in self.terms)
        if self.prefix is None and not terms:
            return None
        own = Constraints() if self.prefix is None else self.prefix.constraints
        return replace(own, terms=terms, keeps_numbers=self.keeps_numbers, words=self.words_of_terms)

    @property
    def first_word(self) -> int:
        """The number of its first word in the line."""
        return self.words[self.num_tags] if self.words else 0


@dataclass(frozen=True, slots=True)
class Translation:
    """One translation of a part or of a whole line."""

    text: str
    log_prob: float
    score: float
    weights_with_end: Matrix | None = None
    """All attention (target words, source words and `</s>`); None where it is not needed, or would be too large."""
    links: tuple[Link, ...] | None = None
    """Each target word with its heaviest source word; None where it is not needed."""
    num_words: int = 0
    """Words of the text; 0 where no alignment is needed."""
    terms: tuple[TermUse, ...] = ()
    """Terms of the glossary in the source, with their translations."""
    pieces: PieceWords | None = None
    """The pieces of a part, each with its word of the text; None where its words have been measured, or need not be."""
    features: Values | None = None
    """Features of the words (words, features), from which confidence follows. NaN for signs that no model generated."""
    word_confidence: tuple[float, ...] | None = None
    """Probability that each white-space word of the text is correct; None where it was not asked for."""
    confidence: float | None = None
    """Probability that the whole text is correct."""

    @property
    def weights(self) -> Matrix | None:
        """Attention between words (target words, source words)."""
        return None if self.weights_with_end is None else self.weights_with_end[:, :-1]

    def without_weights(self) -> Translation:
        """Return the translation with its links alone, which take far less memory."""
        weights = self.weights
        return self if weights is None else replace(self, weights_with_end=None, links=tuple(hard_links(weights)))

    def rewritten(self, text: str, counts: Sequence[int]) -> Translation:
        """Return the translation with another text, in which `counts[i]` words stand for word i of this one.

        Each of them has the confidence of word i. Words beyond, which only the source brought in, have the confidence
        of the line.
        """
        if self.word_confidence is None or self.confidence is None:
            return replace(self, text=text)
        own = [*self.word_confidence, *[self.confidence] * (len(counts) - len(self.word_confidence))]
        spread = tuple(value for value, count in zip(own, counts, strict=True) for _ in range(count))
        return replace(self, text=text, word_confidence=spread)

    def enclosed(self, signs: Signs, num_source: int) -> Translation:
        """Return the translation within signs of its line, which has `num_source` words."""
        if self.text:  # a prefix keeps its blanks
            text = signs.before.lstrip() + self.text + signs.after.rstrip()
            before, after = signs.num_words
            before += bool(signs.before.strip()) and not signs.before[-1].isspace() and self.text[0].isspace()
            after += bool(signs.after.strip()) and not signs.after[0].isspace() and self.text[-1].isspace()
        else:
            text = "".join(signs).strip()
            before, after = len(text.split()), 0
        last = range(num_source - after, num_source)
        words = [*(~word for word in range(before)), *range(len(self.text.split())), *(~word for word in last)]
        return self.with_signs(text, words)

    def with_signs(self, text: str, words: Sequence[int]) -> Translation:
        """Return the translation with another text, which has signs as words of their own among words of this one.

        `words` has for each word of the text its number in this translation, or `~word` for a sign that is this word of
        the source. A sign looks at itself, and has the confidence of the line.
        """
        weights, links, sure, features = self.weights_with_end, self.links, self.word_confidence, self.features
        now = {old: new for new, old in enumerate(words) if old >= 0}
        if weights is not None:
            own_weights, weights = weights, np.zeros((len(words), weights.shape[1]))
            for place, word in enumerate(words):
                weights[place] = own_weights[word] if word >= 0 else np.eye(1, weights.shape[1], ~word)
        if links is not None:
            own = [(source, now[word]) for source, word in links if word in now]
            signs = [(~word, place) for place, word in enumerate(words) if word < 0]
            links = tuple(sorted([*own, *signs], key=lambda link: link[1]))
        if sure is not None and self.confidence is not None:
            sure = tuple(sure[word] if word >= 0 else self.confidence for word in words)
        if features is not None:
            own_features, features = features, np.full((len(words), features.shape[1]), np.nan)
            for place, word in enumerate(words):
                if word >= 0:
                    features[place] = own_features[word]
        moved = [use if use.target is None else replace(use, target=_moved(use.target, now)) for use in self.terms]
        return replace(
            self,
            text=text,
            weights_with_end=weights,
            links=links,
            num_words=0 if links is None else len(words),
            terms=tuple(moved),
            features=features,
            word_confidence=sure,
        )

    def with_words(self, text: str, counts: Sequence[int]) -> Translation:
        """Return the translation like `rewritten`, with its words numbered anew in alignment and terms.

        Each of the words that stand for word i looks where word i looked.
        """
        ends = [0, *accumulate(counts)]
        weights, links = self.weights_with_end, self.links
        return replace(
            self.rewritten(text, counts),
            weights_with_end=None if weights is None else weights.repeat(counts, axis=0),
            links=links and tuple((source, word) for source, old in links for word in range(ends[old], ends[old + 1])),
            num_words=ends[-1],
            terms=tuple(
                use if use.target is None else replace(use, target=(ends[use.target[0]], ends[use.target[1]]))
                for use in self.terms
            ),
        )


def _moved(words: WordSpan, now: Mapping[int, int]) -> WordSpan | None:
    """Return a span of words by their new numbers, as far as they have some."""
    found = [now[word] for word in range(*words) if word in now]
    return (found[0], found[-1] + 1) if found else None


@dataclass(frozen=True, slots=True)
class Translated:
    """A line and its translations, best first, or as they were drawn; there is always one."""

    source: str
    translations: tuple[Translation, ...]


@dataclass(slots=True)
class Counts:
    """Numbers of lines and pieces for the report at the end."""

    lines: int = 0
    blank: int = 0
    empty: int = 0
    """Lines that are not blank and have an empty translation."""
    invalid: int = 0
    cut: int = 0
    without_weights: int = 0
    unpaired_tags: int = 0
    """Lines with a tag that has no partner."""
    source_pieces: int = 0
    target_pieces: int = 0

    def add(self, other: Counts) -> None:
        """Add the counts of another translator."""
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def report(self, max_source_pieces: int) -> None:
        """Log the numbers of long, cut and unusual lines."""
        with_text = self.lines - self.blank
        if self.empty > with_text / 2:
            warn(
                f"{self.empty:,} of {counted(with_text, 'line')} with text came out empty. The model has learnt too "
                "little; train it for longer"
            )
        if self.invalid:
            warn(f"{counted(self.invalid, 'line')} not valid UTF-8; U+FFFD stands for their invalid bytes")
        if self.cut:
            warn(f"{counted(self.cut, 'line')} of more than {max_source_pieces} pieces translated in parts")
        if self.without_weights:
            warn(
                f"{counted(self.without_weights, 'line')} too long for a matrix of weights. They have hard links but "
                "no soft alignment, and neither markup nor unknown words carried across"
            )
        if self.unpaired_tags:
            warn(
                f"{counted(self.unpaired_tags, 'line')} with a tag that is not closed, or closed but not opened. Such "
                "a tag is kept, but it encloses no words"
            )
