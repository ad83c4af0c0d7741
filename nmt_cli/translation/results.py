"""The values that a line becomes on its way through translation.

A line as it is read (`text.line`) becomes `Part`s (pieces to translate together), and each part becomes
`PartTranslation`s. These are joined to translations of the line (`text.translation`). When the steps of the line
are undone in them, they are returned as a `TranslatedLine`, with words in place of pieces.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from nmt_cli.confidence.features import FloatArray
from nmt_cli.normalization.glossary_terms import GlossaryTerms
from nmt_cli.search.constraints import Constraints, Term
from nmt_cli.text import translation as texts
from nmt_cli.text.alignment import AlignmentMatrix, Link, hard_alignment
from nmt_cli.text.edits import Span, word_spans
from nmt_cli.text.line import Constraint
from nmt_cli.text.unit_alignment import Alignment
from nmt_cli.translation.counts import Counts as Counts

if TYPE_CHECKING:
    from nmt_cli.translation.prefix import Prefix


WordSpan = tuple[int, int]
"""Index (from 0) of the first of some consecutive words of a text, and of the word after the last."""


class PartConstraint(NamedTuple):
    """A constraint on the translation of a part, in pieces."""

    constraint: Constraint
    """The constraint, whose positions are characters of `Line.text`, the text for the model."""
    term: Term
    """Positions of the source term in the part, and the pieces of its translations."""


@dataclass(frozen=True, slots=True)
class TermUse:
    """A term of a glossary in a line, and its translation."""

    term: str
    source: WordSpan
    """Indices of the term's words in the line."""
    translation: str | None = None
    """The words that translate the term; None if there are none."""
    target: WordSpan | None = None
    """Indices of these words in the translation; None if there are none."""


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
    spans: tuple[Span, ...] = ()
    """The characters of each piece in `Line.text`, the text for the model; empty if they are not needed."""
    needs_weights: bool = False
    """True if its translations need attention weights."""
    prefix: Prefix | None = None
    """Beginning that the translation must have; None if there is none."""
    terms: tuple[PartConstraint, ...] = ()
    """The constraints on its translation, without those that the prefix meets."""
    covered_constraints: tuple[tuple[Constraint, Span], ...] = ()
    """The constraints that the prefix meets, each with the characters of the prefix that meet it."""
    keeps_numbers: bool = False
    """True if the translation may have only the digits of its terms and its prefix."""
    num_tags: int = 0
    """Number of language tags at the beginning of `ids`. They have no characters, so `spans` lacks them."""
    piece_words: tuple[int, ...] = ()
    """The index of each piece's word, from 0 (see `Constraints.piece_words`); empty if there are no terms."""

    @property
    def constraints(self) -> Constraints | None:
        """The constraints that the search of this part must meet; None if there is neither a prefix nor a term."""
        terms = tuple(found.term for found in self.terms)
        if self.prefix is None and not terms:
            return None
        own = Constraints() if self.prefix is None else self.prefix.constraints
        return replace(own, terms=terms, keeps_numbers=self.keeps_numbers, piece_words=self.piece_words)


@dataclass(frozen=True, slots=True)
class PartTranslation:
    """One translation of a part, as the search has found it."""

    text: str
    log_prob: float
    score: float
    ids: tuple[int, ...] = ()
    """The pieces; empty, as `spans`, if they are not needed."""
    spans: tuple[Span, ...] = ()
    """The characters of each piece in the text."""
    alignment: Alignment | None = None
    """Attention between these pieces and those of the part; None where it is not needed."""
    terms: tuple[tuple[Constraint, Span | None], ...] = ()
    """The constraints of the part, each with the characters of the text that meet it; None if none do."""
    features: FloatArray | None = None
    """Features of the words (words, features), from which confidence follows; None where they are not measured."""
    repeated: bool = False
    """True if the model repeated the same words without end, and the text has been cut there."""


