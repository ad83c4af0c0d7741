"""`nmt train`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt_cli.commands.options import ConfigFile, Overrides
from nmt_cli.experiment import Experiment
from nmt_cli.system.console import warn

if TYPE_CHECKING:
    pass


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
    from nmt_cli.assembly.input_checks import check_counts, check_inputs
    from nmt_cli.assembly.resume_checks import check_resumable, config_to_train
    from nmt_cli.assembly.training_run import run_training
    from nmt_cli.config.idle import idle_keys
    from nmt_cli.config.loader import dump_config
    from nmt_cli.system.distributed import open_world

    with open_world() as world:
        effective = world.agreed(lambda: config_to_train(config, set_ or ()))
        for line in idle_keys(effective):
            warn(line)
        experiment = Experiment(Path(effective.model_dir))
        if dry_run:
            world.agreed(lambda: check_inputs(experiment, effective))
            world.agreed(lambda: check_counts(effective))
            world.agreed(lambda: check_resumable(experiment, effective))
            if world.is_primary:
                print(dump_config(effective), end="")
            return
        run_training(experiment, effective, world)
