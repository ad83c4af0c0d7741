"""The loss, the gradients and the optimizer of a training, built from its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nmt_cli.training.candidates import CandidateSampler
from nmt_cli.training.loss import TranslationLoss
from nmt_cli.training.optim import build_optimizer
from nmt_cli.training.update import BackwardPass, GradientAccumulator, Objective
from nmt_cli.training.weights import Weights

if TYPE_CHECKING:
    from torch import Tensor

    from nmt_cli.config.schema import Config
    from nmt_cli.model.seq2seq import Seq2Seq
    from nmt_cli.system.distributed import World


def has_guided_alignment(config: Config) -> bool:
    """Return whether word alignments of the corpora guide the attention."""
    return bool(config.training.guided_alignment_weight) and any(corpus.alignment for corpus in config.data.train)


def has_sampled_softmax(config: Config, world: World) -> bool:
    """Return whether the softmax of an update is over a sample of the vocabulary, which is done on CPUs alone."""
    return config.training.sampled_softmax and world.device.type == "cpu"


def build_accumulator(
    config: Config, model: Seq2Seq, world: World, target_counts: Tensor | None = None
) -> GradientAccumulator:
    """Return the accumulator of the gradients of an update.

    With `target_counts`, the counts of the target pieces (V) from `PairStore`, the softmax is a sampled one.
    """
    training = config.training
    loss = TranslationLoss(
        label_smoothing=training.label_smoothing,
        coverage_weight=config.model.attention.coverage_loss,
        alignment_weight=training.guided_alignment_weight if has_guided_alignment(config) else 0.0,
        candidates=None if target_counts is None else CandidateSampler(target_counts),
    )
    objective = Objective(model, loss)
    return GradientAccumulator(BackwardPass(objective, world), world, seed=config.seed)


def build_weights(config: Config, model: Seq2Seq) -> Weights:
    """Return a model with its optimizer and the moving average of its weights."""
    training = config.training
    optimizer = build_optimizer(
        training.optimizer,
        [parameter for parameter in model.parameters() if parameter.requires_grad],
        learning_rate=training.learning_rate,
        betas=(training.adam_beta1, training.adam_beta2),
        rho=training.adadelta_rho,
        epsilon=training.epsilon,
        momentum=training.momentum,
        weight_decay=training.weight_decay,
    )
    return Weights(model, optimizer, ema_decay=training.ema_decay)