@dataclass(frozen=True, slots=True)
class Translation:
    """One translation of a line as the user gets it, with an alignment and confidences of its words."""

    text: str
    log_prob: float
    score: float
    weights_with_end: AlignmentMatrix | None = None
    """All attention (target words, source words and `</s>`); None where it is not needed, or would be too large."""
    links: tuple[Link, ...] | None = None
    """Links (source word, target word) of each target word to the source word with the most attention; None where they
    are not needed."""
    num_words: int = 0
    """Words of the text; 0 where no alignment is needed."""
    terms: tuple[TermUse, ...] = ()
    """Terms of the glossary in the source, with their translations."""
    features: FloatArray | None = None
    """Features of the words (words, features), from which confidence follows. NaN for symbols not from the model."""
    word_confidence: tuple[float, ...] | None = None
    """Probability that each white-space word of the text is correct; None where it was not asked for."""
    confidence: float | None = None
    """Probability that the whole text is correct; None where it was not asked for."""
    alignment: Alignment | None = None
    """Attention between pieces, by which documents find the places of their tags; None where it was not asked for."""
    repeated: bool = False
    """True if the model repeated the same words without end, and the text has been cut there."""

    @classmethod
    def of(cls, found: texts.Translation, *, with_alignment: bool) -> Translation:
        """Return a line's translation with its terms, and its alignment if wanted, in words and not characters."""
        terms = [(term, place) for term, place in found.terms if term.step == GlossaryTerms.name]
        shows_words = with_alignment and found.alignment is not None
        source = word_spans(found.source) if terms or shows_words else []
        target = word_spans(found.text) if terms or shows_words else []
        weights = links = None
        if with_alignment and found.alignment is not None:
            if found.alignment.weights is None:
                links = found.alignment.links(source, target)
            else:
                weights = found.alignment.word_weights(source, target)
                links = hard_alignment(weights[:, :-1])
        return cls(
            found.text,
            found.log_prob,
            found.score,
            weights,
            None if links is None else tuple(links),
            len(target) if shows_words else 0,
            tuple(_term_use(found, term, place, source, target) for term, place in terms),
            found.features,
            found.word_confidence,
            found.confidence,
            found.alignment if with_alignment else None,
            found.repeated,
        )

    @property
    def weights(self) -> AlignmentMatrix | None:
        """Attention weights (target words, source words), without the end of the source; None if none were recorded."""
        return None if self.weights_with_end is None else self.weights_with_end[:, :-1]

    def rewritten(self, text: str, counts: Sequence[int]) -> Translation:
        """Return the translation with another text, in which `counts[i]` words replace word i of this one.

        Each of these words has the confidence of word i. Further counts are of words that only the source brought in;
        they have the confidence of the line.
        """
        if self.word_confidence is None or self.confidence is None:
            return replace(self, text=text)
        own = [*self.word_confidence, *[self.confidence] * (len(counts) - len(self.word_confidence))]
        spread = tuple(value for value, count in zip(own, counts, strict=True) for _ in range(count))
        return replace(self, text=text, word_confidence=spread)


def _term_use(
    found: texts.Translation, term: Constraint, place: Span | None, source: Sequence[Span], target: Sequence[Span]
) -> TermUse:
    use = TermUse(found.source[term.begin : term.end], _words_at(source, (term.begin, term.end)))
    if place is None or not found.text[slice(*place)].strip():
        return use
    end = place[0] + len(found.text[slice(*place)].rstrip())
    begin = end - len(found.text[place[0] : end].lstrip())
    first, last = words = _words_at(target, (begin, end))
    return replace(use, translation=" ".join(found.text[slice(*span)] for span in target[first:last]), target=words)


def _words_at(words: Sequence[Span], span: Span) -> WordSpan:
    """Return the indices of the words that the characters of `span` touch, given the span of each word of a text."""
    return bisect_right(words, span[0], key=_begin) - 1, bisect_left(words, span[1], key=_begin)


def _begin(span: Span) -> int:
    return span[0]


@dataclass(frozen=True, slots=True)
class TranslatedLine:
    """A line and its translations, best first or in the order in which they were sampled; there is at least one."""

    source: str
    translations: tuple[Translation, ...]

    @property
    def best(self) -> Translation:
        """The first translation."""
        return self.translations[0]
