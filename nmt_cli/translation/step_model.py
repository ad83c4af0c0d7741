"""Trained models as the search sees them, alone or together, in the precision asked for.

Batch invariance in float32 is by construction: rows of a matrix product may change with their number, and sums over a
source with its width, but neither between multiples of 16. So rows and sources are padded to such.

Shapes: B sentences, S source, N rows, P rows padded to a multiple of 16, V vocabulary, U pieces that a batch may say, W
pieces that a row may say, R readout.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import torch
from torch import Tensor
from torch.nn import functional as F

from nmt_cli.data.batch import Sources, round_up
from nmt_cli.data.tokenizer import PAD
from nmt_cli.errors import PredictionError
from nmt_cli.model.cells import Product
from nmt_cli.model.decoder import DecoderState
from nmt_cli.model.memory import Memory
from nmt_cli.model.seq2seq import Seq2Seq
from nmt_cli.ops.log_softmax import log_softmax_
from nmt_cli.search.hypothesis import Prediction, SearchState
from nmt_cli.translation.precision import in_precision
from nmt_cli.translation.shortlist import Candidates, Shortlist

MULTIPLE = 16
"""Of rows and of source positions, vectors of a processor fit into which (docs/adr/0005)."""


class _Words(NamedTuple):
    """What the rows may say, and how each model scores it."""

    products: tuple[Product, ...]
    """Of each model: the logits (P, U) of the candidates' pieces, or of all (P, V)."""
    candidates: Candidates | None = None
    """Of each row; None: all pieces are everybody's."""

    def keep(self, rows: Tensor) -> _Words:
        return self if self.candidates is None else _Words(self.products, self.candidates.select(rows))

    def log_probs(self, part: int, readout_PR: Tensor, num_rows: int) -> Tensor:
        """Log-probabilities (N, W) of each row's pieces under one of the models."""
        logits = self.products[part](readout_PR)[:num_rows].float()
        if self.candidates is None:
            return log_softmax_(logits)
        # Each row's own, from the first column on: so its sum does not depend on what the others may say.
        own_NW = logits.gather(1, self.candidates.columns_BW)
        return F.log_softmax(own_NW.masked_fill_(~self.candidates.valid_BW, -math.inf), dim=-1)


class _Rows(NamedTuple):
    """The memory and state of every row in every model, with the rows that only pad."""

    num_rows: int
    """Without those."""
    parts: tuple[tuple[Memory, DecoderState], ...]
    shares: tuple[bool, ...]
    """Of each model: whether rows of one source may share its memory."""
    words: _Words

    def select(self, rows: Tensor) -> _Rows:
        # A row keeps to its sentence, so its memory and its words stay what they are.
        padded = padded_rows(rows).to(self.parts[0][0].valid_BS.device)
        return self._replace(parts=tuple((memory, state.select(padded)) for memory, state in self.parts))

    def keep(self, rows: Tensor) -> _Rows:
        padded = padded_rows(rows).to(self.parts[0][0].valid_BS.device)
        parts = tuple(
            (_memory_of(memory, padded, len(rows), shared=shared), state.select(padded))
            for (memory, state), shared in zip(self.parts, self.shares, strict=True)
        )
        return _Rows(len(rows), parts, self.shares, self.words.keep(padded[: len(rows)]))

    def join(self, other: _Rows, words: _Words) -> _Rows:
        """The rows of both, one after the other."""
        device = self.parts[0][0].valid_BS.device
        num_rows = self.num_rows + other.num_rows
        missing = -num_rows % MULTIPLE
        first_P, second_P = (
            torch.cat([torch.arange(count), torch.zeros(padding, dtype=torch.long)]).to(device)
            for count, padding in ((self.num_rows, 0), (other.num_rows, missing))
        )
        parts = tuple(
            (
                _memory_of(memory, first_P, self.num_rows, shared=shared).join(
                    _memory_of(other_memory, second_P, other.num_rows, shared=shared)
                ),
                state.select(first_P).join(other_state.select(second_P)),
            )
            for (memory, state), (other_memory, other_state), shared in zip(
                self.parts, other.parts, self.shares, strict=True
            )
        )
        return _Rows(num_rows, parts, self.shares, words)


