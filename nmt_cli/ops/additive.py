"""Additive energies at every step of one loop: formula, backward pass and compiled kernel behind `AdditiveEnergies`.

e_tj = v . tanh(q_t + k_j) (Bahdanau et al., 2015, A.1.2), in full precision. The backward pass computes the tanh again,
which costs less than keeping a tensor of (B, S, A) for every step.

Shapes: B batch, N rows of which R share a source, S source, A attention, K chunks of rows.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt_cli.ops import native
from nmt_cli.ops.attend import by_source
from nmt_cli.ops.deferred import share
from nmt_cli.ops.matmul import full_precision

_FORWARD = native.Kernel(
    "additive_forward", native.SIZE, native.SIZE, native.SIZE, native.SIZE, native.COUNT, *[native.POINTER] * 6
)
_BACKWARD = native.Kernel(
    "additive_backward", native.SIZE, native.SIZE, native.SIZE, native.COUNT, *[native.POINTER] * 9
)


class AdditiveEnergies:
    """e_tj = v . tanh(q_t + k_j) for the steps t of one loop; keys and v get their gradients once, after it."""

    def __init__(self, keys_BSA: Tensor, v_A: Tensor, valid_BS: Tensor | None = None, rows: int = 1) -> None:
        """Prepare the keys. Without gradients, `rows` consecutive rows may share a source.

        Where `valid_BS` is False, energies mean nothing, and the kernel saves their computation.
        """
        self._rows = rows
        takes = native.takes(keys_BSA)
        self._steps = _KernelSteps(keys_BSA, v_A, valid_BS) if takes else _FormulaSteps(keys_BSA, v_A)
        self._shared = share(self._steps.gradients, keys_BSA, v_A)

    def __call__(self, query_BA: Tensor, extra_BSA: Tensor | None = None) -> Tensor:
        """Return energies (B, S); `extra_BSA` is added to query and keys inside the tanh."""
        with full_precision(query_BA):
            if not torch.is_grad_enabled():
                return self._steps.energies(query_BA, extra_BSA, self._rows)
            energy_BS: Tensor = _Step.apply(query_BA, extra_BSA, *self._shared, self._steps)  # type: ignore[no-untyped-call]
        return energy_BS


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query_BA: Tensor, extra_BSA: Tensor | None, _: Tensor, __: Tensor, steps: _FormulaSteps | _KernelSteps
    ) -> Tensor:
        ctx.save_for_backward(query_BA, extra_BSA)
        ctx.steps = steps
        return steps.energies(query_BA, extra_BSA, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_BS: Tensor) -> tuple[Tensor | None, ...]:
        query_BA, extra_BSA = ctx.saved_tensors
        return (*ctx.steps.step_back(query_BA, extra_BSA, gradient_BS), None, None, None)


class _FormulaSteps:
    """The plain formula. With s = sigmoid(2q + 2k) the energy is 2 v . s - sum_a v_a."""

    def __init__(self, keys_BSA: Tensor, v_A: Tensor) -> None:
        self._keys_BSA, self._v_A = keys_BSA.detach(), v_A.detach()
        # Written again at every step, so that the memory is warm.
        self._gates_BSA: Tensor | None = None
        self._step_gradient_BSA: Tensor | None = None
        self._gradients: tuple[Tensor, Tensor] | None = None

    def energies(self, query_NA: Tensor, extra_NSA: Tensor | None, rows: int) -> Tensor:
        """Return the energies (N, S)."""
        if rows == 1:
            gates_NSA = self._gates(query_NA, extra_NSA)
        else:
            query_BRA = by_source(query_NA, self._keys_BSA.shape[0], rows)
            summed_BRSA = torch.add(2.0 * query_BRA.unsqueeze(2), self._keys_BSA.unsqueeze(1), alpha=2.0)
            gates_NSA = summed_BRSA.flatten(0, 1)[: query_NA.shape[0]]
            if extra_NSA is not None:
                gates_NSA.add_(extra_NSA, alpha=2.0)
            gates_NSA.sigmoid_()
        return torch.matmul(gates_NSA, 2.0 * self._v_A).sub_(self._v_A.sum())

    def step_back(
        self, query_BA: Tensor, extra_BSA: Tensor | None, gradient_BS: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Add a step's share to the gradients of keys and v, and return the gradients of query and extra."""
        gates_BSA = self._gates(query_BA, extra_BSA)
        v_gradient_A = torch.mv(gates_BSA.flatten(0, 1).t(), gradient_BS.flatten()).mul_(2.0).sub_(gradient_BS.sum())
        # d tanh(x) / dx = 4 s (1 - s)
        gradient_BSA = torch.mul(gradient_BS.unsqueeze(-1), 4.0 * self._v_A, out=self._step_gradient_BSA)
        self._step_gradient_BSA = gradient_BSA
        torch.ops.aten.sigmoid_backward.grad_input(gradient_BSA, gates_BSA, grad_input=gradient_BSA)
        if self._gradients is None:
            self._gradients = gradient_BSA.clone(), v_gradient_A
        else:
            for total, gradient in zip(self._gradients, (gradient_BSA, v_gradient_A), strict=True):
                total.add_(gradient)
        return gradient_BSA.sum(dim=1), None if extra_BSA is None else gradient_BSA.clone()

    def gradients(self) -> tuple[Tensor, Tensor]:
        """Return the gradients of keys and v, after all steps."""
        assert self._gradients is not None
        gradients, self._gradients = self._gradients, None
        return gradients

    def _gates(self, query_BA: Tensor, extra_BSA: Tensor | None) -> Tensor:
        """Return s (B, S, A)."""
        summed_BSA = torch.add(2.0 * query_BA.unsqueeze(1), self._keys_BSA, alpha=2.0, out=self._gates_BSA)
        self._gates_BSA = summed_BSA
        if extra_BSA is not None:
            summed_BSA.add_(extra_BSA, alpha=2.0)
        return summed_BSA.sigmoid_()


