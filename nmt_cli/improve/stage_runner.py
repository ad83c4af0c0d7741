"""Running of the stages, one after the other, each in a process of its own."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nmt_cli.config.loader import dump_config
from nmt_cli.improve.child import CommandProcess
from nmt_cli.improve.estimate import Speed, format_duration
from nmt_cli.improve.record import StageRecords, count_lines
from nmt_cli.improve.result import dev_bleu
from nmt_cli.improve.stages import Stage
from nmt_cli.system.console import is_quiet, log, warn
from nmt_cli.system.errors import AlreadyReported, InputError, Interrupted, NmtError
from nmt_cli.system.files import atomic_path, make_directory

MIN_TEACHER_BLEU = 1.0
"""Dev BLEU below which a model is not worth learning from."""


def run_stages(
    plan_stages: Callable[[Mapping[Path, int]], list[Stage]],
    records: StageRecords,
    speed: Speed,
    *,
    workers: int | None = None,
) -> None:
    """Run the stages that have not finished, in order.

    Args:
        plan_stages: returns all stages, given the number of lines of each text that stages have made so far.
        records: the records of stages.
        speed: the speed of this machine; it is corrected after each stage.
        workers: processes that translate; None for one for each core. Their number changes no translation, so it is not
            part of a stage's recorded command.

    Raises:
        InputError: an input or output of a finished stage has changed.
        NmtError: a stage failed, or a signal ended it.
    """
    stages = plan_stages({})
    done = [records.is_done(stage) for stage in stages]
    if any(done):
        log(f"{sum(done)} of {len(stages)} stages have finished before")
    line_counts: dict[Path, int] = {}
    for number, is_done in enumerate(done):
        stages = plan_stages(line_counts)
        stage = stages[number]
        if is_done:
            speed.learn(stage, records.seconds(stage))
            line_counts |= records.output_line_counts(stage)
            continue
        seconds_left = speed.seconds_left(stages[number:])
        log(f"stage {number + 1} of {len(stages)}, {stage.purpose}: about {format_duration(speed.seconds(stage))}; "
            f"all that is left: about {format_duration(seconds_left)}")  # fmt: skip
        log(f"  {stage.command}")
        _prepare(stage)
        began = time.monotonic()
        received = _run(stage, workers)
        _refuse_empty_output(stage)
        _warn_of_poor_teacher(stage, stages[number + 1 :])
        records.write_record(stage, time.monotonic() - began)
        speed.learn(stage, time.monotonic() - began)
        line_counts |= records.output_line_counts(stage)
        if received:
            raise _interruption(received)


def _refuse_empty_output(stage: Stage) -> None:
    """Refuse to continue if a cleaning has left no line; the message names the file with the reasons."""
    if stage.work.kind == "clean" and stage.work.lines and not count_lines(stage.outputs[0]):
        raise InputError(
            f"stage {stage.name}: no line of {stage.arguments[1]} is left; {stage.outputs[-1]} says why. Change "
            "the text, and choose another -o"
        )


def _warn_of_poor_teacher(stage: Stage, later: Sequence[Stage]) -> None:
    """Warn if a stage has trained a poor model whose translations later stages learn from."""
    if stage.config is not None and any(stage.outputs[0] in after.inputs for after in later):
        warn_of_poor_teacher(f"stage {stage.name}", dev_bleu(stage.outputs[0]))


def warn_of_poor_teacher(place: str, bleu: float | None) -> None:
    """Warn if a model has less than MIN_TEACHER_BLEU on its dev set; `place` begins the warning."""
    if bleu is not None and bleu < MIN_TEACHER_BLEU:
        warn(
            f"{place}: this model has {bleu:.2f} BLEU on the dev set, so its translations teach next "
            "to nothing, and a model that learns from them may be worse than one without them. Add pairs or "
            "train longer (training.max_epochs, training.patience), and give another -o"
        )


def _prepare(stage: Stage) -> None:
    """Make the directory of a stage. For a training, write its configuration; otherwise remove old outputs, which a
    killed attempt may have left."""
    make_directory(stage.directory)
    if stage.config is not None:
        with atomic_path(stage.config_path) as temporary:
            temporary.write_text(dump_config(stage.config), encoding="utf-8")
        return
    for path in stage.outputs:
        path.unlink(missing_ok=True)


def _run(stage: Stage, workers: int | None) -> int:
    """Run the command of a stage; return the number of a signal that came but did not end it, or 0."""
    is_limited = workers is not None and stage.work.kind == "translate"
    limited = ("--workers", str(workers)) if is_limited else ()
    child = CommandProcess((*stage.arguments, *limited, *(("--quiet",) if is_quiet() else ())))
    code = child.run()
    if code == 0:
        return child.received
    if child.received:
        raise _interruption(child.received)
    if code < 0:
        name = signal.Signals(-code).name
        raise NmtError(
            f"stage {stage.name} was killed by {name}"
            + (", often because memory ran out" if code == -9 else "")
            + ". Run the same command again to resume"
        )
    raise AlreadyReported(
        code, f"stage {stage.name} failed; its message is above. Fix that, and run the same command again to resume"
    )


def _interruption(number: int) -> Interrupted:
    return Interrupted("stopped; run the same command again to resume", number)
