"""Long lines cut into parts that the model can translate, and the translations of the parts joined again.

A line with more pieces than the model takes is cut at the beginning of a word. A line of millions of characters is cut
into pieces segment by segment, so that it needs no more memory than its text.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, chain, groupby, zip_longest
from typing import NamedTuple

import numpy as np

from nmt_cli.data.tokenizer import SEGMENT_LENGTH, Tokenizer
from nmt_cli.text.edits import Span, word_spans
from nmt_cli.text.line import Line
from nmt_cli.text.translation import Translation
from nmt_cli.text.unit_alignment import Alignment
from nmt_cli.translation.results import Part, PartTranslation

SEGMENT_BATCH_LENGTH = 4_000_000
"""Characters at which a batch of segments ends. The pieces of one batch are in memory at once."""
PIECE_PAIRS_PER_WORD_PAIR = 8
"""Limit on a line's attention weights between pieces, as a multiple of that between words. Most texts have fewer."""
CONTINUATION_BYTE = re.compile("<0x[89AB][0-9A-F]>")
"""A piece that is a byte of a character, and not its first."""
PartTranslations = tuple[Part, list[PartTranslation]]
"""A part with its translations, best first."""


class Segment(NamedTuple):
    """A line, or a part of a long line that is cut into pieces at once."""

    line: int
    text: str
    begin: int
    """Index of the segment's first character in the line."""


def segment_batches(texts: Sequence[str]) -> Iterator[list[Segment]]:
    """Yield the segments of all lines with text, in order, in lists that end at `SEGMENT_BATCH_LENGTH` characters."""
    segments: list[Segment] = []
    length = 0
    for line, text in enumerate(texts):
        if not text or text.isspace():
            continue
        start = 0
        while start < len(text):
            end = _end_of_segment(text, start)
            segments.append(Segment(line, text[start:end], start))
            length += end - start
            start = end
            if length >= SEGMENT_BATCH_LENGTH:
                yield segments
                segments, length = [], 0
    if segments:
        yield segments


