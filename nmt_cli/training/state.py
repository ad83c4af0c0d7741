"""The state of a training except its tensors, as a value that is stored as JSON and read back unchanged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from nmt_cli.data.sampler import Cursor, SampledBatch
from nmt_cli.ops import native
from nmt_cli.system.errors import ModelError
from nmt_cli.training.checkpoints import metric_sign

ADDED_FIELDS = (
    "pool", "rewinds", "path", "text", "accumulate", "validated_step", "num_threads", "configuration",
)  # fmt: skip
"""Fields that states saved by earlier versions may lack; they get their default values."""
REMOVED_FIELDS = ("graphs_failed", "best_step")
"""Fields that only states saved by earlier versions have; they are ignored."""


@dataclass(frozen=True, slots=True)
class TrainingState:
    """The state of a training after `step` updates."""

    step: int = 0
    epoch: int = 0
    """`epoch`, `pool` and `batch` are the position of the next batch (`data.sampler.Cursor`)."""
    pool: int = 0
    batch: int = 0
    epochs_done: float = 0.0
    best_value: float | None = None
    """Best value of the early-stopping metric so far."""
    stalled: int = 0
    """Number of validations since the one with the best value; `patience` counts them."""
    rate_factor: float = 1.0
    """Factor on the learning rate, from the plateau schedule and from rewinds."""
    plateau_stalled: int = 0
    skipped_in_a_row: int = 0
    logged_nll: float = 0.0
    """`logged_nll` (nats), `logged_tokens` and `logged_padded` are sums since the last line of the log, so that a
    resumed run logs the same values as an uninterrupted one."""
    logged_tokens: int = 0
    logged_padded: int = 0
    target_tokens: int = 0
    """Target pieces of all updates so far, with </s>."""
    seconds: float = 0.0
    """Seconds of training so far, including those before the last resumption."""
    precision: str = "fp32"
    """The precision with which the run began and continues, `fp32` or `bf16`."""
    path: str = native.PLAIN
    """The implementation with which the run began and continues: compiled kernels (`native.NATIVE`) or plain formulas
    (`native.PLAIN`)."""
    rewinds: int = 0
    """Number of rewinds: the training diverged and went back to a checkpoint."""
    text: str = ""
    """Digests of the content of all files on which the training depends, separated by spaces."""
    accumulate: int = 0
    """Number of micro-batches of an update: as configured, or more after memory ran out; 0 where an earlier version did
    not keep it."""
    validated_step: int = 0
    """The update of the last validation that `after_validation` has counted."""
    num_threads: int = 0
    """Threads of a process, which decide how sums are rounded; 0 where an earlier version did not keep them."""
    configuration: str = ""
    """JSON of the configuration values that may not change during the run; empty in states of earlier versions."""

    @classmethod
    def first(
        cls, parameter: Tensor, *, bf16: bool, text: str, accumulate: int, configuration: str = ""
    ) -> TrainingState:
        """Return the state of a new training; kernels are used if they support the type and device of `parameter`."""
        path = native.NATIVE if native.has_kernels_for(parameter) else native.PLAIN
        precision, threads = "bf16" if bf16 else "fp32", torch.get_num_threads()
        return cls(
            precision=precision, path=path, text=text, accumulate=accumulate, num_threads=threads,
            configuration=configuration,
        )  # fmt: skip

    @property
    def cursor(self) -> Cursor:
        return Cursor(self.epoch, self.pool, self.batch)

    def after_update(
        self, sampled: SampledBatch, nll: float, num_tokens: int, num_padded: int, *, is_finite: bool
    ) -> TrainingState:
        """Return the state after an update with the batch `sampled`; an update that was not finite was skipped.

        `nll` is the sum over the `num_tokens` target pieces of all processes, in nats.
        """
        return replace(
            self,
            step=self.step + 1,
            epoch=sampled.next.epoch,
            pool=sampled.next.pool,
            batch=sampled.next.batch,
            epochs_done=sampled.progress,
            skipped_in_a_row=0 if is_finite else self.skipped_in_a_row + 1,
            target_tokens=self.target_tokens + num_tokens,
            logged_nll=self.logged_nll + (nll if is_finite else 0.0),
            logged_tokens=self.logged_tokens + (num_tokens if is_finite else 0),
            logged_padded=self.logged_padded + (num_padded if is_finite else 0),
        )

    def after_validation(
        self, metric: str, value: float, *, plateau_factor: float, plateau_patience: int
    ) -> TrainingState:
        """Return the state after a validation with this `value` of the early-stopping metric.

        After `plateau_patience` validations without a better one, the learning rate is multiplied by `plateau_factor`.
        """
        state = replace(self, validated_step=self.step)
        if self.best_value is None or metric_sign(metric) * value > metric_sign(metric) * self.best_value:
            return replace(state, best_value=value, stalled=0, plateau_stalled=0)
        state = replace(state, stalled=self.stalled + 1, plateau_stalled=self.plateau_stalled + 1)
        if state.plateau_stalled >= plateau_patience:
            state = replace(state, plateau_stalled=0, rate_factor=state.rate_factor * plateau_factor)
        return state

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any], place: str) -> TrainingState:
        """Return the state that `to_json` wrote.

        Raises:
            ModelError: the values do not describe a training; the message names `place`.
        """
        defaults = asdict(cls())
        values = {key: value for key, value in values.items() if key not in REMOVED_FIELDS}
        if not set(defaults) - set(ADDED_FIELDS) <= set(values) <= set(defaults):
            raise ModelError(f"{place}: is damaged: it is not the state of a training")
        values = {key: defaults[key] for key in ADDED_FIELDS} | dict(values)
        for key, default in defaults.items():
            if not _has_type_of(values[key], default):
                raise ModelError(f"{place}: is damaged: {key} is {json.dumps(values[key])}")
        return cls(**values)


def _has_type_of(value: Any, default: Any) -> bool:
    """Return True if `value` has the type of a field with this default; for the default None, it is a number or None.

    Whole numbers must be in [0, 2**63).
    """
    if isinstance(default, (str, bool)):
        return isinstance(value, type(default))
    if default is None and value is None:
        return True
    if isinstance(value, bool) or not isinstance(value, int if isinstance(default, int) else (int, float)):
        return False
    return not isinstance(default, int) or 0 <= value < 2**63


@dataclass(frozen=True, slots=True)
class StoppingCriteria:
    """The criteria that end a training as soon as one of them is met; None is no limit."""

    max_steps: int | None
    """Number of updates after which training ends."""
    max_epochs: int | None
    patience: int | None
    """Validations in a row without a better value of the early-stopping metric after which training ends."""

    def progress(self, state: TrainingState) -> float:
        """Return the fraction of the training that is done, in [0, 1], by updates or by epochs, whichever is more."""
        by_step = state.step / self.max_steps if self.max_steps else 0.0
        by_epoch = state.epochs_done / self.max_epochs if self.max_epochs else 0.0
        return min(1.0, max(by_step, by_epoch))

    def stop_reason(self, state: TrainingState) -> str | None:
        """Return the reason why training ends at this state, or None if it continues."""
        if self.max_steps is not None and state.step >= self.max_steps:
            return f"max_steps {self.max_steps} reached"
        if self.max_epochs is not None and state.epoch >= self.max_epochs:
            return f"max_epochs {self.max_epochs} reached"
        if self.patience is not None and state.stalled >= self.patience:
            return f"patience {self.patience} reached without a better score"
        return None


@dataclass(frozen=True, slots=True)
class Intervals:
    """Intervals of logging, validation and checkpoints, in updates, and the number of checkpoints to keep."""

    validation_freq: int | None
    """Updates between validations; None without a dev set."""
    checkpoint_freq: int
    logging_freq: int
    keep_best: int
    keep_last: int
    early_stopping_metric: str
    plateau_factor: float
    plateau_patience: int

    def is_logged(self, step: int) -> bool:
        """Return True if a run without interruptions writes a line of the log after this update.

        The last update of a run is logged too, which the caller takes care of."""
        return step % self.logging_freq == 0

    def is_validated(self, step: int) -> bool:
        """Return True if a run without interruptions validates after this update, unless the update was skipped."""
        return self.validation_freq is not None and step % self.validation_freq == 0

    def is_checkpoint_due(self, step: int) -> bool:
        """Return True if a run without interruptions saves a checkpoint after this update, unless it was skipped.

        Other checkpoints come from a signal, or from an end whose limit was raised afterwards."""
        return self.is_validated(step) or step % self.checkpoint_freq == 0
