"""`nmt evaluate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from nmt_cli.commands.options import Checkpoint, Device, ModelDirs, Threads
from nmt_cli.console import Progress, log
from nmt_cli.errors import InputError


def evaluate(
    model: ModelDirs = None,
    set_name: Annotated[
        list[str] | None, typer.Option("--set", help="Only this test set; may be repeated.", metavar="NAME")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Directory of the report; reports/ in the model directory unless told."),
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
    checkpoint: Checkpoint = "best",
) -> None:
    """Translate and score the test sets of the configuration; writes the translations and report.json.

    Example: nmt evaluate --model runs/demo
    """
    from nmt_cli.commands.loading import open_translator
    from nmt_cli.experiment import source_of
    from nmt_cli.files import atomic_path
    from nmt_cli.scoring import score_corpus
    from nmt_cli.training.validation import DevSet

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
    directory = output or experiments[0].reports_path
    directory.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = {"models": [str(e.directory) for e in experiments], "checkpoint": checkpoint, "sets": {}}
    for name in chosen:
        texts = DevSet.read(sets[name].source, sets[name].target)
        hypotheses = []
        with Progress(name, total=len(texts.sources), unit="line") as progress:
            for translated in translator.translate(texts.sources):
                hypotheses.append(translated.translations[0].text)
                progress.advance()
        scores = score_corpus(
            hypotheses, [texts.references], lowercase=config.scoring.lowercase, tokenize=config.scoring.tokenize
        )
        with atomic_path(directory / f"{name}.{config.data.target_lang}") as temporary:
            temporary.write_text("".join(f"{line}\n" for line in hypotheses), encoding="utf-8", newline="\n")
        report["sets"][name] = {s.name: {"score": s.score, "signature": s.signature} for s in scores}
        print(f"{name}: " + "  ".join(f"{s.label} = {s.score:.2f}" for s in scores), flush=True)
        for s in scores:
            print(f"  {s.label}  {s.signature}")
    with atomic_path(directory / "report.json") as temporary:
        temporary.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    log(f"translations and report.json -> {directory}")
