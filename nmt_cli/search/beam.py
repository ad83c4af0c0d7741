"""Beam search over a batch of sentences; a beam of 1 is greedy search.

A sentence leaves the batch when it is done and its rows go with it, so later steps are smaller.

Shapes: L live sentences, K beam, V vocabulary, C candidates, N = L x K rows, T target so far, S source.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from nmt_cli.search.hypothesis import (
    Hypothesis,
    SearchState,
    StepModel,
    Vocabulary,
    length_penalty,
    repeated_ngram_ends,
)


@dataclass(frozen=True, slots=True)
class BeamOptions:
    """How to search."""

    beam_size: int = 5
    length_penalty: float = 1.0
    """alpha of Wu et al. (2016)."""
    n_best: int = 1
    no_repeat_ngram: int = 0
    with_weights: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """One extension that a step considered, for those who watch the search."""

    prefix: tuple[int, ...]
    piece: int
    log_prob: float
    """Of this piece."""
    total: float
    """Of the whole prefix with it."""
    kept: bool


Observer = Callable[[int, list[Candidate]], None]
"""Called after each step with the sentence's number and its candidates, best first."""


@dataclass(slots=True)
class _Live:
    """The partial hypotheses of the sentences that are still in the batch."""

    sentences: list[int]
    prefixes_LKT: Tensor
    totals_LK: Tensor
    state: SearchState
    weights_LKTS: Tensor | None
    finished: dict[int, list[Hypothesis]] = field(default_factory=dict)


