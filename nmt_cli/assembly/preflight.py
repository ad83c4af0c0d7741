"""The checks of `nmt check` before a training: configuration, text, size, speed and quality, and the report of them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from nmt_cli.assembly.epoch_updates import with_updates
from nmt_cli.assembly.resume_checks import check_resumable, check_tokenizers, check_unchanged
from nmt_cli.assembly.speed import with_speed
from nmt_cli.assembly.tokenizers import trained_tokenizers
from nmt_cli.assembly.training_inputs import (
    check_inputs,
    check_text_files,
    problems_of,
    tokenizer_origin,
    warn_of_exchanged_sides,
)
from nmt_cli.config.loader import load_config, with_absolute_paths
from nmt_cli.config.schema import TrainingCorpus
from nmt_cli.config.unused_keys import unused_keys
from nmt_cli.config.yaml_text import format_override
from nmt_cli.corpora.advice import AdviceReport, advise, merge_advice
from nmt_cli.corpora.corpus_report import CorpusReport, NamedCorpus, SideReport, analyse
from nmt_cli.corpora.expectations import (
    RESULTS_CORPUS,
    RESULTS_PAGE,
    Expectations,
    Quality,
    disk_space,
    expected_quality,
    workload,
)
from nmt_cli.corpora.filters import INACTIVE_REASON
from nmt_cli.corpora.other_directions import record_other_directions
from nmt_cli.corpora.sizes import TrainingMemory, training_memory
from nmt_cli.corpora.survey import TRIAL_BYTES
from nmt_cli.data.lines import is_special_file
from nmt_cli.data.pairs import Corpus, LengthLimits
from nmt_cli.data.sampler import check_weights, temperature_weights
from nmt_cli.data.tokenizer import Tokenizer
from nmt_cli.experiment import Experiment
from nmt_cli.model.build import build_model
from nmt_cli.system.console import format_count, warn
from nmt_cli.system.errors import InputError
from nmt_cli.text.language_codes import bleu_tokenizer

if TYPE_CHECKING:
    from nmt_cli.config.schema import Config, TextPair
    from nmt_cli.text.direction import Direction


@dataclass(frozen=True, slots=True)
class LengthUnit:
    """The tokenizers by which lengths are counted, if there are any, and a text that says where they come from.

    Without tokenizers, lengths are counted in words.
    """

    tokenizers: tuple[Tokenizer, Tokenizer] | None
    origin: str


@dataclass(frozen=True, slots=True)
class ModelSize:
    """The size of the model and of the memory that its training needs."""

    parameters: dict[str, int]
    """Number of parameters of each part of the model; shared ones count for the first part that has them."""
    memory: TrainingMemory
    vocab_sizes: tuple[int, int]
    longest: int
    """Number of pieces of the longest source or target of the training pairs, for which the memory is computed."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The results of a check; `problems` are the errors with which a training or `nmt evaluate` would stop."""

    config: Config
    pieces: LengthUnit
    reports: list[CorpusReport]
    model: ModelSize
    problems: list[str]
    advised: AdviceReport
    """Suspicious kinds of pairs, worst first."""
    expected: Expectations


def check_configuration(path: Path, overrides: Sequence[str], *, as_json: bool, measures: bool) -> None:
    """Print what a training with this configuration needs and can be expected to reach, as text or JSON; write no file.

    With `measures`, a short training on made-up text measures the speed of this machine.

    Raises:
        ConfigError: the configuration is wrong.
        InputError: training would not start, or `nmt evaluate` would stop with an error. The report has
            been printed by then.
    """
    given = load_config(path, overrides, check_files=check_text_files)
    for line in unused_keys(given):
        warn(line)
    data = given.data
    for p in [*data.train, *data.dev_sets, *data.test]:
        warn_of_exchanged_sides([Corpus(p.source, p.target)], data.direction_of(p))
    result = with_updates(check_all(given, with_absolute_paths(given)))
    if measures:
        result = with_speed(result)
    target = data.directions[0].target
    tokenize = bleu_tokenizer(target) if len(data.directions) == 1 else None  # several are each scored by their own
    if given.scoring.tokenize is None and tokenize is not None:
        warn(f"scoring.tokenize: BLEU counts words, which {target} does not separate by spaces; set it to {tokenize}")
    options = ["--config", str(path), *(word for one in overrides for word in ("--set", one))]
    print(json.dumps(as_values(result, options), ensure_ascii=False) if as_json else as_text(result, options))
    if result.problems:
        raise InputError("\n".join(result.problems))


