"""`nmt shortlist`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt_cli.commands.options import (
    Checkpoint,
    Device,
    ModelDir,
    SourceLang,
    SourceText,
    TargetLang,
    TargetText,
    Threads,
    ZeroShot,
    output_file,
)


def shortlist(
    source: SourceText,
    target: TargetText,
    *,
    model: ModelDir = None,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="The file to write, whole or not at all.", metavar="OUT", parser=output_file
        ),
    ],
    likely: Annotated[
        int,
        typer.Option(
            "--likely", min=1, metavar="N",
            help="Number of target pieces that go with a source piece, besides the frequent ones.",
        ),
    ] = 20,
    frequent: Annotated[
        int,
        typer.Option(
            "--frequent", min=1, metavar="N",
            help="Number of the most frequent target pieces, which every sentence may use.",
        ),
    ] = 100,
    device: Device = "auto",
    threads: Threads = None,
    checkpoint: Checkpoint = "best",
    source_lang: SourceLang = None,
    target_lang: TargetLang = None,
    zero_shot: ZeroShot = False,
) -> None:  # fmt: skip
    """Learn which target pieces go with a source piece, for `nmt translate --shortlist`.

    Example: nmt shortlist train.en train.fr --model runs/demo -o runs/demo/shortlist.safetensors
    """
    from nmt_cli.assembly.model_options import ModelOptions
    from nmt_cli.assembly.pair_scorer import learn_shortlist

    models = ModelOptions(
        [model] if model is not None else (),
        checkpoint,
        device,
        threads,
        source_lang=source_lang,
        target_lang=target_lang,
        zero_shot=zero_shot,
    )
    learn_shortlist(source, target, output, models, likely=likely, frequent=frequent)
