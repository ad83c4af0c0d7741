"""`nmt evaluate`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nmt_cli.commands.options import Checkpoint, Device, ModelDirs, Threads
from nmt_cli.console import Progress, log
from nmt_cli.errors import InputError

if TYPE_CHECKING:
    from nmt_cli.config.schema import Config, TextPair
    from nmt_cli.scoring import Score
    from nmt_cli.translation.translator import Translator

LENGTH_PENALTIES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6)
"""alpha of ((5+n)/6)^alpha that are tried on the dev set."""


def evaluate(
    model: ModelDirs = None,
    set_name: Annotated[
        list[str] | None, typer.Option("--set", help="Only this test set; may be repeated.", metavar="NAME")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Directory of the report; reports/ in the model directory unless told."),
    ] = None,
    tune_length_penalty: Annotated[
        bool, typer.Option("--tune-length-penalty", help="First choose the length penalty on the dev set.")
    ] = False,
    device: Device = "auto",
    threads: Threads = None,
    checkpoint: Checkpoint = "best",
) -> None:
    """Translate and score the test sets of the configuration; writes the translations and report.json.

    A report of the same models keeps what it says of the other sets.

    Example: nmt evaluate --model runs/demo
    """
    from nmt_cli.commands.loading import open_translator
    from nmt_cli.data.output import open_output
    from nmt_cli.experiment import source_of
    from nmt_cli.scoring import check_tokenizer

    experiments = source_of(list(model or []))
    config, config_path = experiments[0].config, experiments[0].config_path
    sets = {test.name: test for test in config.data.test}
    chosen = list(dict.fromkeys(set_name or sets))
    if not sets:
        raise InputError(f"{config_path}: names no test set; data.test lists them")
    if unknown := [name for name in chosen if name not in sets]:
        raise InputError(f"{config_path}: no test set {', '.join(unknown)}; there are: {', '.join(sets)}")
    if tune_length_penalty and config.data.dev is None:
        raise InputError(f"{config_path}: names no dev set, on which the length penalty could be chosen")
    directory = output or experiments[0].reports_path
    written = {name: directory / f"{name}.{config.data.target_lang}" for name in chosen}
    report_path = directory / "report.json"
    _check_texts(
        [sets[name] for name in chosen] + ([config.data.dev] if tune_length_penalty and config.data.dev else [])
    )
    check_tokenizer(config.scoring.tokenize)
    translator = open_translator(
        [experiment.directory for experiment in experiments], checkpoint=checkpoint, device=device, threads=threads
    )
    _make_directory(directory, [*written.values(), report_path])
    report: dict[str, Any] = {
        "models": [str(experiment.directory) for experiment in experiments],
        "checkpoint": checkpoint,
        "checkpoints": [experiment.checkpoints.resolve(checkpoint).name for experiment in experiments],
    }
    if tune_length_penalty:
        assert config.data.dev is not None
        report["length_penalty"] = _tune(translator, config.data.dev, config)
    report["sets"] = _sets_before(report_path, report)
    for name in chosen:
        hypotheses, scores = _translated(translator, name, sets[name], config)
        translator.report()
        with open_output(written[name]) as file:
            file.writelines(f"{line}\n".encode() for line in hypotheses)
        report["sets"][name] = {s.name: {"score": s.score, "signature": s.signature} for s in scores}
        with open_output(report_path) as file:
            file.write((json.dumps(report, indent=2, ensure_ascii=False) + "\n").encode())
        print(f"{name}: " + "  ".join(f"{s.label} = {s.score:.2f}" for s in scores), flush=True)
        for s in scores:
            print(f"  {s.label}  {s.signature}")
    log(f"translations and report.json -> {directory}")


def _check_texts(pairs: Sequence[TextPair]) -> None:
    """`InputError` for what cannot be read or does not belong together, before any of it is translated."""
    from nmt_cli.data.lines import iter_lines, open_input
    from nmt_cli.scoring import check_line_counts

    for pair in pairs:
        counts = []
        for path in (pair.source, pair.target):
            with open_input(path) as stream:
                counts.append((path, sum(1 for _ in iter_lines(stream))))
        check_line_counts(counts)


def _make_directory(directory: Path, files: Sequence[Path]) -> None:
    """Make the directory; `InputError` where the files could not be written to it."""
    from nmt_cli.data.output import check_writable

    try:
        directory.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{directory}: cannot be made: {str(reason).lower()}") from error
    for path in files:
        check_writable(path)


def _translated(translator: Translator, name: str, pair: TextPair, config: Config) -> tuple[list[str], list[Score]]:
    """The translations of a text, and their scores."""
    from nmt_cli.commands.reading import read_parallel
    from nmt_cli.scoring import score_corpus
    from nmt_cli.translation.translator import Counts

    sources, references = read_parallel([pair.source, pair.target])
    hypotheses = []
    translator.counts = Counts()
    with Progress(name, total=len(sources), unit="line") as progress:
        for found in translator.translate(sources):
            hypotheses.append(found.translations[0].text)
            progress.advance()
    scoring = config.scoring
    return hypotheses, score_corpus(hypotheses, [references], lowercase=scoring.lowercase, tokenize=scoring.tokenize)


def _tune(translator: Translator, dev: TextPair, config: Config) -> dict[str, Any]:
    """Give the translator the length penalty that is best on the dev set; what the report says of it."""
    bleu: dict[float, float] = {}
    for penalty in sorted({*LENGTH_PENALTIES, translator.options.length_penalty}):
        translator.options = replace(translator.options, length_penalty=penalty)
        _, scores = _translated(translator, f"length penalty {penalty:g}", dev, config)
        bleu[penalty] = scores[0].score
        log(f"length penalty {penalty:g}: dev {scores[0].label} = {scores[0].score:.2f}")
    # Of equal ones that which is nearest to the usual.
    best = max(bleu, key=lambda penalty: (bleu[penalty], -abs(penalty - config.decoding.length_penalty)))
    translator.options = replace(translator.options, length_penalty=best)
    log(f"length penalty {best:g} is taken; so it is with nmt translate --length-penalty {best:g}")
    return {"chosen": best, "dev_bleu": {f"{penalty:g}": score for penalty, score in bleu.items()}}


def _sets_before(path: Path, report: dict[str, Any]) -> dict[str, Any]:
    """What a report that lies there says of its sets, if it is of the same checkpoints, searched alike."""
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        alike = all(before.get(key) == report.get(key) for key in ("models", "checkpoints", "length_penalty"))
        return dict(before["sets"]) if alike else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}  # none, or one that says nothing