def check_all(given: Config, effective: Config) -> CheckResult:
    """Return the result of all checks of a configuration: `given` is as written, `effective` has absolute paths."""
    experiment = Experiment(Path(effective.model_dir))
    problems = problems_of(
        partial(check_inputs, experiment, given),
        *(partial(check, experiment, effective) for check in (check_resumable, check_tokenizers, check_unchanged)),
    )
    pieces = _find_tokenizers(Experiment(Path(given.model_dir)), given, problems)
    filters = LengthLimits(given.data.max_length, given.data.max_length_ratio, given.data.invalid_utf8)
    reports, advised = _analyse_corpora(given, filters, pieces)
    problems += [problem for report in reports for problem in report.problems]
    kept = [report.num_kept for report in reports if report.is_training]
    factors = temperature_weights(kept, given.data.corpus_temperature)
    weights = [factor * corpus.weight for factor, corpus in zip(factors, given.data.train, strict=False)]
    if pieces.tokenizers is not None and len(kept) == len(weights):  # else one is a pipe, which is refused already
        problems += problems_of(lambda: check_weights(kept, weights))
    if not any(kept) and not problems:
        problems.append("data.train: no training pairs are left; see what the report says of their lines")
    problems = list(dict.fromkeys(problems))
    model = _model_size(given, pieces, reports)
    expected = Expectations(
        workload(given, reports, in_pieces=pieces.tokenizers is not None),
        disk_space(given, model.memory, reports, max(model.vocab_sizes)),
        expected_quality(sum(kept)),
    )
    return CheckResult(given, pieces, reports, model, problems, advised, expected)


def _analyse_corpora(
    config: Config, filters: LengthLimits, pieces: LengthUnit
) -> tuple[list[CorpusReport], AdviceReport]:
    """Return the reports of all corpora, in the order of the configuration, and the advice about them.

    A corpus is compared with the corpora of the same direction, and dev and test sets also with the training text of
    the other directions.
    """
    named = _corpora(config)
    by_direction: dict[Direction, list[CorpusReport]] = {}
    for direction in config.data.directions:
        own = [corpus for corpus, of in named if of == direction]
        tokenizers = pieces.tokenizers and (pieces.tokenizers[0].with_tags(direction.tags), pieces.tokenizers[1])
        by_direction[direction] = analyse(own, filters, tokenizers)
    record_other_directions([(report, of) for of, reports in by_direction.items() for report in reports])
    advice = [advise(reports, direction) for direction, reports in by_direction.items()]
    found = {report.name: report for reports in by_direction.values() for report in reports}
    return [found[corpus.name] for corpus, _ in named], merge_advice(advice)


def _corpora(config: Config) -> list[tuple[NamedCorpus, Direction]]:
    """Return all corpora of a configuration with their names and directions, except pipes and devices."""
    data = config.data
    several, has_directions = len(data.train) > 1, len(data.directions) > 1
    texts: list[tuple[str, TextPair]] = [
        (f"train {number}" if several else "train", corpus) for number, corpus in enumerate(data.train, start=1)
    ]
    of_dev = [data.direction_of(dev) for dev in data.dev_sets]
    before = [of_dev[:number].count(direction) for number, direction in enumerate(of_dev)]
    texts += [(f"dev {n + 1}" if n else "dev", dev) for n, dev in zip(before, data.dev_sets, strict=True)]
    texts += [(f"test {test.name}", test) for test in data.test]
    found = []
    for name, text in texts:
        direction = data.direction_of(text)
        is_training = isinstance(text, TrainingCorpus)
        alignment = text.alignment if isinstance(text, TrainingCorpus) else None
        corpus = Corpus(text.source, text.target, alignment=alignment)
        # A pipe is refused already, and to read it would be to wait for whoever writes.
        if any(is_special_file(path) for path in corpus.paths):
            continue
        full_name = f"{name} {direction}" if has_directions and not name.startswith("test ") else name
        with_links = alignment is not None and bool(config.training.guided_alignment_weight)
        found.append((NamedCorpus(full_name, corpus, is_training=is_training, with_links=with_links), direction))
    return found


