"""`nmt check`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nmt_cli.commands.options import ConfigFile, Overrides
from nmt_cli.console import counted, warn
from nmt_cli.errors import InputError

if TYPE_CHECKING:
    from nmt_cli.config.schema import Config
    from nmt_cli.config.sizing import TrainingMemory
    from nmt_cli.data.report import CorpusReport, NamedCorpus, SideReport
    from nmt_cli.data.tokenizer import Tokenizer
    from nmt_cli.experiment import Experiment

TRIAL_BYTES = 4_000_000
"""Of training text: up to here a missing tokenizer is trained for the check, in a second or two."""
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
    "overlap": "source stands in training",
    "bad_alignment": "lines that are no alignment",
}
OF_ONE_KIND = {"too_long": True, "overlap": False}
"""Findings that only training corpora have (True), or only held-out ones."""
IF_ANY = ("beyond_ratio", "bad_alignment")
"""Findings of what is rarely asked for, shown where there are any."""


@dataclass(frozen=True, slots=True)
class _Pieces:
    """The tokenizers by which lengths are counted; none: in words."""

    tokenizers: tuple[Tokenizer, Tokenizer] | None
    origin: str


def check(
    config: ConfigFile,
    set_: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for machines.")] = False,
) -> None:
    """Check a configuration and its text before training: mistakes, suspicious lines, parameters, memory.

    Writes nothing. Exit code 2 if training would refuse, or `nmt evaluate` a test set; 0 if there are warnings only.

    Example: nmt check --config configs/multi30k_en_de.yaml
    """
    from nmt_cli.config.loader import load_config, with_absolute_paths
    from nmt_cli.data.report import analyse
    from nmt_cli.data.store import Filters
    from nmt_cli.experiment import Experiment

    given = load_config(config, set_ or ())
    problems = _refusals(given, with_absolute_paths(given))
    pieces = _find_tokenizers(Experiment(Path(given.model_dir)), given, problems)
    filters = Filters(given.data.max_length, given.data.max_length_ratio, given.data.invalid_utf8)
    reports = analyse(_corpora(given), filters, pieces.tokenizers)
    problems += [problem for report in reports for problem in report.problems]
    if pieces.tokenizers is not None:
        problems += _weightless(given, reports)
    if not any(report.num_kept for report in reports if report.is_training) and not problems:
        problems.append("data.train: no training pairs are left; see what the report says of their lines")
    model = _measure(given, pieces, reports)
    _warn_of_scores(given)
    problems = list(dict.fromkeys(problems))
    if as_json:
        print(json.dumps(_as_values(given, pieces, reports, model, problems), ensure_ascii=False))
    else:
        print(_as_text(given, pieces, reports, model, problems))
    if problems:
        raise InputError("\n".join(problems))


# What is looked at ------------------------------------------------------------------------------------------------


def _refusals(given: Config, effective: Config) -> list[str]:
    """For what training would refuse to begin, apart from the text itself."""
    from nmt_cli.commands.refusals import check_inputs, check_resumable, check_tokenizers, check_unchanged
    from nmt_cli.experiment import Experiment

    experiment, problems = Experiment(Path(effective.model_dir)), []
    for examine, config in (
        (check_inputs, given),
        (check_resumable, effective),
        (check_tokenizers, effective),
        (check_unchanged, effective),
    ):
        try:
            examine(experiment, config)
        except InputError as error:
            problems += str(error).splitlines()
    return problems


def _weightless(config: Config, reports: list[CorpusReport]) -> list[str]:
    """For what the sampler would refuse: corpora of whose pairs no epoch has one."""
    from nmt_cli.data.sampler import check_weights

    kept = [report.num_kept for report in reports if report.is_training]
    if len(kept) < len(config.data.train):
        return []  # one is a pipe, which is refused already
    try:
        check_weights(kept, [corpus.weight for corpus in config.data.train])
    except InputError as error:
        return str(error).splitlines()
    return []


def _warn_of_scores(config: Config) -> None:
    from nmt_cli.scoring import tokenizer_for

    wanted = tokenizer_for(config.data.target_lang)
    if config.scoring.tokenize is None and wanted is not None:
        warn(
            f"scoring.tokenize: BLEU counts words, which {config.data.target_lang} does not part by blanks; "
            f"set it to {wanted}"
        )


def _corpora(config: Config) -> list[NamedCorpus]:
    from nmt_cli.data.corpus import Corpus
    from nmt_cli.data.lines import is_special_file
    from nmt_cli.data.report import NamedCorpus

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


def _find_tokenizers(experiment: Experiment, config: Config, problems: list[str]) -> _Pieces:
    """The run's own, or those it would take over, or of little text the ones that training would make."""
    from nmt_cli.experiment import Experiment

    init_from = config.training.init_from
    try:
        if experiment.has_tokenizers(joint=config.tokenizer.joint):
            return _Pieces(experiment.tokenizers, f"the tokenizer in {config.model_dir}")
        if init_from:
            return _Pieces(Experiment(Path(init_from)).tokenizers, f"the tokenizer of {init_from}")
    except InputError as error:
        problems.append(str(error))
        return _Pieces(None, "words")
    paths = [Path(path) for corpus in config.data.train for path in (corpus.source, corpus.target)]
    if all(path.is_file() for path in paths) and sum(path.stat().st_size for path in paths) <= TRIAL_BYTES:
        return _trial(config, problems)
    return _Pieces(None, "words")


