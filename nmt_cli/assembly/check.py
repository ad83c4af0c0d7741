"""Everything that `nmt check` finds out about a configuration, its text and its model. Nothing is printed here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from nmt_cli.assembly.input_checks import check_inputs, problems_of, tokenizer_origin
from nmt_cli.assembly.resume_checks import check_resumable, check_tokenizers, check_unchanged
from nmt_cli.corpora.advice import Advised, advise
from nmt_cli.corpora.corpus_report import CorpusReport, NamedCorpus, analyse
from nmt_cli.corpora.expectations import Expectations, disk_space, expected_quality, workload
from nmt_cli.corpora.sizes import TrainingMemory, training_memory
from nmt_cli.corpora.survey import TRIAL_BYTES
from nmt_cli.data.lines import is_special_file
from nmt_cli.data.pairs import Corpus, LengthLimits
from nmt_cli.data.sampler import check_weights
from nmt_cli.data.tokenizer import Tokenizer
from nmt_cli.experiment import Experiment
from nmt_cli.model.build import build_model
from nmt_cli.system.errors import InputError

if TYPE_CHECKING:
    from nmt_cli.config.schema import Config

TrainTokenizers = Callable[["Config"], dict[str, Tokenizer]]


@dataclass(frozen=True, slots=True)
class Pieces:
    """The tokenizers by which lengths are counted; without any, lengths are in words."""

    tokenizers: tuple[Tokenizer, Tokenizer] | None
    origin: str


@dataclass(frozen=True, slots=True)
class ModelSize:
    """The size of the model and of the memory that its training needs."""

    parameters: dict[str, int]
    """Parameters of each part. Those that parts share stand with the first."""
    memory: TrainingMemory
    vocab_sizes: tuple[int, int]
    longest: int
    """Pieces of the longest pair in training, by which the memory is reckoned."""


@dataclass(frozen=True, slots=True)
class Check:
    """The results of a check; `problems` are those at which a training or `nmt evaluate` would stop."""

    config: Config
    pieces: Pieces
    reports: list[CorpusReport]
    model: ModelSize
    problems: list[str]
    advised: Advised
    """Suspicious kinds of pairs, worst first."""
    expected: Expectations


def check_all(given: Config, effective: Config, train_tokenizers: TrainTokenizers) -> Check:
    """Check a configuration as it is written and, with absolute paths, as it takes effect."""
    experiment = Experiment(Path(effective.model_dir))
    problems = problems_of(
        partial(check_inputs, experiment, given),
        *(partial(check, experiment, effective) for check in (check_resumable, check_tokenizers, check_unchanged)),
    )
    pieces = _find_tokenizers(Experiment(Path(given.model_dir)), given, train_tokenizers, problems)
    limits = LengthLimits(given.data.max_length, given.data.max_length_ratio, given.data.invalid_utf8)
    reports = analyse(_corpora(given), limits, pieces.tokenizers)
    problems += [problem for report in reports for problem in report.problems]
    kept = [report.num_kept for report in reports if report.is_training]
    weights = [corpus.weight for corpus in given.data.train]
    if pieces.tokenizers is not None and len(kept) == len(weights):  # else one is a pipe, which is refused already
        problems += problems_of(lambda: check_weights(kept, weights))
    if not any(kept) and not problems:
        problems.append("data.train: no training pairs are left; see what the report says of their lines")
    problems = list(dict.fromkeys(problems))
    model = _measure(given, pieces, reports)
    expected = Expectations(
        workload(given, reports, in_pieces=pieces.tokenizers is not None),
        disk_space(given, model.memory, reports, max(model.vocab_sizes)),
        expected_quality(sum(kept)),
    )
    languages = given.data.source_lang, given.data.target_lang
    return Check(given, pieces, reports, model, problems, advise(reports, languages), expected)


def _corpora(config: Config) -> list[NamedCorpus]:
    data = config.data
    several = len(data.train) > 1
    found = [
        NamedCorpus(
            f"train {number}" if several else "train",
            Corpus(c.source, c.target, c.weight, c.alignment),
            is_training=True,
            with_links=c.alignment is not None and bool(config.training.guided_alignment_weight),
        )
        for number, c in enumerate(data.train, start=1)
    ]
    if data.dev:
        found.append(NamedCorpus("dev", Corpus(data.dev.source, data.dev.target)))
    found += [NamedCorpus(f"test {test.name}", Corpus(test.source, test.target)) for test in data.test]
    # A pipe is refused already, and to read it would be to wait for whoever writes.
    return [named for named in found if not any(is_special_file(path) for path in named.corpus.paths)]


def _find_tokenizers(
    experiment: Experiment, config: Config, train_tokenizers: TrainTokenizers, problems: list[str]
) -> Pieces:
    """Return the run's own, or those it would take over, or of little text the ones that training would make.

    Training them finds a vocabulary that the text does not allow.
    """
    try:
        if experiment.has_tokenizers(joint=config.tokenizer.joint):
            return Pieces(experiment.tokenizers, f"the tokenizer in {config.model_dir}")
        if origin := tokenizer_origin(config):
            return Pieces(Experiment(origin).tokenizers, f"the tokenizer of {origin}")
        paths = [Path(path) for corpus in config.data.train for path in (corpus.source, corpus.target)]
        if all(path.is_file() for path in paths) and sum(path.stat().st_size for path in paths) <= TRIAL_BYTES:
            trained = list(train_tokenizers(_without_stops(config)).values())
            return Pieces((trained[0], trained[-1]), "a tokenizer trained for this check")
    except InputError as error:
        problems.append(str(error))
    return Pieces(None, "words")


def _without_stops(config: Config) -> Config:
    """Return a configuration that goes on at lines that are not UTF-8: the report says all of them."""
    if config.data.invalid_utf8 != "error":
        return config
    return config.model_copy(update={"data": config.data.model_copy(update={"invalid_utf8": "replace"})})


def _measure(config: Config, pieces: Pieces, reports: list[CorpusReport]) -> ModelSize:
    sizes = [tokenizer.vocab_size for tokenizer in pieces.tokenizers or ()] or [config.tokenizer.vocab_size] * 2
    with torch.device("meta"):  # shapes only: no memory is taken
        model = build_model(config.model, source_vocab_size=sizes[0], target_vocab_size=sizes[1])
    parameters = dict.fromkeys(("embeddings", "encoder", "attention", "decoder", "lexical", "output"), 0)
    for name, parameter in model.named_parameters():
        parameters[_part(name)] += parameter.numel()
    longest = max((report.longest_kept for report in reports if report.is_training), default=0)
    if pieces.tokenizers is None:
        longest = config.data.max_length  # words are fewer than pieces
    memory = training_memory(
        config, num_parameters=sum(parameters.values()), target_vocab_size=sizes[1], longest=longest
    )
    return ModelSize(parameters, memory, (sizes[0], sizes[1]), longest)


def _part(name: str) -> str:
    """Return the part of the model to which a parameter belongs."""
    if "attention." in name:
        return "attention"
    first = name.partition(".")[0]
    if first.endswith("_embedding"):
        return "embeddings"
    return "output" if first.startswith("output") or name.startswith("decoder.readout") else first
