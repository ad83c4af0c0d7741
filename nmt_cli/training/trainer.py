"""The training loop: updates, validations, checkpoints, and stopping at any of them without losing anything."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import torch
from torch import Tensor, nn

from nmt_cli.allocator import is_out_of_memory
from nmt_cli.checkpoint import (
    PROGRESS_FILE,
    TRAINER_FILE,
    Checkpoints,
    Index,
    Ranked,
    Snapshot,
    parameters_of,
    read_meta,
    read_progress,
    read_trainer_tensors,
)
from nmt_cli.console import Progress, log, warn
from nmt_cli.data.batch import Batch
from nmt_cli.data.sampler import Drawn, Sampler
from nmt_cli.distributed import World
from nmt_cli.errors import DivergenceError, Interrupted, ModelError, PredictionError
from nmt_cli.model.noise import Noise
from nmt_cli.model.seq2seq import Seq2Seq
from nmt_cli.ops import native
from nmt_cli.signals import Deferred
from nmt_cli.training.captured import CapturedBackward
from nmt_cli.training.loss import LossSum, TranslationLoss
from nmt_cli.training.metrics_log import MetricsLog
from nmt_cli.training.optim import Schedule, WeightAverage, load_optimizer_tensors, optimizer_tensors
from nmt_cli.training.soundness import MAX_SKIPPED_IN_A_ROW, diverged, interrupted, predicts, remedy
from nmt_cli.training.state import HIGHER_IS_BETTER, Limits, TrainingState
from nmt_cli.training.validation import Validator

MAX_REWINDS = 5
REWIND_FACTOR = 0.5
"""Of the learning rate."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """What happens how often, in steps, and what is kept."""

    validation_freq: int
    checkpoint_freq: int
    logging_freq: int
    keep_best: int
    keep_last: int
    early_stopping_metric: str
    plateau_factor: float
    plateau_patience: int


@dataclass(frozen=True, slots=True)
class Update:
    """How a batch becomes an update."""

    loss: TranslationLoss
    schedule: Schedule
    accumulate: int
    clip_grad_norm: float | None
    bf16: bool
    seed: int
    rewinds: bool = False
    """Whether a training that diverges goes back to a checkpoint, or ends."""


@dataclass(slots=True)
class _Meter:
    """How fast it goes, since the last line of the log or the last resumption."""

    num_tokens: int = 0
    seconds: float = 0.0
    grad_norm: float = 0.0
    """Of the last update, before clipping."""

    @property
    def speed(self) -> float:
        """Target tokens a second, padding not counted."""
        return self.num_tokens / max(self.seconds, 1e-9)


class _Objective(nn.Module):
    """The loss of a batch as a module, whose gradients a world of several processes can sum."""

    def __init__(self, model: Seq2Seq, loss: TranslationLoss) -> None:
        super().__init__()
        self._model, self._loss = model, loss

    def forward(self, batch: Batch, noise: Noise) -> LossSum:
        return self._loss(self._model, batch, noise)


class Trainer:
    """Trains one model to its end, from wherever its checkpoints say it stands."""

    def __init__(
        self,
        model: Seq2Seq,
        optimizer: torch.optim.Optimizer,
        sampler: Sampler,
        make_batch: Callable[[Drawn, int, Sequence[int]], Batch],
        *,
        update: Update,
        limits: Limits,
        rhythm: Rhythm,
        validator: Validator | None,
        ema_decay: float,
        world: World,
        captured: CapturedBackward | None = None,
        text: str = "",
    ) -> None:
        """With `captured`, which is for one process, forward and backward pass are its; `text` says on what it trains,
        for `TrainingState`."""
        assert captured is None or world.size == 1
        self._model, self._optimizer, self._sampler, self._make_batch = model, optimizer, sampler, make_batch
        self._update, self._limits, self._rhythm, self._validator = update, limits, rhythm, validator
        self._trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._average = WeightAverage(self._trained, ema_decay) if ema_decay else None
        self._world, self._captured = world, captured
        self._objective = world.parallel(_Objective(model, update.loss))
        self._saved_step: int | None = None
        self._saved_is_judged = False
        """By the dev set; what a signal saves is not."""
        self._last_batch: Batch | None = None
        """This process's part of the last update."""
        self._is_sound_now: bool | None = None
        """The answer of `_is_sound` for the weights as they are; None until somebody asks."""
        self._signals = Deferred()
        self._is_stopping = False
        """True once any process has received a signal."""
        first = next(model.parameters())
        self.state = TrainingState(
            precision="bf16" if update.bf16 else "fp32",
            path=native.NATIVE if native.takes(first) else native.PLAIN,
            text=text,
            accumulate=update.accumulate,
        )

    # Resuming and saving ------------------------------------------------------------------------------------------

    def restore(self, checkpoints: Checkpoints, tokenizers: dict[str, str]) -> None:
        """Go back to the last checkpoint; if that is damaged, with a warning to the newest one that is whole.

        Raises:
            ModelError: none is whole, or none is of a model of this configuration with these tokenizers.
        """
        index, damage = checkpoints.index(), None
        assert index.last is not None
        for step in index.steps:
            try:
                meta = read_meta(checkpoints.path_of(step), tokenizers)
                self._restore(checkpoints.path_of(step))
            except ModelError as error:
                damage = damage or error
            else:
                break
        else:
            raise ModelError(
                f"{damage}; no checkpoint of the run can be gone on from: put the directory back from a copy, or begin "
                "in another model_dir"
            )
        if damage is not None:
            warn(f"{damage}; going on from step {step:,}, the newest checkpoint that is whole")
        is_judged = bool(meta["metrics"]) or self.state.validated_step == step
        self._saved_step, self._saved_is_judged = step, is_judged

    def _restore(self, path: Path) -> None:
        state = _state_at(path)
        tensors = read_trainer_tensors(path)
        with torch.no_grad():
            for name, parameter in self._model.named_parameters():
                raw = tensors.pop(f"raw.{name}", None)
                if raw is None or raw.shape != parameter.shape:
                    raise ModelError(f"{path}: the trainer's state lacks {name}, or has it in another shape")
                parameter.copy_(raw)
            for place, average in enumerate(self._average.weights if self._average is not None else []):
                kept = tensors.pop(f"average.{place}", None)
                if kept is None or kept.shape != average.shape:
                    raise ModelError(f"{path}: the trainer's state lacks the average of parameter {place}")
                average.copy_(kept)
        try:
            load_optimizer_tensors(self._optimizer, tensors)
        except ValueError as error:
            raise ModelError(f"{path / TRAINER_FILE}: the trainer's state is damaged: {error}") from error
        self.state = replace(  # earlier versions did not keep these
            state, text=state.text or self.state.text, accumulate=state.accumulate or self._update.accumulate
        )
        if (state.precision == "bf16") != self._update.bf16:
            self._update = replace(self._update, bf16=state.precision == "bf16")

    def _rewind(self, checkpoints: Checkpoints, metrics: MetricsLog) -> None:
        """Go back to the newest checkpoint that an undisturbed run has too, with a lower learning rate.

        What follows depends on such checkpoints alone, so a run that is killed or stopped before or after it goes the
        same way.

        Raises:
            DivergenceError: training is not to go back, there is no checkpoint, or this happened too often.
        """
        before, steps = self.state, checkpoints.index().steps
        if not self._update.rewinds:
            raise self._divergence(checkpoints)
        if not steps:
            raise self._divergence(checkpoints, " before the first checkpoint")
        if before.rewinds >= MAX_REWINDS:
            raise self._divergence(checkpoints, f" again after {MAX_REWINDS} rewinds")
        sound = [step for step in steps if _is_sound(checkpoints.path_of(step))]
        step = next((step for step in sound if self._is_due(step)), (sound or steps)[0])
        self._restore(checkpoints.path_of(step))
        self._world.gathered(step)  # nobody prunes while another still reads
        kept = self._leave_branch(checkpoints, step)
        self._saved_step = step
        if self._world.is_primary:
            checkpoints.prune(kept)
        self.state = replace(
            self.state,
            skipped_in_a_row=0,
            rewinds=before.rewinds + 1,
            rate_factor=before.rate_factor * REWIND_FACTOR,
        )
        metrics.cut(self.state.step)
        warn(
            f"{diverged(before, self._limits.reached(before))}; going back to step {self.state.step} with "
            f"{self.state.rate_factor:g} times the learning rate (rewind {self.state.rewinds} of at most {MAX_REWINDS})"
        )

    def _divergence(self, checkpoints: Checkpoints, when: str = "") -> DivergenceError:
        clips = self._update.clip_grad_norm is not None
        how = remedy(checkpoints, clips=clips, rewinds=self._update.rewinds)
        return DivergenceError(f"{diverged(self.state, self._limits.reached(self.state))}{when}; {how}")

    def _is_due(self, step: int) -> bool:
        """Whether a checkpoint of a step is one that an undisturbed run writes, if no update was skipped just before;
        the others are those of signals and of ends that were moved."""
        return self._is_validated(step) or step % self._rhythm.checkpoint_freq == 0

    def _is_validated(self, step: int) -> bool:
        """Return whether an undisturbed run validates at a step, if no update was skipped just before."""
        return self._validator is not None and step % self._rhythm.validation_freq == 0

    def _recent(self, checkpoints: Checkpoints) -> tuple[int, ...]:
        """The newest checkpoints with that of this step; beyond their number one that a rewind may need."""
        others = [step for step in checkpoints.index().recent if step < self.state.step]
        recent = [self.state.step, *sorted(others, reverse=True)]
        kept = recent[: self._rhythm.keep_last]
        if self._update.rewinds and (self.state.skipped_in_a_row or not self._is_due(self.state.step)):
            due = next((s for s in recent[1:] if self._is_due(s) and _is_sound(checkpoints.path_of(s))), None)
            kept += [due] if due is not None and due not in kept else []
        return tuple(kept)

    def _leave_branch(self, checkpoints: Checkpoints, step: int) -> Index:
        """What came after a step counts no longer before its steps are written anew."""
        index = checkpoints.index()
        kept = Index(step, tuple(b for b in index.best if b.step <= step), tuple(s for s in index.recent if s <= step))
        if self._world.is_primary:
            checkpoints.write_index(kept)
        return kept

    def _snapshot(self, metrics: dict[str, float]) -> Snapshot:
        raw = {f"raw.{name}": tensor for name, tensor in parameters_of(self._model).items()}
        trainer = raw | optimizer_tensors(self._optimizer)
        if self._average is not None:
            trainer |= {f"average.{place}": weight for place, weight in enumerate(self._average.weights)}
        with self._averaged_weights():
            weights = {name: tensor.clone() for name, tensor in parameters_of(self._model).items()}
        return Snapshot(self.state.step, weights, trainer, self.state.to_json(), metrics)

    @contextmanager
    def _averaged_weights(self) -> Iterator[None]:
        """Put the weights that translate into the model while the block runs."""
        if self._average is None:
            yield
            return
        raw = [parameter.data for parameter in self._trained]
        for parameter, average in zip(self._trained, self._average.weights, strict=True):
            parameter.data = average
        try:
            yield
        finally:
            for parameter, data in zip(self._trained, raw, strict=True):
                parameter.data = data

    # The loop -----------------------------------------------------------------------------------------------------

    def run(self, checkpoints: Checkpoints, tokenizers: dict[str, str], metrics: MetricsLog) -> str:
        """Train to the end and return the reason for it.

        Raises:
            Interrupted: a signal came; a checkpoint of the last whole step was written, if its weights predict.
            DivergenceError: ten updates in a row were not finite, or the end came with weights that do not predict, and
                it should not or cannot go back.
        """
        started, seconds_before = time.monotonic(), self.state.seconds
        meter = _Meter()
        total = self._expected_steps()
        # Not before all processes have agreed on the step: one that cannot read a file does not make it count no more.
        if checkpoints.index().last not in (None, self.state.step):
            self._leave_branch(checkpoints, self.state.step)
        with (
            native.path(self.state.path),
            self._signals.listening(),
            Progress("training", total=total, initial=self.state.step, unit="step") as bar,
        ):
            self._make_up_validation(checkpoints, tokenizers, metrics)
            reason = self._limits.reached(self.state)
            batches = self._sampler.from_cursor(self.state.cursor)
            while reason is None:
                self._step(next(batches), meter)
                if self._has_diverged():
                    diverged_at, meter = self.state.step, _Meter()
                    self._rewind(checkpoints, metrics)
                    bar.advance(self.state.step + 1 - diverged_at)
                    batches = self._sampler.from_cursor(self.state.cursor)
                    continue
                self.state = replace(self.state, seconds=seconds_before + time.monotonic() - started)
                step = self.state.step
                bar.advance(note=self._note(meter))
                if step % self._rhythm.logging_freq == 0:
                    self._log(meter, metrics)
                    meter = _Meter()
                # Amid skipped updates nothing is judged or kept: it would be no place to go back to.
                is_calm = not self.state.skipped_in_a_row
                if is_calm and self._is_validated(step) and not self._is_stopping and self._is_sound():
                    self._validate_and_save(checkpoints, tokenizers, metrics)
                reason = self._limits.reached(self.state)
                is_due = is_calm and step % self._rhythm.checkpoint_freq == 0
                if is_due and reason is None and self._saved_step != step and self._is_sound():
                    self._save(checkpoints, tokenizers, metrics, {})
                if self._is_stopping and reason is None:
                    self._interrupt(checkpoints, tokenizers, metrics)
            self._finish(checkpoints, tokenizers, metrics, reason)
            (num_signals,) = self._world.sums(bool(self._signals.received))
            if num_signals:
                raise self._interrupted(f"interrupted after the last step, {self.state.step}, which is saved: {reason}")
        return reason

    def _has_diverged(self) -> bool:
        """Return True where the updates stay without effect, or training would end with weights that do not predict."""
        if self.state.skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
            return True
        return self._limits.reached(self.state) is not None and not self._is_sound()

    def _is_sound(self) -> bool:
        """Return True where both the weights that translate and those that training goes on with predict."""
        if self._is_sound_now is None:
            assert self._last_batch is not None
            with self._averaged_weights():
                translates = predicts(self._model, self._last_batch, self._world)
            goes_on = self._average is None or predicts(self._model, self._last_batch, self._world)
            self._is_sound_now = translates and goes_on
            if not self._is_sound_now:
                warn(f"step {self.state.step}: the loss with these weights is not finite; they are not kept")
        return self._is_sound_now

    def _interrupt(self, checkpoints: Checkpoints, tokenizers: dict[str, str], metrics: MetricsLog) -> NoReturn:
        """Save this step without a judgement by the dev set, if it is not saved and its weights predict, and end."""
        step = self.state.step
        if self._saved_step != step and self._is_sound():
            self._save(checkpoints, tokenizers, metrics, {})
        raise self._interrupted(interrupted(step, self._saved_step == step, checkpoints))

    def _interrupted(self, message: str) -> Interrupted:
        # A process that ends because another one has received a signal ends as if by SIGTERM.
        return Interrupted(message, self._signals.received or signal.SIGTERM)

    def _make_up_validation(self, checkpoints: Checkpoints, tokenizers: dict[str, str], metrics: MetricsLog) -> None:
        """Do the validation that a signal has cut short at the step from which the training goes on."""
        self._saved_is_judged, *_ = self._world.gathered(self._saved_is_judged)
        is_judged = self._saved_step != self.state.step or self._saved_is_judged
        if self._is_validated(self.state.step) and not is_judged and not self.state.skipped_in_a_row:
            self._validate_and_save(checkpoints, tokenizers, metrics)

    def _finish(self, checkpoints: Checkpoints, tokenizers: dict[str, str], metrics: MetricsLog, reason: str) -> None:
        """Judge and save the last step; `DivergenceError` where the dev set shows that its weights do not predict."""
        is_saved = self._saved_step == self.state.step
        # Not counted for patience or plateau: with its limit raised, a run goes on as if it had not ended here.
        is_judged = is_saved and self._saved_is_judged
        try:
            values = self._validate(metrics, "at the end") if self._validator is not None and not is_judged else {}
        except PredictionError:
            raise self._divergence(checkpoints) from None
        if values is None:
            self._interrupt(checkpoints, tokenizers, metrics)
        if values or not is_saved:
            self._save(checkpoints, tokenizers, metrics, values)
        if self._world.is_primary:
            checkpoints.write_index(replace(checkpoints.index(), finished=reason))

    def _expected_steps(self) -> int | None:
        """About how many updates there will be, for the progress bar."""
        by_epoch = self._limits.max_epochs and round(self._limits.max_epochs * self._sampler.batches_an_epoch())
        return min((steps for steps in (self._limits.max_steps, by_epoch) if steps), default=None)

    def _step(self, drawn: Drawn, meter: _Meter) -> None:
        """One update: all parts of the batch forward and backward, one division, one step of the optimizer."""
        began = time.monotonic()
        step = self.state.step + 1
        places = self._world.places(len(drawn.pairs))
        # A process for which no pair is left takes part with one that does not count.
        batch = self._make_batch(drawn, step, places or range(1))
        self._last_batch, self._is_sound_now = batch, None
        weight = 1.0 if places else 0.0
        own_tokens, own_padded = batch.num_target_tokens * weight, batch.outputs_BT.numel() * weight
        num_tokens, num_padded = (int(number) for number in self._world.sums(own_tokens, own_padded))
        nll_sum = self._gradients(batch, num_tokens, step, weight)
        # The only place of an update where the host waits for the device.
        own_nll, norm = torch.stack([nll_sum, self._gradient_norm().double()]).tolist()
        nll, num_signals = self._world.sums(own_nll, bool(self._signals.received))
        if num_signals and not self._is_stopping:
            self._is_stopping = True
            log("stopping after this step, with a checkpoint")
        is_finite = math.isfinite(nll) and math.isfinite(norm)
        if is_finite:
            rate = self._update.schedule.rate(step, self._limits.done(self.state)) * self.state.rate_factor
            for group in self._optimizer.param_groups:
                group["lr"] = rate
            self._optimizer.step()
            if self._average is not None:
                self._average.update(step)
        skipped = 0 if is_finite else self.state.skipped_in_a_row + 1
        self.state = replace(
            self.state,
            step=step,
            epoch=drawn.next.epoch,
            pool=drawn.next.pool,
            batch=drawn.next.batch,
            epochs_done=drawn.progress,
            skipped_in_a_row=skipped,
            target_tokens=self.state.target_tokens + num_tokens,
            logged_nll=self.state.logged_nll + (nll if is_finite else 0.0),
            logged_tokens=self.state.logged_tokens + (num_tokens if is_finite else 0),
            logged_padded=self.state.logged_padded + (num_padded if is_finite else 0),
        )
        if not is_finite:
            warn(f"step {step}: the loss ({nll / num_tokens:g}) or its gradient ({norm:g}) is not finite; skipped")
        self._loss = nll / num_tokens
        meter.num_tokens += num_tokens
        meter.grad_norm = norm
        meter.seconds += time.monotonic() - began

    def _gradients(self, batch: Batch, num_tokens: int, step: int, weight: float) -> Tensor:
        """Accumulate the gradient of the mean loss; the summed nll comes back. Parts are halved if memory runs out."""
        while True:
            try:
                return self._accumulate(batch.split(self.state.accumulate), num_tokens, step, weight)
            except (MemoryError, RuntimeError) as error:
                # Of several processes the others are in the middle of a sum.
                is_last_resort = self.state.accumulate >= batch.num_sentences or self._world.size > 1
                if not is_out_of_memory(error) or is_last_resort:
                    raise
            parts = 2 * self.state.accumulate
            log(f"out of memory at step {step}; going on with the batch in {parts} parts")
            self.state = replace(self.state, accumulate=parts)
            if self._world.device.type == "cuda":
                torch.cuda.empty_cache()

    def _accumulate(self, parts: Sequence[Batch], num_tokens: int, step: int, weight: float) -> Tensor:
        if self._captured is None:
            self._optimizer.zero_grad(set_to_none=True)
        else:
            self._captured.clear()
        nll = torch.zeros((), dtype=torch.float64, device=self._world.device)
        for index, part in enumerate(parts):
            is_last = index + 1 == len(parts)
            with nullcontext() if is_last else self._world.accumulating(self._objective):
                nll += self._backward(part, num_tokens, step, index, weight)
        return nll

    def _backward(self, part: Batch, num_tokens: int, step: int, index: int, weight: float) -> Tensor:
        world = self._world
        noise_seed = _noise_seed(self._update.seed, step, index * world.size + world.rank)
        if self._captured is not None:
            return self._captured(part, num_tokens, noise_seed, bf16=self._update.bf16)
        generator = torch.Generator(world.device).manual_seed(noise_seed)
        with torch.autocast(world.device.type, dtype=torch.bfloat16, enabled=self._update.bf16):
            loss: LossSum = self._objective(part.to(world.device), Noise(generator))
        (loss.total * (weight * world.size) / num_tokens).backward()  # the world takes the mean
        return loss.nll * weight

    def _gradient_norm(self) -> Tensor:
        """The norm before clipping."""
        limit = self._update.clip_grad_norm
        norm: Tensor = torch.nn.utils.clip_grad_norm_(self._trained, math.inf if limit is None else limit)
        return norm

    def _note(self, meter: _Meter) -> str:
        loss = self.state.logged_nll / self.state.logged_tokens if self.state.logged_tokens else math.nan
        return f"loss {loss:.3f}, {meter.speed:,.0f} tokens/s"

    # What is said and kept ----------------------------------------------------------------------------------------

    def _log(self, meter: _Meter, metrics: MetricsLog) -> None:
        state = self.state
        self.state = replace(state, logged_nll=0.0, logged_tokens=0, logged_padded=0)
        if not state.logged_tokens:
            return
        loss = state.logged_nll / state.logged_tokens
        rate = self._optimizer.param_groups[0]["lr"]
        done = self._limits.done(self.state)
        left = self.state.seconds * (1.0 - done) / done if done else math.inf
        log(
            f"step {self.state.step:,}  epoch {self.state.epochs_done:.2f}  loss {loss:.3f}  "
            f"perplexity {math.exp(min(loss, 700.0)):.2f}  gradient {meter.grad_norm:.2f}  learning rate {rate:.2e}  "
            f"{meter.speed:,.0f} tokens/s  {_duration(left)} left"
        )
        metrics.write(
            "train", self.state.step, loss=loss, epoch=self.state.epochs_done, learning_rate=rate,
            grad_norm=meter.grad_norm, tokens_per_second=meter.speed,
            padding=1.0 - state.logged_tokens / state.logged_padded, seconds=self.state.seconds,
        )  # fmt: skip

    def _validate_and_save(self, checkpoints: Checkpoints, tokenizers: dict[str, str], metrics: MetricsLog) -> None:
        metric = self._rhythm.early_stopping_metric
        best = self._best_but_this(checkpoints)
        try:
            values = self._validate(metrics, f"best so far {best[0].value:.2f}" if best else "the first")
        except PredictionError:
            return
        if values is None:
            self._interrupt(checkpoints, tokenizers, metrics)
        self.state = self.state.validated(
            metric, values[metric], plateau_factor=self._rhythm.plateau_factor,
            plateau_patience=self._rhythm.plateau_patience,
        )  # fmt: skip
        if not best or _sign(metric) * values[metric] > _sign(metric) * best[0].value:
            log("new best")
        elif self.state.stalled:
            log(f"no better in {self.state.stalled} validations")
        else:  # than at an end that has been moved since, which patience does not count
            log(f"no better than at step {best[0].step:,}")
        self._save(checkpoints, tokenizers, metrics, values)

    def _validate(self, metrics: MetricsLog, note: str) -> dict[str, float] | None:
        """Return the scores on the dev set, or None if a signal to any process has come before the end.

        Raises:
            PredictionError: the weights do not predict the dev set.
        """
        assert self._validator is not None
        if self._is_stopping:
            return None
        began = time.monotonic()
        with self._averaged_weights():
            try:
                values = self._validator(self._model, self._signals)
            except PredictionError:
                self._is_sound_now = False
                warn(f"validation at step {self.state.step:,}: the loss is not finite; these weights are not kept")
                raise
        if values is None:
            self._is_stopping = True
            log("stopping amid the validation, which is done again when the training goes on")
            return None
        described = "  ".join(f"{name} {value:.2f}" for name, value in values.items())
        log(f"validation at step {self.state.step:,}: {described}  ({note}; {time.monotonic() - began:.1f} s)")
        record = {**values, "seconds": time.monotonic() - began}
        if self._saved_step == self.state.step:
            metrics.write_before("checkpoint", "validation", self.state.step, **record)
        else:
            metrics.write("validation", self.state.step, **record)
        return values

    def _save(
        self, checkpoints: Checkpoints, tokenizers: dict[str, str], metrics: MetricsLog, values: dict[str, float]
    ) -> None:
        """Write the checkpoint, then the index that makes it count, then remove what counts no longer.

        A checkpoint that a signal has saved is there already, and gets only what the dev set says.
        """
        is_new = self._saved_step != self.state.step
        self._saved_step, self._saved_is_judged = self.state.step, bool(values)
        if not self._world.is_primary:
            return
        if is_new:
            checkpoints.save(self._snapshot(values), tokenizers)
            # Before the index: if this is the last act, both are made again.
            metrics.write("checkpoint", self.state.step, loss=self._loss)
        metrics.sync()
        index = self._index(checkpoints, values)
        checkpoints.write_index(index)
        if not is_new:  # after the index: if that is the last act, the validation is done again
            checkpoints.judge(self.state.step, self.state.to_json(), values)
        checkpoints.prune(index)

    def _index(self, checkpoints: Checkpoints, values: dict[str, float]) -> Index:
        """The index with this step, of which the dev set says `values`."""
        step, metric = self.state.step, self._rhythm.early_stopping_metric
        best = self._best_but_this(checkpoints)
        if metric in values:
            best.append(Ranked(step, metric, values[metric]))
        best.sort(key=lambda ranked: (-_sign(metric) * ranked.value, ranked.step))
        return Index(step, tuple(best[: self._rhythm.keep_best]), self._recent(checkpoints), None)

    def _best_but_this(self, checkpoints: Checkpoints) -> list[Ranked]:
        """The best steps but this one, best first."""
        step, metric = self.state.step, self._rhythm.early_stopping_metric
        return [ranked for ranked in checkpoints.index().best if ranked.step != step and ranked.metric == metric]


def _sign(metric: str) -> float:
    """By which more is better."""
    return 1.0 if HIGHER_IS_BETTER[metric] else -1.0


def _state_at(path: Path) -> TrainingState:
    return TrainingState.from_json(read_progress(path), str(path / PROGRESS_FILE))


def _is_sound(path: Path) -> bool:
    """Whether a checkpoint is whole and was not written amid skipped updates."""
    try:
        return not _state_at(path).skipped_in_a_row
    except ModelError:
        return False


def _noise_seed(seed: int, step: int, part: int) -> int:
    """One number for each step and part; large odd factors keep neighbouring ones apart."""
    return (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + part * 0x94D049BB133111EB) % 2**63


def _duration(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "?"
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
