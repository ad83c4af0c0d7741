"""Log-probabilities and attention of given pairs: forced decoding.

Shapes: B sentences, T target, S source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nmt_cli.data.batch import make_batch, pad_sources
from nmt_cli.data.tokenizer import PieceWords, Tokenizer
from nmt_cli.system.memory import retry_in_halves
from nmt_cli.text.alignment import AlignmentMatrix, Link, hard_alignment, merge_to_words
from nmt_cli.translation.rows import PADDING_MULTIPLE, padded_width
from nmt_cli.translation.step_model import TrainedModels


@dataclass(frozen=True, slots=True)
class PairScore:
    """Log-probability and attention of a given pair of sentences under the models."""

    log_prob: float
    """Natural log-probability of the target with its </s>, not normalised."""
    weights_with_end: AlignmentMatrix
    """All attention between words (target words, source words and `</s>`)."""
    piece_weights: NDArray[np.float32]
    """Attention between pieces (target pieces, source pieces)."""
    source_pieces: tuple[str, ...]
    target_pieces: tuple[str, ...]

    @property
    def weights(self) -> AlignmentMatrix:
        """Attention between words (target words, source words)."""
        return self.weights_with_end[:, :-1]

    @property
    def links(self) -> list[Link]:
        """Links (source word, target word) of each target word to the source word with the most attention."""
        return hard_alignment(self.weights)


class _Pair(NamedTuple):
    place: int
    source: PieceWords
    target: PieceWords


@dataclass(frozen=True, slots=True)
class PairScorer:
    """Scores given pairs with one model or several; each target is taken as it is, however long."""

    models: TrainedModels
    tokenizers: tuple[Tokenizer, Tokenizer]
    batch_tokens: int
    """The most positions in a batch, source and target, with padding."""

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[PairScore]:
        """Return the score of each pair, in order."""
        source_tokenizer, target_tokenizer = self.tokenizers
        scored: dict[int, PairScore] = {}
        for pair, log_prob, weights_TS in self._forced(pairs, with_weights=True):
            source, target = pair.source, pair.target
            pieces = weights_TS[: len(target.ids), : len(source.ids) + 1].numpy()
            shape = (target.num_words, source.num_words)
            weights = merge_to_words(pieces, source.words, target.words, shape)
            if not target_tokenizer.has_byte_fallback:
                for first, end in target_tokenizer.unknown_runs(pairs[pair.place][1]).items():
                    weights[first + 1 : end] = weights[first]  # they are one piece
            scored[pair.place] = PairScore(
                log_prob,
                weights,
                pieces[:, :-1],
                tuple(source_tokenizer.pieces(source.ids)),
                tuple(target_tokenizer.pieces(target.ids)),
            )
        return [scored[index] for index in range(len(pairs))]

    def log_probs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the `log_prob` of each pair, in nats; the attention weights are not computed."""
        found = {pair.place: log_prob for pair, log_prob, _ in self._forced(pairs, with_weights=False)}
        return [found[index] for index in range(len(pairs))]

    def _forced(self, pairs: Sequence[tuple[str, str]], *, with_weights: bool) -> Iterator[tuple[_Pair, float, Tensor]]:
        """Yield each pair with its log-probability and its attention weights (T, S), which include padding, in any
        order; without weights these are (T, 0)."""
        source_tokenizer, target_tokenizer = self.tokenizers
        encoded = [
            _Pair(
                index,
                source_tokenizer.prepend_tags_to_words(source_tokenizer.encode_words(source)),
                target_tokenizer.encode_words(target),
            )
            for index, (source, target) in enumerate(pairs)
        ]
        force = partial(self._force, with_weights=with_weights)
        for chunk in self._chunks(encoded):
            for pair, (log_prob, weights_TS) in zip(chunk, retry_in_halves(chunk, force), strict=True):
                yield pair, log_prob, weights_TS

    def _chunks(self, pairs: Sequence[_Pair]) -> Iterator[list[_Pair]]:
        """Yield batches of at most `batch_tokens` positions, with one source width and targets of like length."""
        by_width = sorted(pairs, key=lambda pair: (padded_width(pair.source.ids), len(pair.target.ids)))
        for width, group in groupby(by_width, key=lambda pair: padded_width(pair.source.ids)):
            chunk: list[_Pair] = []
            for pair in group:
                if chunk and (len(chunk) + 1) * (width + len(pair.target.ids) + 1) > self.batch_tokens:
                    yield chunk
                    chunk = []
                chunk.append(pair)
            yield chunk

    def _force(self, pairs: Sequence[_Pair], *, with_weights: bool) -> list[tuple[float, Tensor]]:
        batch = make_batch([pair.source.ids for pair in pairs], [pair.target.ids for pair in pairs])
        sources = pad_sources([pair.source.ids for pair in pairs], multiple=PADDING_MULTIPLE)
        log_probs_BT, weights_BTS = self.models.force(
            sources, batch.inputs_BT, batch.outputs_BT, with_weights=with_weights
        )
        lengths = [len(pair.target.ids) + 1 for pair in pairs]
        sums = [float(row_T[:length].double().sum()) for row_T, length in zip(log_probs_BT, lengths, strict=True)]
        return list(zip(sums, weights_BTS, strict=True))