def _find_tokenizers(experiment: Experiment, config: Config, problems: list[str]) -> LengthUnit:
    """Return the tokenizers of the run, or those of another run that it would take over, or, if the training text is
    little, tokenizers trained on it; without any, lengths are in words.

    An error, such as a vocabulary that the text does not allow, is added to `problems`.
    """
    try:
        if experiment.has_tokenizers(joint=config.tokenizer.joint):
            return LengthUnit(experiment.tokenizers, f"the tokenizer in {config.model_dir}")
        if origin := tokenizer_origin(config):
            return LengthUnit(Experiment(origin).tokenizers, f"the tokenizer of {origin}")
        paths = [Path(path) for corpus in config.data.train for path in (corpus.source, corpus.target)]
        if all(path.is_file() for path in paths) and sum(path.stat().st_size for path in paths) <= TRIAL_BYTES:
            trained = list(trained_tokenizers(_without_utf8_errors(config)).values())
            return LengthUnit((trained[0], trained[-1]), "a tokenizer trained for this check")
    except InputError as error:
        problems.append(str(error))
    return LengthUnit(None, "words")


def _without_utf8_errors(config: Config) -> Config:
    """Return the configuration with lines that are not UTF-8 replaced instead of refused, as the report counts them."""
    if config.data.invalid_utf8 != "error":
        return config
    return config.model_copy(update={"data": config.data.model_copy(update={"invalid_utf8": "replace"})})


def _model_size(config: Config, pieces: LengthUnit, reports: list[CorpusReport]) -> ModelSize:
    """Return the size of the model for the vocabularies of `pieces`, and the training memory for the longest pair."""
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
    """Return the part of the model, such as encoder or output, to which the parameter of this name belongs."""
    if "attention." in name:
        return "attention"
    first = name.partition(".")[0]
    if first.endswith("_embedding"):
        return "embeddings"
    return "output" if first.startswith("output") or name.startswith("decoder.readout") else first


LABELS = {
    "empty_source": "empty source",
    "empty_target": "empty target",
    "invalid_utf8": "lines not UTF-8",
    "control_characters": "lines with control characters",
    "too_long": "longer than data.max_length",
    "beyond_ratio": "beyond data.max_length_ratio",
    "length_ratio": "lengths out of proportion",
    "duplicates": "repeated pairs",
    "copies": "target is a copy of the source",
    "overlap": "source is also in training",
    "dev_overlap": "source is also in the dev set",
    "other_directions": "a side is in other training text",
    "bad_alignment": "invalid alignment lines",
    "missing_words": "links to missing words",
}
SHOWN_FOR_TRAINING = {"too_long": True, "overlap": False, "dev_overlap": False, "other_directions": False}
"""Findings that the report shows for training corpora only (True), or for dev and test sets only (False)."""
HIDDEN_IF_ZERO = ("beyond_ratio", "bad_alignment", "missing_words", "dev_overlap", "other_directions")
"""Findings that are shown only if their count is not zero, because they are rare."""
_INDENT = " " * 21


def as_text(result: CheckResult, options: Sequence[str] = ()) -> str:
    """Return the report for people: sizes, then each corpus, then the verdict.

    `options` are the command-line options that name the configuration, for the commands in the report.
    """
    config, model, memory = result.config, result.model, result.model.memory
    in_pieces = result.pieces.tokenizers is not None
    parts = ", ".join(f"{part} {count:,}" for part, count in model.parameters.items() if count)
    size = f"{config.training.batch_size:,} {'pieces' if config.training.batch_type == 'tokens' else 'sentences'}"
    setting = f"fp32, batches of {size}, pairs of up to {model.longest:,} pieces"
    held = ", ".join(f"{part} {_bytes(count)}" for part, count in asdict(memory).items() if count)
    counted_in = f"pieces of {result.pieces.origin}" if in_pieces else "words: there is no tokenizer yet"
    lines = [
        f"name        {config.name}",
        f"model_dir   {config.model_dir}",
        f"parameters  {sum(model.parameters.values()):,}: {parts}",
        f"memory      about {_bytes(memory.total)} in training: {held}",
        f"            ({setting}; PyTorch itself takes about 500 MB more)",
        f"lengths     in {counted_in}",
    ]
    for report in result.reports:
        lines += ["", *_corpus_lines(report, in_pieces=in_pieces)]
    lines += _advice_lines(result.advised, train_command(result, options))
    lines += ["", "estimates", *_expectation_lines(config, result.expected)]
    num_warnings = sum(finding.count > 0 for report in result.reports for finding in report.findings.values())
    verdict = [_verdict(result)]
    if advice := result.advised.advice:
        num_severe = sum(one.level == "severe" for one in advice)
        found_in_all = format_count(len(advice), "severe finding" if num_severe == len(advice) else "finding")
        some = f", {num_severe} of them severe" if 0 < num_severe < len(advice) else ""
        verdict.append(f"{found_in_all}{some}, see the advice")
    elif num_warnings:
        verdict.append(f"{num_warnings} {'kind' if num_warnings == 1 else 'kinds'} of suspicious lines")
    return "\n".join([*lines, "", "; ".join(verdict)])


