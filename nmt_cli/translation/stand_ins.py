"""Puts the numbers of a line back into its translations, in the place of those that the model has read and said."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from nmt_cli.data.tokenizer import PieceWords
from nmt_cli.search.hypothesis import Hypothesis
from nmt_cli.translation.results import Part


class Spoken(NamedTuple):
    """A hypothesis with the numbers of the line in the place of those that the model has said for them."""

    hypothesis: Hypothesis
    rows: Sequence[int]
    """For each of its pieces the number of the one that the model has said there."""

    def said(self, target: PieceWords, ids: tuple[int, ...]) -> PieceWords:
        """Return the pieces that the model has said, each with its word of `target`, the words of the hypothesis."""
        if ids == target.ids:
            return target
        # Where the model has said more pieces than stand there now, all of them are of the last one's word.
        words = [max(bisect_right(self.rows, place) - 1, 0) for place in range(len(ids))]
        return PieceWords(ids, tuple(target.words[place] for place in words), target.num_words)


def with_numbers(hypothesis: Hypothesis, part: Part) -> Spoken:
    """Return a hypothesis with the numbers of the line in the place of those that the model has said for them."""
    changes = {}
    for said in hypothesis.generated_terms:
        found = part.terms[said.term]
        if found.is_number:
            form = found.term.forms.index(hypothesis.ids[said.begin : said.end])
            changes[said.begin] = (said, found.spellings[form])
    if all(hypothesis.ids[said.begin : said.end] == pieces for said, pieces in changes.values()):
        return Spoken(hypothesis, range(len(hypothesis.ids)))
    ids: list[int] = []
    rows: list[int] = []
    place = 0
    while place < len(hypothesis.ids):
        if place in changes:
            said, pieces = changes[place]
            ids += pieces
            rows += [min(place + number, said.end - 1) for number in range(len(pieces))]
            place = said.end
        else:
            ids.append(hypothesis.ids[place])
            rows.append(place)
            place += 1
    begins = {row: place for place, row in reversed(list(enumerate(rows)))}
    said_now = tuple(
        one._replace(begin=begins[one.begin], end=begins.get(one.end, len(ids))) for one in hypothesis.generated_terms
    )
    weights_TS = hypothesis.weights_TS
    if weights_TS is not None:
        weights_TS = weights_TS[[*rows, *range(len(hypothesis.ids), len(weights_TS))]]
    return Spoken(replace(hypothesis, ids=tuple(ids), weights_TS=weights_TS, generated_terms=said_now), rows)
