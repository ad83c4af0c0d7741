"""Finds the best extensions of the rows of a beam by one piece.

Shapes: L active sentences, K beam, V vocabulary, C candidates, N = L x K rows, F pieces of a place, M
places of the folded vocabulary (groups of pieces).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nmt_cli.ops.log_softmax import fold

FOLDS = 32
"""Number of pieces in each place of the folded vocabulary, of which only the best is compared at first."""


def best_extensions(log_probs_NV: Tensor, totals_LK: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the `count` best extensions of each sentence by one piece, or all if there are fewer, best first.

    These are three tensors (L, C): total log-probabilities, the rows that are extended (0 to K - 1), and the pieces.

    Sorting all K x V would take most of the time. So the vocabulary is divided into M places of `FOLDS` pieces. First
    the best piece of each place is found. The `count` best extensions can only be in the `count` places whose best
    is highest.
    """
    (num_active, width), vocab_size = totals_LK.shape, log_probs_NV.shape[1]
    count = min(count, width * vocab_size)
    num_folded = vocab_size // FOLDS
    folded_end = num_folded * FOLDS
    if width * num_folded < count:
        totals_LC, flat_LC = (
            (totals_LK.unsqueeze(-1) + log_probs_NV.unflatten(0, (num_active, width))).flatten(1).topk(count)
        )
        return totals_LC, flat_LC // vocab_size, flat_LC % vocab_size
    # Place m holds pieces m, m + num_folded, m + 2 num_folded ...; the pieces that remain have a place each.
    best_NM = fold(log_probs_NV, FOLDS)
    num_places = best_NM.shape[1]
    best_LKM = totals_LK.unsqueeze(-1) + best_NM.unflatten(0, (num_active, width))
    flat_LC = best_LKM.flatten(1).topk(count).indices
    parents_LC, places_LC = flat_LC // num_places, flat_LC % num_places
    is_folded_LC1 = (places_LC < num_folded).unsqueeze(-1)
    folds_F = torch.arange(FOLDS)
    pieces_LCF = torch.where(
        is_folded_LC1,
        places_LC.unsqueeze(-1) + num_folded * folds_F,
        (places_LC + folded_end - num_folded).unsqueeze(-1),
    )
    rows_LC = parents_LC + torch.arange(num_active).unsqueeze(1) * width
    totals_LCF = log_probs_NV[rows_LC.unsqueeze(-1), pieces_LCF] + totals_LK.gather(1, parents_LC).unsqueeze(-1)
    totals_LCF = totals_LCF.masked_fill(~is_folded_LC1 & (folds_F > 0), -math.inf)
    totals_LC, chosen_LC = totals_LCF.flatten(1).topk(count)
    pieces_LC = pieces_LCF.flatten(1).gather(1, chosen_LC)
    return totals_LC, parents_LC.gather(1, chosen_LC // FOLDS), pieces_LC
