"""Ancestral sampling: each piece drawn from the model's distribution.

The random numbers are given, one row a sentence, so that a sentence's sample does not depend on its neighbours.

Shapes: N rows, V vocabulary, T target, S source.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from nmt_cli.config.decoding import DecodingOptions
from nmt_cli.search.hypothesis import (
    Hypothesis,
    Prediction,
    SearchState,
    StepModel,
    Vocabulary,
    repeated_ngram_ends,
)


@dataclass(slots=True)
class _Sample:
    """The sample of one row: the pieces that were drawn so far, and their log-probability."""

    row: int
    """Index of the row in the input."""
    max_length: int
    ids: list[int] = field(default_factory=list)
    log_prob: float = 0.0
    has_ended: bool = False
    weights: list[Tensor] = field(default_factory=list)

    def hypothesis(self) -> Hypothesis:
        return Hypothesis(
            ids=tuple(self.ids),
            log_prob=self.log_prob,
            score=self.log_prob,
            has_ended=self.has_ended,
            weights_TS=torch.stack(self.weights) if self.weights else None,
        )


def sample(
    model: StepModel,
    state: SearchState,
    max_lengths: Sequence[int],
    vocabulary: Vocabulary,
    options: DecodingOptions,
    uniforms_NT: Tensor,
) -> list[Hypothesis]:
    """Return one hypothesis for each row, sampled piece by piece from the model's distribution.

    `uniforms_NT` in [0, 1) has a number for every row and step up to the longest limit. `options` gives the temperature
    (1 if it is None), whether sequences of pieces may repeat, and whether weights are kept. `log_prob` is the model's,
    whatever the temperature; `score` is the same, without length penalty. With `no_repeat_ngram` no sequence of
    that length is drawn twice; the other pieces stay as likely as before, relative to one another.
    """
    samples = [_Sample(row, max_length) for row, max_length in enumerate(max_lengths)]
    active = samples
    last_ids_N = torch.full((len(active),), vocabulary.bos, dtype=torch.long)
    for step in range(max(max_lengths, default=0)):
        prediction = model.step(last_ids_N, state)
        rows = [one.row for one in active]
        pieces_N, log_probs_N = _draw(prediction, active, vocabulary, options, uniforms_NT[rows, step])
        stay = []
        for place, (one, piece, log_prob) in enumerate(
            zip(active, pieces_N.tolist(), log_probs_N.tolist(), strict=True)
        ):
            one.log_prob += log_prob
            if options.with_alignment and prediction.weights_NS is not None:
                one.weights.append(prediction.weights_NS[place].float())
            one.has_ended = piece == vocabulary.eos
            if not one.has_ended:
                one.ids.append(piece)
                if len(one.ids) < one.max_length:
                    stay.append(place)
        if not stay:
            break
        kept = torch.tensor(stay, dtype=torch.long)
        state = prediction.state.keep(kept)
        active = [active[place] for place in stay]
        last_ids_N = pieces_N[kept]
    return [one.hypothesis() for one in samples]


def _draw(
    prediction: Prediction,
    active: Sequence[_Sample],
    vocabulary: Vocabulary,
    options: DecodingOptions,
    uniforms_N: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return the next piece (N) of each row, and its log-probability (N) under the model."""
    log_probs_NV, pieces_NV = prediction.log_probs_NV, prediction.pieces_NV
    scaled_NV = log_probs_NV.double() / (options.sampling_temperature or 1.0)
    if pieces_NV is None:
        scaled_NV.index_fill_(1, torch.tensor(vocabulary.banned, dtype=torch.long), -math.inf)
    if options.no_repeat_ngram:
        for place, one in enumerate(active):
            ends = torch.tensor(repeated_ngram_ends(one.ids, options.no_repeat_ngram), dtype=torch.long)
            scaled_NV[place, ends if pieces_NV is None else torch.isin(pieces_NV[place], ends)] = -math.inf
    cumulative_NV = scaled_NV.softmax(dim=1).cumsum(dim=1)
    # The sum may fall short of 1 by rounding: what is drawn is measured against the sum that came out.
    drawn_N1 = uniforms_N.unsqueeze(1).double() * cumulative_NV[:, -1:]
    columns_N1 = torch.searchsorted(cumulative_NV, drawn_N1, right=True)
    pieces_N1 = columns_N1 if pieces_NV is None else pieces_NV.gather(1, columns_N1)
    return pieces_N1.squeeze(1), log_probs_NV.gather(1, columns_N1).squeeze(1)
