"""`nmt average`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from nmt_cli.commands.options import ModelDir
from nmt_cli.experiment import Experiment
from nmt_cli.system.console import command_line, log, warn
from nmt_cli.system.errors import InputError, ModelError
from nmt_cli.training.checkpoints import Snapshot, mean_of, read_meta

if TYPE_CHECKING:
    from torch import Tensor


def average(
    model: ModelDir,
    last: Annotated[
        int | None, typer.Option("--last", min=1, help="Average the newest N checkpoints.", metavar="N")
    ] = None,
    best: Annotated[
        int | None, typer.Option("--best", min=1, help="Average the N best checkpoints.", metavar="N")
    ] = None,
    name: Annotated[str, typer.Option("--name", help="Name of the new checkpoint.", metavar="NAME")] = "average",
) -> None:
    """Average checkpoints into a new one.

    Without an option, the mean is over all of the newest checkpoints that are kept. training.keep_last and keep_best
    set how many that are.

    Example: nmt average --model runs/demo --last 1 --name mean
    """
    from nmt_cli.assembly.averaging import steps_to_average

    if last is not None and best is not None:
        raise InputError("give --last N or --best N, not both")
    experiment = Experiment(model)
    experiment.config  # noqa: B018 (says what is wrong with the directory)
    checkpoints = experiment.checkpoints

    def read() -> tuple[list[int], dict[str, Tensor]]:
        steps = steps_to_average(model, checkpoints.index(), last, best)
        checkpoints.check_name(name)
        paths = [checkpoints.path_of(step) for step in steps]
        try:
            for path in paths:
                read_meta(path, experiment.fingerprints)
            return steps, mean_of(paths)
        except ModelError as error:
            raise ModelError(f"{error}; --last N and --best N choose which are averaged") from error

    steps, mean = experiment.checkpoints.retried(read)
    if len(steps) == 1 and (last, best) == (None, None):
        warn(
            f"only one checkpoint is kept as the newest, so the mean is a copy of step {steps[0]}; --last N averages "
            "more of those that there are, and training.keep_last says how many are kept"
        )
    snapshot = Snapshot(step=max(steps), model=mean, trainer={}, progress={})
    written = checkpoints.save_named(name, snapshot, experiment.fingerprints)
    log(f"mean of steps {', '.join(str(step) for step in steps)} -> {written}")
    log(f"try: {command_line('nmt', 'translate', 'FILE', '--model', model, '--checkpoint', name)}")
