"""Optimizers, learning rates over time, and the average of the weights."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


def build_optimizer(
    name: str,
    parameters: Iterable[nn.Parameter],
    *,
    learning_rate: float,
    betas: tuple[float, float] = (0.9, 0.98),
    rho: float = 0.95,
    epsilon: float | None = None,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
) -> torch.optim.Optimizer:
    """Return the optimizer `name`: adam, adamw, adadelta (Zeiler, 2012; Bahdanau et al. take epsilon 1e-6, rho 0.95) or
    sgd. The default of `epsilon` is 1e-8 for adam and adamw, 1e-6 for adadelta."""
    common: dict[str, Any] = {"lr": learning_rate, "weight_decay": weight_decay}
    match name:
        case "adam":
            return _without_compiler(torch.optim.Adam)(
                parameters, betas=betas, eps=epsilon or 1e-8, fused=True, **common
            )
        case "adamw":
            return _without_compiler(torch.optim.AdamW)(
                parameters, betas=betas, eps=epsilon or 1e-8, fused=True, **common
            )
        case "adadelta":
            return _without_compiler(torch.optim.Adadelta)(parameters, rho=rho, eps=epsilon or 1e-6, **common)
        case _:
            return _without_compiler(torch.optim.SGD)(parameters, momentum=momentum, **common)


def _without_compiler(kind: type[torch.optim.Optimizer]) -> Callable[..., torch.optim.Optimizer]:
    """Return a subclass of an optimizer that works without importing torch's compiler, which takes seconds.

    torch wraps some methods, which imports the compiler, to exclude them from compilation. The subclass has these
    methods unwrapped, because nothing is compiled here.
    """
    names = ("state_dict", "load_state_dict", "zero_grad", "add_param_group")
    methods = {name: inspect.unwrap(getattr(kind, name)) for name in names}
    return type(kind.__name__, (kind,), {**methods, "step": torch.no_grad()(inspect.unwrap(kind.step))})


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimizer's moments and other state, by the name `optimizer.PARAMETER_INDEX.KEY`."""
    state = optimizer.state_dict()["state"]
    return {
        f"optimizer.{index}.{key}": torch.as_tensor(value)
        for index, moments in state.items()
        for key, value in moments.items()
    }


def load_optimizer_tensors(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Load the state that `optimizer_tensors` returned into the optimizer.

    Names that do not start with `optimizer.` are ignored.

    Raises:
        ValueError: moments are missing or have another shape, which the fused optimizer would not check.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if not name.startswith("optimizer."):
            continue
        match = re.fullmatch(r"optimizer\.(\d{1,9})\.(\w+)", name)
        if match is None or int(match[1]) >= len(parameters):
            raise ValueError(f"holds {name}, which this optimizer does not have")
        parameter = parameters[int(match[1])]
        if tensor.dtype not in (torch.float32, parameter.dtype) or tensor.shape not in (torch.Size(), parameter.shape):
            raise ValueError(f"{name} has another shape or type than its parameter")
        state.setdefault(int(match[1]), {})[match[2]] = tensor
    if state and (len(state) < len(parameters) or len({tuple(sorted(moments)) for moments in state.values()}) > 1):
        raise ValueError("the optimizer's moments are incomplete")
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


@dataclass(frozen=True, slots=True)
class Schedule:
    """The learning rate as a function of the update and of the fraction of the training that is done."""

    kind: str
    peak: float
    warmup_steps: int = 0
    final: float = 0.0

    def rate(self, step: int, progress: float) -> float:
        """Return the learning rate of update `step` (from 1); `progress` is the share done of the training, in [0, 1].

        After a linear warm-up: constant (and plateau, whose factor is applied elsewhere), inverse_sqrt (Vaswani et al.,
        2017: peak * sqrt(warmup / step)), linear or cosine (Loshchilov & Hutter, 2017) down to `final`.
        """
        if step < self.warmup_steps:
            return self.peak * step / self.warmup_steps
        if self.warmup_steps and step > 1:  # the share of the warm-up: as updates pass, so does the training
            warmed = min(progress, progress * self.warmup_steps / (step - 1))
            progress = (progress - warmed) / (1.0 - warmed) if warmed < 1.0 else 1.0
        match self.kind:
            case "inverse_sqrt":
                return self.peak * math.sqrt(max(1, self.warmup_steps) / step)
            case "linear":
                return self.final + (self.peak - self.final) * (1.0 - progress)
            case "cosine":
                return self.final + (self.peak - self.final) * 0.5 * (1.0 + math.cos(math.pi * progress))
            case _:
                return self.peak


class WeightAverage:
    """Exponential moving average of the weights. The decay at update t is t / (t + 9), but at most `decay`. So the
    average covers about the last ninth of all updates at first, and about the last 1 / (1 - decay) updates later."""

    def __init__(self, parameters: Iterable[nn.Parameter], decay: float) -> None:
        self._parameters = list(parameters)
        self._decay = decay
        self.weights = [parameter.detach().clone() for parameter in self._parameters]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Include the weights after update `step` (from 1) in the average."""
        decay = min(self._decay, step / (step + 9.0))
        torch._foreach_lerp_(self.weights, [parameter.detach() for parameter in self._parameters], 1.0 - decay)
