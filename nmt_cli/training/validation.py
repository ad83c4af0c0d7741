"""Validation: the loss on the dev set, and the scores of its translations, which are made as `nmt translate` does."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from nmt_cli.config.decoding import DecodingOptions
from nmt_cli.data.batch import make_batch
from nmt_cli.data.pairs import Corpus, Pair, ParallelText, has_both_sides, read_pairs
from nmt_cli.data.tokenizer import Tokenizer
from nmt_cli.model.seq2seq import Seq2Seq
from nmt_cli.normalization.normalizer import Normalizer
from nmt_cli.scoring import score_corpus
from nmt_cli.system.console import log
from nmt_cli.system.distributed import World
from nmt_cli.system.errors import InputError, PredictionError
from nmt_cli.system.signals import SignalDeferrer
from nmt_cli.training.loss import evaluate_nll
from nmt_cli.translation.step_model import TrainedModels
from nmt_cli.translation.terms import TermEncoder, without_unsupported_steps
from nmt_cli.translation.translator import Translator

BATCH_TOKENS = 4096
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class DevSet:
    """The pairs of a dev set; none is left out, whatever its length."""

    sources: tuple[str, ...]
    references: tuple[str, ...]

    @classmethod
    def read(cls, parallel_texts: Iterable[ParallelText]) -> DevSet:
        """Return one dev set with the pairs of all texts, in order.

        Raises:
            InputError: a file cannot be read, two files have unequal numbers of lines, or no pair of a text has text on
                both sides.
        """
        pairs: list[Pair] = []
        for text in parallel_texts:
            own = list(read_pairs(Corpus(text.source, text.target), invalid_utf8="replace"))
            if not any(map(has_both_sides, own)):
                raise InputError(
                    f"{text.source}: the dev set is empty: no pair has text on both sides. Give other files in data.dev"
                )
            pairs += own
        return cls(tuple(pair.source for pair in pairs), tuple(pair.target for pair in pairs))


class _LocalResult(NamedTuple):
    """The result of one process: loss and translations of its part of the dev set."""

    nll: float
    num_tokens: int
    texts: list[str] | None
    """Translations of its sentences; None where the model's predictions are not finite."""
    num_empty: int = 0
    num_repeated: int = 0
    """Number of its translations that were cut where the model repeated the same words."""