def train_command(result: CheckResult, options: Sequence[str]) -> str | None:
    """Return the command that trains on the files that a cleaning makes; None if no cleaning is advised.

    `options` are the command-line options that name the configuration.
    """
    reports = [report for report in result.reports if report.is_training]
    sets = [
        format_override(f"data.train.{number}.{side}", path)
        for number, report in enumerate(reports)
        if report.name in result.advised.cleaned
        for side, path in zip(("source", "target"), result.advised.cleaned[report.name], strict=True)
    ]
    if not sets or not options:
        return None
    return shlex.join(["nmt", "train", *options, *(word for one in sets for word in ("--set", one))])


def _advice_lines(advised: AdviceReport, training: str | None) -> list[str]:
    """Return lines about each kind of suspicious pairs, worst first, and the `training` command for cleaned files."""
    lines = ["", "advice, worst first"] if advised.advice or advised.inactive_filters else []
    for one in advised.advice:
        places = ", ".join(one.places) + (" ..." if one.pairs > len(one.places) else "")
        lines.append(
            f"  {one.level:<9}{one.per_cent:>6.2f} %  {one.corpus}: {one.finding}: {one.description} ({places})"
        )
        if one.judged < one.read:
            lines.append(f"{_INDENT}judged by {one.judged:,} of the {one.read:,} pairs, taken from all parts")
        lines.append(f"{_INDENT}{one.advice}{': ' if one.command else ''}{one.command}")
    for corpus, rules in advised.inactive_filters.items():
        lines.append(f"  not looked for in {corpus}: {', '.join(rules)} ({INACTIVE_REASON})")
    for corpus, links in advised.with_links.items():
        lines.append(
            f"  {corpus}: after cleaning, {links} no longer fits; align the cleaned files again before training"
        )
    if training is not None:
        lines.append(f"  to train on the cleaned files: {training}")
    return lines


def _expectation_lines(config: Config, expected: Expectations) -> list[str]:
    """Return lines about the expected time, disk space and quality of the training."""
    work, speed, disk = expected.work, expected.speed, expected.disk
    lines = []
    if work is not None:
        amount = f"{format_count(work.updates, 'update')}, {work.updates / work.updates_per_epoch:.1f} epochs"
        if speed is None:
            lines.append(f"  time      {amount}; the time was not measured")
        else:
            rate = work.tokens_per_update / speed.seconds_per_update
            earlier = ", or less if the training ends early" if config.training.patience and config.data.dev else ""
            minutes = _minutes(speed.minutes(work.updates))
            on = f"{speed.device} in {speed.precision}"
            on += f" with {format_count(speed.threads, 'thread')}" if speed.device == "cpu" else ""
            lines += [
                f"  time      about {minutes} without validations{earlier}: {amount},",
                f"            {rate:,.0f} target pieces a second on {on}, measured for {speed.measured_seconds:.0f} s",
            ]
    lines.append(
        f"  disk      up to {_bytes(disk.total)}: checkpoints {_bytes(disk.checkpoints)}, text in pieces "
        f"{_bytes(disk.tokenised_text)}"
    )
    return [*lines, f"  quality   {_quality(expected.quality)}", f"            ({RESULTS_CORPUS}; {RESULTS_PAGE})"]


def _minutes(minutes: float) -> str:
    return f"{minutes / 60:.1f} hours" if minutes >= 90 else format_count(max(1, round(minutes)), "minute")


def _quality(quality: Quality) -> str:
    below, above = quality.below, quality.above
    if below and above:
        pairs = f"{below.pairs:,} and {above.pairs:,} pairs"
        return f"in the tests of nmt, models with {pairs} reached {below.bleu:.1f} and {above.bleu:.1f} BLEU"
    if above:
        return (
            f"in the tests of nmt, a model with {above.pairs:,} pairs reached {above.bleu:.1f} BLEU; this text has "
            "fewer pairs"
        )
    assert below is not None
    return f"in the tests of nmt, a model with {below.pairs:,} pairs, the most tested, reached {below.bleu:.1f} BLEU"


