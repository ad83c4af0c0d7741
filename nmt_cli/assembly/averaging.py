"""The mean of the weights of several checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nmt_cli.system.console import counted
from nmt_cli.system.errors import InputError

if TYPE_CHECKING:
    from nmt_cli.training.checkpoints import Index


def steps_to_average(model: Path, index: Index, last: int | None, best: int | None) -> list[int]:
    """Return the steps to average; `InputError` where there are too few."""
    # The last need not be among the recent: a run that went on from its best, the others being damaged.
    recent = [step for step in dict.fromkeys([index.last, *index.recent]) if step is not None]
    if best is not None:
        kind, steps, wanted = "best checkpoint", [ranked.step for ranked in index.best], best
    else:
        # The best may be older than all recent ones, and are kept too.
        kind, steps, wanted = "checkpoint", list(dict.fromkeys([*recent, *index.steps])), last or len(recent)
    if not steps:
        raise InputError(f"{model}: holds no {kind}, so there is nothing to average")
    if wanted > len(steps):
        raise InputError(
            f"{model}: holds only {counted(len(steps), kind)}, but {wanted} are to be averaged; "
            f"training.keep_{'last' if best is None else 'best'} says how many are kept"
        )
    return steps[:wanted]
