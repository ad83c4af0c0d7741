"""Constraint masks: changes of log-probabilities that keep a beam search within the constraints of its sentences.

`constraints.py` has the constraints themselves. This file applies them at each step: minus infinity forbids a piece,
and a bonus makes a term more likely. Post & Vilar (2018) try every term at every step. Here the attention decides.

A row begins a term where its attention is heaviest on it. If the model's best piece begins the term, the row must
generate it. Otherwise the term's first piece gets at least 0.3 times the attention as its probability, and all other
pieces lose that attention. The attention on a generated term is hidden, so the model does not translate it again.

Example: the term is `Katze` -> `cat`, and `the` has been generated. The attention on `Katze` is 0.9, and the model
predicts `kitten` with 0.6 and `cat` with 0.05. Then `cat` gets 0.3 x 0.9 = 0.27, `kitten` gets 0.6 x (1 - 0.9) = 0.06,
and `</s>` stays forbidden until `cat` has been generated.

Some rows make a second pass through the model, in which they attend only to terms that they lack: a row that would end,
and a row that would generate a term while it attends elsewhere. Such a row generates a term, with the probability that
it had in the first pass.

All of this guides the search. In the end, the probabilities of the model alone rank the hypotheses. A form that the
model does not know keeps the bonus of the attention, but not after a second pass: then the attention had not found its
place. With a weight none of this holds: the weight is only added.

Shapes: L active sentences, N rows, M extensions of rows by a piece, J terms of a sentence, S source, V vocabulary, D
pieces that may follow in a form, T target so far.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from nmt_cli.search.constraint_state import ConstraintState, StepMasks, TermAttention
from nmt_cli.search.constraints import ACCEPTING, Constraints
from nmt_cli.search.hypothesis import Vocabulary
from nmt_cli.search.term_tries import NO_PIECE, TermPositions, TermTries

DISCOUNT = math.log(0.3)
"""Added to the logarithm of the attention on a term. The sum is the least log-probability that the term's first piece
gets, even if the model would not generate it. With 0.1 the words of a term were repeated 352 times in Multi30K's dev
set, with 0.3 288 times (docs/studies/glossary.md)."""
DISCOUNT_UNKNOWN = math.log(0.6)
"""Replaces `DISCOUNT` for a form that the model does not know (see `MIN_KNOWN_LOG_PROB`), whose place only the
attention finds. With ten such words, BLEU was 86.82 with 0.3, 92.12 with 0.6, and 93.65 with 1.0, which cost other
terms more."""
MIN_TERM_LOG_PROB = math.log(0.3)
"""Least log-probability (nats) of a term's first piece at which a row generates the term, wherever the row attends.
With 0.5: 43.83 BLEU and 268 repeated words, with 0.3 43.95 and 263."""
MIN_KNOWN_LOG_PROB = math.log(1e-3)
"""Log-probability of a form's first piece, in nats, below which the model does not know the form. Then it reads its own
best piece instead of the form. With this rule, 189 of 375 lines stayed the same apart from the word; without it, 110.
The value was not varied."""
LOG_HALF = math.log(0.5) + 1e-3
"""A piece with a larger log-probability is the best of its row, whatever the others have. Not tuned."""
MAX_ATTENTION = 1 - 1e-4
"""Attention on a term is cut to this value, so that the other pieces keep some probability. Not tuned."""


class ConstraintMasks:
    """Masks and bonuses for the log-probabilities of a search, from the constraints of its sentences."""

    def __init__(
        self,
        constraints: Sequence[Constraints | None],
        vocabulary: Vocabulary,
        max_lengths: Sequence[int],
        weight: float | None = None,
    ) -> None:
        """Prepare the constraints of each sentence; `max_lengths` are the most pieces of its hypotheses, with </s>.

        The terms must be generated if `weight` is None. Otherwise the weight is added to the log-probability of their
        pieces. A first piece gets a part of it, in proportion to the attention.
        """
        self._constraints = [own or Constraints() for own in constraints]
        self._terms = TermTries(self._constraints)
        self._eos = vocabulary.eos
        self._continuation_pieces = torch.tensor(vocabulary.continuation_pieces, dtype=torch.long)
        self._max_lengths_X = torch.tensor(max_lengths)
        self._sentence_ends = torch.tensor([*vocabulary.sentence_terminals, vocabulary.eos])
        # </s> has a larger number. Where the words are not known, no word is the last.
        none = torch.iinfo(torch.long).max
        self._last_words_X = torch.tensor(
            [own.piece_words[-1] if own.piece_words else none for own in self._constraints]
        )
        self._digits = torch.tensor(vocabulary.digits, dtype=torch.long)
        self._keeps_numbers_X = torch.tensor([own.keeps_numbers and weight is None for own in self._constraints])
        self._weight = weight
        self._source: TermPositions | None = None

    def start(self, sentences: Sequence[int]) -> ConstraintState:
        """Return the constraint state of sentences that have one row each and have generated their beginnings."""
        own = [self._constraints[sentence] for sentence in sentences]
        sentences_N, none_N = torch.tensor(sentences), torch.zeros(len(sentences), dtype=torch.long)
        is_term_NJ = self._terms.roots_XJ[sentences_N] > 0
        return ConstraintState(
            sentences_N,
            lengths_N=torch.tensor([len(one.beginning) for one in own]),
            automaton_states_N=torch.tensor([0 if one.automaton else ACCEPTING for one in own]),
            nodes_N=none_N,
            terms_N=none_N,
            begins_NJ=torch.zeros_like(is_term_NJ, dtype=torch.long),
            ends_NJ=torch.where(is_term_NJ, -1, 0),
            substitutes_N=torch.full((len(sentences),), NO_PIECE),
            bonus_N=torch.zeros(len(sentences)),
            unranked_bonus_N=torch.zeros(len(sentences)),
            pending_bonus_N=torch.zeros(len(sentences)),
        )

    def beginnings(self, sentences: Sequence[int]) -> list[tuple[int, ...]]:
        """Return the pieces that each sentence must begin with, which the model reads before the search."""
        return [self._constraints[sentence].beginning for sentence in sentences]

    def max_bonus(self, sentence: int) -> float:
        """Return the largest sum of bonuses, in nats, that the terms of a sentence can add to a hypothesis."""
        return (self._weight or 0.0) * sum(term.size for term in self._constraints[sentence].terms)

    def input_ids(self, state: ConstraintState, ids_N: Tensor) -> Tensor:
        """Return the pieces (N) that the model reads at the next step.

        These are `ids_N`, the last pieces of the rows. But instead of a form that it does not know, the model reads its
        own best piece.
        """
        return torch.where(state.substitutes_N != NO_PIECE, state.substitutes_N, ids_N)

    def frozen_rows(self, state: ConstraintState) -> Tensor:
        """Return the indices (M) of rows in the middle of a form instead of which the model reads its own best piece.

        The model state of such a row does not change until the form is complete.
        """
        return (self._is_within(state) & (state.substitutes_N != NO_PIECE)).nonzero().squeeze(1)

    def masked_positions(self, state: ConstraintState) -> Tensor | None:
        """Return a mask (N, S), True at source positions to which a row must not attend.

        A row in the middle of a form attends only to the term of that form. For other rows, positions that belong to
        generated terms alone are hidden. Returns None before the first step of the search, and with a weight.
        """
        if self._source is None or self._weight is not None:
            return None
        generated_NS = self._source.mask_of_terms_only(state.sentences_N, state.ends_NJ >= 0)
        is_own_NJ = torch.arange(state.ends_NJ.shape[1]) == state.terms_N.unsqueeze(1)
        own_NS = self._source.mask_of_terms(state.sentences_N, is_own_NJ)
        return torch.where(self._is_within(state).unsqueeze(1), ~own_NS, generated_NS)

    def _is_within(self, state: ConstraintState) -> Tensor:
        """Return a mask (N), True for rows that are in the middle of a form."""
        return (state.nodes_N > 0) & ~self._terms.is_form_Q[state.nodes_N]

    def term_attention(self, state: ConstraintState, log_probs_NV: Tensor, weights_NS: Tensor) -> TermAttention:
        """Return the attention of each row on the terms that it may begin, and the terms of its second pass, if any.

        `log_probs_NV` and `weights_NS` are the prediction and the attention weights of the step. For a second pass,
        call `hidden_in_second_pass`, `accepts_second_pass` and `with_second_pass` next.
        """
        width = weights_NS.shape[1]
        if self._source is None or self._source.width < width:  # longer sentences have come
            self._source = self._terms.positions(width)
        source, sentences_N = self._source, state.sentences_N
        may_begin_N = (state.automaton_states_N == ACCEPTING) & ~self._is_within(state)
        is_open_NJ = (state.ends_NJ < 0) & may_begin_N.unsqueeze(1)
        attention_NJ = source.attention(sentences_N, weights_NS).masked_fill(~is_open_NJ, -1.0)
        none_NJ, no_rows_M = torch.zeros_like(is_open_NJ), torch.empty(0, dtype=torch.long)
        if self._weight is not None:
            next_terms_N = _most_attended_terms(attention_NJ)
            return TermAttention(attention_NJ, next_terms_N, none_NJ, none_NJ[:, 0], no_rows_M, log_probs_NV[:0])
        heaviest_N = source.most_attended_words(sentences_N, weights_NS)
        is_heaviest_NJ = source.terms_of_words(sentences_N, heaviest_N)
        next_terms_N = _most_attended_terms(attention_NJ.masked_fill(~is_heaviest_NJ, -1.0))
        is_last_N = heaviest_N >= self._last_words_X[sentences_N]
        lacks_N = is_open_NJ.any(dim=1)
        would_end_N = self._would_end(log_probs_NV, lacks_N & (next_terms_N < 0), is_last_N)
        needed_N = (self._terms.sizes_XJ[sentences_N] * is_open_NJ).sum(dim=1) + 1
        has_no_room_N = self._max_lengths_X[sentences_N] - state.lengths_N <= needed_N
        must_begin_N = would_end_N | (lacks_N & has_no_room_N)
        is_likely_NJ = (self._first_piece_log_probs(sentences_N, log_probs_NV) >= MIN_TERM_LOG_PROB).any(dim=2)
        wanted_NJ = is_open_NJ & is_likely_NJ
        is_there_N = (next_terms_N >= 0) & wanted_NJ.gather(1, next_terms_N.clamp(min=0).unsqueeze(1)).squeeze(1)
        wanted_N = _most_attended_terms(attention_NJ.masked_fill(~wanted_NJ, -1.0)).masked_fill(is_there_N, -1)
        wanted_NJ = torch.arange(wanted_NJ.shape[1]) == wanted_N.unsqueeze(1)
        second_pass_NJ = torch.where(must_begin_N.unsqueeze(1), is_open_NJ, wanted_NJ)
        return TermAttention(attention_NJ, next_terms_N, second_pass_NJ, must_begin_N, no_rows_M, log_probs_NV[:0])

    def _would_end(self, log_probs_NV: Tensor, is_asked_N: Tensor, is_last_N: Tensor) -> Tensor:
        """Return a mask (N), True for those rows of `is_asked_N` that would end.

        Their best piece is </s>, or a full stop while they attend to the last word of the source.
        """
        stop_N = log_probs_NV[:, self._sentence_ends].amax(dim=1)
        end_N = torch.where(is_last_N, stop_N, log_probs_NV[:, self._eos])
        best_N = best_log_probs(log_probs_NV, is_asked_N, end_N)
        return is_asked_N & (end_N >= best_N)

    def _first_piece_log_probs(self, sentences_N: Tensor, log_probs_NV: Tensor) -> Tensor:
        """Return the log-probabilities (N, J, D) of the first pieces of each term; arbitrary where there is no term."""
        pieces_NJD = self._terms.first_XJD[sentences_N]
        return log_probs_NV.gather(1, pieces_NJD.flatten(1)).view(pieces_NJD.shape)

    def hidden_in_second_pass(self, state: ConstraintState, attention: TermAttention, rows_M: Tensor) -> Tensor:
        """Return a mask (M, S), False only at the source positions to which each row attends in its second pass."""
        assert self._source is not None
        return ~self._source.mask_of_terms(state.sentences_N[rows_M], attention.second_pass_NJ[rows_M])

    def accepts_second_pass(
        self, state: ConstraintState, attention: TermAttention, rows_M: Tensor, log_probs_MV: Tensor, first_NV: Tensor
    ) -> Tensor:
        """Return a mask (M), True for rows whose second pass replaces the first, because they generate a term.

        `first_NV` are the log-probabilities of the first pass, `log_probs_MV` of the second. The first piece of a form
        may begin other words too, so a form of several pieces must be likely in both passes. A form of one piece must
        be likely in the first pass only, because the row could not generate that piece otherwise. The second pass of
        a row that must begin a term now is always accepted.
        """
        sentences_M, again_MJ1 = state.sentences_N[rows_M], attention.second_pass_NJ[rows_M].unsqueeze(2)
        roots_MJ = self._terms.roots_XJ[sentences_M]
        is_whole_MJD = self._terms.is_form_Q[self._terms.nodes_QD[roots_MJ]]
        before_MJD = self._first_piece_log_probs(sentences_M, first_NV[rows_M])
        now_MJD = self._first_piece_log_probs(sentences_M, log_probs_MV)
        is_wanted_MJD = (before_MJD >= MIN_TERM_LOG_PROB) & (is_whole_MJD | (now_MJD >= MIN_TERM_LOG_PROB)) & again_MJ1
        return attention.must_begin_N[rows_M] | is_wanted_MJD.flatten(1).any(dim=1)

    def with_second_pass(
        self, state: ConstraintState, attention: TermAttention, rows_M: Tensor, log_probs_MV: Tensor, weights_MS: Tensor
    ) -> TermAttention:
        """Return `attention` with the terms that `rows_M` begin after their second pass.

        `log_probs_MV` and `weights_MS` are the predictions and the attention weights of that pass."""
        assert self._source is not None
        attention_MJ = self._source.attention(state.sentences_N[rows_M], weights_MS)
        attention_MJ = attention_MJ.masked_fill(~attention.second_pass_NJ[rows_M], -1.0)
        return attention._replace(
            weights_NJ=attention.weights_NJ.index_copy(0, rows_M, attention_MJ),
            next_terms_N=attention.next_terms_N.index_copy(0, rows_M, attention_MJ.argmax(dim=1)),
            must_begin_N=attention.must_begin_N.index_fill(0, rows_M, value=True),
            rows_M=rows_M,
            log_probs_MV=log_probs_MV,
        )

    def step_masks(self, state: ConstraintState, attention: TermAttention, log_probs_NV: Tensor) -> StepMasks:
        """Return the masks and bonuses of a step; `log_probs_NV` are the model's, from the first pass."""
        terms, begins_N = self._terms, attention.next_terms_N >= 0
        begun_N1 = attention.next_terms_N.clamp(min=0).unsqueeze(1)
        roots_N = terms.roots_XJ[state.sentences_N].gather(1, begun_N1).squeeze(1)
        nodes_N = torch.where(begins_N, roots_N, state.nodes_N)
        pieces_ND = terms.pieces_QD[nodes_N]
        goes_on_N = pieces_ND[:, 0] != NO_PIECE
        log_probs_ND = log_probs_NV.gather(1, pieces_ND.clamp(min=0))
        attention_N = attention.weights_NJ.gather(1, begun_N1).squeeze(1).clamp(0.0, MAX_ATTENTION)
        is_within_N = self._is_within(state)
        substitutes_N = torch.full_like(nodes_N, NO_PIECE)
        if self._weight is not None:
            gains_N = torch.where(begins_N, self._weight * attention_N, self._weight)
            other_gains_N = torch.where(is_within_N, -state.pending_bonus_N, 0.0)
            is_forced_N = torch.zeros_like(begins_N)
        else:
            best_of_form_N = log_probs_ND.amax(dim=1)
            must_N = is_within_N | attention.must_begin_N
            best_N = best_log_probs(log_probs_NV, begins_N | is_within_N, best_of_form_N, must_N)
            is_known_N = terms.is_known_XJ[state.sentences_N].gather(1, begun_N1).squeeze(1)
            substitutes_N = _substitutes(attention, pieces_ND, best_of_form_N, log_probs_NV)
            substitutes_N = substitutes_N.masked_fill(is_known_N, NO_PIECE)
            is_forced_N = is_within_N | (begins_N & ((best_of_form_N >= best_N) | attention.must_begin_N))
            discount_N = torch.where(substitutes_N == NO_PIECE, DISCOUNT, DISCOUNT_UNKNOWN)
            offered_N = (attention_N.log() + discount_N - best_of_form_N).clamp(min=0.0)
            gains_N = torch.where(is_forced_N, best_N - best_of_form_N, torch.where(begins_N, offered_N, 0.0))
            other_gains_N = torch.where(begins_N, torch.log1p(-attention_N), 0.0)
        return StepMasks(
            torch.where(goes_on_N, nodes_N, 0), attention.next_terms_N, is_forced_N, log_probs_ND,
            torch.where(goes_on_N, gains_N, 0.0), other_gains_N, substitutes_N, attention.must_begin_N,
        )  # fmt: skip

    def apply(self, masks: StepMasks, state: ConstraintState, prefixes_NT: Tensor, log_probs_NV: Tensor) -> None:
        """Apply masks and bonuses to the log-probabilities in place.

        The caller still has to add `masks.other_gains_N` to all pieces of a row. Doing that here would touch N x V
        numbers. `prefixes_NT` are the pieces of the rows."""
        terms = self._terms
        if self._weight is None:
            rows_M = (terms.is_form_Q[state.nodes_N] & ~masks.is_forced_N).nonzero()
            log_probs_NV[rows_M, self._continuation_pieces] = -math.inf
            log_probs_NV[:, self._eos].masked_fill_((state.ends_NJ < 0).any(dim=1), -math.inf)
            forms_NFB = terms.forms_XFB[state.sentences_N]
            before_NFB, last_NF = forms_NFB[:, :, :-1], forms_NFB[:, :, -1]
            width = before_NFB.shape[2]
            missing = max(0, width - prefixes_NT.shape[1])
            tails_NB = F.pad(prefixes_NT, (missing, 0), value=NO_PIECE)[:, prefixes_NT.shape[1] + missing - width :]
            is_same_NFB = (before_NFB == NO_PIECE) | (before_NFB == tails_NB.unsqueeze(1))
            # A prefix may spell a form, and there may be no other way to spell it.
            is_free_N1 = (state.automaton_states_N == ACCEPTING).unsqueeze(1)
            rows_M, forms_M = (is_same_NFB.all(dim=2) & (last_NF != NO_PIECE) & is_free_N1).nonzero(as_tuple=True)
            log_probs_NV[rows_M, last_NF[rows_M, forms_M]] = -math.inf
        is_exact_N = self._keeps_numbers_X[state.sentences_N] & (state.automaton_states_N == ACCEPTING)
        log_probs_NV[is_exact_N.nonzero(), self._digits] = -math.inf
        log_probs_NV.index_fill_(0, masks.is_forced_N.nonzero().squeeze(1), -math.inf)
        rows_M = (masks.nodes_N > 0).nonzero().squeeze(1)
        gained_MD = (masks.log_probs_ND + (masks.gains_N - masks.other_gains_N).unsqueeze(1))[rows_M]
        log_probs_NV[rows_M.unsqueeze(1), terms.pieces_QD[masks.nodes_N[rows_M]]] = gained_MD
        for row in (state.automaton_states_N != ACCEPTING).nonzero().squeeze(1).tolist():
            _keep_only(log_probs_NV[row], list(self._transitions(state, row)))

    def _transitions(self, state: ConstraintState, row: int) -> Mapping[int, int]:
        """Return the pieces that the automaton of a row allows next, each with the state after it."""
        return self._constraints[int(state.sentences_N[row])].automaton[int(state.automaton_states_N[row])]

    def next_state(self, masks: StepMasks, state: ConstraintState, rows_M: Tensor, pieces_M: Tensor) -> ConstraintState:
        """Return the constraint state of M extensions: row `rows_M[i]` extended by the piece `pieces_M[i]`."""
        terms, nodes_M, begun_M = self._terms, masks.nodes_N[rows_M], masks.next_terms_N[rows_M]
        before = state.select(rows_M)
        is_next_MD = terms.pieces_QD[nodes_M] == pieces_M.unsqueeze(1)
        nodes_M = (terms.nodes_QD[nodes_M] * is_next_MD).amax(dim=1)
        is_term_M = nodes_M > 0
        terms_M = torch.where(is_term_M & (begun_M >= 0), begun_M, before.terms_N)
        is_own_MJ = (torch.arange(before.ends_NJ.shape[1]) == terms_M.unsqueeze(1)) & is_term_M.unsqueeze(1)
        place_M1 = before.lengths_N.unsqueeze(1)
        is_form_M = terms.is_form_Q[nodes_M]
        automaton_states_M = before.automaton_states_N.clone()
        for number in (automaton_states_M != ACCEPTING).nonzero().squeeze(1).tolist():
            automaton_states_M[number] = self._transitions(before, number).get(int(pieces_M[number]), ACCEPTING)
        change_M = torch.where(is_term_M, masks.gains_N[rows_M], masks.other_gains_N[rows_M])
        substitutes_M = torch.where(begun_M >= 0, masks.substitutes_N[rows_M], before.substitutes_N)
        # The probability of a form that the model does not know means nothing. But if all such forms were free, one
        # that takes the place of the full stop at the end would outrank one in its place.
        is_free_M = is_term_M & (substitutes_M != NO_PIECE) & ~masks.is_second_pass_N[rows_M]
        counts_M = is_free_M if self._weight is None else torch.ones_like(is_term_M)
        pending_M = torch.where(is_term_M & ~is_form_M, before.pending_bonus_N + change_M, 0.0)
        return ConstraintState(
            before.sentences_N, before.lengths_N + 1, automaton_states_M, nodes_M, terms_M,
            torch.where(is_own_MJ & (begun_M >= 0).unsqueeze(1), place_M1, before.begins_NJ),
            torch.where(is_own_MJ & is_form_M.unsqueeze(1), place_M1 + 1, before.ends_NJ),
            torch.where(is_term_M, substitutes_M, NO_PIECE),
            before.bonus_N + change_M, before.unranked_bonus_N + change_M.masked_fill(counts_M, 0.0), pending_M,
        )  # fmt: skip


