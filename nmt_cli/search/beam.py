"""Beam search over many sentences, a given number of them at once; a beam of 1 is greedy search.

A finished sentence leaves the search with its rows, and waiting sentences enter in its place (continuous batching).
More sentences may arrive while the search runs.

Shapes: L active sentences, K beam, V vocabulary, C candidates, N = L x K rows, T target so far, S source.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product, zip_longest
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from nmt_cli.config.decoding import DecodingOptions
from nmt_cli.search.active_sentences import ActiveSentences
from nmt_cli.search.constrained_step import predict
from nmt_cli.search.constraint_masks import ConstraintMasks
from nmt_cli.search.constraint_state import ConstraintState
from nmt_cli.search.constraints import ACCEPTING
from nmt_cli.search.extensions import best_extensions
from nmt_cli.search.hypothesis import (
    Hypothesis,
    SearchState,
    StepModel,
    Vocabulary,
    length_penalty,
    repeated_ngram_ends,
)

REPETITION_CHECK_INTERVAL = 8
"""Interval, in pieces of a sentence, at which `is_endless` is called."""
REFILL_DIVISOR = 4
"""Waiting sentences enter when at least 1 / `REFILL_DIVISOR` of the `at_once` places for sentences are free. They take
their first step by themselves, and a step of few rows is slow."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An extension by one piece that a step of the search considered, for an `Observer`."""

    prefix: tuple[int, ...]
    piece: int
    log_prob: float
    """Log-probability of this piece, in nats."""
    total: float
    """Log-probability of the whole prefix with this piece, in nats."""
    kept: bool
    """True if the search continues with this extension."""
    has_ended: bool
    """True if this extension is a finished hypothesis: it ends with </s>, or at its length limit."""


Observer = Callable[[int, list[Candidate]], None]
"""Called after each step for each active sentence, with the sentence's number and its candidates, best first."""


class NewSentences(NamedTuple):
    """Encoded sentences that enter the search."""

    numbers: Sequence[int]
    """Number of each sentence, by which the results name it."""
    max_lengths: Sequence[int]
    """The most pieces of a hypothesis of each sentence, </s> included."""
    state: SearchState
    """The encoded sentences, one row each."""
    with_weights: Sequence[bool]
    """For each sentence, whether its hypotheses get their attention weights."""


IsEndless = Callable[[int, Sequence[int]], bool]
"""Called with a sentence's number and the first pieces of a translation. Returns True if every translation that begins
with these pieces repeats itself without end."""
NextSentences = Callable[[int], NewSentences | None]
"""Returns at most the given number of sentences that enter the search, or None. After None it is called again at the
next step."""


@torch.inference_mode()
def beam_search(
    model: StepModel,
    next_sentences: NextSentences,
    vocabulary: Vocabulary,
    options: DecodingOptions,
    *,
    at_once: int,
    observe: Observer | None = None,
    masks: ConstraintMasks | None = None,
    is_endless: IsEndless | None = None,
) -> Iterator[tuple[int, list[Hypothesis]] | None]:
    """Yield the number of each sentence and its `n_best` best hypotheses, best first, as sentences are done, and None
    after each step.

    At most `at_once` are searched together. `next_sentences` returns waiting sentences whenever there is room for them.
    The search ends when all sentences are done and none waits. A sentence is done when it has as many finished
    hypotheses as its beam is wide, or when no unfinished one can still enter its n best.

    `masks` applies the constraints of each sentence, which it finds by the number of the sentence. The search of a
    sentence without constraints is the same with and without masks.

    If `is_endless` returns True for all partial hypotheses of a sentence, they are cut after the next piece.
    """
    search = _Search(model, vocabulary, options, observe, masks, is_endless)
    active: ActiveSentences | None = None
    while True:
        room = at_once - (len(active.sentences) if active else 0)
        waiting = next_sentences(room) if room * REFILL_DIVISOR >= at_once else None
        if waiting is None and active is None:
            return
        if waiting is not None:
            new = yield from search.advance(search.begin(waiting))
            while new and active and new.width != active.width:
                new = yield from search.advance(new)
            active = search.join(active, new) if active and new else active or new
        if active:
            active = yield from search.advance(active)
        yield None


