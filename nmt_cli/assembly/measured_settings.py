"""The precision and the number of threads of a training: measured when it begins, kept with the run, and logged."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from statistics import median
from typing import TYPE_CHECKING

import torch

from nmt_cli.assembly.resume_checks import binding_values
from nmt_cli.system.console import format_count, log, warn
from nmt_cli.system.distributed import multiplies_bf16
from nmt_cli.system.errors import ModelError
from nmt_cli.system.files import atomic_path
from nmt_cli.system.processors import num_available, usage
from nmt_cli.training.contention import ContentionMonitor
from nmt_cli.training.precision_trial import time_products
from nmt_cli.training.trials import fastest_num_threads, time_alternately
from nmt_cli.training.update import gradient_trial

if TYPE_CHECKING:
    from nmt_cli.config.schema import Config, TrainingConfig
    from nmt_cli.experiment import Experiment
    from nmt_cli.model.seq2seq import Seq2Seq
    from nmt_cli.system.distributed import World
    from nmt_cli.training.trainer import Trainer

THREADS_SECONDS = 2.0
"""Seconds after which the trial that chooses the number of threads makes no further update."""
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables of the environment by which a user sets the number of threads."""


@dataclass(frozen=True)
class MeasuredSettings:
    """The precision and the number of threads that a run has chosen, as in `measured.json`; None if not yet chosen."""

    configuration: str = ""
    """First 16 hexadecimal digits of the SHA-256 of the configuration for which they were chosen."""
    precision: str | None = None
    threads: int | None = None

    @classmethod
    def of(cls, experiment: Experiment, config: Config) -> MeasuredSettings:
        """Return the stored choices of a run, or empty ones if none are stored.

        Before the first checkpoint, choices that were made for another configuration count as none.

        Raises:
            ModelError: the file is damaged.
        """
        first = cls(sha256(json.dumps(binding_values(config), sort_keys=True).encode()).hexdigest()[:16])
        try:
            values = json.loads(experiment.measured_path.read_text(encoding="utf-8"))
            kept = cls(values["configuration"], values["precision"], values["threads"])
            if kept.precision not in (None, "fp32", "bf16") or type(kept.threads) not in (type(None), int):
                raise ValueError
        except FileNotFoundError:
            return first
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ModelError(
                f"{experiment.measured_path}: is damaged; delete it and run the same command again"
            ) from error
        return kept if experiment.has_begun or kept.configuration == first.configuration else first

    def write(self, experiment: Experiment) -> MeasuredSettings:
        """Write this to the run's directory, and return it."""
        with atomic_path(experiment.measured_path) as temporary:
            temporary.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")
        return self


# Precision ----------------------------------------------------------------------------------------------------------


def choose_precision(
    experiment: Experiment, config: Config, model: Seq2Seq, world: World, target_length: float
) -> bool:
    """Return whether a training multiplies in bfloat16. Rank 0 decides for all ranks, and stores a measured choice."""

    def decide() -> bool | None:
        if not world.is_primary:
            return None
        if config.training.precision != "auto" or experiment.has_begun:  # a run goes on as its checkpoint says
            return config.training.precision == "bf16"
        kept = MeasuredSettings.of(experiment, config)
        if kept.precision is None:
            bf16 = is_bf16(config.training, model, world, target_length)
            kept = replace(kept, precision="bf16" if bf16 else "fp32").write(experiment)
        return kept.precision == "bf16"

    bf16, *_ = world.all_gather(world.run_in_all(decide))
    return bool(bf16)


def is_bf16(training: TrainingConfig, model: Seq2Seq, world: World, target_length: float) -> bool:
    """Return whether a new training multiplies in bfloat16; a measurement decides if training.precision is "auto".

    `target_length` is the average number of pieces of a target, with `</s>`. A processor without instructions for
    bfloat16 is not measured: it imitates them, many times as slowly, so the answer is False. A GPU is not measured
    either: the answer is whether it has them.
    """
    if training.precision != "auto":
        return training.precision == "bf16"
    if world.device.type != "cpu" or not multiplies_bf16(world.device):
        return multiplies_bf16(world.device)
    in_tokens = training.batch_type == "tokens"
    num_sentences = training.batch_size / (target_length if in_tokens else 1.0) / (training.accumulate * world.size)
    times = time_products(model, max(1, round(num_sentences)), max(1, round(num_sentences * target_length)))
    log(
        f"training.precision: auto takes {'bf16' if times.is_bf16_faster else 'fp32'}; measured here, bf16 is "
        f"{times.fp32 / times.bf16:.2f} times as fast as fp32"
    )
    return times.is_bf16_faster


