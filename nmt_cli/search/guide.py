"""Keeps a beam search within the constraints of its sentences.

A row begins a term where its attention is heaviest on it. If the model's best piece begins the term, the row must say
it. Otherwise the term's first piece gets at least 0.3 times the attention as its probability, and all other pieces lose
that attention. A row that would end looks at the terms that it lacks instead. The attention leaves a term that is said,
so the model does not translate it again. With a weight none of this holds: the weight is only added.

Shapes: L live sentences, N rows, M extensions of rows by a piece, J terms of a sentence, S source, V vocabulary, D
pieces that may follow in a form, T target so far.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from nmt_cli.search.constraints import FREE, Constraints
from nmt_cli.search.hypothesis import Said, Vocabulary
from nmt_cli.search.terms import NO_PIECE, Terms

DISCOUNT = math.log(0.3)
"""Added to the logarithm of the attention on a term, for a term that the model would not say."""
UNKNOWN = math.log(1e-3)
"""Probability of the first piece of a form below which the model reads its own best piece instead of the form."""
MOST = 1 - 1e-4
"""Attention on a term is cut to this value, so that the other pieces keep some probability."""


class Progress(NamedTuple):
    """Progress of each row through the constraints of its sentence."""

    sentences_N: Tensor
    lengths_N: Tensor
    """Pieces of each row."""
    openings_N: Tensor
    """State of the opening."""
    nodes_N: Tensor
    """The node that the last piece led to, in the tree of the term that is being said or has just been said; else 0."""
    terms_N: Tensor
    """This term."""
    begins_NJ: Tensor
    ends_NJ: Tensor
    """The first piece of each term, and the piece after its last: -1 while it is not said, 0 where there is no term."""
    stand_ins_N: Tensor
    """The piece that the model reads in the place of this term, or -1."""
    bonus_N: Tensor
    """Share of the row's total that the model did not give."""
    pending_N: Tensor
    """The part of `bonus_N` that the unfinished form has given, which is taken back if the row leaves the form."""

    def select(self, rows_M: Tensor) -> Progress:
        """Return the given rows, in that order."""
        return Progress(*(tensor[rows_M] for tensor in self))

    def join(self, other: Progress) -> Progress:
        """Return the rows of both, one after the other."""
        return Progress(*(torch.cat(pair) for pair in zip(self, other, strict=True)))

    def said(self, row: int) -> tuple[Said, ...]:
        """Return the terms that a row says."""
        places = zip(self.begins_NJ[row].tolist(), self.ends_NJ[row].tolist(), strict=True)
        return tuple(Said(number, begin, end) for number, (begin, end) in enumerate(places) if end > 0)


class Plan(NamedTuple):
    """The pieces that terms allow each row at one step, and the changes of log-probabilities."""

    nodes_N: Tensor
    """The node whose pieces begin a term or go on with it; 0 where there is none."""
    begun_N: Tensor
    """The term that these pieces begin, or -1."""
    is_bound_N: Tensor
    """True if the row must say one of these pieces."""
    log_probs_ND: Tensor
    """Their log-probabilities under the model."""
    gains_N: Tensor
    """Addition to their log-probabilities."""
    others_N: Tensor
    """Addition to the log-probabilities of all other pieces."""
    stand_ins_N: Tensor
    """The piece that the model reads if a term begins, or -1 where that is the term."""


class Looks(NamedTuple):
    """The attention of each row on the terms that it may begin."""

    weights_NJ: Tensor
    """The attention on each term; -1 on one that the row may not begin."""
    begun_N: Tensor
    """The term on which it is heaviest, or -1."""
    is_owed_N: Tensor
    """True if the row has to say a term now, wherever it looks: it would end, or has no room for anything else."""