def _substitutes(attention: TermAttention, pieces_ND: Tensor, best_of_form_N: Tensor, log_probs_NV: Tensor) -> Tensor:
    """Return for each row (N) the model's best piece if the row begins a form that the model does not know, else -1."""
    found_N = torch.full_like(attention.next_terms_N, NO_PIECE)
    is_unknown_N = (attention.next_terms_N >= 0) & (best_of_form_N < MIN_KNOWN_LOG_PROB)
    first_M = is_unknown_N.index_fill(0, attention.rows_M, value=False).nonzero().squeeze(1)
    found_N[first_M] = log_probs_NV[first_M].argmax(dim=1)
    best_M = attention.log_probs_MV.gather(1, pieces_ND[attention.rows_M].clamp(min=0)).amax(dim=1)
    unknown_M = (best_M < MIN_KNOWN_LOG_PROB).nonzero().squeeze(1)
    found_N[attention.rows_M[unknown_M]] = attention.log_probs_MV[unknown_M].argmax(dim=1)
    return found_N


def best_log_probs(log_probs_NV: Tensor, is_asked_N: Tensor, known_N: Tensor, must_N: Tensor | None = None) -> Tensor:
    """Return the log-probability (N) of the best piece of each row, as far as is needed to compare it with `known_N`.

    `known_N` is the log-probability of one piece of each row. A piece with a probability above a half is the best of
    its row. One below 1 / V is not, and 0 is returned in place of the best. So few rows are searched through all V
    pieces. In rows of `must_N` the true best is always returned. Rows outside of `is_asked_N` get arbitrary values.
    """
    is_open_N = known_N > -math.log(log_probs_NV.shape[1]) - 0.1
    if must_N is not None:
        is_open_N = is_open_N | must_N
    best_N = torch.where(known_N > LOG_HALF, known_N, 0.0)
    rows_M = (is_asked_N & is_open_N & (known_N <= LOG_HALF)).nonzero().squeeze(1)
    best_N[rows_M] = log_probs_NV[rows_M].amax(dim=1)
    return best_N


def _most_attended_terms(attention_NJ: Tensor) -> Tensor:
    """Return the term (N) with the most attention of each row, or -1 where no term has any."""
    most_N, term_N = attention_NJ.max(dim=1)
    return torch.where(most_N > 0, term_N, -1)


def _keep_only(log_probs_V: Tensor, pieces: list[int]) -> None:
    """Set the log-probabilities of all pieces except the given ones to minus infinity, in place."""
    ids = torch.tensor(pieces, dtype=torch.long)
    kept = log_probs_V[ids]
    log_probs_V.fill_(-math.inf)
    log_probs_V[ids] = kept
