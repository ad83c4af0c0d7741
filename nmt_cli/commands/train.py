"""`nmt train`."""

from __future__ import annotations

from typing import Annotated

import typer

from nmt_cli.commands.options import ConfigFile, Overrides


def train(
    config: ConfigFile,
    set_: Overrides = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Check the configuration and its files, and print the configuration with all defaults. Train nothing.",
        ),
    ] = False,
) -> None:
    """Train a model, and its tokenizer if there is none. To go on after a stop, give the same command again.

    Example: nmt train --config configs/multi30k_en_de.yaml
    """
    from nmt_cli.assembly.training_run import train_model

    train_model(config, set_ or (), dry_run=dry_run)
