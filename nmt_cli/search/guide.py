"""Keeps a beam search within the constraints of its sentences.

A row begins a term where its attention is heaviest on it. If the model's best piece begins the term, the row must say
it. Otherwise the term's first piece gets at least 0.3 times the attention as its probability, and all other pieces lose
that attention. The attention leaves a term that is said, so the model does not translate it again.

Some rows look again, at nothing but terms that they lack: a row that would end, and a row that would say a term while
it looks elsewhere. Such a row says a term, with the probability that it had before.

All of this guides the search. In the end, the probabilities of the model alone rank the hypotheses. A form that the
model does not know keeps what the attention gave it, but not after a second look: its place was not found by the
attention then. With a weight none of this holds: the weight is only added.

Shapes: L live sentences, N rows, M extensions of rows by a piece, J terms of a sentence, S source, V vocabulary, D
pieces that may follow in a form, T target so far.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from nmt_cli.search.constraints import FREE, Constraints
from nmt_cli.search.hypothesis import Vocabulary
from nmt_cli.search.progress import Looks, Plan, Progress
from nmt_cli.search.terms import NO_PIECE, Places, Terms

DISCOUNT = math.log(0.3)
"""Added to the logarithm of the attention on a term, for a term that the model would not say."""
DISCOUNT_UNKNOWN = math.log(0.6)
"""The same for a form that the model does not know. Only the attention tells its place."""
WANTED = math.log(0.3)
"""A row to whose first piece the model gives this much says a term, wherever it looks."""
UNKNOWN = math.log(1e-3)
"""Probability of the first piece of a form below which the model reads its own best piece instead of the form."""
HALF = math.log(0.5) + 1e-3
"""A piece with a larger log-probability is the best of its row."""
MOST = 1 - 1e-4
"""Attention on a term is cut to this value, so that the other pieces keep some probability."""


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
        of their pieces. A first piece gets a part of it, in proportion to the attention.
        """
        self._constraints = [own or Constraints() for own in constraints]
        self._terms = Terms(self._constraints)
        self._eos = vocabulary.eos
        self._inside_words = torch.tensor(vocabulary.inside_words, dtype=torch.long)
        self._max_lengths_X = torch.tensor(max_lengths)
        self._finals = torch.tensor([*vocabulary.finals, vocabulary.eos])
        # </s> has a larger number. Where the words are not known, no word is the last.
        none = torch.iinfo(torch.long).max
        self._last_words_X = torch.tensor([own.words[-1] if own.words else none for own in self._constraints])
        self._digits = torch.tensor(vocabulary.digits, dtype=torch.long)
        self._keeps_numbers_X = torch.tensor([own.keeps_numbers and weight is None for own in self._constraints])
        self._weight = weight
        self._source: Places | None = None

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
            read_instead_N=torch.full((len(sentences),), NO_PIECE),
            bonus_N=torch.zeros(len(sentences)),
            unranked_N=torch.zeros(len(sentences)),
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
        return torch.where(progress.read_instead_N != NO_PIECE, progress.read_instead_N, ids_N)

    def unread(self, progress: Progress) -> Tensor:
        """Return the rows (M) within a form for which the model reads another piece. Their last step does not count, so
        they keep the state before it until the form is said."""
        return (self._is_within(progress) & (progress.read_instead_N != NO_PIECE)).nonzero().squeeze(1)

    def hidden(self, progress: Progress) -> Tensor | None:
        """Return the source positions (N, S) from which rows look away: within a term all other positions,
        elsewhere the positions of terms that are said."""
        if self._source is None or self._weight is not None:
            return None
        said_NS = self._source.only_of(progress.sentences_N, progress.ends_NJ >= 0)
        is_own_NJ = torch.arange(progress.ends_NJ.shape[1]) == progress.terms_N.unsqueeze(1)
        own_NS = self._source.of(progress.sentences_N, is_own_NJ)
        return torch.where(self._is_within(progress).unsqueeze(1), ~own_NS, said_NS)

    def _is_within(self, progress: Progress) -> Tensor:
        """Return whether each row (N) is in the middle of a form."""
        return (progress.nodes_N > 0) & ~self._terms.is_form_Q[progress.nodes_N]

    def look(self, progress: Progress, log_probs_NV: Tensor, weights_NS: Tensor) -> Looks:
        """Return where rows look after a step of the model, and which of them look again."""
        if self._source is None:
            self._source = self._terms.at_source(weights_NS.shape[1])
        source, sentences_N = self._source, progress.sentences_N
        may_begin_N = (progress.openings_N == FREE) & ~self._is_within(progress)
        is_open_NJ = (progress.ends_NJ < 0) & may_begin_N.unsqueeze(1)
        looks_NJ = source.looks(sentences_N, weights_NS).masked_fill(~is_open_NJ, -1.0)
        none_NJ, no_rows_M = torch.zeros_like(is_open_NJ), torch.empty(0, dtype=torch.long)
        if self._weight is not None:
            begun_N = _heaviest(looks_NJ)
            return Looks(looks_NJ, begun_N, none_NJ, none_NJ[:, 0], no_rows_M, log_probs_NV[:0])
        heaviest_N = source.heaviest_words(sentences_N, weights_NS)
        begun_N = _heaviest(looks_NJ.masked_fill(~source.are_in(sentences_N, heaviest_N), -1.0))
        is_last_N = heaviest_N >= self._last_words_X[sentences_N]
        lacks_N = is_open_NJ.any(dim=1)
        would_end_N = self._would_end(log_probs_NV, lacks_N & (begun_N < 0), is_last_N)
        needed_N = (self._terms.sizes_XJ[sentences_N] * is_open_NJ).sum(dim=1) + 1
        has_no_room_N = self._max_lengths_X[sentences_N] - progress.lengths_N <= needed_N
        is_owed_N = would_end_N | (lacks_N & has_no_room_N)
        wanted_NJ = is_open_NJ & (self._first(sentences_N, log_probs_NV) >= WANTED).any(dim=2)
        is_there_N = (begun_N >= 0) & wanted_NJ.gather(1, begun_N.clamp(min=0).unsqueeze(1)).squeeze(1)
        wanted_N1 = _heaviest(looks_NJ.masked_fill(~wanted_NJ, -1.0)).masked_fill(is_there_N, -1).unsqueeze(1)
        wanted_NJ = torch.arange(wanted_NJ.shape[1]) == wanted_N1
        again_NJ = torch.where(is_owed_N.unsqueeze(1), is_open_NJ, wanted_NJ)
        return Looks(looks_NJ, begun_N, again_NJ, is_owed_N, no_rows_M, log_probs_NV[:0])

    def _would_end(self, log_probs_NV: Tensor, is_asked_N: Tensor, is_last_N: Tensor) -> Tensor:
        """Return which of the rows that are asked for (N) would end. They say </s>, or a full stop while they look at
        the last word of the source."""
        stop_N = log_probs_NV[:, self._finals].amax(dim=1)
        end_N = torch.where(is_last_N, stop_N, log_probs_NV[:, self._eos])
        best_N = best_log_probs(log_probs_NV, is_asked_N, end_N)
        return is_asked_N & (end_N >= best_N)

    def _first(self, sentences_N: Tensor, log_probs_NV: Tensor) -> Tensor:
        """Return the log-probabilities (N, J, D) of the first pieces of each term; any where there is no term."""
        pieces_NJD = self._terms.first_XJD[sentences_N]
        return log_probs_NV.gather(1, pieces_NJD.flatten(1)).view(pieces_NJD.shape)

    def all_but_again(self, progress: Progress, looks: Looks, rows_M: Tensor) -> Tensor:
        """Return all source positions (M, S) but the terms that rows look at again."""
        assert self._source is not None
        return ~self._source.of(progress.sentences_N[rows_M], looks.again_NJ[rows_M])

    def holds(self, progress: Progress, looks: Looks, rows_M: Tensor, log_probs_MV: Tensor, first_NV: Tensor) -> Tensor:
        """Return which of the rows that have looked again (M) say a term.

        A form of several pieces must also be wanted by a row that sees nothing else: its first piece may be the
        beginning of other words too. A form of one piece would be forbidden otherwise, so the row says it anyway.
        """
        sentences_M, again_MJ1 = progress.sentences_N[rows_M], looks.again_NJ[rows_M].unsqueeze(2)
        roots_MJ = self._terms.roots_XJ[sentences_M]
        is_whole_MJD = self._terms.is_form_Q[self._terms.nodes_QD[roots_MJ]]
        before_MJD, now_MJD = self._first(sentences_M, first_NV[rows_M]), self._first(sentences_M, log_probs_MV)
        is_wanted_MJD = (before_MJD >= WANTED) & (is_whole_MJD | (now_MJD >= WANTED)) & again_MJ1
        return looks.is_owed_N[rows_M] | is_wanted_MJD.flatten(1).any(dim=1)

    def look_again(
        self, progress: Progress, looks: Looks, rows_M: Tensor, log_probs_MV: Tensor, weights_MS: Tensor
    ) -> Looks:
        """Return the looks with the terms that rows begin which have looked again."""
        assert self._source is not None
        looks_MJ = self._source.looks(progress.sentences_N[rows_M], weights_MS)
        looks_MJ = looks_MJ.masked_fill(~looks.again_NJ[rows_M], -1.0)
        return looks._replace(
            weights_NJ=looks.weights_NJ.index_copy(0, rows_M, looks_MJ),
            begun_N=looks.begun_N.index_copy(0, rows_M, looks_MJ.argmax(dim=1)),
            is_owed_N=looks.is_owed_N.index_fill(0, rows_M, value=True),
            rows_M=rows_M,
            log_probs_MV=log_probs_MV,
        )

    def plan(self, progress: Progress, looks: Looks, log_probs_NV: Tensor) -> Plan:
        """Return what rows may say; the log-probabilities are the model's, before any row looked again."""
        terms, begins_N = self._terms, looks.begun_N >= 0
        begun_N1 = looks.begun_N.clamp(min=0).unsqueeze(1)
        roots_N = terms.roots_XJ[progress.sentences_N].gather(1, begun_N1).squeeze(1)
        nodes_N = torch.where(begins_N, roots_N, progress.nodes_N)
        pieces_ND = terms.pieces_QD[nodes_N]
        goes_on_N = pieces_ND[:, 0] != NO_PIECE
        log_probs_ND = log_probs_NV.gather(1, pieces_ND.clamp(min=0))
        look_N = looks.weights_NJ.gather(1, begun_N1).squeeze(1).clamp(0.0, MOST)
        is_within_N = self._is_within(progress)
        read_instead_N = torch.full_like(nodes_N, NO_PIECE)
        if self._weight is not None:
            gains_N = torch.where(begins_N, self._weight * look_N, self._weight)
            others_N = torch.where(is_within_N, -progress.pending_N, 0.0)
            is_bound_N = torch.zeros_like(begins_N)
        else:
            best_of_form_N = log_probs_ND.amax(dim=1)
            must_N = is_within_N | looks.is_owed_N
            best_N = best_log_probs(log_probs_NV, begins_N | is_within_N, best_of_form_N, must_N)
            is_known_N = terms.is_known_XJ[progress.sentences_N].gather(1, begun_N1).squeeze(1)
            read_instead_N = _read_instead(looks, pieces_ND, best_of_form_N, log_probs_NV)
            read_instead_N = read_instead_N.masked_fill(is_known_N, NO_PIECE)
            is_bound_N = is_within_N | (begins_N & ((best_of_form_N >= best_N) | looks.is_owed_N))
            discount_N = torch.where(read_instead_N == NO_PIECE, DISCOUNT, DISCOUNT_UNKNOWN)
            offered_N = (look_N.log() + discount_N - best_of_form_N).clamp(min=0.0)
            gains_N = torch.where(is_bound_N, best_N - best_of_form_N, torch.where(begins_N, offered_N, 0.0))
            others_N = torch.where(begins_N, torch.log1p(-look_N), 0.0)
        return Plan(
            torch.where(goes_on_N, nodes_N, 0), looks.begun_N, is_bound_N, log_probs_ND,
            torch.where(goes_on_N, gains_N, 0.0), others_N, read_instead_N, looks.is_owed_N,
        )  # fmt: skip

    def apply(self, plan: Plan, progress: Progress, prefixes_NT: Tensor, log_probs_NV: Tensor) -> None:
        """Change the log-probabilities in place to what the constraints make of them, except that `others_N` is to be
        added to all pieces of a row."""
        terms = self._terms
        if self._weight is None:
            rows_M = (terms.is_form_Q[progress.nodes_N] & ~plan.is_bound_N).nonzero()
            log_probs_NV[rows_M, self._inside_words] = -math.inf
            log_probs_NV[:, self._eos].masked_fill_((progress.ends_NJ < 0).any(dim=1), -math.inf)
            forms_NFB = terms.forms_XFB[progress.sentences_N]
            before_NFB, last_NF = forms_NFB[:, :, :-1], forms_NFB[:, :, -1]
            width = before_NFB.shape[2]
            missing = max(0, width - prefixes_NT.shape[1])
            tails_NB = F.pad(prefixes_NT, (missing, 0), value=NO_PIECE)[:, prefixes_NT.shape[1] + missing - width :]
            is_same_NFB = (before_NFB == NO_PIECE) | (before_NFB == tails_NB.unsqueeze(1))
            # A prefix may spell a form, and there may be no other way to spell it.
            is_free_N1 = (progress.openings_N == FREE).unsqueeze(1)
            rows_M, forms_M = (is_same_NFB.all(dim=2) & (last_NF != NO_PIECE) & is_free_N1).nonzero(as_tuple=True)
            log_probs_NV[rows_M, last_NF[rows_M, forms_M]] = -math.inf
        is_exact_N = self._keeps_numbers_X[progress.sentences_N] & (progress.openings_N == FREE)
        log_probs_NV[is_exact_N.nonzero(), self._digits] = -math.inf
        log_probs_NV.index_fill_(0, plan.is_bound_N.nonzero().squeeze(1), -math.inf)
        rows_M = (plan.nodes_N > 0).nonzero().squeeze(1)
        gained_MD = (plan.log_probs_ND + (plan.gains_N - plan.others_N).unsqueeze(1))[rows_M]
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
        read_instead_M = torch.where(begun_M >= 0, plan.read_instead_N[rows_M], before.read_instead_N)
        # The probability of a form that the model does not know tells nothing. But if all such forms were free, one
        # that takes the place of the full stop at the end would outrank one in its place.
        is_free_M = is_term_M & (read_instead_M != NO_PIECE) & ~plan.is_late_N[rows_M]
        counts_M = is_free_M if self._weight is None else torch.ones_like(is_term_M)
        pending_M = torch.where(is_term_M & ~is_form_M, before.pending_N + change_M, 0.0)
        return Progress(
            before.sentences_N, before.lengths_N + 1, openings_M, nodes_M, terms_M,
            torch.where(is_own_MJ & (begun_M >= 0).unsqueeze(1), place_M1, before.begins_NJ),
            torch.where(is_own_MJ & is_form_M.unsqueeze(1), place_M1 + 1, before.ends_NJ),
            torch.where(is_term_M, read_instead_M, NO_PIECE),
            before.bonus_N + change_M, before.unranked_N + change_M.masked_fill(counts_M, 0.0), pending_M,
        )  # fmt: skip


