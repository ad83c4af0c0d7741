"""The number of updates in an epoch, counted with the pieces, word pairs and padded batches that a training will have.

They are counted for little text only, where an estimate by words would be far too low: small vocabularies cut words
into many pieces, and of a few batches the last one, which is not full, is a large part.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from nmt_cli.assembly.tokenizers import trained_tokenizers
from nmt_cli.assembly.word_pair_corpus import epoch_weights, word_pairs_of
from nmt_cli.corpora.survey import TRIAL_BYTES
from nmt_cli.data.pairs import Corpus, LengthLimits, read_pairs
from nmt_cli.data.sampler import Sampler
from nmt_cli.system.errors import InputError

if TYPE_CHECKING:
    from nmt_cli.assembly.preflight import CheckResult
    from nmt_cli.config.schema import Config
    from nmt_cli.data.sampler import NumberArray
    from nmt_cli.data.tokenizer import Tokenizer

WORD_PAIRS_BYTES = 1_000_000
"""The most bytes of text from which word pairs are learned for the count, which takes a second or two. In a larger text
they matter little: word pairs of 29,000 captions, four times as many bytes, make one of a hundred updates."""


def updates_of_text(corpora: Sequence[Corpus], config: Config, num_pairs: int) -> float | None:
    """Return the number of updates in an epoch that reads `num_pairs` pairs of the corpora.

    None means that nothing was counted: the files have more than TRIAL_BYTES, or no tokenizer can be trained on them. A
    tokenizer is trained for the count. Lines that are not UTF-8 are left out.
    """

    if _num_bytes(corpora) > TRIAL_BYTES:
        return None
    given = config.data.train if len(config.data.directions) > 1 else [config.data.train[0]] * len(corpora)
    train = tuple(
        one.model_copy(update={"source": c.source, "target": c.target}) for one, c in zip(given, corpora, strict=True)
    )
    data = config.data.model_copy(update={"train": train, "invalid_utf8": "skip"})
    config = config.model_copy(update={"data": data})
    try:
        tokenizers = list(trained_tokenizers(config).values())
        return _updates_per_epoch(corpora, config, (tokenizers[0], tokenizers[-1]), num_pairs)
    except InputError:  # `nmt check` says what is wrong with the text
        return None


def with_updates(result: CheckResult) -> CheckResult:
    """Return the result of a check with the updates of an epoch counted in its text instead of estimated.

    The result stays unchanged if it has problems, no workload or no tokenizer, or over TRIAL_BYTES of training text.
    """

    config, work, tokenizers = result.config, result.expected.work, result.pieces.tokenizers
    corpora = [Corpus(c.source, c.target) for c in config.data.train]
    if result.problems or work is None or tokenizers is None or _num_bytes(corpora) > TRIAL_BYTES:
        return result
    work = work.with_updates(_updates_per_epoch(corpora, config, tokenizers), config.training)
    return replace(result, expected=replace(result.expected, work=work))


def _updates_per_epoch(
    corpora: Sequence[Corpus], config: Config, tokenizers: tuple[Tokenizer, Tokenizer], num_pairs: int | None = None
) -> float:
    """Return the number of updates in the first epoch, with all pairs of the corpora or about `num_pairs` of them."""

    texts = [_lines(corpus, config) for corpus in corpora]
    share = 1.0 if num_pairs is None else num_pairs / max(1, sum(map(len, texts)))
    data = config.data
    if data.word_pairs and _num_bytes(corpora) <= WORD_PAIRS_BYTES:
        of_texts = [data.direction_of(corpus) for corpus in data.train]
        for direction in data.directions:
            own = [pair for text, of in zip(texts, of_texts, strict=False) if of == direction for pair in text]
            sides = word_pairs_of(own, config.for_direction(direction), tokenizers)
            texts.append(list(zip(*sides, strict=True)))
    weights = epoch_weights(config, [len(text) for text in texts])
    weights = [share * weight for weight in weights[: len(corpora)]] + weights[len(corpora) :]
    lengths = [_lengths(text, config, tokenizers) for text in texts]
    source_lengths, target_lengths = np.concatenate(lengths, axis=1)
    if not len(target_lengths):
        return 1.0
    sampler = Sampler(
        source_lengths, target_lengths, bounds=[0, *accumulate(of.shape[1] for of in lengths)],
        target_pieces=[int(of[1].sum()) for of in lengths], weights=weights, batch_size=config.training.batch_size,
        batch_type=config.training.batch_type, seed=config.seed,
    )  # fmt: skip
    return max(1, sampler.count_batches())


def _lines(corpus: Corpus, config: Config) -> list[tuple[str, str]]:
    """Return the pairs of lines of a corpus."""

    return [(pair.source, pair.target) for pair in read_pairs(corpus, invalid_utf8=config.data.invalid_utf8)]


def _lengths(lines: Sequence[tuple[str, str]], config: Config, tokenizers: tuple[Tokenizer, Tokenizer]) -> NumberArray:
    """Return the numbers of pieces of source and target (2, N) of the N pairs that the length limits keep."""

    data = config.data
    limits = LengthLimits(data.max_length, data.max_length_ratio, data.invalid_utf8)
    encoded = [tokenizers[side].encode_all([pair[side] for pair in lines]) for side in (0, 1)]
    lengths = [(len(source), len(target)) for source, target in zip(*encoded, strict=True)]
    kept = [pair for pair in lengths if limits.why_left_out(*pair) is None]
    return np.array(kept, dtype=np.int64).reshape(-1, 2).T


def _num_bytes(corpora: Sequence[Corpus]) -> int:
    """Return the size of the files in bytes; a compressed file counts as it is on disk."""
    return sum(os.stat(path).st_size for corpus in corpora for path in (corpus.source, corpus.target))
