"""The weights in training: the raw weights, the optimizer's moments, and the moving average."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from nmt_cli.model.seq2seq import Seq2Seq
from nmt_cli.system.errors import ModelError
from nmt_cli.training.checkpoints import TRAINER_FILE, parameters_of, read_trainer_tensors
from nmt_cli.training.optim import WeightAverage, load_optimizer_tensors, optimizer_tensors


class Weights:
    """A model with its optimizer, and the average of its weights if there is one."""

    def __init__(self, model: Seq2Seq, optimizer: torch.optim.Optimizer, *, ema_decay: float = 0.0) -> None:
        self.model, self.optimizer = model, optimizer
        self.trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.average = WeightAverage(self.trained, ema_decay) if ema_decay else None

    def clip(self, limit: float | None) -> Tensor:
        """Scale the gradients to a norm of at most `limit` (Pascanu et al., 2013); return their norm before, a scalar.

        None only computes the norm."""
        norm: Tensor = torch.nn.utils.clip_grad_norm_(self.trained, math.inf if limit is None else limit)
        return norm

    def optimizer_step(self, step: int, rate: float) -> None:
        """Do update `step` (from 1) with this learning rate, and update the moving average."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        if self.average is not None:
            self.average.update(step)

    @property
    def rate(self) -> float:
        """The learning rate of the last update."""
        return float(self.optimizer.param_groups[0]["lr"])

    @contextmanager
    def use_average(self) -> Iterator[None]:
        """Put the moving average into the model while the block runs; without an average, nothing changes."""
        if self.average is None:
            yield
            return
        raw = [parameter.data for parameter in self.trained]
        for parameter, average in zip(self.trained, self.average.weights, strict=True):
            parameter.data = average
        try:
            yield
        finally:
            for parameter, data in zip(self.trained, raw, strict=True):
                parameter.data = data

    def inference_weights(self) -> dict[str, Tensor]:
        """Return copies of the weights that translate, by parameter name: the average, or else the raw weights."""
        with self.use_average():
            return {name: tensor.clone() for name, tensor in parameters_of(self.model).items()}

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors of the trainer state: `raw.NAME`, the optimizer's moments, and `average.NUMBER`."""
        raw = {f"raw.{name}": tensor for name, tensor in parameters_of(self.model).items()}
        averages = enumerate(self.average.weights if self.average is not None else [])
        return raw | optimizer_tensors(self.optimizer) | {f"average.{place}": weight for place, weight in averages}

    @torch.no_grad()
    def restore(self, path: Path) -> None:
        """Load the tensors of the checkpoint at `path` into model, optimizer and average.

        Raises:
            ModelError: the checkpoint cannot be read, is damaged, or has other parameters than this model.
        """
        tensors = read_trainer_tensors(path)
        for name, parameter in self.model.named_parameters():
            raw = tensors.pop(f"raw.{name}", None)
            if raw is None or raw.shape != parameter.shape:
                raise ModelError(f"{path}: the trainer's state lacks {name}, or has it in another shape")
            parameter.copy_(raw)
        for place, average in enumerate(self.average.weights if self.average is not None else []):
            kept = tensors.pop(f"average.{place}", None)
            if kept is None or kept.shape != average.shape:
                raise ModelError(f"{path}: the trainer's state lacks the average of parameter {place}")
            average.copy_(kept)
        try:
            load_optimizer_tensors(self.optimizer, tensors)
        except ValueError as error:
            raise ModelError(f"{path / TRAINER_FILE}: the trainer's state is damaged: {error}") from error