def _read_instead(looks: Looks, pieces_ND: Tensor, best_of_form_N: Tensor, log_probs_NV: Tensor) -> Tensor:
    """Return the best piece of each row (N) that begins a form which the model does not know, else -1."""
    found_N = torch.full_like(looks.begun_N, NO_PIECE)
    is_unknown_N = (looks.begun_N >= 0) & (best_of_form_N < UNKNOWN)
    first_M = is_unknown_N.index_fill(0, looks.rows_M, value=False).nonzero().squeeze(1)
    found_N[first_M] = log_probs_NV[first_M].argmax(dim=1)
    best_M = looks.log_probs_MV.gather(1, pieces_ND[looks.rows_M].clamp(min=0)).amax(dim=1)
    unknown_M = (best_M < UNKNOWN).nonzero().squeeze(1)
    found_N[looks.rows_M[unknown_M]] = looks.log_probs_MV[unknown_M].argmax(dim=1)
    return found_N


def best_log_probs(log_probs_NV: Tensor, is_asked_N: Tensor, known_N: Tensor, must_N: Tensor | None = None) -> Tensor:
    """Return the log-probability of the best piece of each row (N) that is asked for; any above `known_N` elsewhere.

    `known_N` are the log-probabilities of some pieces. Above a half they are the best, and below 1 / V they are not, so
    few rows have to be looked through. In rows of `must_N` the best counts also if it is another piece.
    """
    is_open_N = known_N > -math.log(log_probs_NV.shape[1]) - 0.1
    if must_N is not None:
        is_open_N = is_open_N | must_N
    best_N = torch.where(known_N > HALF, known_N, 0.0)
    rows_M = (is_asked_N & is_open_N & (known_N <= HALF)).nonzero().squeeze(1)
    best_N[rows_M] = log_probs_NV[rows_M].amax(dim=1)
    return best_N


def _heaviest(looks_NJ: Tensor) -> Tensor:
    """Return the term (N) on which each row looks most, or -1 where that is not at all."""
    most_N, term_N = looks_NJ.max(dim=1)
    return torch.where(most_N > 0, term_N, -1)


def _keep_only(log_probs_V: Tensor, pieces: list[int]) -> None:
    """Write minus infinity everywhere but at the pieces."""
    ids = torch.tensor(pieces, dtype=torch.long)
    kept = log_probs_V[ids]
    log_probs_V.fill_(-math.inf)
    log_probs_V[ids] = kept
