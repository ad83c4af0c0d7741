"""`nmt improve`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from nmt_cli.commands.options import ConfigFile, Overrides, Workers


def improve(
    config: ConfigFile,
    set_: Overrides = None,
    target_text: Annotated[
        list[str] | None,
        typer.Option(
            "--target-text", metavar="FILE",
            help="Text in the target language, in place of data.monolingual. May be repeated.",
        ),
    ] = None,
    source_text: Annotated[
        list[str] | None,
        typer.Option("--source-text", metavar="FILE", help="The same in the source language. May be repeated."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR",
            help="The directory of the new model and of all stages. The default is the name of model_dir with "
            "-improved added.",
        ),
    ] = None,
    rounds: Annotated[
        int, typer.Option(
            "--rounds", min=1, max=100, metavar="N",
            help="Translate the text N times, each time with the model of the round before.",
        ),
    ] = 1,
    ensemble: Annotated[
        int, typer.Option("--ensemble", min=1, max=100, metavar="K", help="Train K models with different seeds.")
    ] = 1,
    distil: Annotated[
        bool, typer.Option("--distil", help="At the end, train one model on the translations of the ensemble.")
    ] = False,
    ratio: Annotated[
        float,
        typer.Option(
            "--ratio", min=0.01, max=1_000.0, metavar="R",
            help="Translated lines in each epoch, as a multiple of the pairs; at most all there are.",
        ),
    ] = 2.0,
    beam_size: Annotated[
        int, typer.Option("--beam-size", "-k", min=1, max=1_000, metavar="N", help="Beam size for new training text.")
    ] = 5,
    sample: Annotated[
        bool | None,
        typer.Option(
            "--sample/--best",
            help="Make the new training text by random sampling, or by beam search. The default is --sample from "
            "500,000 pairs on.",
        ),
    ] = None,
    keep_sizes: Annotated[
        bool,
        typer.Option(
            "--keep-sizes",
            help="Keep the sizes of the configuration, instead of enlarging them for the additional text.",
        ),
    ] = False,
    reverse: Annotated[
        Path | None,
        typer.Option(
            "--reverse", metavar="DIR",
            help="A model that translates the target text back in the first round, instead of one that is trained "
            "for it.",
        ),
    ] = None,
    workers: Workers = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print the plan, with the time and disk space it needs, and stop."),
    ] = False,
) -> None:  # fmt: skip
    """Make a better model from pairs and text in one language. To resume, run the same command again.

    The text is named in the configuration (data.monolingual: {target: [FILE], source: [FILE]}) or in the options. The
    stages are ordinary commands, which are printed: clean the text, train the reverse direction, translate the target
    text back, train on both. DIR becomes an ordinary model directory.

    Example: nmt improve --config en_de.yaml --target-text mono.de
    """
    from nmt_cli.assembly.improvement import improve_model
    from nmt_cli.improve.plan import Recipe

    recipe = Recipe(
        rounds, ensemble, distil, ratio, beam_size, sample,
        resizes=not keep_sizes, reverse=None if reverse is None else os.path.realpath(reverse),
    )  # fmt: skip
    texts = {"target": target_text or [], "source": source_text or []}
    named = [f"data.monolingual={json.dumps(texts, ensure_ascii=False)}"] if any(texts.values()) else []
    improve_model(config, [*(set_ or ()), *named], output, recipe, dry_run=dry_run, workers=workers)
