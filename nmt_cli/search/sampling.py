"""Ancestral sampling: each piece drawn from the model's distribution.

The random numbers are given, one row a sentence, so that a sentence's sample does not depend on its neighbours.

Shapes: N rows, V vocabulary, T target, S source.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from nmt_cli.search.hypothesis import Hypothesis, SearchState, StepModel, Vocabulary, repeated_ngram_ends


def sample(
    model: StepModel,
    state: SearchState,
    max_lengths: Sequence[int],
    vocabulary: Vocabulary,
    uniforms_NT: Tensor,
    *,
    temperature: float = 1.0,
    no_repeat_ngram: int = 0,
    with_weights: bool = False,
) -> list[Hypothesis]:
    """One hypothesis a row; `uniforms_NT` in [0, 1) has a number for every row and step up to the longest limit.

    `log_prob` is the model's, whatever the temperature; `score` is the same, without length penalty. With
    `no_repeat_ngram` no sequence of so many pieces is drawn twice; what could be drawn instead is as likely as before,
    relative to one another.
    """
    num_rows = len(max_lengths)
    rows = list(range(num_rows))  # which row of the input each live row is
    ids: list[list[int]] = [[] for _ in rows]
    log_probs = [0.0] * num_rows
    weights: list[list[Tensor]] = [[] for _ in rows]
    ended = [False] * num_rows
    last_ids_N = torch.full((num_rows,), vocabulary.bos, dtype=torch.long)
    banned = torch.tensor(vocabulary.banned, dtype=torch.long)
    for step in range(max(max_lengths, default=0)):
        log_probs_NV, weights_NS, state, pieces_NV = model.step(last_ids_N, state)
        scaled_NV = log_probs_NV.double() / temperature
        if pieces_NV is None:
            scaled_NV.index_fill_(1, banned, -math.inf)
        if no_repeat_ngram:
            for place, row in enumerate(rows):
                ends = torch.tensor(repeated_ngram_ends(ids[row], no_repeat_ngram), dtype=torch.long)
                scaled_NV[place, ends if pieces_NV is None else torch.isin(pieces_NV[place], ends)] = -math.inf
        cumulative_NV = scaled_NV.softmax(dim=1).cumsum(dim=1)
        # The sum may fall short of 1 by rounding: what is drawn is measured against the sum that came out.
        drawn_N1 = uniforms_NT[rows, step].unsqueeze(1).double() * cumulative_NV[:, -1:]
        columns_N1 = torch.searchsorted(cumulative_NV, drawn_N1, right=True)
        drawn_log_probs = log_probs_NV.gather(1, columns_N1).flatten().tolist()
        pieces_N = (columns_N1 if pieces_NV is None else pieces_NV.gather(1, columns_N1)).squeeze(1)
        stay = []
        for place, row in enumerate(rows):
            piece = int(pieces_N[place])
            log_probs[row] += drawn_log_probs[place]
            if with_weights and weights_NS is not None:
                weights[row].append(weights_NS[place].float())
            if piece == vocabulary.eos:
                ended[row] = True
                continue
            ids[row].append(piece)
            if len(ids[row]) < max_lengths[row]:
                stay.append(place)
        if not stay:
            break
        kept = torch.tensor(stay, dtype=torch.long)
        state = state.keep(kept)
        rows = [rows[place] for place in stay]
        last_ids_N = pieces_N[kept]
    return [
        Hypothesis(
            ids=tuple(ids[row]),
            log_prob=log_probs[row],
            score=log_probs[row],
            ended=ended[row],
            weights_TS=torch.stack(weights[row]) if weights[row] else None,
        )
        for row in range(num_rows)
    ]
