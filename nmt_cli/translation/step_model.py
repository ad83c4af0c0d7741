"""Trained models as the search sees them, alone or together, in the precision asked for.

Batch invariance in float32 is by construction: rows of a matrix product may change with their number, and sums over a
source with its width, but neither between multiples of 16. So rows and sources are padded to such multiples.

Shapes: B sentences, S source, T target, N rows, P rows padded to a multiple of 16, V vocabulary, W pieces that a row
may generate, R readout, C some of the steps or pieces, M pieces of all targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import torch
from torch import Tensor
from torch.nn import functional as F

from nmt_cli.data.batch import SourceBatch
from nmt_cli.data.tokenizer import PAD
from nmt_cli.model.seq2seq import Seq2Seq
from nmt_cli.ops.log_softmax import log_softmax_
from nmt_cli.search.hypothesis import ForcedPrefix, Prediction, SearchState
from nmt_cli.system.errors import PredictionError
from nmt_cli.translation.precision import convert_precision
from nmt_cli.translation.rows import PADDING_MULTIPLE, Rows, RowVocabulary, padded_rows
from nmt_cli.translation.shortlist import Candidates, Shortlist

MAX_SCORED_PIECES = 1024
"""Most pieces of given targets whose probabilities over the whole vocabulary are in memory at once."""
MAX_FORCED_WEIGHTS = 2**22
"""Most attention weights, those of padding included, that a model computes at once for given targets."""


class ForcedPredictions(NamedTuple):
    """Predictions for given targets, piece by piece. The values at padding mean nothing."""

    log_probs_BT: Tensor
    """Log-probability of each piece of the target, in nats."""
    entropies_BT: Tensor
    """Entropy of the predicted distribution over the whole vocabulary, in nats."""
    weights_BTS: Tensor
    """Attention weights of each target piece on the source positions."""


class TrainedModels:
    """One model or an ensemble: the mean of the predicted probabilities, and of the attention weights."""

    def __init__(
        self,
        models: Sequence[Seq2Seq],
        *,
        device: torch.device,
        precision: str | None = None,
        shortlist: Shortlist | None = None,
        prediction_errors: Sequence[str] = (),
    ) -> None:
        """Move the models to the device and change them in place to `precision`: fp32, bf16 or int8. None
        leaves them as they are, so that their training can continue.

        With a `shortlist` (without banned pieces) a search generates only pieces that go with its source.
        `prediction_errors` has the message of `PredictionError` for each model.
        """
        self._models = [model.to(device) for model in models]
        if precision is not None:
            self._models = [convert_precision(model, precision) for model in self._models]
        self._device = device
        self._shortlist = shortlist
        self.has_shortlist = shortlist is not None
        self._prediction_errors = prediction_errors
        self.has_attention = all(model.has_attention for model in models)

    @property
    def no_attention_message(self) -> str:
        """The beginning of a message, such as `model 2 of 3 has no attention`; empty if all models have attention."""
        for number, model in enumerate(self._models, start=1):
            if not model.has_attention:
                name = "this model" if len(self._models) == 1 else f"model {number} of {len(self._models)}"
                return f"{name} has no attention"
        return ""

    @torch.inference_mode()
    def start(self, sources: SourceBatch, copies: int) -> SearchState:
        """Return the encoded sources, each for `copies` consecutive rows; the rows are padded to a multiple of 16."""
        num_sentences = sources.ids_BS.shape[0]
        shortest = sources.valid_BS.sum(dim=1).argmin(dim=0, keepdim=True)  # it costs least
        sentence_rows = torch.cat([torch.arange(num_sentences), shortest.expand(-num_sentences % PADDING_MULTIPLE)])
        padded = SourceBatch(*(tensor[sentence_rows] for tensor in sources)).to(self._device)
        rows = padded_rows(torch.arange(num_sentences).repeat_interleave(copies)).to(self._device)
        parts = []
        for model in self._models:
            memory = model.encode(*padded).select(rows)
            parts.append((memory, model.initial_state(memory)))
        shares_memory = tuple(model.decoder.attention.can_share_sources for model in self._models)
        return Rows(num_sentences * copies, tuple(parts), shares_memory, self._row_vocabulary(sources, copies))

    def _row_vocabulary(self, sources: SourceBatch, copies: int) -> RowVocabulary:
        if self._shortlist is None:
            return RowVocabulary(tuple(model.logits for model in self._models))
        vocab_size = self._models[0].output_weight.shape[0]
        sentences = self._shortlist.candidates(sources, vocab_size, PADDING_MULTIPLE).to(self._device)
        return self._shortlisted_vocabulary(
            sentences.select(torch.arange(len(sources.ids_BS)).repeat_interleave(copies))
        )

    def _shortlisted_vocabulary(self, candidates: Candidates) -> RowVocabulary:
        return RowVocabulary(tuple(model.logits_of(candidates.pieces_U) for model in self._models), candidates)

    @torch.inference_mode()
    def join(self, first: SearchState, second: SearchState) -> SearchState:
        """Return the states of both batches as one, the first before the second."""
        assert isinstance(first, Rows)
        assert isinstance(second, Rows)
        vocabulary = first.vocabulary
        if vocabulary.candidates is not None and second.vocabulary.candidates is not None:
            vocab_size = self._models[0].output_weight.shape[0]
            vocabulary = self._shortlisted_vocabulary(
                vocabulary.candidates.join(second.vocabulary.candidates, vocab_size, PADDING_MULTIPLE)
            )
        return first.join(second, vocabulary)

    @torch.inference_mode()
    def step(self, ids_N: Tensor, state: SearchState, masked_NS: Tensor | None = None) -> Prediction:
        """Return log-probabilities (N, V), in nats, attention (N, S) and state of every row after its last piece.

        With several models these are the logarithm of the mean probability, and the mean attention. A row does not
        attend to positions where `masked_NS` is True.

        Raises:
            PredictionError: the probabilities of a row are not numbers (NaN).
        """
        assert isinstance(state, Rows)
        num_rows = len(ids_N)
        rows_P = padded_rows(torch.arange(num_rows))
        ids_P1 = ids_N[rows_P].unsqueeze(1).to(self._device)
        masked_PS = None
        if masked_NS is not None:
            width = state.parts[0][0].valid_BS.shape[1]
            masked_PS = F.pad(masked_NS, (0, width - masked_NS.shape[1]))[rows_P].to(self._device)
        log_probs, weights, parts = [], [], []
        vocabulary = state.vocabulary
        for part, (model, (memory, decoder_state)) in enumerate(zip(self._models, state.parts, strict=True)):
            decoded = model.decode(ids_P1, memory._replace(masked_NS=masked_PS), decoder_state)
            log_probs.append(vocabulary.log_probs(part, decoded.readout_BTR[:, 0], num_rows))
            weights.append(decoded.weights_BTS[:num_rows, 0].float())
            parts.append((memory, decoded.state))
        pieces_NW = None if vocabulary.candidates is None else vocabulary.candidates.pieces_BW.cpu()
        new_state = state._replace(parts=tuple(parts))
        log_probs_NW = _log_mean(log_probs).cpu()
        # One is enough: a logit that is no number, or above all bounds, makes every log-probability of its row so.
        if bool(log_probs_NW[:, 0].isnan().any()):
            self._raise_prediction_error([part_NW[:, 0].isnan() for part_NW in log_probs])
        return Prediction(log_probs_NW, _mean(weights).cpu(), new_state, pieces_NW)

    @torch.inference_mode()
    def force_prefix(self, beginnings: Sequence[Sequence[int]], state: SearchState) -> ForcedPrefix:
        """Return log-probabilities, attention and state after the first pieces of every row, which begin with <s>.

        The last piece of each is not read: it is the input of the next step.

        A row that has read its pieces keeps its state while the others continue. All pieces are scored in one product.
        """
        assert isinstance(state, Rows)
        lengths_N = torch.tensor([len(ids) - 1 for ids in beginnings])
        longest = int(lengths_N.max())
        padded_NT = torch.tensor([[*ids, *[PAD] * (longest + 1 - len(ids))] for ids in beginnings])
        rows_P = padded_rows(torch.arange(len(beginnings)))
        inputs_PT, is_read_NT = padded_NT[rows_P].to(self._device), torch.arange(longest) < lengths_N.unsqueeze(1)
        places_NT = is_read_NT.flatten().nonzero().squeeze(1)
        outputs_M = padded_NT[:, 1:].flatten()[places_NT]
        log_probs, weights, parts = [], [], []
        for model, (memory, decoder_state) in zip(self._models, state.parts, strict=True):
            readouts, looks = [], []
            for step in range(longest):
                decoded = model.decode(inputs_PT[:, step : step + 1], memory, decoder_state)
                goes_on_P = (step < lengths_N)[rows_P]
                chosen_P = torch.arange(len(rows_P)) + torch.where(goes_on_P, 0, len(rows_P))
                decoder_state = decoded.state.join(decoder_state).select(chosen_P.to(self._device))
                readouts.append(decoded.readout_BTR[: len(beginnings), 0])
                looks.append(decoded.weights_BTS[: len(beginnings), 0].float())
            readout_MR = torch.stack(readouts, dim=1).flatten(0, 1)[places_NT.to(self._device)]
            log_probs.append(self._target_log_probs(model, readout_MR, outputs_M))
            weights.append(torch.stack(looks, dim=1))
            parts.append((memory, decoder_state))
        totals_NT = torch.zeros(is_read_NT.numel()).index_copy(0, places_NT, _log_mean(log_probs)).view_as(is_read_NT)
        # The weights of a row's last piece stand in the last column.
        back_NT = torch.arange(longest) - (longest - lengths_N).unsqueeze(1)
        weights_NTS = _mean(weights).cpu()
        at_end_NTS = weights_NTS.gather(1, back_NT.clamp(min=0).unsqueeze(-1).expand_as(weights_NTS))
        at_end_NTS = at_end_NTS.masked_fill((back_NT < 0).unsqueeze(-1), 0.0)
        return ForcedPrefix(totals_NT.sum(dim=1), at_end_NTS, state._replace(parts=tuple(parts)))

    @staticmethod
    def _target_log_probs(model: Seq2Seq, readout_MR: Tensor, outputs_M: Tensor) -> Tensor:
        """Return the log-probability (M) of each of `outputs_M`, in nats, computed `MAX_SCORED_PIECES` at a time."""
        found = []
        for readout_CR, outputs_C in zip(
            readout_MR.split(MAX_SCORED_PIECES), outputs_M.split(MAX_SCORED_PIECES), strict=True
        ):
            rows = padded_rows(torch.arange(len(outputs_C)))
            log_probs_CV = F.log_softmax(model.logits(readout_CR[rows.to(readout_CR.device)]).float(), dim=-1)
            chosen_C1 = outputs_C.unsqueeze(1).to(log_probs_CV.device)
            found.append(log_probs_CV[: len(outputs_C)].gather(1, chosen_C1).squeeze(1).cpu())
        return torch.cat(found)

    @torch.inference_mode()
    def force(
        self, sources: SourceBatch, inputs_BT: Tensor, outputs_BT: Tensor, *, with_weights: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Return log-probabilities (B, T), in nats, nan at padding, and attention weights (B, T, S) of given targets.

        Sources must be padded to a multiple of 16. Without weights, which may take much memory, these are (B, T, 0).

        The padding of targets comes after them, so it changes nothing in them.

        Raises:
            PredictionError: the log-probability of a target's piece is not finite.
        """
        num_sentences = inputs_BT.shape[0]
        rows = padded_rows(torch.arange(num_sentences))
        padded = SourceBatch(*(tensor[rows] for tensor in sources)).to(self._device)
        inputs_PT = inputs_BT[rows].to(self._device)
        places_M = (outputs_BT != PAD).flatten().nonzero().squeeze(1)
        outputs_M = outputs_BT.flatten()[places_M]
        log_probs, weights = [], []
        num_steps = max(1, MAX_FORCED_WEIGHTS // padded.ids_BS.numel())
        num_kept = padded.ids_BS.shape[1] if with_weights else 0
        for model in self._models:
            memory = model.encode(*padded)
            state, readouts = model.initial_state(memory), []
            looked_BTS = torch.empty(*inputs_BT.shape, num_kept)
            for first in range(0, inputs_BT.shape[1], num_steps):
                steps = slice(first, first + num_steps)
                decoded = model.decode(inputs_PT[:, steps], memory, state)
                state = decoded.state
                # Copies, because a view would hold what the padding rows have.
                readouts.append(decoded.readout_BTR[:num_sentences].clone())
                looked_BTS[:, steps] = decoded.weights_BTS[:num_sentences, :, :num_kept]
            readout_MR = torch.cat(readouts, dim=1).flatten(0, 1)[places_M.to(self._device)]
            log_probs.append(self._target_log_probs(model, readout_MR, outputs_M))
            weights.append(looked_BTS)
        log_probs_M = _log_mean(log_probs)
        if not bool(log_probs_M.isfinite().all()):
            self._raise_prediction_error([~part_M.isfinite() for part_M in log_probs])
        log_probs_N = torch.full((outputs_BT.numel(),), torch.nan).index_copy(0, places_M, log_probs_M)
        return log_probs_N.view_as(outputs_BT), _mean(weights)

    @torch.inference_mode()
    def forced_predictions(self, sources: SourceBatch, inputs_BT: Tensor, outputs_BT: Tensor) -> ForcedPredictions:
        """Return log-probabilities, entropies (in nats) and attention for given targets.

        Sources must be padded to a multiple of 16.

        The pieces of all targets are scored `MAX_SCORED_PIECES` at a time, without padding.

        Raises:
            PredictionError: the probabilities of a piece are not numbers (NaN).
        """
        rows = padded_rows(torch.arange(inputs_BT.shape[0]))
        padded = SourceBatch(*(tensor[rows] for tensor in sources)).to(self._device)
        inputs_PT, outputs_BT = inputs_BT[rows].to(self._device), outputs_BT.to(self._device)
        places_M = (outputs_BT != PAD).flatten().nonzero().squeeze(1)
        outputs_M = outputs_BT.flatten()[places_M]
        readouts, weights = [], []
        for model in self._models:
            memory = model.encode(*padded)
            decoded = model.decode(inputs_PT, memory, model.initial_state(memory))
            readouts.append(decoded.readout_BTR.flatten(0, 1)[places_M].split(MAX_SCORED_PIECES))
            weights.append(decoded.weights_BTS[: len(inputs_BT)].float())
        found = []
        for outputs_C, *readouts_CR in zip(outputs_M.split(MAX_SCORED_PIECES), *readouts, strict=True):
            rows_P = padded_rows(torch.arange(len(outputs_C))).to(self._device)
            log_probs = [
                log_softmax_(model.logits(readout_CR[rows_P]).float())[: len(outputs_C)]
                for model, readout_CR in zip(self._models, readouts_CR, strict=True)
            ]
            log_probs_CV = _log_mean(log_probs)
            chosen_C = log_probs_CV.gather(1, outputs_C.unsqueeze(1)).squeeze(1)
            if bool(chosen_C.isnan().any()):
                self._raise_prediction_error([part_CV[:, 0].isnan() for part_CV in log_probs])
            probs_CV = log_probs_CV.exp()
            # What is impossible adds nothing: 0 times the bound.
            entropies_C = -torch.einsum("cv,cv->c", probs_CV, log_probs_CV.clamp_(min=-1e4))
            found.append(torch.stack([chosen_C, entropies_C]))
        values_2N = torch.zeros(2, outputs_BT.numel()).index_copy(1, places_M.cpu(), torch.cat(found, dim=1).cpu())
        log_probs_BT, entropies_BT = values_2N.view(2, *outputs_BT.shape)
        return ForcedPredictions(log_probs_BT, entropies_BT, _mean(weights).cpu())

    def _raise_prediction_error(self, is_broken: Sequence[Tensor]) -> NoReturn:
        """Raise the `PredictionError` of the first model whose mask in `is_broken` has a True."""
        part = next(part for part, places in enumerate(is_broken) if bool(places.any()))
        own = (
            "the model's predictions are not finite, so its training has diverged; train again with a lower "
            "training.learning_rate"
        )
        raise PredictionError(self._prediction_errors[part] if self._prediction_errors else own)


def _log_mean(log_probs: list[Tensor]) -> Tensor:
    if len(log_probs) == 1:
        return log_probs[0]
    return torch.stack(log_probs).logsumexp(dim=0) - torch.tensor(float(len(log_probs))).log()


def _mean(values: list[Tensor]) -> Tensor:
    return values[0] if len(values) == 1 else torch.stack(values).mean(dim=0)