def beam_search(
    model: StepModel,
    state: SearchState,
    max_lengths: Sequence[int],
    vocabulary: Vocabulary,
    options: BeamOptions,
    observe: Observer | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` best hypotheses of each sentence, best first, each of at most its `max_lengths` pieces with </s>.

    `state` has `beam_size` rows a sentence, in order. A sentence is done when it has as many finished hypotheses as the
    beam is wide, or when no unfinished one can still enter its n best.
    """
    num_sentences, width = len(max_lengths), options.beam_size
    live = _Live(
        sentences=list(range(num_sentences)),
        prefixes_LKT=torch.empty(num_sentences, width, 0, dtype=torch.long),
        totals_LK=torch.full((num_sentences, width), -math.inf),
        state=state,
        weights_LKTS=None,
        finished={sentence: [] for sentence in range(num_sentences)},
    )
    live.totals_LK[:, 0] = 0.0  # all rows of a sentence are equal at first: one of them speaks
    last_ids_N = torch.full((num_sentences * width,), vocabulary.bos, dtype=torch.long)
    while live.sentences:
        last_ids_N = _advance(model, live, last_ids_N, max_lengths, vocabulary, options, observe)
    return [
        sorted(live.finished[sentence], key=lambda hypothesis: -hypothesis.score)[: options.n_best]
        for sentence in range(num_sentences)
    ]


def _advance(
    model: StepModel,
    live: _Live,
    last_ids_N: Tensor,
    max_lengths: Sequence[int],
    vocabulary: Vocabulary,
    options: BeamOptions,
    observe: Observer | None,
) -> Tensor:
    """One step of all live sentences; returns the pieces that the next step begins with."""
    num_live, width = live.totals_LK.shape
    log_probs_NV, weights_NS, state = model.step(last_ids_N, live.state)
    log_probs_NV = _allowed(log_probs_NV, live, vocabulary, options)
    totals_LKV = live.totals_LK.unsqueeze(-1) + log_probs_NV.view(num_live, width, -1)
    vocab_size = totals_LKV.shape[-1]
    # Of 2K candidates at most K are </s>, one of each row, so K remain to go on with.
    num_candidates = min(2 * width, width * vocab_size)
    totals_LC, flat_LC = totals_LKV.flatten(1).topk(num_candidates, dim=1)
    parents_LC, pieces_LC = flat_LC // vocab_size, flat_LC % vocab_size
    if options.with_weights and weights_NS is not None:
        new_LK1S = weights_NS.view(num_live, width, 1, -1).to(torch.float32)
        old = live.weights_LKTS
        live.weights_LKTS = new_LK1S if old is None else torch.cat([old, new_LK1S], dim=2)
    if observe is not None:
        _show(observe, live, totals_LC, parents_LC, pieces_LC)
    step = live.prefixes_LKT.shape[2] + 1
    _collect(live, totals_LC, parents_LC, pieces_LC, max_lengths, vocabulary, options)

    goes_on_LC = pieces_LC != vocabulary.eos
    order_LK = goes_on_LC.logical_not().sort(dim=1, stable=True).indices[:, :width]
    totals_LK, parents_LK, pieces_LK = (x.gather(1, order_LK) for x in (totals_LC, parents_LC, pieces_LC))
    totals_LK = totals_LK.masked_fill(~goes_on_LC.gather(1, order_LK), -math.inf)
    stay = [
        place
        for place, sentence in enumerate(live.sentences)
        if not _is_done(live.finished[sentence], float(totals_LK[place, 0]), step, max_lengths[sentence], options)
    ]
    rows_LK = parents_LK + torch.arange(num_live).unsqueeze(1) * width
    kept = torch.tensor(stay, dtype=torch.long)
    rows_N = rows_LK[kept].flatten()
    all_stay = len(stay) == num_live
    live.sentences = [live.sentences[place] for place in stay]
    live.totals_LK = totals_LK[kept]
    live.state = state.select(rows_N) if all_stay else state.keep(rows_N)
    prefixes_NT = live.prefixes_LKT.flatten(0, 1)[rows_N]
    live.prefixes_LKT = torch.cat([prefixes_NT, pieces_LK[kept].view(-1, 1)], dim=1).view(len(stay), width, step)
    if live.weights_LKTS is not None:
        live.weights_LKTS = live.weights_LKTS.flatten(0, 1)[rows_N].unflatten(0, (len(stay), width))
    return pieces_LK[kept].flatten()


def _allowed(log_probs_NV: Tensor, live: _Live, vocabulary: Vocabulary, options: BeamOptions) -> Tensor:
    """The log-probabilities with what must not be said at minus infinity."""
    if vocabulary.banned:
        log_probs_NV = log_probs_NV.index_fill(1, torch.tensor(vocabulary.banned), -math.inf)
    if options.no_repeat_ngram:
        log_probs_NV = log_probs_NV.clone()
        for row, prefix in enumerate(live.prefixes_LKT.flatten(0, 1).tolist()):
            log_probs_NV[row, repeated_ngram_ends(prefix, options.no_repeat_ngram)] = -math.inf
    return log_probs_NV


def _collect(
    live: _Live,
    totals_LC: Tensor,
    parents_LC: Tensor,
    pieces_LC: Tensor,
    max_lengths: Sequence[int],
    vocabulary: Vocabulary,
    options: BeamOptions,
) -> None:
    """Put the hypotheses that end with this step (by </s>, or cut at their limit) into `live.finished`."""
    width = options.beam_size
    step = live.prefixes_LKT.shape[2] + 1
    ends_LC = pieces_LC[:, :width] == vocabulary.eos
    at_limit_L = torch.tensor([step >= max_lengths[sentence] for sentence in live.sentences])
    ends_LC = (ends_LC | at_limit_L.unsqueeze(1)) & (totals_LC[:, :width] > -math.inf)
    for place, rank in ends_LC.nonzero().tolist():
        parent, piece = int(parents_LC[place, rank]), int(pieces_LC[place, rank])
        prefix = live.prefixes_LKT[place, parent].tolist()
        ended = piece == vocabulary.eos
        total = float(totals_LC[place, rank])
        finished = live.finished[live.sentences[place]]
        finished.append(
            Hypothesis(
                ids=tuple(prefix if ended else [*prefix, piece]),
                log_prob=total,
                score=total / length_penalty(step, options.length_penalty),
                ended=ended,
                weights_TS=None if live.weights_LKTS is None else live.weights_LKTS[place, parent].clone(),
            )
        )


def _is_done(finished: list[Hypothesis], best_total: float, step: int, max_length: int, options: BeamOptions) -> bool:
    if step >= max_length or len(finished) >= options.beam_size or best_total == -math.inf:
        return True
    if len(finished) < options.n_best:
        return False
    # A log-probability only falls, and no divisor is larger than that of the longest output.
    bound = best_total / length_penalty(max_length, options.length_penalty)
    return sorted((hypothesis.score for hypothesis in finished), reverse=True)[options.n_best - 1] >= bound


def _show(observe: Observer, live: _Live, totals_LC: Tensor, parents_LC: Tensor, pieces_LC: Tensor) -> None:
    width = live.totals_LK.shape[1]
    for place, sentence in enumerate(live.sentences):
        candidates = [
            Candidate(
                prefix=tuple(live.prefixes_LKT[place, parent].tolist()),
                piece=piece,
                log_prob=total - float(live.totals_LK[place, parent]),
                total=total,
                kept=False,
            )
            for total, parent, piece in zip(
                totals_LC[place].tolist(), parents_LC[place].tolist(), pieces_LC[place].tolist(), strict=True
            )
            if total > -math.inf
        ]
        observe(sentence, [replace(candidate, kept=rank < width) for rank, candidate in enumerate(candidates)])
