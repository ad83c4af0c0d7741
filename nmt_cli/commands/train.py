"""`nmt train`."""

from __future__ import annotations

from typing import Annotated

import typer

from nmt_cli.commands.options import ConfigFile, Overrides


def train(
    config: ConfigFile,
    set_: Overrides = None,
    epochs: Annotated[
        int | None,
        typer.Option("--epochs", min=1, metavar="N", help="Short for --set training.max_epochs=N."),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            "--minutes",
            metavar="N",
            help="Save a checkpoint and stop N minutes from now; run the same command again to resume. Short for "
            "--set training.max_minutes=N.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Check the configuration and its files, and print the configuration with all defaults. Train nothing.",
        ),
    ] = False,
) -> None:
    """Train a model, and its tokenizer if there is none. To resume, run the same command again.

    Example: nmt train --config configs/multi30k_en_de.yaml
    """
    from nmt_cli.assembly.training_run import train_model

    limits = {"training.max_epochs": epochs, "training.max_minutes": minutes}
    overrides = [*(set_ or ()), *(f"{key}={value}" for key, value in limits.items() if value is not None)]
    train_model(config, overrides, dry_run=dry_run)
