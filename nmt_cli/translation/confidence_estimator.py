"""Estimates the confidence of each word (quality estimation), by a second, teacher-forced pass of the models.

The model's own probabilities, entropies and attention are the features (Fomicheva et al., 2020). `confidence/` turns
them into probabilities.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from nmt_cli.confidence.calibration import Calibration
from nmt_cli.confidence.features import FloatArray, Predictions, word_features
from nmt_cli.data.batch import make_batch, pad_sources
from nmt_cli.system.memory import retry_in_halves
from nmt_cli.text.edits import word_spans
from nmt_cli.text.translation import Translation
from nmt_cli.text.unit_alignment import word_indices
from nmt_cli.translation.long_lines import PartTranslations
from nmt_cli.translation.results import PartTranslation
from nmt_cli.translation.rows import PADDING_MULTIPLE, padded_width
from nmt_cli.translation.step_model import ForcedPredictions, TrainedModels


class _PendingTranslation(NamedTuple):
    """A translation of a part whose words have no features yet."""

    source: tuple[int, ...]
    translations: list[PartTranslation]
    rank: int

    @property
    def translation(self) -> PartTranslation:
        return self.translations[self.rank]

    @property
    def size(self) -> tuple[int, int]:
        """Source positions with padding, and target pieces with `</s>`."""
        return padded_width(self.source), len(self.translation.ids) + 1


@dataclass(frozen=True, slots=True)
class ConfidenceEstimator:
    """Computes features of the words of translations, and turns them into the probability that a word is correct."""

    calibration: Calibration | None = None
    """Turns features into probabilities. If None, translations keep their features, to which one can be fitted."""

    def measure(self, models: TrainedModels, parts: Iterable[PartTranslations], batch_tokens: int) -> Iterator[None]:
        """Put features into all translations of `parts` that have none, and yield after each batch.

        A batch has at most `batch_tokens` source positions and target pieces, padding counted, or one translation."""
        waiting = [
            _PendingTranslation(part.ids, found, rank)
            for part, found in parts
            for rank, translation in enumerate(found)
            if translation.features is None
        ]
        for batch in _batches(sorted(waiting, key=lambda one: one.size), batch_tokens):
            for one, features in zip(batch, retry_in_halves(batch, partial(self._features, models)), strict=True):
                one.translations[one.rank] = replace(one.translation, features=features)
            yield

    def _features(self, models: TrainedModels, batch: Sequence[_PendingTranslation]) -> list[FloatArray]:
        """Return the features (words, features) of each translation of a batch, whose sources have one padded width."""
        pairs = make_batch([one.source for one in batch], [one.translation.ids for one in batch])
        sources = pad_sources([one.source for one in batch], multiple=PADDING_MULTIPLE)
        observed = models.forced_predictions(sources, pairs.inputs_BT, pairs.outputs_BT)
        found = []
        for row, one in enumerate(batch):
            predicted = _predictions(row, len(one.translation.ids) + 1, len(one.source) + 1, observed)
            text = one.translation.text
            owners = word_indices(one.translation.spans, word_spans(text))
            found.append(word_features(predicted, owners, text.split()))
        return found

    def with_confidence(self, translation: Translation) -> Translation:
        """Return the translation of a line with confidence in [0, 1] in place of features, if there is a calibration.

        Without a calibration, it is returned unchanged. A line that the model did not translate has confidence 1: its
        translation is empty, or the given prefix.
        """
        if self.calibration is None:
            return translation
        if translation.features is None:
            return replace(translation, word_confidence=(1.0,) * len(translation.text.split()), confidence=1.0)
        word_confidence = self.calibration.word_confidence(translation.features)
        return replace(
            translation,
            features=None,
            word_confidence=word_confidence,
            confidence=self.calibration.line_confidence(word_confidence, translation.log_prob),
        )


def _batches(waiting: Iterable[_PendingTranslation], batch_tokens: int) -> Iterator[list[_PendingTranslation]]:
    """Yield batches of translations, which come sorted by size: one source width, at most `batch_tokens` positions."""
    batch: list[_PendingTranslation] = []
    for one in waiting:
        positions, length = one.size
        is_full = (len(batch) + 1) * (positions + length) > batch_tokens
        if batch and (is_full or positions != batch[0].size[0]):
            yield batch
            batch = []
        batch.append(one)
    if batch:
        yield batch


def _predictions(row: int, num_target: int, num_source: int, observed: ForcedPredictions) -> Predictions:
    """Return the predictions for one row of a batch, without padding, in float64."""
    return Predictions(
        observed.log_probs_BT[row, :num_target].double().numpy(),
        observed.entropies_BT[row, :num_target].double().numpy(),
        observed.weights_BTS[row, :num_target, :num_source].double().numpy(),
    )
