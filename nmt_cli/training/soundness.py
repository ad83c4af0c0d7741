"""Soundness: weights are worth keeping where they predict. And what is said where a training has lost them."""

from __future__ import annotations

import math

from nmt_cli.checkpoint import Checkpoints
from nmt_cli.data.batch import Batch
from nmt_cli.distributed import World
from nmt_cli.model.seq2seq import Seq2Seq
from nmt_cli.training.loss import evaluate_nll
from nmt_cli.training.state import TrainingState

MAX_SKIPPED_IN_A_ROW = 10
"""Updates that are not finite, from which on a training has diverged."""
MAX_SENTENCES = 64
"""Sentences of a batch by which weights are tried: far less time and memory than an update takes."""


def predicts(model: Seq2Seq, batch: Batch, world: World) -> bool:
    """Return True where every process has a finite loss, without dropout, of some sentences of its batch.

    Weights may be finite, each of them, and still give activations that are not.
    """
    parts = -(-batch.num_sentences // MAX_SENTENCES)
    nll, _ = evaluate_nll(model, batch.split(parts)[0].to(world.device))
    (num_broken,) = world.sums(not math.isfinite(nll))
    return not num_broken


def diverged(state: TrainingState, reason: str | None) -> str:
    """Say how a training diverged: amid its updates, or at its end, for which there is a reason."""
    if reason is None or state.skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
        return f"step {state.step}: {state.skipped_in_a_row} updates in a row were not finite, training has diverged"
    return f"step {state.step}: {reason}, but with weights whose loss is not finite: training has diverged"


def remedy(checkpoints: Checkpoints, *, clips: bool, rewinds: bool) -> str:
    """Say how to go on after a divergence that ended a training, which clips its gradients and goes back, or not."""
    ways = ["with a lower training.learning_rate"]
    ways += [] if clips else ["with training.clip_grad_norm"]
    ways += [] if rewinds else ["with training.on_divergence: rewind"]
    index, advice = checkpoints.index(), ", or ".join(ways)
    if index.last is None:
        return f"begin anew {advice}"
    step, run = index.best[0].step if index.best else index.last, checkpoints.directory.parent
    return (
        f"begin anew in another model_dir {advice}. Step {step} is kept; training.init_from: {run} begins with its "
        "weights"
    )


def interrupted(step: int, is_saved: bool, checkpoints: Checkpoints) -> str:
    """Say at which step a signal ended the training, and from where it goes on."""
    if is_saved:
        return f"interrupted at step {step}, which is saved; the same command goes on from there"
    last = checkpoints.index().last
    how = "begins anew" if last is None else f"goes on from step {last}"
    return f"interrupted at step {step}, whose weights do not predict and are not saved; the same command {how}"
