"""`nmt evaluate`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nmt_cli.commands.options import Checkpoint, Device, ModelDirs, Threads
from nmt_cli.console import Progress, log
from nmt_cli.errors import InputError

if TYPE_CHECKING:
    from nmt_cli.config.schema import TextPair
    from nmt_cli.scoring import Score

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

    Example: nmt evaluate --model runs/demo
    """
    from nmt_cli.commands.loading import open_translator
    from nmt_cli.commands.reading import read_parallel
    from nmt_cli.experiment import source_of
    from nmt_cli.files import atomic_path
    from nmt_cli.scoring import score_corpus
    from nmt_cli.translation.translator import Counts

    experiments = source_of(list(model or []))
    config = experiments[0].config
    sets = {test.name: test for test in config.data.test}
    chosen = set_name or list(sets)
    if not sets:
        raise InputError(f"{experiments[0].config_path}: names no test set; data.test lists them")
    if unknown := [name for name in chosen if name not in sets]:
        raise InputError(
            f"{experiments[0].config_path}: no test set {', '.join(unknown)}; there are: {', '.join(sets)}"
        )
    translator = open_translator(
        [experiment.directory for experiment in experiments], checkpoint=checkpoint, device=device, threads=threads
    )
    if tune_length_penalty and config.data.dev is None:
        raise InputError(f"{experiments[0].config_path}: names no dev set, on which the length penalty could be chosen")
    directory = output or experiments[0].reports_path
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{directory}: cannot be made: {str(reason).lower()}") from error
    report: dict[str, Any] = {"models": [str(e.directory) for e in experiments], "checkpoint": checkpoint}

    def translated(name: str, pair: TextPair) -> tuple[list[str], list[Score]]:
        sources, references = read_parallel([pair.source, pair.target])
        hypotheses = []
        translator.counts = Counts()
        with Progress(name, total=len(sources), unit="line") as progress:
            for found in translator.translate(sources):
                hypotheses.append(found.translations[0].text)
                progress.advance()
        scoring = config.scoring
        return hypotheses, score_corpus(
            hypotheses, [references], lowercase=scoring.lowercase, tokenize=scoring.tokenize
        )

    if tune_length_penalty:
        assert config.data.dev is not None
        bleu: dict[float, float] = {}
        for penalty in sorted({*LENGTH_PENALTIES, translator.options.length_penalty}):
            translator.options = replace(translator.options, length_penalty=penalty)
            _, scores = translated(f"length penalty {penalty:g}", config.data.dev)
            bleu[penalty] = scores[0].score
            log(f"length penalty {penalty:g}: dev {scores[0].label} = {scores[0].score:.2f}")
        # Of equal ones that which is nearest to the usual.
        best = max(bleu, key=lambda penalty: (bleu[penalty], -abs(penalty - config.decoding.length_penalty)))
        translator.options = replace(translator.options, length_penalty=best)
        report["length_penalty"] = {
            "chosen": best,
            "dev_bleu": {f"{penalty:g}": score for penalty, score in bleu.items()},
        }
        log(f"length penalty {best:g} is taken; so it is with nmt translate --length-penalty {best:g}")
    report["sets"] = {}
    for name in chosen:
        hypotheses, scores = translated(name, sets[name])
        translator.report()
        with atomic_path(directory / f"{name}.{config.data.target_lang}") as temporary:
            temporary.write_text("".join(f"{line}\n" for line in hypotheses), encoding="utf-8", newline="\n")
        report["sets"][name] = {s.name: {"score": s.score, "signature": s.signature} for s in scores}
        print(f"{name}: " + "  ".join(f"{s.label} = {s.score:.2f}" for s in scores), flush=True)
        for s in scores:
            print(f"  {s.label}  {s.signature}")
    with atomic_path(directory / "report.json") as temporary:
        temporary.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    log(f"translations and report.json -> {directory}")
