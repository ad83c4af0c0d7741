"""The mean of the weights of several checkpoints, as a checkpoint of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nmt_cli.assembly.model_options import named_model
from nmt_cli.experiment import Experiment
from nmt_cli.system.console import command_line, format_count, log, warn
from nmt_cli.system.errors import InputError, ModelError
from nmt_cli.training.checkpoints import Snapshot, average_parameters, read_meta

if TYPE_CHECKING:
    from torch import Tensor

    from nmt_cli.training.checkpoints import Index


def average_checkpoints(model_dir: Path | None, name: str, *, last: int | None = None, best: int | None = None) -> None:
    """Save the mean of the weights of several checkpoints as a new checkpoint called `name`.

    `last` takes that many of the newest checkpoints, and `best` that many of the best by dev score. Without both, all
    checkpoints that training.keep_last kept are averaged.

    Raises:
        InputError: fewer checkpoints are kept than are asked for, or a checkpoint cannot have this name.
        ModelError: a checkpoint is damaged, or is of another model than the others.
    """
    model = named_model(model_dir)
    experiment = Experiment(model)
    experiment.config  # noqa: B018 (says what is wrong with the directory)
    checkpoints = experiment.checkpoints

    def read() -> tuple[list[int], dict[str, Tensor]]:
        steps = _steps_to_average(model, checkpoints.index(), last, best)
        checkpoints.check_name(name)
        paths = [checkpoints.path_of(step) for step in steps]
        try:
            for path in paths:
                read_meta(path, experiment.fingerprints)
            return steps, average_parameters(paths)
        except ModelError as error:
            raise ModelError(f"{error}; --last N and --best N choose which are averaged") from error

    steps, mean = checkpoints.retry_read(read)
    if len(steps) == 1 and (last, best) == (None, None):
        warn(
            f"training.keep_last kept only one checkpoint, so the average is a copy of it (update {steps[0]}). For "
            "more, give --last N or --best N, or train on with a larger training.keep_last"
        )
    snapshot = Snapshot(step=max(steps), model=mean, trainer={}, progress={})
    written = checkpoints.save_named(name, snapshot, experiment.fingerprints)
    log(f"mean of the checkpoints {', '.join(str(step) for step in steps)} -> {written}")
    log(f"try: {command_line('nmt', 'translate', 'FILE', '--model', model, '--checkpoint', name)}")


def _steps_to_average(model: Path, index: Index, last: int | None, best: int | None) -> list[int]:
    """Return the update numbers of the checkpoints to average; `InputError` if fewer are kept than are asked for."""
    # The last need not be among the recent: a run that went on from its best, the others being damaged.
    recent = [step for step in dict.fromkeys([index.last, *index.recent]) if step is not None]
    if best is not None:
        kind, steps, wanted = "best checkpoint", [ranked.step for ranked in index.best], best
    else:
        # The best may be older than all recent ones, and are kept too.
        kind, steps, wanted = "checkpoint", list(dict.fromkeys([*recent, *index.steps])), last or len(recent)
    if not steps and best is not None:
        raise InputError(f"{model}: has no best checkpoint, because no validation has scored one; leave out --best")
    if not steps:
        raise InputError(f"{model}: has no checkpoint yet; train the model first")
    if wanted > len(steps):
        raise InputError(
            f"{model}: has only {format_count(len(steps), kind)}, but {wanted} are to be averaged; "
            f"training.keep_{'last' if best is None else 'best'} says how many are kept"
        )
    return steps[:wanted]