def _trial(config: Config, problems: list[str]) -> _Pieces:
    """Train tokenizers in memory: so a vocabulary that the text does not allow is found here already. Of lines that are
    not UTF-8 the report says all."""
    from nmt_cli.commands.tokenizer import trained_tokenizers

    data = (
        config.data.model_copy(update={"invalid_utf8": "replace"})
        if config.data.invalid_utf8 == "error"
        else config.data
    )
    try:
        trained = list(trained_tokenizers(config.model_copy(update={"data": data})).values())
    except InputError as error:
        problems.append(str(error))
        return _Pieces(None, "words")
    return _Pieces((trained[0], trained[-1]), "a tokenizer trained for this check")


@dataclass(frozen=True, slots=True)
class _Model:
    """How large the model is and what training it needs."""

    parameters: dict[str, int]
    """By part; what parts share stands with the first."""
    memory: TrainingMemory
    longest: int
    """Pieces of the longest pair in training, by which the memory is reckoned."""


def _measure(config: Config, pieces: _Pieces, reports: list[CorpusReport]) -> _Model:
    import torch

    from nmt_cli.config.sizing import training_memory
    from nmt_cli.model.build import build_model

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
    return _Model(parameters, memory, longest)


def _part(name: str) -> str:
    """Of the model, to which a parameter belongs."""
    if "attention." in name:
        return "attention"
    first = name.partition(".")[0]
    if first.endswith("_embedding"):
        return "embeddings"
    return "output" if first.startswith("output") or name.startswith("decoder.readout") else first


# What is said -----------------------------------------------------------------------------------------------------


def _as_text(config: Config, pieces: _Pieces, reports: list[CorpusReport], model: _Model, problems: list[str]) -> str:
    memory = model.memory
    parts = ", ".join(f"{part} {count:,}" for part, count in model.parameters.items() if count)
    size = f"{config.training.batch_size:,} {'pieces' if config.training.batch_type == 'tokens' else 'sentences'}"
    held = ", ".join(f"{part} {_bytes(count)}" for part, count in asdict(memory).items() if count)
    counted_in = f"pieces of {pieces.origin}" if pieces.tokenizers is not None else "words: there is no tokenizer yet"
    lines = [
        f"name        {config.name}",
        f"model_dir   {config.model_dir}",
        f"parameters  {sum(model.parameters.values()):,}: {parts}",
        f"memory      about {_bytes(memory.total)} in training, and what PyTorch itself takes: {held}",
        f"            (activations of {size} in float32 where pairs have up to {model.longest:,} pieces)",
        f"lengths     in {counted_in}",
    ]
    for report in reports:
        lines += ["", *_corpus_lines(report, in_pieces=pieces.tokenizers is not None)]
    num_warnings = sum(finding.count > 0 for report in reports for finding in report.findings.values())
    warnings = f"{num_warnings} {'kind' if num_warnings == 1 else 'kinds'} of suspicious lines"
    verdict = _verdict(problems, reports)
    return "\n".join([*lines, "", f"{verdict}; {warnings}" if num_warnings else verdict])


def _verdict(problems: list[str], reports: list[CorpusReport]) -> str:
    of_tests = {problem for report in reports if report.name.startswith("test ") for problem in report.problems}
    if not problems:
        return "training can begin"
    if of_tests.issuperset(problems):
        return f"training can begin; nmt evaluate would refuse: {counted(len(problems), 'problem')}"
    return f"training would refuse: {counted(len(problems), 'problem')}"


def _corpus_lines(report: CorpusReport, *, in_pieces: bool) -> list[str]:
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
        if OF_ONE_KIND.get(name, report.is_training) != report.is_training or (name in IF_ANY and not finding.count):
            continue
        examples = ", ".join(finding.examples) + (" ..." if finding.count > len(finding.examples) else "")
        lines.append(f"  {LABELS[name]:<32}{finding.count:>12,}  {examples}".rstrip())
    return lines


def _share(count: int, side: SideReport) -> str:
    return f"{100 * count / max(1, side.num_units):.2f} %"


def _bytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{max(1, round(count / 1e6))} MB"


def _as_values(
    config: Config, pieces: _Pieces, reports: list[CorpusReport], model: _Model, problems: list[str]
) -> dict[str, Any]:
    return {
        "name": config.name,
        "model_dir": config.model_dir,
        "parameters": {"total": sum(model.parameters.values()), **model.parameters},
        "memory_bytes": {"total": model.memory.total, **asdict(model.memory)},
        "unit": "words" if pieces.tokenizers is None else "pieces",
        "corpora": [_corpus_values(report) for report in reports],
        "problems": problems,
    }


def _corpus_values(report: CorpusReport) -> dict[str, Any]:
    values = asdict(report)
    source, target = values.pop("sides")
    return {**values, "source": {"path": report.source, **source}, "target": {"path": report.target, **target}}