class TrainedModels:
    """One model or an ensemble: the mean of the predicted probabilities, and of the attention weights."""

    def __init__(
        self,
        models: Sequence[Seq2Seq],
        *,
        device: torch.device,
        precision: str = "fp32",
        shortlist: Shortlist | None = None,
        refusals: Sequence[str] = (),
    ) -> None:
        """`precision` is fp32, bf16 or int8; the models are moved to the device and changed in place. With a
        `shortlist`, without banned pieces, a search says no others than those that go with its source. `refusals` are
        what `PredictionError` says of each model."""
        self._models = [in_precision(model.to(device), precision) for model in models]
        self._device = device
        self._shortlist = shortlist
        self._refusals = refusals
        self.has_attention = all(model.has_attention for model in models)

    @torch.inference_mode()
    def start(self, sources: Sources, copies: int) -> SearchState:
        """Encode sources, padded to a multiple of 16; each gets `copies` rows, one after the other."""
        num_sentences = sources.ids_BS.shape[0]
        sentence_rows = padded_rows(torch.arange(num_sentences))
        padded = Sources(*(tensor[sentence_rows] for tensor in sources)).to(self._device)
        rows = padded_rows(torch.arange(num_sentences).repeat_interleave(copies)).to(self._device)
        parts = []
        for model in self._models:
            memory = model.encode(*padded).select(rows)
            parts.append((memory, model.start(memory)))
        shares = tuple(model.decoder.attention.shares_sources for model in self._models)
        return _Rows(num_sentences * copies, tuple(parts), shares, self._words(sources, copies))

    def _words(self, sources: Sources, copies: int) -> _Words:
        if self._shortlist is None:
            return _Words(tuple(model.logits for model in self._models))
        vocab_size = self._models[0].output_weight.shape[0]
        sentences = self._shortlist.candidates(sources, vocab_size, MULTIPLE).to(self._device)
        return self._words_of(sentences.select(torch.arange(len(sources.ids_BS)).repeat_interleave(copies)))

    def _words_of(self, candidates: Candidates) -> _Words:
        return _Words(tuple(model.logits_of(candidates.pieces_U) for model in self._models), candidates)

    @torch.inference_mode()
    def join(self, first: SearchState, second: SearchState) -> SearchState:
        """The rows of both, one after the other; their sources are padded to one width."""
        assert isinstance(first, _Rows)
        assert isinstance(second, _Rows)
        words = first.words
        if words.candidates is not None and second.words.candidates is not None:
            vocab_size = self._models[0].output_weight.shape[0]
            words = self._words_of(words.candidates.join(second.words.candidates, vocab_size, MULTIPLE))
        return first.join(second, words)

    @torch.inference_mode()
    def step(self, ids_N: Tensor, state: SearchState) -> Prediction:
        """Predict the next piece of every row.

        Raises:
            PredictionError: a row's probabilities are no numbers.
        """
        assert isinstance(state, _Rows)
        num_rows = len(ids_N)
        ids_P1 = ids_N[padded_rows(torch.arange(num_rows))].unsqueeze(1).to(self._device)
        log_probs, weights, parts = [], [], []
        words = state.words
        for part, (model, (memory, decoder_state)) in enumerate(zip(self._models, state.parts, strict=True)):
            decoded = model.decode(ids_P1, memory, decoder_state)
            log_probs.append(words.log_probs(part, decoded.readout_BTR[:, 0], num_rows))
            weights.append(decoded.weights_BTS[:num_rows, 0].float())
            parts.append((memory, decoded.state))
        pieces_NW = None if words.candidates is None else words.candidates.pieces_BW.cpu()
        new_state = state._replace(parts=tuple(parts))
        log_probs_NW = _log_mean(log_probs).cpu()
        # One is enough: a logit that is no number, or above all bounds, makes every log-probability of its row so.
        if bool(log_probs_NW[:, 0].isnan().any()):
            self._refuse([part_NW[:, 0].isnan() for part_NW in log_probs])
        return Prediction(log_probs_NW, _mean(weights).cpu(), new_state, pieces_NW)

    @torch.inference_mode()
    def force(self, sources: Sources, inputs_BT: Tensor, outputs_BT: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities (B, T) and weights (B, T, S) of given targets; sources are padded to a multiple of 16.

        What stands at the padding of targets means nothing; it comes after them, so it changes nothing in them.

        Raises:
            PredictionError: the log-probability of a target's piece is not finite.
        """
        num_sentences = inputs_BT.shape[0]
        rows = padded_rows(torch.arange(num_sentences))
        padded = Sources(*(tensor[rows] for tensor in sources)).to(self._device)
        inputs_PT, outputs_PT = inputs_BT[rows].to(self._device), outputs_BT[rows].to(self._device)
        log_probs, weights = [], []
        for model in self._models:
            memory = model.encode(*padded)
            decoded = model.decode(inputs_PT, memory, model.start(memory))
            logits_NV = model.logits(decoded.readout_BTR.flatten(0, 1)).float()
            chosen_N1 = F.log_softmax(logits_NV, dim=-1).gather(1, outputs_PT.flatten().unsqueeze(1))
            log_probs.append(chosen_N1.view(outputs_PT.shape)[:num_sentences])
            weights.append(decoded.weights_BTS[:num_sentences].float())
        log_probs_BT, valid_BT = _log_mean(log_probs).cpu(), outputs_BT != PAD
        if not bool(log_probs_BT[valid_BT].isfinite().all()):
            self._refuse([~part_BT.cpu()[valid_BT].isfinite() for part_BT in log_probs])
        return log_probs_BT, _mean(weights).cpu()

    def _refuse(self, is_broken: Sequence[Tensor]) -> NoReturn:
        """Raise what is to be said of the first model that is broken in some place."""
        part = next(part for part, places in enumerate(is_broken) if bool(places.any()))
        raise PredictionError(self._refusals[part] if self._refusals else "the model's predictions are not finite")


def _memory_of(memory: Memory, padded_P: Tensor, num_rows: int, *, shared: bool) -> Memory:
    """The memory of the rows given by their old numbers, of which those after `num_rows` only pad."""
    source_P = padded_P // memory.rows
    if shared and num_rows:
        sources, counts = source_P[:num_rows].unique_consecutive(return_counts=True)
        rows = int(counts[0])
        if bool((counts == rows).all()):
            missing = -(-len(source_P) // rows) - len(sources)
            return memory.select(torch.cat([sources, sources[:1].expand(missing)]), rows)
    return memory.select(source_P)


def padded_width(ids: Sequence[int]) -> int:
    """Return the source positions of a sentence in a batch, with </s> and padding."""
    return round_up(len(ids) + 1, MULTIPLE)


def padded_rows(rows: Tensor) -> Tensor:
    """Row numbers, the first repeated at the end up to a multiple of 16."""
    missing = -len(rows) % MULTIPLE
    return torch.cat([rows, rows[:1].expand(missing)]) if missing else rows


def _log_mean(log_probs: list[Tensor]) -> Tensor:
    if len(log_probs) == 1:
        return log_probs[0]
    return torch.stack(log_probs).logsumexp(dim=0) - torch.tensor(float(len(log_probs))).log()


def _mean(values: list[Tensor]) -> Tensor:
    return values[0] if len(values) == 1 else torch.stack(values).mean(dim=0)
