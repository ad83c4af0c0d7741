"""Saves checkpoints of a training, decides which of them are kept, `best` and `last`, and restores the training from
them after an interruption or a divergence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from nmt_cli.system.console import warn
from nmt_cli.system.distributed import World
from nmt_cli.system.errors import DivergenceError, ModelError, UnreadableError
from nmt_cli.training.checkpoints import (
    PROGRESS_FILE,
    Checkpoints,
    Index,
    RankedCheckpoint,
    Snapshot,
    metric_sign,
    read_meta,
    read_progress,
)
from nmt_cli.training.metrics_log import MetricsLog
from nmt_cli.training.state import Intervals, StoppingCriteria, TrainingState
from nmt_cli.training.weights import Weights

MAX_SKIPPED_IN_A_ROW = 10
"""A training has diverged after this many updates in a row whose loss or gradient was not finite."""
MAX_REWINDS = 5
REWIND_FACTOR = 0.5
"""Factor by which each rewind multiplies the learning rate."""


class Recovery:
    """Saves checkpoints of a training, and restores the training from them."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        tokenizers: Mapping[str, str],
        weights: Weights,
        metrics: MetricsLog,
        *,
        first: TrainingState,
        stopping: StoppingCriteria,
        intervals: Intervals,
        rewinds: bool,
        clips_gradients: bool,
        world: World,
    ) -> None:
        """Prepare to save a training into `checkpoints`.

        `first` is the state of a new training. With `rewinds`, a training that diverges goes back to a checkpoint;
        otherwise it ends with an error. The advice in that error depends on `clips_gradients`: whether gradients are
        clipped.
        """
        self._checkpoints, self._tokenizers, self._weights, self._metrics = checkpoints, tokenizers, weights, metrics
        self.first, self._stopping, self._intervals, self._world = first, stopping, intervals, world
        self._rewinds_on_divergence, self._clips_gradients = rewinds, clips_gradients
        self._saved_step: int | None = None
        self._saved_is_validated = False
        """True if the checkpoint of `_saved_step` holds scores on the dev set. One that a signal caused has none."""
        self._temporary_step: int | None = None
        """Step of a checkpoint that only a signal or a former limit caused. It is among the recent ones until the next
        is saved; None if there is no such checkpoint."""

    # Going back ---------------------------------------------------------------------------------------------------

    def restore(self) -> TrainingState:
        """Restore the last checkpoint and return its state; without checkpoints, return the state of a new training.

        If the last checkpoint is damaged, the newest whole one is restored, with a warning.

        Raises:
            ModelError: a checkpoint cannot be read, or no checkpoint is whole and fits this configuration and these
                tokenizers.
        """
        index, damage = self._checkpoints.index(), None
        if index.last is None:
            return self.first
        for step in index.steps:
            try:
                meta = read_meta(self._checkpoints.path_of(step), self._tokenizers)
                state = self._restore_step(step)
            except UnreadableError as error:  # it may be whole, and going on from an older one would remove it
                raise ModelError(
                    f"{error}. Run the command again when it can be read. To go on from an older checkpoint, move "
                    f"{self._checkpoints.path_of(step)} elsewhere"
                ) from error
            except ModelError as error:
                damage = damage or error
            else:
                break
        else:
            raise ModelError(
                f"{damage}. No checkpoint of the run is whole. Restore the directory from a backup, or train again "
                "in another model_dir"
            )
        if damage is not None:
            warn(f"{damage}; resuming from update {step:,}, the newest whole checkpoint")
        self._saved_step, self._saved_is_validated = step, bool(meta["metrics"]) or state.validated_step == step
        return state

    def _restore_step(self, step: int) -> TrainingState:
        path, first = self._checkpoints.path_of(step), self.first
        state = _state_at(path)
        self._weights.restore(path)
        # Earlier versions did not keep these.
        return replace(
            state,
            text=state.text or first.text,
            accumulate=state.accumulate or first.accumulate,
            configuration=state.configuration or first.configuration,
        )

    def resume_from(self, state: TrainingState) -> None:
        """Remove newer checkpoints from the index and newer records from the log, before training continues at `state`.

        Also note whether `state` was saved out of turn, because of a signal. Call this only when all processes have
        agreed on the step: a process that cannot read a file must not discard it.
        """
        step = state.step
        is_end = self._stopping.stop_reason(state) is not None
        is_checkpoint_due = is_end or self._intervals.is_checkpoint_due(step)
        self._temporary_step = None if is_checkpoint_due else step
        is_event_kept = {"checkpoint": is_checkpoint_due, "train": is_end or self._intervals.is_logged(step)}
        self._metrics.truncate(step, without={event for event, stays in is_event_kept.items() if not stays})
        if self._checkpoints.index().last not in (None, step):
            self._remove_later_checkpoints(step)

    def rewind(self, before: TrainingState) -> TrainingState:
        """Restore an earlier checkpoint after a divergence; return its state, with a lower learning rate.

        This is the newest usable checkpoint that an uninterrupted run would have too, so that a run that was killed or
        stopped continues in the same way. If there is none, it is the newest usable one.

        Raises:
            DivergenceError: rewinds are off, there is no checkpoint, or there were `MAX_REWINDS` rewinds already.
        """
        # The first process decides for all: a file system may show another one an older index.
        step, *_ = self._world.all_gather(
            self._world.run_in_all(lambda: self._rewind_step(before) if self._world.is_primary else None)
        )
        state = self._world.run_in_all(lambda: self._restore_step(step))
        kept = self._remove_later_checkpoints(step)
        self._saved_step = step
        self._saved_is_validated = state.validated_step == step
        if self._world.is_primary:
            self._checkpoints.prune(kept)
        rate_factor = before.rate_factor * REWIND_FACTOR
        state = replace(state, skipped_in_a_row=0, rewinds=before.rewinds + 1, rate_factor=rate_factor)
        self._metrics.truncate(state.step)
        warn(
            f"{self._divergence_message(before)}; going back to update {state.step} with "
            f"{state.rate_factor:g} times the learning rate (rewind {state.rewinds} of at most {MAX_REWINDS})"
        )
        return state

    def _rewind_step(self, before: TrainingState) -> int:
        steps = self._checkpoints.index().steps
        if not self._rewinds_on_divergence:
            raise self.divergence(before)
        if not steps:
            raise self.divergence(before, " before the first checkpoint")
        if before.rewinds >= MAX_REWINDS:
            raise self.divergence(before, f" again after {MAX_REWINDS} rewinds")
        usable = [step for step in steps if self._is_usable(step)]
        return next((step for step in usable if self._intervals.is_checkpoint_due(step)), (usable or steps)[0])

    def divergence(self, state: TrainingState, when: str = "") -> DivergenceError:
        """Return the error that ends a diverged training, with advice; `when` is added to the first clause."""
        ways = ["with a lower training.learning_rate"]
        ways += [] if self._clips_gradients else ["with training.clip_grad_norm"]
        ways += [] if self._rewinds_on_divergence else ["with training.on_divergence: rewind"]
        index, advice = self._checkpoints.index(), ", or ".join(ways)
        how = f"train again {advice}"
        if index.last is not None:
            step, run = index.best[0].step if index.best else index.last, self._checkpoints.directory.parent
            how = (
                f"train again in another model_dir {advice}. To start from the last good weights (update {step}), set "
                f"training.init_from to {run}"
            )
        return DivergenceError(f"{self._divergence_message(state)}{when}; {how}")

    def _divergence_message(self, state: TrainingState) -> str:
        """Return the first clause of a message: at which update training diverged, and what was not finite."""
        reason = self._stopping.stop_reason(state)
        if reason is None or state.skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
            why = f"{state.skipped_in_a_row} updates in a row were not finite,"
        else:
            why = f"{reason}, but with weights whose loss is not finite:"
        return f"update {state.step}: {why} training has diverged"

    def interruption_message(self, step: int) -> str:
        """Return a message: the step at which a signal ended the training, and the step from which it continues."""
        if self.is_saved(step):
            return f"interrupted at update {step}, which is saved; run the same command again to resume"
        last = self._checkpoints.index().last
        how = "begin again" if last is None else f"resume from update {last}"
        return (
            f"interrupted at update {step}, whose loss is not finite, so it is not saved; run the same command again "
            f"to {how}"
        )

    def _remove_later_checkpoints(self, step: int) -> Index:
        """Remove checkpoints after `step` from the index and return it; training will write these steps again."""
        index = self._checkpoints.index()
        kept = Index(step, tuple(b for b in index.best if b.step <= step), tuple(s for s in index.recent if s <= step))
        if self._world.is_primary:
            self._checkpoints.write_index(kept)
        return kept

    # Saving -------------------------------------------------------------------------------------------------------

    def is_saved(self, step: int) -> bool:
        """Return True if the checkpoint that was saved or restored last is of this step."""
        return self._saved_step == step

    def is_validated_at(self, step: int) -> bool:
        """Return True if the last checkpoint is of this step and holds scores on the dev set."""
        return self.is_saved(step) and self._saved_is_validated

    def lacks_validation(self, step: int) -> bool:
        """Return True if the last checkpoint is of this step and has no scores; the first process decides for all."""
        self._saved_is_validated, *_ = self._world.all_gather(self._saved_is_validated)
        return self.is_saved(step) and not self._saved_is_validated

    def save(self, state: TrainingState, loss: float, values: Mapping[str, float]) -> None:
        """Write the checkpoint, then the index that names it, then remove checkpoints that the index no longer names.

        A checkpoint that a signal has saved exists already; only `values`, the scores on the dev set, are added to it.
        """
        is_new = not self.is_saved(state.step)
        self._saved_step, self._saved_is_validated = state.step, bool(values)
        if not self._world.is_primary:
            return
        progress = state.to_json()
        if is_new:
            weights = self._weights
            snapshot = Snapshot(state.step, weights.inference_weights(), weights.tensors(), progress, values)
            self._checkpoints.save(snapshot, self._tokenizers)
            # Before the index: if this is the last act, both are made again.
            self._metrics.write("checkpoint", state.step, loss=loss)
        self._metrics.sync()
        index = self._index(state, values)
        self._checkpoints.write_index(index)
        if not is_new:  # after the index: if that is the last act, the validation is done again
            self._checkpoints.add_validation(state.step, progress, values)
        self._checkpoints.prune(index)

    def finish(self, reason: str) -> None:
        """Remove the remains of a killed save, and record in the index why the training ended."""
        if self._world.is_primary:
            index = self._checkpoints.index()
            self._checkpoints.prune(index)
            self._checkpoints.write_index(replace(index, finish_reason=reason))

    def best_except(self, step: int) -> list[RankedCheckpoint]:
        """Return the checkpoints with the best early-stopping scores, best first, without the checkpoint of `step`."""
        metric = self._intervals.early_stopping_metric
        return [ranked for ranked in self._checkpoints.index().best if ranked.step != step and ranked.metric == metric]

    def _index(self, state: TrainingState, values: Mapping[str, float]) -> Index:
        """Return the index after the checkpoint of `state`, with the scores `values` on the dev set, is added."""
        step, metric = state.step, self._intervals.early_stopping_metric
        best = self.best_except(step)
        if metric in values:
            best.append(RankedCheckpoint(step, metric, values[metric]))
        best.sort(key=lambda ranked: (-metric_sign(metric) * ranked.value, ranked.step))
        return Index(step, tuple(best[: self._intervals.keep_best]), self._recent(state), None)

    def _recent(self, state: TrainingState) -> tuple[int, ...]:
        """Return the steps of the newest `keep_last` checkpoints, including this one, and perhaps of an older one for a
        rewind.

        A checkpoint from which the training was resumed is left out if an uninterrupted run would not have written it.
        """
        before = self._checkpoints.index().recent
        others = [step for step in before if step < state.step and step != self._temporary_step]
        recent = [state.step, *sorted(others, reverse=True)]
        kept = recent[: self._intervals.keep_last]
        if self._rewinds_on_divergence and (
            state.skipped_in_a_row or not self._intervals.is_checkpoint_due(state.step)
        ):
            due = next(
                (step for step in recent[1:] if self._intervals.is_checkpoint_due(step) and self._is_usable(step)), None
            )
            kept += [due] if due is not None and due not in kept else []
        return tuple(kept)

    def _is_usable(self, step: int) -> bool:
        """Return True if a checkpoint is whole and was not written right after a skipped update."""
        try:
            return not _state_at(self._checkpoints.path_of(step)).skipped_in_a_row
        except ModelError:
            return False


def _state_at(path: Path) -> TrainingState:
    return TrainingState.from_json(read_progress(path), str(path / PROGRESS_FILE))
