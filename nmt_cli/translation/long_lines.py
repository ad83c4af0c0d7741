"""Long lines cut into parts that the model can translate, and the translations of the parts joined again.

A line with more pieces than the model takes is cut at the beginning of a word. A line of millions of characters is cut
into pieces segment by segment, so that it needs no more memory than its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, chain, groupby, zip_longest
from typing import NamedTuple

import numpy as np

from nmt_cli.data.tokenizer import SEGMENT_LENGTH, Tokenizer
from nmt_cli.text.alignment import MAX_WEIGHTS, Link, hard_links
from nmt_cli.translation.prefix import Prefix
from nmt_cli.translation.results import NO_WORD, Part, Translation

ROUND_LENGTH = 4_000_000
"""Characters whose pieces are held in memory at once."""
LATER_BYTE = re.compile("<0x[89AB][0-9A-F]>")
"""A piece that is a byte of a character, and not its first."""
PartTranslations = tuple[Part, list[Translation]]
"""A part with its translations, best first."""


class Segment(NamedTuple):
    """A line, or as much of a long one as is cut into pieces at once."""

    line: int
    text: str
    first_word: int
    """The number of its first word in the line."""

    @property
    def end_word(self) -> int:
        """The number of the word after its last in the line."""
        return self.first_word + len(self.text.split())


def rounds(texts: Sequence[str], *, with_words: bool) -> Iterator[list[Segment]]:
    """Yield the segments of all lines that have text, in order, as many at a time as are held in memory."""
    segments: list[Segment] = []
    length = 0
    for line, text in enumerate(texts):
        if not text or text.isspace():
            continue
        start = first_word = 0
        while start < len(text):
            end = _end_of_segment(text, start)
            segment = Segment(line, text[start:end], first_word)
            segments.append(segment)
            if with_words and end < len(text):
                in_a_word = not text[end - 1].isspace() and not text[end].isspace()
                first_word += len(segment.text.split()) - in_a_word
            start = end
            length += len(segment.text)
            if length >= ROUND_LENGTH:
                yield segments
                segments, length = [], 0
    if segments:
        yield segments


def _end_of_segment(text: str, start: int) -> int:
    """Return the end of a segment: a space in the last half of what it may hold, if there is one."""
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
    with_words: Sequence[bool],
    numbers: Sequence[int],
    num_parts: Sequence[int],
) -> list[Part]:
    """Return the parts of all segments, each of at most `max_pieces` pieces.

    `with_words` is True for lines whose pieces need the numbers of their words. `numbers` are those of the lines in the
    whole input, from 0; `num_parts` of each line are known already.
    """
    alone = iter(tokenizer.encode_all([segment.text for segment in segments if not with_words[segment.line]]))
    pieces: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for segment in segments:
        if with_words[segment.line]:
            encoded = tokenizer.encode_words(segment.text)
            pieces.append((encoded.ids, tuple(segment.first_word + word for word in encoded.words)))
        else:
            pieces.append((tuple(next(alone)), ()))
    next_part = list(num_parts)
    parts = []
    # The segments of a line are one again: it is cut only where it has more pieces than a part may have.
    for line, of_line in groupby(zip(segments, pieces, strict=True), key=lambda found: found[0].line):
        of_segments = [own for _, own in of_line]
        ids = tuple(chain.from_iterable(ids for ids, _ in of_segments))
        words = tuple(chain.from_iterable(words for _, words in of_segments))
        cuts = _cuts(tokenizer, ids, max(1, max_pieces - len(tokenizer.tags)))
        for start, end in zip([0, *cuts], cuts, strict=False):
            if end > start:
                own_words = (*(NO_WORD for _ in tokenizer.tags), *words[start:end]) if words else ()
                own_ids = (*tokenizer.tags, *ids[start:end])
                parts.append(
                    Part(line, numbers[line], next_part[line], own_ids, own_words, num_tags=len(tokenizer.tags))
                )
                next_part[line] += 1
    return parts


def _cuts(tokenizer: Tokenizer, ids: Sequence[int], limit: int) -> list[int]:
    """Return the ends of a long line's parts, each of at most `limit` pieces: the beginning of a word where there is
    one in the last half of the part, else the beginning of a character."""
    cuts, start = [], 0
    while len(ids) - start > limit:
        half, end = start + limit // 2 + 1, start + limit
        near = tokenizer.pieces(ids[half : end + 1])
        while end > half and LATER_BYTE.fullmatch(near[end - half]):
            end -= 1
        start = max((half + at for at, piece in enumerate(near) if piece.startswith("▁")), default=end)
        cuts.append(start)
    return [*cuts, len(ids)]


def joined(
    parts: Sequence[PartTranslations],
    num_words: int,
    *,
    with_alignment: bool,
    prefix: Prefix | None = None,
    max_weights: int = MAX_WEIGHTS,
) -> tuple[Translation, ...]:
    """Return the translations of a line of `num_words` words from its parts' translations: the best with the best, and
    so on down the list. A line without parts has one translation, which is empty or its prefix."""
    if not parts and prefix is not None:
        num_own = len(prefix.text.split())
        weights = np.zeros((num_own, num_words + 1)) if with_alignment else None
        return (Translation(prefix.text, 0.0, 0.0, weights, () if with_alignment else None, num_own),)
    ranks = [
        [translation or own[-1] for translation, (_, own) in zip(ranked, parts, strict=True)]
        for ranked in zip_longest(*(own for _, own in parts))
    ]
    first_words = [part.first_word for part, _ in parts]
    lines = []
    for ranked in ranks or [[]]:
        text = " ".join(translation.text for translation in ranked)
        log_prob = sum((translation.log_prob for translation in ranked), 0.0)
        score = sum((translation.score for translation in ranked), 0.0)
        before = accumulate((len(translation.text.split()) for translation in ranked), initial=0)
        terms = tuple(
            use.after(words) for words, one in zip(before, ranked, strict=False) for use in one.terms if one.terms
        )
        features = [translation.features for translation in ranked if translation.features is not None]
        measured = np.concatenate(features) if features else None
        line = Translation(text, log_prob, score, terms=terms, features=measured)
        if with_alignment:
            has_weights = fits_a_matrix(parts, num_words, max_weights) and all(
                one.weights is not None for one in ranked
            )
            line = _aligned(line, ranked, first_words, num_words, has_weights=has_weights)
        lines.append(line)
    return tuple(lines)


def _aligned(
    line: Translation, ranked: Sequence[Translation], first_words: Sequence[int], num_words: int, *, has_weights: bool
) -> Translation:
    """Return a line's translation with the alignments of its parts, which begin at `first_words`."""
    num_target_words = sum(translation.num_words for translation in ranked)
    weights = np.zeros((num_target_words, num_words + 1)) if has_weights else None
    links: list[Link] = []
    row = 0
    for first_word, translation in zip(first_words, ranked, strict=True):
        # The last segment of a line may be white space that has pieces but no words.
        num_own = num_words - first_word
        block = translation.weights_with_end
        if block is None:
            own = [link for link in translation.links or () if link[0] < num_own]
        else:
            num_own = min(num_own, block.shape[1] - 1)
            own = hard_links(block[:, :num_own])
            if weights is not None:
                rows = slice(row, row + translation.num_words)
                weights[rows, first_word : first_word + num_own] = block[:, :num_own]
                weights[rows, -1] = block[:, num_own:].sum(axis=1)
        links += [(first_word + source, row + target) for source, target in own]
        row += translation.num_words
    return replace(line, weights_with_end=weights, links=tuple(links), num_words=num_target_words)


def fits_a_matrix(parts: Sequence[PartTranslations], num_words: int, max_weights: int) -> bool:
    """Return True if the attention matrix of a line of `num_words` words and its longest translation has at most
    `max_weights` numbers."""
    return sum(max(one.num_words for one in own) for _, own in parts) * num_words <= max_weights