@dataclass(slots=True)
class _Search:
    """One beam search: its steps, and the values that they share."""

    model: StepModel
    vocabulary: Vocabulary
    options: DecodingOptions
    observe: Observer | None
    masks: ConstraintMasks | None = None
    is_endless: IsEndless | None = None
    max_lengths: dict[int, int] = field(default_factory=dict)
    """The most pieces of a hypothesis, </s> included, for each active sentence by its number."""
    finished: dict[int, list[Hypothesis]] = field(default_factory=dict)
    """Finished hypotheses of each active sentence, by the number of the sentence."""
    recorded: set[int] = field(default_factory=set)
    """Numbers of the active sentences whose attention weights are recorded."""

    def begin(self, new: NewSentences) -> ActiveSentences:
        """Register new sentences, and return them before their first step.

        The model has then read the pieces that their constraints prescribe as the beginning.
        """
        sentences = new.numbers
        self.max_lengths |= zip(sentences, new.max_lengths, strict=True)
        self.finished |= {sentence: [] for sentence in sentences}
        self.recorded |= {
            sentence for sentence, is_recorded in zip(sentences, new.with_weights, strict=True) if is_recorded
        }
        active = ActiveSentences(
            sentences=list(sentences),
            first_columns=[0] * len(sentences),
            prefixes_LKT=torch.empty(len(sentences), 1, 0, dtype=torch.long),
            totals_LK=torch.zeros(len(sentences), 1),
            last_ids_N=torch.full((len(sentences),), self.vocabulary.bos, dtype=torch.long),
            state=new.state,
        )
        if self.masks is not None:
            active.constraint_state = self.masks.start(sentences)
            self._read_beginnings(active, self.masks.beginnings(sentences))
        return active

    def _read_beginnings(self, active: ActiveSentences, beginnings: Sequence[tuple[int, ...]]) -> None:
        """Let the model read the given first pieces of each sentence (one row each), and update `active` in place."""
        longest = max(map(len, beginnings), default=0)
        if longest == 0:
            return
        bos = self.vocabulary.bos
        totals_N, weights_NTS, active.state = self.model.force_prefix([(bos, *ids) for ids in beginnings], active.state)
        active.totals_LK = totals_N.unsqueeze(1)
        active.first_columns = [longest - len(ids) for ids in beginnings]
        padded = [[0] * (longest - len(ids)) + list(ids) for ids in beginnings]
        active.prefixes_LKT = torch.tensor(padded, dtype=torch.long).unsqueeze(1)
        active.last_ids_N = torch.tensor([(bos, *ids)[-1] for ids in beginnings], dtype=torch.long)
        if weights_NTS is not None:
            for column in range(longest):
                begun = {
                    sentence
                    for sentence, first in zip(active.sentences, active.first_columns, strict=True)
                    if column >= first
                }
                active.add_weights(weights_NTS[:, column], self.recorded & begun)

    def join(self, active: ActiveSentences, new: ActiveSentences) -> ActiveSentences:
        """Return `active` and `new` as one batch; both must have the same number of rows for each sentence."""
        # Columns before the oldest sentence belong to none. Both parts end with the same column.
        past = [min(part.first_columns) for part in (active, new)]
        steps = [part.prefixes_LKT.shape[2] - own for part, own in zip((active, new), past, strict=True)]
        longest = max(steps)
        first_columns, prefixes = [], []
        for part, own, num_steps in zip((active, new), past, steps, strict=True):
            first_columns += [first - own + longest - num_steps for first in part.first_columns]
            prefixes.append(F.pad(part.prefixes_LKT[:, :, own:], (longest - num_steps, 0)))
        return ActiveSentences(
            sentences=[*active.sentences, *new.sentences],
            first_columns=first_columns,
            prefixes_LKT=torch.cat(prefixes),
            totals_LK=torch.cat([active.totals_LK, new.totals_LK]),
            last_ids_N=torch.cat([active.last_ids_N, new.last_ids_N]),
            state=self.model.join(active.state, new.state),
            attention_N=[*active.histories(), *new.histories()] if self.recorded else None,
            constraint_state=active.constraint_state
            and new.constraint_state
            and active.constraint_state.join(new.constraint_state),
        )

    def advance(self, active: ActiveSentences) -> Generator[tuple[int, list[Hypothesis]], None, ActiveSentences | None]:
        """Extend the partial hypotheses of all active sentences by one piece.

        Yield each sentence that is done, with its hypotheses; return the other sentences, or None if there are none.
        """
        (num_active, width), beam_size = active.totals_LK.shape, self.options.beam_size
        first_rows_L1 = torch.arange(num_active).unsqueeze(1) * width

        # 1. Predict the next piece of each row.
        (log_probs_NV, weights_NS, state, pieces_NV), constrained = predict(self.model, active, self.masks)
        if weights_NS is not None:
            active.add_weights(weights_NS, self.recorded)

        # 2. Forbid what may not follow.
        self._forbid(log_probs_NV, pieces_NV, active)
        totals_LK = active.totals_LK
        if constrained is not None:
            totals_LK = constrained.apply_masks(log_probs_NV, active.prefixes_LKT, totals_LK)
        self._end_repetitions(active)

        # 3. Extend: of 2K candidates at most K are </s>, one of each row, so K remain to go on with.
        totals_LC, parents_LC, pieces_LC = best_extensions(log_probs_NV, totals_LK, 2 * beam_size)
        next_state = None
        if constrained is not None:
            next_state = constrained.next_state((parents_LC + first_rows_L1).flatten(), pieces_LC.flatten())
        if pieces_NV is not None:
            pieces_LC = pieces_NV[parents_LC + first_rows_L1, pieces_LC]

        # 4. Collect the hypotheses that end, by </s> or at the limit of their length.
        ends_LK = self._collect(active, totals_LC, parents_LC, pieces_LC, next_state)

        # 5. Keep the K best others.
        goes_on_LC = pieces_LC != self.vocabulary.eos
        order_LK = goes_on_LC.logical_not().sort(dim=1, stable=True).indices[:, :beam_size]
        totals_LK, parents_LK, pieces_LK = (x.gather(1, order_LK) for x in (totals_LC, parents_LC, pieces_LC))
        totals_LK = totals_LK.masked_fill(~goes_on_LC.gather(1, order_LK), -math.inf)

        # 6. Yield the sentences that none of these can improve.
        ranked_LK = totals_LK
        if next_state is not None:
            ranked_LK = totals_LK - next_state.unranked_bonus_N.view_as(totals_LC).gather(1, order_LK)
        done = [self._is_done(active, place, best) for place, best in enumerate(ranked_LK.amax(dim=1).tolist())]
        if self.observe is not None:
            kept_LC = torch.zeros_like(goes_on_LC).scatter(1, order_LK, totals_LK > -math.inf)
            kept_LC &= ~torch.tensor(done).unsqueeze(1)
            _notify_observer(self.observe, active, totals_LC, parents_LC, pieces_LC, kept_LC, ends_LK)
        for sentence, is_done in zip(active.sentences, done, strict=True):
            if is_done:
                by_score = sorted(self.finished.pop(sentence), key=lambda found: -found.score)
                del self.max_lengths[sentence]
                self.recorded.discard(sentence)
                yield sentence, by_score[: self.options.n_best]

        # 7. Go on with the others.
        stay = [place for place, is_done in enumerate(done) if not is_done]
        if not stay:
            return None
        kept = torch.tensor(stay, dtype=torch.long)
        if next_state is not None:
            next_state = next_state.select((order_LK[kept] + kept.unsqueeze(1) * totals_LC.shape[1]).flatten())
        rows_LK = (parents_LK + first_rows_L1)[kept]
        return active.extended(stay, rows_LK, pieces_LK[kept], totals_LK[kept], state, next_state)

    def _forbid(self, log_probs_NV: Tensor, pieces_NV: Tensor | None, active: ActiveSentences) -> None:
        """Set the log-probabilities of banned pieces, and of pieces that would repeat an n-gram, to minus infinity."""
        if pieces_NV is None and self.vocabulary.banned:
            log_probs_NV[:, list(self.vocabulary.banned)] = -math.inf
        order = self.options.no_repeat_ngram
        if order:
            states = None if active.constraint_state is None else active.constraint_state.automaton_states_N.tolist()
            for row, (place, rank) in enumerate(product(range(len(active.sentences)), range(active.width))):
                if states is not None and states[row] != ACCEPTING:
                    continue  # the rest of a prefix must be generated, whatever it repeats
                ends = torch.tensor(repeated_ngram_ends(active.prefix(place, rank), order), dtype=torch.long)
                log_probs_NV[row, ends if pieces_NV is None else torch.isin(pieces_NV[row], ends)] = -math.inf

    def _end_repetitions(self, active: ActiveSentences) -> None:
        """Make this step the last one of each sentence whose partial hypotheses all repeat themselves without end."""
        if self.is_endless is None:
            return
        for place, sentence in enumerate(active.sentences):
            length = active.next_length(place)
            if length % REPETITION_CHECK_INTERVAL == 0 and all(
                self.is_endless(sentence, active.prefix(place, rank))
                for rank, total in enumerate(active.totals_LK[place].tolist())
                if total > -math.inf
            ):
                self.max_lengths[sentence] = length

    def _collect(
        self,
        active: ActiveSentences,
        totals_LC: Tensor,
        parents_LC: Tensor,
        pieces_LC: Tensor,
        next_state: ConstraintState | None,
    ) -> Tensor:
        """Put the hypotheses that end with this step (by </s>, or cut at their limit) into `finished`.

        Returns:
            A mask (L, K), True at those of the first K candidates that end.
        """
        width = self.options.beam_size
        ends_LK = pieces_LC[:, :width] == self.vocabulary.eos
        at_limit_L = torch.tensor([self._is_at_limit(active, place) for place in range(len(active.sentences))])
        ends_LK = (ends_LK | at_limit_L.unsqueeze(1)) & (totals_LC[:, :width] > -math.inf)
        for place, rank in ends_LK.nonzero().tolist():
            parent, piece = int(parents_LC[place, rank]), int(pieces_LC[place, rank])
            prefix = active.prefix(place, parent)
            has_ended = piece == self.vocabulary.eos
            total = float(totals_LC[place, rank])
            attention = active.histories()[place * active.width + parent]
            extension = place * totals_LC.shape[1] + rank
            log_prob = total - (0.0 if next_state is None else float(next_state.bonus_N[extension]))
            ranked = total - (0.0 if next_state is None else float(next_state.unranked_bonus_N[extension]))
            self.finished[active.sentences[place]].append(
                Hypothesis(
                    ids=tuple(prefix if has_ended else [*prefix, piece]),
                    log_prob=log_prob,
                    score=ranked / length_penalty(active.next_length(place), self.options.length_penalty),
                    has_ended=has_ended,
                    weights_TS=None if attention is None else attention.stacked(),
                    generated_terms=() if next_state is None else next_state.generated_terms(extension),
                )
            )
        return ends_LK

    def _is_at_limit(self, active: ActiveSentences, place: int) -> bool:
        return active.next_length(place) >= self.max_lengths[active.sentences[place]]

    def _is_done(self, active: ActiveSentences, place: int, best_total: float) -> bool:
        finished, n_best = self.finished[active.sentences[place]], self.options.n_best
        if self._is_at_limit(active, place) or len(finished) >= self.options.beam_size or best_total == -math.inf:
            return True
        if len(finished) < n_best:
            return False
        # A log-probability only falls, terms add to it, and no output has a larger divisor than the longest one.
        best_total += 0.0 if self.masks is None else self.masks.max_bonus(active.sentences[place])
        if best_total > 0:
            return False
        bound = best_total / length_penalty(self.max_lengths[active.sentences[place]], self.options.length_penalty)
        return sorted((hypothesis.score for hypothesis in finished), reverse=True)[n_best - 1] >= bound


def _notify_observer(
    observe: Observer,
    active: ActiveSentences,
    totals_LC: Tensor,
    parents_LC: Tensor,
    pieces_LC: Tensor,
    kept_LC: Tensor,
    ends_LK: Tensor,
) -> None:
    for place, sentence in enumerate(active.sentences):
        columns = (totals_LC[place], parents_LC[place], pieces_LC[place], kept_LC[place])
        candidates = [
            Candidate(
                prefix=tuple(active.prefix(place, parent)),
                piece=piece,
                log_prob=total - float(active.totals_LK[place, parent]),
                total=total,
                kept=kept,
                has_ended=has_ended,
            )
            for total, parent, piece, kept, has_ended in zip_longest(
                *(column.tolist() for column in columns), ends_LK[place].tolist(), fillvalue=False
            )
            if total > -math.inf
        ]
        observe(sentence, candidates)
