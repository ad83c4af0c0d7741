"""The training loop: updates, validations, checkpoints, and stopping at any of them without losing anything."""

from __future__ import annotations

import math
import signal
import time
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import NoReturn

import torch

from nmt_cli.ops import native
from nmt_cli.system.console import Progress, log, warn
from nmt_cli.system.distributed import World
from nmt_cli.system.errors import Interrupted, PredictionError
from nmt_cli.system.signals import SignalDeferrer
from nmt_cli.training.checkpoints import metric_sign
from nmt_cli.training.contention import ContentionMonitor
from nmt_cli.training.finite_loss import FiniteLossCheck
from nmt_cli.training.metrics_log import MetricsLog
from nmt_cli.training.optim import Schedule
from nmt_cli.training.recovery import MAX_SKIPPED_IN_A_ROW, Recovery
from nmt_cli.training.state import Intervals, StoppingCriteria, TrainingState
from nmt_cli.training.update import BatchLoader, GradientAccumulator
from nmt_cli.training.validation import DirectionsValidator, Validator
from nmt_cli.training.weights import Weights


@dataclass(slots=True)
class _Meter:
    """Target pieces and seconds since the last log line, resumption or rewind, and measurements of the last update."""

    num_tokens: int = 0
    seconds: float = 0.0
    grad_norm: float = 0.0
    """Norm of the gradient of the last update, before clipping."""
    loss: float = math.nan
    """Negative log-likelihood of the last update, in nats per target piece."""

    @property
    def speed(self) -> float:
        """Target pieces a second, padding not counted."""
        return self.num_tokens / max(self.seconds, 1e-9)

    def progress_text(self, state: TrainingState) -> str:
        """Return the text next to the progress bar: nats per piece since the last log line, and pieces a second."""
        loss = state.logged_nll / state.logged_tokens if state.logged_tokens else math.nan
        return f"loss {loss:.3f}, {self.speed:,.0f} pieces/s"

    def log(self, state: TrainingState, seconds_left: float, rate: float, metrics: MetricsLog) -> None:
        """Log the updates since the last line, with the time that is left and the learning rate."""
        if not state.logged_tokens:
            return
        loss = state.logged_nll / state.logged_tokens
        log(
            f"update {state.step:,}  epoch {state.epochs_done:.2f}  loss {loss:.3f}  "
            f"perplexity {math.exp(min(loss, 700.0)):.2f}  gradient {self.grad_norm:.2f}  learning rate {rate:.2e}  "
            f"{self.speed:,.0f} pieces/s  {_format_duration(seconds_left)} left"
        )
        metrics.write(
            "train", state.step, loss=loss, epoch=state.epochs_done, learning_rate=rate, grad_norm=self.grad_norm,
            tokens_per_second=self.speed, padding=1.0 - state.logged_tokens / state.logged_padded,
            seconds=state.seconds,
        )  # fmt: skip


class Phase(Enum):
    """The phases of a training: UPDATING until a limit is reached, then ENDING, then FINISHED.

    UPDATING and ENDING may lead to DIVERGED, which goes back to a checkpoint and there to UPDATING or ENDING.
    """

    UPDATING = auto()
    ENDING = auto()
    """A limit is reached; the last update is not yet validated and saved."""
    DIVERGED = auto()
    """Too many updates in a row were not finite, or the loss at the end is not."""
    FINISHED = auto()


