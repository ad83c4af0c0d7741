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

from nmt_cli import native
from nmt_cli.search.hypothesis import (
    Hypothesis,
    SearchState,
    StepModel,
    Vocabulary,
    length_penalty,
    repeated_ngram_ends,
)

FOLDS = 32
"""Into how many layers the vocabulary is folded to find its best pieces."""


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


@torch.inference_mode()
def beam_search(
    model: StepModel,
    state: SearchState,
    max_lengths: Sequence[int],
    vocabulary: Vocabulary,
    options: BeamOptions,
    observe: Observer | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` best hypotheses of each sentence, best first, each of at most its `max_lengths` pieces with </s>.

    `state` has one row a sentence, in order; from the second step on a sentence has as many as its beam is wide. It is
    done when it has so many finished hypotheses, or when no unfinished one can still enter its n best.
    """
    num_sentences = len(max_lengths)
    live = _Live(
        sentences=list(range(num_sentences)),
        prefixes_LKT=torch.empty(num_sentences, 1, 0, dtype=torch.long),
        totals_LK=torch.zeros(num_sentences, 1),
        state=state,
        weights_LKTS=None,
        finished={sentence: [] for sentence in range(num_sentences)},
    )
    last_ids_N = torch.full((num_sentences,), vocabulary.bos, dtype=torch.long)
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
    log_probs_NV, weights_NS, state, pieces_NV = model.step(last_ids_N, live.state)
    log_probs_NV = _allowed(log_probs_NV, pieces_NV, live, vocabulary, options)
    # Of 2K candidates at most K are </s>, one of each row, so K remain to go on with.
    totals_LC, parents_LC, pieces_LC = best_extensions(log_probs_NV, live.totals_LK, 2 * options.beam_size)
    first_rows_L1 = torch.arange(num_live).unsqueeze(1) * width
    if pieces_NV is not None:
        pieces_LC = pieces_NV[parents_LC + first_rows_L1, pieces_LC]
    if options.with_weights and weights_NS is not None:
        new_LK1S = weights_NS.view(num_live, width, 1, -1).to(torch.float32)
        old = live.weights_LKTS
        live.weights_LKTS = new_LK1S if old is None else torch.cat([old, new_LK1S], dim=2)
    if observe is not None:
        _show(observe, live, totals_LC, parents_LC, pieces_LC, options.beam_size)
    step = live.prefixes_LKT.shape[2] + 1
    _collect(live, totals_LC, parents_LC, pieces_LC, max_lengths, vocabulary, options)

    goes_on_LC = pieces_LC != vocabulary.eos
    order_LK = goes_on_LC.logical_not().sort(dim=1, stable=True).indices[:, : options.beam_size]
    totals_LK, parents_LK, pieces_LK = (x.gather(1, order_LK) for x in (totals_LC, parents_LC, pieces_LC))
    totals_LK = totals_LK.masked_fill(~goes_on_LC.gather(1, order_LK), -math.inf)
    stay = [
        place
        for place, (sentence, best_total) in enumerate(zip(live.sentences, totals_LK[:, 0].tolist(), strict=True))
        if not _is_done(live.finished[sentence], best_total, step, max_lengths[sentence], options)
    ]
    rows_LK = parents_LK + first_rows_L1
    kept = torch.tensor(stay, dtype=torch.long)
    rows_N = rows_LK[kept].flatten()
    rows_stay = len(stay) == num_live and rows_LK.shape[1] == width
    live.sentences = [live.sentences[place] for place in stay]
    live.totals_LK = totals_LK[kept]
    live.state = state.select(rows_N) if rows_stay else state.keep(rows_N)
    prefixes_NT = live.prefixes_LKT.flatten(0, 1)[rows_N]
    live.prefixes_LKT = torch.cat([prefixes_NT, pieces_LK[kept].view(-1, 1)], dim=1).view(*rows_LK[kept].shape, step)
    if live.weights_LKTS is not None:
        live.weights_LKTS = live.weights_LKTS.flatten(0, 1)[rows_N].unflatten(0, rows_LK[kept].shape)
    return pieces_LK[kept].flatten()


def best_extensions(log_probs_NV: Tensor, totals_LK: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The best totals (L, C) of each sentence, its rows' totals with one more piece, best first, with the rows (in the
    sentence) and the pieces that give them; C is `count`, or less where there are not so many.

    Sorting all K x V is what would take the time. So the vocabulary is folded: the best of M places is found for all
    rows at once, and the best `count` extensions can only stand in the `count` best of these.
    """
    (num_live, width), vocab_size = totals_LK.shape, log_probs_NV.shape[1]
    count = min(count, width * vocab_size)
    num_folded = vocab_size // FOLDS
    folded_end = num_folded * FOLDS
    if width * num_folded < count:
        totals_LC, flat_LC = (
            (totals_LK.unsqueeze(-1) + log_probs_NV.unflatten(0, (num_live, width))).flatten(1).topk(count)
        )
        return totals_LC, flat_LC // vocab_size, flat_LC % vocab_size
    # Place m of M holds pieces m, m + M, m + 2M ...; what remains of the vocabulary has places of its own.
    if native.takes(log_probs_NV):
        best_NM = native.fold(log_probs_NV.contiguous(), FOLDS)
    else:
        folded_NFM = log_probs_NV[:, :folded_end].unflatten(1, (FOLDS, num_folded))
        best_NM = torch.cat([folded_NFM.amax(dim=1), log_probs_NV[:, folded_end:]], dim=1)
    num_places = best_NM.shape[1]
    best_LKM = totals_LK.unsqueeze(-1) + best_NM.unflatten(0, (num_live, width))
    flat_LC = best_LKM.flatten(1).topk(count).indices
    parents_LC, places_LC = flat_LC // num_places, flat_LC % num_places
    is_folded_LC1 = (places_LC < num_folded).unsqueeze(-1)
    folds_F = torch.arange(FOLDS)
    pieces_LCF = torch.where(
        is_folded_LC1,
        places_LC.unsqueeze(-1) + num_folded * folds_F,
        (places_LC + folded_end - num_folded).unsqueeze(-1),
    )
    rows_LC = parents_LC + torch.arange(num_live).unsqueeze(1) * width
    totals_LCF = log_probs_NV[rows_LC.unsqueeze(-1), pieces_LCF] + totals_LK.gather(1, parents_LC).unsqueeze(-1)
    totals_LCF = totals_LCF.masked_fill(~is_folded_LC1 & (folds_F > 0), -math.inf)
    totals_LC, chosen_LC = totals_LCF.flatten(1).topk(count)
    pieces_LC = pieces_LCF.flatten(1).gather(1, chosen_LC)
    return totals_LC, parents_LC.gather(1, chosen_LC // FOLDS), pieces_LC


def _allowed(
    log_probs_NV: Tensor, pieces_NV: Tensor | None, live: _Live, vocabulary: Vocabulary, options: BeamOptions
) -> Tensor:
    """The log-probabilities with what must not be said at minus infinity, written into them."""
    if pieces_NV is None and vocabulary.banned:
        log_probs_NV[:, list(vocabulary.banned)] = -math.inf
    if options.no_repeat_ngram:
        for row, prefix in enumerate(live.prefixes_LKT.flatten(0, 1).tolist()):
            ends = torch.tensor(repeated_ngram_ends(prefix, options.no_repeat_ngram), dtype=torch.long)
            log_probs_NV[row, ends if pieces_NV is None else torch.isin(pieces_NV[row], ends)] = -math.inf
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


def _show(
    observe: Observer, live: _Live, totals_LC: Tensor, parents_LC: Tensor, pieces_LC: Tensor, beam_size: int
) -> None:
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
        observe(sentence, [replace(candidate, kept=rank < beam_size) for rank, candidate in enumerate(candidates)])