class Validator:
    """Validates a model on a dev set, in float32."""

    def __init__(
        self,
        dev: DevSet,
        tokenizers: tuple[Tokenizer, Tokenizer],
        options: DecodingOptions,
        *,
        world: World,
        normalizer: Normalizer | None = None,
        tokenize: str | None = None,
        lowercase: bool = False,
        num_samples: int = 3,
    ) -> None:
        self._dev, self._options, self._world, self._normalizer = dev, options, world, normalizer or Normalizer()
        self._tokenizers = tokenizers
        self._tokenize, self._lowercase, self._num_samples = tokenize, lowercase, num_samples
        sources = list(map(tokenizers[0].prepend_tags, tokenizers[0].encode_all(dev.sources)))
        targets = tokenizers[1].encode_all(dev.references)
        order = sorted(range(len(sources)), key=lambda index: (len(targets[index]), len(sources[index])))
        self._batches = [
            make_batch([sources[index] for index in chunk], [targets[index] for index in chunk])
            for chunk in _chunks(order, [max(map(len, pair)) + 1 for pair in zip(sources, targets, strict=True)])
        ]

    def __call__(self, model: Seq2Seq, signals: SignalDeferrer) -> dict[str, float] | None:
        """Return `loss` (nats per target piece), `perplexity`, `bleu` and `chrf`; None if a signal comes first.

        A process that receives a signal stops at once. The others finish their part, and all return None.

        Raises:
            PredictionError: the predictions of any process are not finite; it is raised in every process.
        """
        parts = self._gather_results(signals, lambda: self._local_result(model))
        if parts is None:
            return None
        parts = [_LocalResult(*part) for part in parts]  # what another process sends arrives as a list
        loss = sum(part.nll for part in parts) / sum(part.num_tokens for part in parts)
        hypotheses = [""] * len(self._dev.sources)
        for rank, part in enumerate(parts):
            if part.texts is None:
                raise PredictionError(
                    "the model's predictions for the dev set are not finite, so its training has diverged; train "
                    "again with a lower training.learning_rate"
                )
            hypotheses[rank :: self._world.size] = part.texts
        scores = self._gather_results(signals, lambda: self._scores(hypotheses))
        if scores is None:
            return None
        self._show_samples(hypotheses)
        self._show_failures(sum(part.num_empty for part in parts), sum(part.num_repeated for part in parts))
        return {"loss": loss, "perplexity": math.exp(min(loss, 700.0)), **scores[0]}

    def _gather_results(self, signals: SignalDeferrer, act: Callable[[], Result]) -> list[Result] | None:
        """Return the results of `act` in all processes, by rank, or None if a signal has cut it short in any."""
        results: list[Result | None] = self._world.all_gather(signals.run_interruptible(act))
        whole = [result for result in results if result is not None]
        return whole if len(whole) == len(results) else None

    def _local_result(self, model: Seq2Seq) -> _LocalResult:
        """Return the loss and the translations of this process's part of the dev set.

        The translation of a line does not depend on the process that makes it.
        """
        total, num_tokens = 0.0, 0
        for place in self._world.shard_indices(len(self._batches)):
            nll, count = evaluate_nll(model, self._batches[place].to(self._world.device))
            total, num_tokens = total + nll, num_tokens + count
        if not math.isfinite(total):
            return _LocalResult(total, num_tokens, None)
        models = TrainedModels([model], device=self._world.device)
        normalizer = without_unsupported_steps(self._normalizer, models, self._options, self._tokenizers[1])
        terms = TermEncoder(self._tokenizers)
        translator = Translator(models, self._tokenizers, self._options, normalizer=normalizer, terms=terms)
        own = [self._dev.sources[place] for place in self._world.shard_indices(len(self._dev.sources))]
        try:
            texts = [translated.translations[0].text for translated in translator.translate(own)]
        except PredictionError:
            return _LocalResult(total, num_tokens, None)
        return _LocalResult(total, num_tokens, texts, translator.counts.empty, translator.counts.repeated)

    def _scores(self, hypotheses: Sequence[str]) -> dict[str, float]:
        scores = score_corpus(
            hypotheses, [self._dev.references], metrics=("bleu", "chrf"), lowercase=self._lowercase,
            tokenize=self._tokenize,
        )  # fmt: skip
        return {score.name: score.score for score in scores}

    def _show_samples(self, hypotheses: Sequence[str]) -> None:
        count = min(self._num_samples, len(hypotheses))
        for place in range(count):
            index = place * len(hypotheses) // count
            log(f"  source      {self._dev.sources[index]}")
            log(f"  reference   {self._dev.references[index]}")
            log(f"  hypothesis  {hypotheses[index]}")

    def _show_failures(self, num_empty: int, num_repeated: int) -> None:
        """Log the number of empty translations, if they are more than half of all, and of those cut at a repetition."""
        count = len(self._dev.sources)
        if num_empty > count / 2:
            log(f"  {num_empty:,} of {count:,} translations are empty: the model has learned too little so far")
        if num_repeated:
            log(f"  {num_repeated:,} of {count:,} translations repeat the same words over and over; they are cut there")


class DirectionsValidator:
    """Validates a model of several directions on the dev set of each."""

    def __init__(self, validators: Mapping[str, Validator]) -> None:
        self._validators = validators

    def __call__(self, model: Seq2Seq, signals: SignalDeferrer) -> dict[str, float] | None:
        """Return the mean of each score over all directions, then each score of each direction, such as `bleu_vi-en`.

        Return None if a signal comes first; raise `PredictionError` as `Validator` does.
        """
        found: dict[str, dict[str, float]] = {}
        for direction, validate in self._validators.items():
            log(f"direction {direction}")
            scores = validate(model, signals)
            if scores is None:
                return None
            found[direction] = scores
        names = list(next(iter(found.values())))
        means = {name: sum(scores[name] for scores in found.values()) / len(found) for name in names}
        return means | {f"{name}_{own}": scores[name] for own, scores in found.items() for name in names}


def _chunks(order: Sequence[int], lengths: Sequence[int]) -> list[list[int]]:
    """Return `order`, sentence indices sorted by length, cut into chunks of at most `BATCH_TOKENS` padded pieces.

    `lengths` has the pieces of each sentence, by index. A longer sentence is a chunk by itself.
    """
    chunks: list[list[int]] = [[]]
    longest = 0
    for index in order:
        longest = max(longest, lengths[index])
        if chunks[-1] and (len(chunks[-1]) + 1) * longest > BATCH_TOKENS:
            chunks.append([])
            longest = lengths[index]
        chunks[-1].append(index)
    return chunks