class Guide:
    """Keeps a search within the constraints of its sentences."""

    def __init__(
        self,
        constraints: Sequence[Constraints | None],
        vocabulary: Vocabulary,
        max_lengths: Sequence[int],
        weight: float | None = None,
    ) -> None:
        """Prepare the constraints of each sentence; `max_lengths` are the most pieces of its hypotheses, with </s>.

        The terms have to be said if `weight` is None. Otherwise it is added to the log-probability
        of their pieces; to that of a first piece in proportion to the attention.
        """
        self._constraints = [own or Constraints() for own in constraints]
        self._terms = Terms(self._constraints)
        self._eos = vocabulary.eos
        self._inside_words = torch.tensor(vocabulary.inside_words, dtype=torch.long)
        self._max_lengths_X = torch.tensor(max_lengths)
        self._weight = weight
        self._places_XJS: Tensor | None = None
        self._words_XS: Tensor | None = None

    def start(self, sentences: Sequence[int]) -> Progress:
        """Return the progress of sentences with one row each, after their beginnings."""
        own = [self._constraints[sentence] for sentence in sentences]
        sentences_N, none_N = torch.tensor(sentences), torch.zeros(len(sentences), dtype=torch.long)
        is_term_NJ = self._terms.roots_XJ[sentences_N] > 0
        return Progress(
            sentences_N,
            lengths_N=torch.tensor([len(one.beginning) for one in own]),
            openings_N=torch.tensor([0 if one.opening else FREE for one in own]),
            nodes_N=none_N,
            terms_N=none_N,
            begins_NJ=torch.zeros_like(is_term_NJ, dtype=torch.long),
            ends_NJ=torch.where(is_term_NJ, -1, 0),
            stand_ins_N=torch.full((len(sentences),), NO_PIECE),
            bonus_N=torch.zeros(len(sentences)),
            pending_N=torch.zeros(len(sentences)),
        )

    def beginnings(self, sentences: Sequence[int]) -> list[tuple[int, ...]]:
        """Return the pieces that each sentence begins with."""
        return [self._constraints[sentence].beginning for sentence in sentences]

    def most_gain(self, sentence: int) -> float:
        """Return the most that the terms of a sentence can add to the log-probability of a hypothesis."""
        return (self._weight or 0.0) * sum(term.size for term in self._constraints[sentence].terms)

    def read(self, progress: Progress, ids_N: Tensor) -> Tensor:
        """Return the pieces that the model reads after the last ones."""
        return torch.where(progress.stand_ins_N != NO_PIECE, progress.stand_ins_N, ids_N)

    def unread(self, progress: Progress) -> Tensor:
        """Return the rows (M) within a form for which the model reads a stand-in. Their last step does not count, so
        they keep the state before it until the form is said."""
        return (self._is_within(progress) & (progress.stand_ins_N != NO_PIECE)).nonzero().squeeze(1)

    def hidden(self, progress: Progress) -> Tensor | None:
        """Return the source positions (N, S) from which rows look away: within a term all others, and those of the
        terms that are said."""
        if self._places_XJS is None or self._weight is not None:
            return None
        places_NJS = self._places_XJS[progress.sentences_N]
        is_said_NJ1 = (progress.ends_NJ >= 0).unsqueeze(2)
        said_NS = (places_NJS & is_said_NJ1).any(dim=1) & ~(places_NJS & ~is_said_NJ1).any(dim=1)
        own_NS = places_NJS[torch.arange(len(places_NJS)), progress.terms_N]
        return torch.where(self._is_within(progress).unsqueeze(1), ~own_NS, said_NS)

    def _is_within(self, progress: Progress) -> Tensor:
        """Return whether each row (N) is in the middle of a form."""
        return (progress.nodes_N > 0) & ~self._terms.is_form_Q[progress.nodes_N]

    def look(
        self, progress: Progress, log_probs_NV: Tensor, weights_NS: Tensor, is_owed_N: Tensor | None = None
    ) -> Looks:
        """Return where rows look after a step of the model; `is_owed_N` are rows that see nothing but what they owe."""
        if self._places_XJS is None or self._words_XS is None:
            width = weights_NS.shape[1]
            self._places_XJS, self._words_XS = self._terms.places_XJS(width), self._terms.words_XS(width)
        places_NJS = self._places_XJS[progress.sentences_N]
        may_begin_N = (progress.openings_N == FREE) & ~self._is_within(progress)
        is_open_NJ = (progress.ends_NJ < 0) & may_begin_N.unsqueeze(1)
        looks_NJ = (places_NJS * weights_NS.unsqueeze(1)).sum(dim=2).masked_fill(~is_open_NJ, -1.0)
        if self._weight is not None:
            most_N, begun_N = looks_NJ.max(dim=1)
            return Looks(looks_NJ, torch.where(most_N > 0, begun_N, -1), torch.zeros_like(may_begin_N))
        words_NS = self._words_XS[progress.sentences_N]
        heaviest_N1 = torch.zeros_like(weights_NS).scatter_add(1, words_NS, weights_NS).argmax(dim=1, keepdim=True)
        is_heaviest_NJ = (places_NJS & (words_NS == heaviest_N1).unsqueeze(1)).any(dim=2)
        most_N, begun_N = looks_NJ.masked_fill(~is_heaviest_NJ, -1.0).max(dim=1)
        begun_N = torch.where(most_N > 0, begun_N, -1)
        if is_owed_N is not None:
            return Looks(looks_NJ, torch.where(is_owed_N, looks_NJ.argmax(dim=1), begun_N), is_owed_N)
        needed_N = (self._terms.sizes_XJ[progress.sentences_N] * is_open_NJ).sum(dim=1) + 1
        has_no_room_N = self._max_lengths_X[progress.sentences_N] - progress.lengths_N <= needed_N
        would_end_N = (begun_N < 0) & (log_probs_NV[:, self._eos] >= log_probs_NV.amax(dim=1))
        return Looks(looks_NJ, begun_N, is_open_NJ.any(dim=1) & (would_end_N | has_no_room_N))

    def only_unsaid(self, progress: Progress) -> Tensor:
        """Return all source positions (N, S) but those of the terms that rows lack."""
        assert self._places_XJS is not None
        return ~(self._places_XJS[progress.sentences_N] & (progress.ends_NJ < 0).unsqueeze(2)).any(dim=1)

    def plan(self, progress: Progress, looks: Looks, log_probs_NV: Tensor) -> Plan:
        """Return what rows may say; the log-probabilities are those of the model."""
        terms, begins_N = self._terms, looks.begun_N >= 0
        begun_N1 = looks.begun_N.clamp(min=0).unsqueeze(1)
        roots_N = terms.roots_XJ[progress.sentences_N].gather(1, begun_N1).squeeze(1)
        nodes_N = torch.where(begins_N, roots_N, progress.nodes_N)
        pieces_ND = terms.pieces_QD[nodes_N]
        goes_on_N = pieces_ND[:, 0] != NO_PIECE
        log_probs_ND = log_probs_NV.gather(1, pieces_ND.clamp(min=0))
        look_N = looks.weights_NJ.gather(1, begun_N1).squeeze(1).clamp(0.0, MOST)
        is_within_N = self._is_within(progress)
        if self._weight is not None:
            gains_N = torch.where(begins_N, self._weight * look_N, self._weight)
            others_N = torch.where(is_within_N, -progress.pending_N, 0.0)
            is_bound_N, stand_ins_N = torch.zeros_like(begins_N), torch.full_like(nodes_N, NO_PIECE)
        else:
            best_N, best_of_form_N = log_probs_NV.amax(dim=1), log_probs_ND.amax(dim=1)
            stand_ins_N = torch.full_like(nodes_N, NO_PIECE)
            unknown_M = (begins_N & (best_of_form_N < UNKNOWN)).nonzero().squeeze(1)
            stand_ins_N[unknown_M] = log_probs_NV[unknown_M].argmax(dim=1)
            is_wanted_N = best_of_form_N >= best_N
            is_bound_N = is_within_N | (begins_N & (is_wanted_N | looks.is_owed_N))
            offered_N = (look_N.log() + DISCOUNT - best_of_form_N).clamp(min=0.0)
            gains_N = torch.where(is_bound_N, best_N - best_of_form_N, torch.where(begins_N, offered_N, 0.0))
            others_N = torch.where(begins_N, torch.log1p(-look_N), 0.0)
        return Plan(
            torch.where(goes_on_N, nodes_N, 0), looks.begun_N, is_bound_N, log_probs_ND,
            torch.where(goes_on_N, gains_N, 0.0), others_N, stand_ins_N,
        )  # fmt: skip

    def apply(self, plan: Plan, progress: Progress, prefixes_NT: Tensor, log_probs_NV: Tensor) -> None:
        """Change the log-probabilities in place to what the constraints make of them."""
        terms = self._terms
        _add(log_probs_NV, plan.others_N.nonzero().squeeze(1), plan.others_N.unsqueeze(1))
        if self._weight is None:
            rows_M = (terms.is_form_Q[progress.nodes_N] & ~plan.is_bound_N).nonzero().squeeze(1)
            new_word_V = torch.zeros(log_probs_NV.shape[1]).index_fill_(0, self._inside_words, -math.inf)
            _add(log_probs_NV, rows_M, new_word_V.expand(1, -1))
            log_probs_NV[(progress.ends_NJ < 0).any(dim=1), self._eos] = -math.inf
            forms_NFB = terms.forms_XFB[progress.sentences_N]
            before_NFB, last_NF = forms_NFB[:, :, :-1], forms_NFB[:, :, -1]
            width = before_NFB.shape[2]
            missing = max(0, width - prefixes_NT.shape[1])
            tails_NB = F.pad(prefixes_NT, (missing, 0), value=NO_PIECE)[:, prefixes_NT.shape[1] + missing - width :]
            is_same_NFB = (before_NFB == NO_PIECE) | (before_NFB == tails_NB.unsqueeze(1))
            rows_M, forms_M = (is_same_NFB.all(dim=2) & (last_NF != NO_PIECE)).nonzero(as_tuple=True)
            log_probs_NV[rows_M, last_NF[rows_M, forms_M]] = -math.inf
        log_probs_NV.index_fill_(0, plan.is_bound_N.nonzero().squeeze(1), -math.inf)
        rows_M = (plan.nodes_N > 0).nonzero().squeeze(1)
        gained_MD = (plan.log_probs_ND + plan.gains_N.unsqueeze(1))[rows_M]
        log_probs_NV[rows_M.unsqueeze(1), terms.pieces_QD[plan.nodes_N[rows_M]]] = gained_MD
        for row in (progress.openings_N != FREE).nonzero().squeeze(1).tolist():
            _keep_only(log_probs_NV[row], list(self._opening(progress, row)))

    def _opening(self, progress: Progress, row: int) -> Mapping[int, int]:
        """Return the pieces that the opening of a row allows, and the state after each of them."""
        return self._constraints[int(progress.sentences_N[row])].opening[int(progress.openings_N[row])]

    def after(self, plan: Plan, progress: Progress, rows_M: Tensor, pieces_M: Tensor) -> Progress:
        """Return the progress of rows after a piece of each."""
        terms, nodes_M, begun_M = self._terms, plan.nodes_N[rows_M], plan.begun_N[rows_M]
        before = progress.select(rows_M)
        is_next_MD = terms.pieces_QD[nodes_M] == pieces_M.unsqueeze(1)
        nodes_M = (terms.nodes_QD[nodes_M] * is_next_MD).amax(dim=1)
        is_term_M = nodes_M > 0
        terms_M = torch.where(is_term_M & (begun_M >= 0), begun_M, before.terms_N)
        is_own_MJ = (torch.arange(before.ends_NJ.shape[1]) == terms_M.unsqueeze(1)) & is_term_M.unsqueeze(1)
        place_M1 = before.lengths_N.unsqueeze(1)
        is_form_M = terms.is_form_Q[nodes_M]
        openings_M = before.openings_N.clone()
        for number in (openings_M != FREE).nonzero().squeeze(1).tolist():
            openings_M[number] = self._opening(before, number).get(int(pieces_M[number]), FREE)
        change_M = torch.where(is_term_M, plan.gains_N[rows_M], plan.others_N[rows_M])
        pending_M = torch.where(is_term_M & ~is_form_M, before.pending_N + change_M, 0.0)
        return Progress(
            before.sentences_N, before.lengths_N + 1, openings_M, nodes_M, terms_M,
            torch.where(is_own_MJ & (begun_M >= 0).unsqueeze(1), place_M1, before.begins_NJ),
            torch.where(is_own_MJ & is_form_M.unsqueeze(1), place_M1 + 1, before.ends_NJ),
            torch.where(is_term_M, torch.where(begun_M >= 0, plan.stand_ins_N[rows_M], before.stand_ins_N), NO_PIECE),
            before.bonus_N + change_M, pending_M,
        )  # fmt: skip


def _add(log_probs_NV: Tensor, rows_M: Tensor, values: Tensor) -> None:
    """Add to some rows in place: the values (N, 1) of each row, or (1, V) the same to all of them."""
    own = values if values.shape[0] == 1 else values[rows_M]
    log_probs_NV.index_copy_(0, rows_M, log_probs_NV.index_select(0, rows_M) + own)


def _keep_only(log_probs_V: Tensor, pieces: list[int]) -> None:
    """Write minus infinity everywhere but at the pieces."""
    ids = torch.tensor(pieces, dtype=torch.long)
    kept = log_probs_V[ids]
    log_probs_V.fill_(-math.inf)
    log_probs_V[ids] = kept