def log_precision(setting: str, precision: str, world: World) -> None:
    """Log which precision the run has, if this hardware has no fast bf16.

    `setting` is training.precision (auto, fp32 or bf16), and `precision` is the precision of the run (fp32 or bf16).
    """
    if multiplies_bf16(world.device):
        return
    if precision == "bf16":
        why = "as training.precision says" if setting == "bf16" else "because the run began in it"
        warn(f"training in bf16, {why}. It is slower than fp32 here, because this hardware has no fast bf16")
    elif setting == "auto":
        log("training.precision: auto takes fp32, because this hardware has no fast bf16")


# Threads ------------------------------------------------------------------------------------------------------------


def choose_threads(experiment: Experiment, config: Config, trainer: Trainer, world: World) -> None:
    """Set the number of threads of a training, and warn if a run is resumed with another number.

    The number is measured when the run begins, if it has one process on CPUs and the user has not set the number.
    Several processes share the processors as torchrun or the user says.
    """
    if world.size == 1 and world.device.type == "cpu" and can_choose_threads(config.training):
        kept = MeasuredSettings.of(experiment, config)
        if kept.threads is not None and 0 < kept.threads <= num_available():
            _resume_threads(kept.threads)
        elif not experiment.has_begun:
            work = gradient_trial(trainer.loader, trainer.accumulator, trainer.state)
            replace(kept, threads=set_fastest_threads(work)).write(experiment)
    _warn_of_changed_threads(trainer, config.training.threads)


def can_choose_threads(training: TrainingConfig) -> bool:
    """Return whether neither training.threads nor a variable of the environment sets the number of threads."""
    return training.threads is None and not any(os.environ.get(name) for name in THREAD_VARIABLES)


def set_fastest_threads(work: Callable[[], object]) -> int:
    """Measure the work with one thread and with all, set the faster number of threads, and return it."""

    def with_threads(number: int) -> None:
        torch.set_num_threads(number)
        work()

    most = _most_threads()
    if most == 1:
        torch.set_num_threads(1)
        return 1
    ways = {number: lambda number=number: with_threads(number) for number in (1, most)}
    times = time_alternately(ways, seconds=THREADS_SECONDS)
    chosen = fastest_num_threads(times)
    torch.set_num_threads(chosen)
    log(
        f"measured: an update takes {median(times[1]):.3g} s with 1 thread and {median(times[most]):.3g} s with "
        f"{most}; training has {format_count(chosen, 'thread')} (training.threads sets another number)"
    )
    return chosen


def _most_threads() -> int:
    """Return the number of torch's threads, at most one for each processor that this process may use."""
    return min(torch.get_num_threads(), num_available())


def _resume_threads(threads: int) -> None:
    """Set the number of threads with which the run began."""
    most = _most_threads()
    torch.set_num_threads(threads)
    if threads < most:
        log(
            f"training with {format_count(threads, 'thread')}, the fastest when the run began. --set "
            f"training.threads={most} may be faster now, but the result then differs in the last digits"
        )


def _warn_of_changed_threads(trainer: Trainer, configured: int | None) -> None:
    """Warn if a run is resumed with another number of threads, and record the number in the trainer's state."""
    before, now = trainer.state.num_threads, torch.get_num_threads()
    if before not in (0, now) and trainer.state.step:
        whose = "training.threads" if configured else "the number of threads (training.threads is null)"
        warn(
            f"{whose} was {before} and is {now} now, so the result will differ in the last digits from that of an "
            "unchanged run"
        )
    trainer.state = replace(trainer.state, num_threads=now)


def contention_monitor(world: World) -> ContentionMonitor | None:
    """Return a monitor that notices when other programs slow a training down; None for several processes or a GPU.

    Other processes of the same training would count as other programs, and a GPU does not wait for processors.
    """
    if world.size > 1 or world.device.type != "cpu":
        return None
    return ContentionMonitor(torch.get_num_threads(), num_available(), usage)