class Trainer:
    """Trains one model to the end, from its last checkpoint on."""

    def __init__(
        self,
        weights: Weights,
        loader: BatchLoader,
        accumulator: GradientAccumulator,
        recovery: Recovery,
        *,
        schedule: Schedule,
        clip_grad_norm: float | None,
        stopping: StoppingCriteria,
        intervals: Intervals,
        validator: Validator | DirectionsValidator | None,
        metrics: MetricsLog,
        world: World,
    ) -> None:
        self.loader, self.accumulator, self._weights, self._recovery = loader, accumulator, weights, recovery
        self._schedule, self._clip_grad_norm = schedule, clip_grad_norm
        self._stopping, self._intervals = stopping, intervals
        self._validator, self._metrics, self._world = validator, metrics, world
        self._finite_loss_check = FiniteLossCheck(weights, world)
        self._meter = _Meter()
        self._contention: ContentionMonitor | None = None
        self._signals = SignalDeferrer()
        self._is_stopping = False
        """True once any process has received a signal."""
        self.state = recovery.first
        self._start_state = self.state
        """The state at which this process began, or to which it last went back."""
        self._start_time, self._seconds_before = time.monotonic(), 0.0

    def restore(self) -> None:
        """Restore weights and state from the last checkpoint, if there is one; raises `ModelError` as
        `Recovery.restore` does."""
        self.state = self._recovery.restore()

    # The loop -----------------------------------------------------------------------------------------------------

    def run(self, contention: ContentionMonitor | None = None, deadline: float = math.inf) -> str:
        """Train to the end and return the reason why training ended; pass it to `finish` to record it.

        `contention` records the speed of each update. The `deadline` is a time of `time.monotonic`, in seconds.

        Raises:
            Interrupted: a signal or the deadline came; a checkpoint of the last update was written, if its loss is
                finite.
            DivergenceError: ten updates in a row were not finite, or the loss is not finite at the end, and the run
                does not rewind, has no checkpoint, or was rewound too often.
        """
        total, self._signals.deadline = self._expected_steps(), deadline
        self._start_time, self._start_state, self._contention = time.monotonic(), self.state, contention
        self._seconds_before = self.state.seconds
        self._recovery.resume_from(self.state)
        with (
            native.path(self.state.path),
            self._signals.listening(),
            Progress("training", total=total, initial=self.state.step, unit="update") as bar,
        ):
            self._run_missed_validation()
            phase = self._begin()
            while phase is not Phase.FINISHED:
                match phase:
                    case Phase.UPDATING:
                        phase = self._update(bar)
                    case Phase.ENDING:
                        phase = self._end()
                    case Phase.DIVERGED:
                        phase = self._rewind(bar)
            reason = self._stopping.stop_reason(self.state)
            assert reason is not None
            (num_signals,) = self._world.all_sum(bool(self._signals.received))
            if num_signals:
                raise self._interruption_error(
                    f"interrupted after the last update ({self.state.step}, {reason}); it is saved"
                )
        return reason

    def finish(self, reason: str) -> None:
        """Record why the training has ended; call it when all files made from its weights exist too."""
        self._recovery.finish(reason)

    # The phases ---------------------------------------------------------------------------------------------------

    def _begin(self) -> Phase:
        """Start drawing batches at the position of the state, and return the first phase: ENDING if a limit
        is reached already."""
        self.loader.begin(self.state)
        return Phase.UPDATING if self._stopping.stop_reason(self.state) is None else Phase.ENDING

    def _update(self, bar: Progress) -> Phase:
        """Do one update, then log, validate and save as due; return the next phase."""
        self._step()
        self.state = replace(self.state, seconds=self._seconds())
        bar.advance(note=self._meter.progress_text(self.state))
        if self._has_diverged():
            return Phase.DIVERGED
        self._after_step()
        return Phase.UPDATING if self._stopping.stop_reason(self.state) is None else Phase.ENDING

    def _end(self) -> Phase:
        """Validate and save the last update unless that was done; return FINISHED, or DIVERGED if its loss is not
        finite."""
        step = self.state.step
        # Not counted for patience or plateau: with its limit raised, a run goes on as if it had not ended here.
        needs_validation = self._validator is not None and not self._recovery.is_validated_at(step)
        if self._finite_loss_check.has_failed:
            return Phase.DIVERGED
        try:
            values = self._validate("at the end") if needs_validation else {}
        except PredictionError:
            return Phase.DIVERGED
        if values is None:
            self._interrupt()
        if values or not self._recovery.is_saved(step):
            self._save(values)
        return Phase.FINISHED

    def _rewind(self, bar: Progress) -> Phase:
        """Restore weights and state from a checkpoint, with a lower learning rate, and return the next phase."""
        self._meter, step = _Meter(), self.state.step
        self.state = self._recovery.rewind(self.state)
        self._start_state = replace(self.state, seconds=self._seconds())
        bar.advance(self.state.step - step)
        return self._begin()

    def _seconds(self) -> float:
        """Return the seconds of training so far, including those before the last resumption."""
        return self._seconds_before + time.monotonic() - self._start_time

    # An update ----------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        """Do one update: forward and backward passes of all micro-batches, then one step of the optimizer."""
        began, step, local = time.monotonic(), self.state.step + 1, next(self.loader)
        num_tokens, num_padded = (int(number) for number in self._world.all_sum(local.num_tokens, local.num_padded))
        self._finite_loss_check.reset(local.batch)
        nll_sum, self.state = self.accumulator.gradients(local, num_tokens, self.state)
        norm_before_clipping = self._weights.clip(self._clip_grad_norm)
        self.loader.prefetch()
        # The only place of an update where the host waits for the device.
        own_nll, norm = torch.stack([nll_sum, norm_before_clipping.double()]).tolist()
        nll, num_signals = self._world.all_sum(own_nll, bool(self._signals.received))
        if num_signals and not self._is_stopping:
            self._is_stopping = True
            time_is_up = "the minutes of training.max_minutes are over; " if self._signals.is_past_deadline else ""
            log(f"{time_is_up}stopping after this update, with a checkpoint")
        is_finite = math.isfinite(nll) and math.isfinite(norm)
        if is_finite:
            rate = self._schedule.rate(step, self._stopping.progress(self.state)) * self.state.rate_factor
            self._weights.optimizer_step(step, rate)
        else:
            warn(f"update {step}: the loss ({nll / num_tokens:g}) or its gradient ({norm:g}) is not finite; skipped")
        self.state = self.state.after_update(local.sampled, nll, num_tokens, num_padded, is_finite=is_finite)
        self._meter.num_tokens += num_tokens
        self._meter.grad_norm, self._meter.loss = norm, nll / num_tokens
        seconds = time.monotonic() - began
        self._meter.seconds += seconds
        if self._contention is not None:
            self._contention.record(num_tokens, seconds)

    def _after_step(self) -> None:
        """Log, validate and save if it is due after this update, and stop after a signal."""
        step = self.state.step
        is_logged = self._intervals.is_logged(step)
        # The last updates before max_steps or max_epochs are logged too. A run whose limit is raised continues without
        # this line, as if it had not ended.
        if is_logged or self._stopping.stop_reason(self.state) is not None:
            self._meter.log(self.state, self._seconds_left(), self._weights.rate, self._metrics)
        if is_logged:
            self._meter = _Meter(loss=self._meter.loss)
            self.state = replace(self.state, logged_nll=0.0, logged_tokens=0, logged_padded=0)
        # Right after a skipped update nothing is validated or saved: a rewind could not use that checkpoint.
        was_applied = not self.state.skipped_in_a_row
        if (
            was_applied
            and self._intervals.is_validated(step)
            and not self._is_stopping
            and self._finite_loss_check(step)
        ):
            self._validate_and_save()
        if self._stopping.stop_reason(self.state) is not None:
            return  # the end validates and saves
        is_checkpoint_due = was_applied and step % self._intervals.checkpoint_freq == 0
        if is_checkpoint_due and not self._recovery.is_saved(step) and self._finite_loss_check(step):
            self._save({})
        if self._is_stopping:
            self._interrupt()

    def _seconds_left(self) -> float:
        """Return the estimated seconds to the end; infinity before this process has made progress.

        Only the speed of this process counts, because another machine may have begun the run.
        """
        progress, before = self._stopping.progress(self.state), self._stopping.progress(self._start_state)
        seconds = self.state.seconds - self._start_state.seconds
        return seconds * (1.0 - progress) / (progress - before) if progress > before else math.inf

    def _has_diverged(self) -> bool:
        """Return True if too many updates were skipped, or training would end with a loss that is not finite."""
        if self.state.skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
            return True
        return self._stopping.stop_reason(self.state) is not None and not self._finite_loss_check(self.state.step)

    # The end ------------------------------------------------------------------------------------------------------

    def _interrupt(self) -> NoReturn:
        """Save this step without a validation, if it is not saved and its loss is finite; raise `Interrupted`."""
        step = self.state.step
        if not self._recovery.is_saved(step) and self._finite_loss_check(step):
            self._save({})
        raise self._interruption_error(self._recovery.interruption_message(step))

    def _interruption_error(self, message: str) -> Interrupted:
        # A process that ends because another one has received a signal ends as if by SIGTERM.
        return Interrupted(message, self._signals.received or signal.SIGTERM)

    def _expected_steps(self) -> int | None:
        """Return the approximate number of updates to the end, for the progress bar; None if there is no limit."""
        by_epoch = self._stopping.max_epochs and round(self._stopping.max_epochs * self.loader.batches_per_epoch())
        return min((steps for steps in (self._stopping.max_steps, by_epoch) if steps), default=None)

    # Validation and saving ----------------------------------------------------------------------------------------

    def _run_missed_validation(self) -> None:
        """Do the validation of the last update if a signal has cut it short."""
        is_missing = self._recovery.lacks_validation(self.state.step)
        if self._intervals.is_validated(self.state.step) and is_missing and not self.state.skipped_in_a_row:
            self._validate_and_save()

    def _validate_and_save(self) -> None:
        metric = self._intervals.early_stopping_metric
        best = self._recovery.best_except(self.state.step)
        try:
            values = self._validate(f"best so far {best[0].value:.2f}" if best else "the first")
        except PredictionError:
            return
        if values is None:
            self._interrupt()
        self.state = self.state.after_validation(
            metric, values[metric], plateau_factor=self._intervals.plateau_factor,
            plateau_patience=self._intervals.plateau_patience,
        )  # fmt: skip
        if not best or metric_sign(metric) * values[metric] > metric_sign(metric) * best[0].value:
            log("new best")
        elif self.state.stalled:
            log(f"no better in {self.state.stalled} validations")
        else:  # better than the last validation, but not than one at an end that was moved; patience does not count it
            log(f"not better than the best, at update {best[0].step:,}")
        self._save(values)

    def _validate(self, note: str) -> dict[str, float] | None:
        """Return the scores on the dev set, or None if a signal to any process has come before the end.

        Raises:
            PredictionError: the loss on the dev set is not finite.
        """
        assert self._validator is not None
        if self._is_stopping:
            return None
        began, step = time.monotonic(), self.state.step
        with self._weights.use_average():
            try:
                values = self._validator(self._weights.model, self._signals)
            except PredictionError:
                self._finite_loss_check.record_failure()
                warn(f"validation at update {step:,}: the loss is not finite; these weights are not kept")
                raise
        if values is None:
            self._is_stopping = True
            log("stopping during the validation. It is done again when the training resumes")
            return None
        of_directions = [name for name in values if name.startswith("bleu_")]
        shown = [name for name in values if "_" not in name] + of_directions
        described = "  ".join(f"{name.replace('_', ' ')} {values[name]:.2f}" for name in shown)
        log(f"validation at update {step:,}: {described}  ({note}; {time.monotonic() - began:.1f} s)")
        record = {**values, "seconds": time.monotonic() - began}
        if self._recovery.is_saved(step):
            self._metrics.write_before("checkpoint", "validation", step, **record)
        else:
            self._metrics.write("validation", step, **record)
        return values

    def _save(self, values: dict[str, float]) -> None:
        self._recovery.save(self.state, self._meter.loss, values)


def _format_duration(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "?"
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