class _KernelSteps:
    """The compiled kernel. Nothing of (B, S, A) is held except the gradient of the keys."""

    def __init__(self, keys_BSA: Tensor, v_A: Tensor, valid_BS: Tensor | None) -> None:
        self._keys_BSA, self._v_A = keys_BSA.detach().contiguous(), v_A.detach().contiguous()
        self._valid_BS = None if valid_BS is None else valid_BS.contiguous()
        self._gradients: tuple[Tensor, Tensor] | None = None

    def energies(self, query_NA: Tensor, extra_NSA: Tensor | None, rows: int) -> Tensor:
        """Return the energies (N, S)."""
        (num_rows, size), length = query_NA.shape, self._keys_BSA.shape[1]
        query_NA, extra_NSA = query_NA.contiguous(), None if extra_NSA is None else extra_NSA.contiguous()
        energies_NS = query_NA.new_empty(num_rows, length)
        tensors = (query_NA, self._keys_BSA, extra_NSA, self._v_A, self._valid_BS, energies_NS)
        chunks = native.num_chunks(num_rows, length * size)
        _FORWARD(query_NA.dtype, num_rows, rows, length, size, chunks, *map(native.address, tensors))
        return energies_NS

    def step_back(
        self, query_BA: Tensor, extra_BSA: Tensor | None, gradient_BS: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Add a step's share to the gradients of keys and v, and return the gradients of query and extra."""
        num_rows, length, size = self._keys_BSA.shape
        if self._gradients is None:
            chunks = native.num_chunks(num_rows, length * size)
            self._gradients = torch.zeros_like(self._keys_BSA), self._v_A.new_zeros(chunks, size)
        keys_gradient_BSA, v_gradient_KA = self._gradients
        query_BA, gradient_BS = query_BA.contiguous(), gradient_BS.contiguous()
        extra_BSA = None if extra_BSA is None else extra_BSA.contiguous()
        query_gradient_BA = torch.empty_like(query_BA)
        extra_gradient_BSA = None if extra_BSA is None else torch.empty_like(extra_BSA)
        tensors = (
            *(query_BA, self._keys_BSA, extra_BSA, self._v_A, gradient_BS),
            *(query_gradient_BA, keys_gradient_BSA, extra_gradient_BSA, v_gradient_KA),
        )
        sizes = (num_rows, length, size, len(v_gradient_KA))
        _BACKWARD(query_BA.dtype, *sizes, *map(native.address, tensors))
        return query_gradient_BA, extra_gradient_BSA

    def gradients(self) -> tuple[Tensor, Tensor]:
        """Return the gradients of keys and v, after all steps."""
        assert self._gradients is not None
        (keys_BSA, v_KA), self._gradients = self._gradients, None
        return keys_BSA, v_KA.sum(dim=0)