def _verdict(result: CheckResult) -> str:
    """Return whether training would start and `nmt evaluate` would run, in a sentence with the number of problems."""
    problems = result.problems
    of_tests = {problem for report in result.reports if report.name.startswith("test ") for problem in report.problems}
    if not problems:
        return "training can begin"
    if of_tests.issuperset(problems):
        return f"training can begin; nmt evaluate would stop with an error: {format_count(len(problems), 'problem')}"
    return f"training would not start: {format_count(len(problems), 'problem')}"


def _corpus_lines(report: CorpusReport, *, in_pieces: bool) -> list[str]:
    """Return the lines about a corpus: sizes of its sides, and what was found in it."""
    unit = "pieces" if in_pieces else "words"
    lines = [f"{report.name}: {report.source} | {report.target}"]
    if report.problems and not report.num_pairs:
        return [*lines, *(f"  {problem}" for problem in report.problems)]
    if report.sides[0].num_lines != report.sides[1].num_lines:
        lines.append(f"  {'lines':<32}{report.sides[0].num_lines:>12,} | {report.sides[1].num_lines:,}")
    lines.append(f"  {'pairs':<32}{report.num_pairs:>12,}")
    if report.is_training:
        lines.append(f"  {'kept in training':<32}{report.num_kept:>12,}{'' if in_pieces else '  (by words)'}")
    for label, side in zip(("source", "target"), report.sides, strict=True):
        mean = side.num_units / max(1, report.num_pairs)
        shares = f"{_share(side.num_unknown, side)} unknown, {_share(side.num_bytes, side)} spelt in bytes"
        lines.append(
            f"  {f'{unit} in a {label}':<32}{mean:>12.1f}  longest {side.longest:,}{f'; {shares}' if in_pieces else ''}"
        )
    for name, finding in report.findings.items():
        if SHOWN_FOR_TRAINING.get(name, report.is_training) != report.is_training or (
            name in HIDDEN_IF_ZERO and not finding.count
        ):
            continue
        examples = ", ".join(finding.examples) + (" ..." if finding.count > len(finding.examples) else "")
        lines.append(f"  {LABELS[name]:<32}{finding.count:>12,}  {examples}".rstrip())
    return lines


def _share(count: int, side: SideReport) -> str:
    return f"{100 * count / max(1, side.num_units):.2f} %"


def _bytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{max(1, round(count / 1e6))} MB"


def as_values(result: CheckResult, options: Sequence[str] = ()) -> dict[str, Any]:
    """Return the report for JSON; `options` are the command-line options that name the configuration."""
    parameters, memory = result.model.parameters, result.model.memory
    return {
        "name": result.config.name,
        "model_dir": result.config.model_dir,
        "parameters": {"total": sum(parameters.values()), **parameters},
        "memory_bytes": {"total": memory.total, **asdict(memory)},
        "unit": "words" if result.pieces.tokenizers is None else "pieces",
        "corpora": [_corpus_values(report) for report in result.reports],
        "problems": result.problems,
        "advice": [asdict(one) for one in result.advised.advice],
        "not_looked_for": result.advised.inactive_filters,
        "train_command": train_command(result, options),
        "expected": _expected_values(result.expected),
    }


def _expected_values(expected: Expectations) -> dict[str, Any]:
    work, speed, quality = expected.work, expected.speed, expected.quality
    minutes = speed.minutes(work.updates) if work and speed else None
    return {
        "minutes": minutes,
        "updates": work.updates if work else 0,
        "epochs": work.updates / work.updates_per_epoch if work else 0.0,
        "target_pieces_a_second": work.tokens_per_update / speed.seconds_per_update if work and speed else None,
        "measured_seconds": speed.measured_seconds if speed else None,
        "disk_bytes": {"total": expected.disk.total, **asdict(expected.disk)},
        "bleu": {**asdict(quality), "of": RESULTS_CORPUS, "source": RESULTS_PAGE},
    }


def _corpus_values(report: CorpusReport) -> dict[str, Any]:
    values = asdict(report)
    source, target = values.pop("sides")
    return {**values, "source": {"path": report.source, **source}, "target": {"path": report.target, **target}}