def _end_of_segment(text: str, start: int) -> int:
    """Return the index at which a segment ends: that of the last space in the second half of its greatest length, else
    the end of that length."""
    end = start + SEGMENT_LENGTH
    if end >= len(text):
        return len(text)
    space = text.rfind(" ", start + SEGMENT_LENGTH // 2, end)
    return end if space < 0 else space


def parts_of(
    segments: Sequence[Segment],
    tokenizer: Tokenizer,
    *,
    max_pieces: int,
    with_spans: Sequence[bool],
    numbers: Sequence[int],
    num_parts: Sequence[int],
) -> list[Part]:
    """Return the parts of all segments, each of at most `max_pieces` pieces.

    `with_spans` is True for lines whose parts need the characters of their pieces. `numbers` has the number of each
    line in the whole input, from 0, and `num_parts` the number of parts that each line has from earlier segments.
    """
    alone = iter(tokenizer.encode_all([segment.text for segment in segments if not with_spans[segment.line]]))
    pieces: list[tuple[Sequence[int], Sequence[Span]]] = []
    for segment in segments:
        if with_spans[segment.line]:
            found, spans = tokenizer.encode_spans(segment.text)
            at = segment.begin
            pieces.append((found, [(begin + at, end + at) for begin, end in spans] if at else spans))
        else:
            pieces.append((next(alone), ()))
    next_part = list(num_parts)
    parts = []
    # The segments of a line are one again: it is cut only where it has more pieces than a part may have.
    for line, of_line in groupby(zip(segments, pieces, strict=True), key=lambda found: found[0].line):
        of_segments = [own for _, own in of_line]
        ids = tuple(chain.from_iterable(ids for ids, _ in of_segments))
        own_spans = tuple(chain.from_iterable(spans for _, spans in of_segments))
        tags = tokenizer.tags
        cuts = _cuts(tokenizer, ids, max(1, max_pieces - len(tags)))
        for start, end in zip([0, *cuts], cuts, strict=False):
            if end > start:
                own = (*tags, *ids[start:end])
                parts.append(Part(line, numbers[line], next_part[line], own, own_spans[start:end], num_tags=len(tags)))
                next_part[line] += 1
    return parts


def _cuts(tokenizer: Tokenizer, ids: Sequence[int], limit: int) -> list[int]:
    """Return the index of the piece after each part of a long line; a part has at most `limit` pieces.

    A part ends where a word begins, if one begins in its last half, else where a character begins.
    """
    cuts, start = [], 0
    while len(ids) - start > limit:
        half, end = start + limit // 2 + 1, start + limit
        near = tokenizer.pieces(ids[half : end + 1])
        while end > half and CONTINUATION_BYTE.fullmatch(near[end - half]):
            end -= 1
        start = max((half + at for at, piece in enumerate(near) if piece.startswith("▁")), default=end)
        cuts.append(start)
    return [*cuts, len(ids)]


def join_translations(
    line: Line, parts: Sequence[PartTranslations], *, with_alignment: bool
) -> tuple[Translation, ...]:
    """Return the translations of a line, joined from those of its parts: the best of each part, then the second best of
    each, and so on; a part with fewer repeats its last.

    They translate `line.text`, the text for the model. A line without parts has one translation: its prefix, or "".
    """
    prefix_length = len(line.prefix)
    if not parts:
        nothing = Alignment((), (), np.zeros((0, 1))) if with_alignment else None
        return (Translation(line.text, line.prefix, alignment=nothing, prefix_length=prefix_length),)
    if len(parts) == 1:
        (_, translations), *_ = parts
        return tuple(
            Translation(
                line.text, one.text, one.log_prob, one.score, one.alignment if with_alignment else None, one.terms,
                prefix_length, features=one.features, repeated=one.repeated,
            )
            for one in translations
        )  # fmt: skip
    ranks = [
        [translation or own[-1] for translation, (_, own) in zip(ranked, parts, strict=True)]
        for ranked in zip_longest(*(own for _, own in parts))
    ]
    return tuple(_join_parts(line, ranked, with_alignment=with_alignment) for ranked in ranks)


def _join_parts(line: Line, ranked: Sequence[PartTranslation], *, with_alignment: bool) -> Translation:
    """Return the translation of a line, joined from one translation of each of its parts."""
    begins = list(accumulate((len(one.text) + 1 for one in ranked), initial=0))[:-1]
    features = [one.features for one in ranked if one.features is not None]
    alignments = [one.alignment for one in ranked if one.alignment is not None]
    return Translation(
        line.text,
        " ".join(one.text for one in ranked),
        sum((one.log_prob for one in ranked), 0.0),
        sum((one.score for one in ranked), 0.0),
        Alignment.concatenate(alignments, begins) if with_alignment else None,
        tuple(
            (term, None if place is None else (place[0] + at, place[1] + at))
            for at, one in zip(begins, ranked, strict=True)
            for term, place in one.terms
        ),
        len(line.prefix),
        features=np.concatenate(features) if features else None,
        repeated=any(one.repeated for one in ranked),
    )


class PartsOfLine:
    """The translated parts of a line.

    They keep their attention weights while these have at most `max_weights` word pairs in all. Beyond that, each target
    word keeps only the link to its source word, and all that only weights need is dropped, so a line of megabytes takes
    little more memory than its text.
    """

    def __init__(self, line: Line, *, needs_weights: bool, max_weights: int) -> None:
        self._line, self._has_weights, self._max_weights = line, needs_weights, max_weights
        self._found: list[PartTranslations] = []
        self._num_words = self._num_pieces = self._num_source_pieces = 0
        """Words and pieces of the longest translation of each part, and pieces of the source, summed over the parts."""

    def __len__(self) -> int:
        return len(self._found)

    def add(self, part: Part, translations: list[PartTranslation]) -> None:
        """Take a part with its translations, best first; parts come in any order."""
        found = part, translations
        if part.needs_weights:
            self._num_words += max((len(one.text.split()) for one in translations), default=0)
            self._num_pieces += max((len(one.spans) for one in translations), default=0)
            self._num_source_pieces += len(part.spans)
            if self._has_weights and not self.fits():
                self._has_weights = False
                self._found = list(map(self._with_links, self._found))
            if not self._has_weights:
                found = self._with_links(found)
        elif part.part:  # of a long line, whose pieces would take many times the memory of its text
            found = replace(part, ids=(), spans=()), translations
        self._found.append(found)

    def in_order(self) -> list[PartTranslations]:
        """Return all parts with their translations, from left to right."""
        return sorted(self._found, key=lambda found: found[0].part)

    def fits(self) -> bool:
        """Return whether the attention weights are few enough to be kept, both between words and between pieces."""
        of_words = self._num_words * self._num_source_words
        of_pieces = self._num_pieces * self._num_source_pieces // PIECE_PAIRS_PER_WORD_PAIR
        return max(of_words, of_pieces) <= self._max_weights

    @cached_property
    def _num_source_words(self) -> int:
        return len(self._line.raw.split())

    @cached_property
    def _source_words(self) -> tuple[list[int], list[int]]:
        """Indices in `Line.text`, the text for the model, at which its words begin, and at which they end."""
        words = word_spans(self._line.text)
        return [begin for begin, _ in words], [end for _, end in words]

    def _with_links(self, found: PartTranslations) -> PartTranslations:
        part, translations = found
        begins, ends = self._source_words
        own = slice(bisect_right(ends, part.spans[0][0]), bisect_left(begins, part.spans[-1][1]))
        words = list(zip(begins[own], ends[own], strict=True))
        return replace(part, ids=(), spans=()), [_with_links(one, words) for one in translations]


def _with_links(one: PartTranslation, source: Sequence[Span]) -> PartTranslation:
    alignment = one.alignment and one.alignment.of_words(source, word_spans(one.text))
    return replace(one, ids=(), spans=(), alignment=alignment)
