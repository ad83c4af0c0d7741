"""Additive energies at every step of one loop, `AdditiveEnergies`, by formula or compiled kernel.

e_tj = v . tanh(q_t + k_j) (Bahdanau et al., 2015, A.1.2), in full precision. The backward pass computes the tanh again,
which costs less than keeping a tensor of (B, S, A) for every step: by the kernel, or by autograd from the formula.

Shapes: B batch, N rows of which R share a source, S source, A attention, K chunks of rows.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from nmt_cli.ops import native
from nmt_cli.ops.attention_products import group_by_source
from nmt_cli.ops.deferred_gradients import defer_gradients
from nmt_cli.ops.matmul import full_precision

_FORWARD = native.Kernel(
    "additive_forward", native.SIZE, native.SIZE, native.SIZE, native.SIZE, native.COUNT, *[native.POINTER] * 6
)
_BACKWARD = native.Kernel(
    "additive_backward", native.SIZE, native.SIZE, native.SIZE, native.COUNT, *[native.POINTER] * 9
)


def additive_energies(
    query_NA: Tensor, keys_BSA: Tensor, v_A: Tensor, extra_NSA: Tensor | None = None, rows: int = 1
) -> Tensor:
    """Return v . tanh(q + k_j) (N, S) for each row of the query and each position j of its source, by the formula.

    `extra_NSA` is added inside the tanh. `rows` consecutive rows share a source.
    """
    # tanh x = 2 sigmoid(2 x) - 1, and on CPUs torch's sigmoid takes a third of the time of its tanh.
    query_BRA = 2.0 * group_by_source(query_NA, keys_BSA.shape[0], rows)
    doubled_BRSA = torch.add(query_BRA.unsqueeze(2), keys_BSA.unsqueeze(1), alpha=2.0)
    doubled_NSA = doubled_BRSA.flatten(0, 1)[: query_NA.shape[0]]
    if extra_NSA is not None:
        doubled_NSA = torch.add(doubled_NSA, extra_NSA, alpha=2.0)
    return torch.matmul(torch.sigmoid(doubled_NSA), 2.0 * v_A) - v_A.sum()


_recomputed_energies = partial(checkpoint, additive_energies, use_reentrant=False, preserve_rng_state=False)
"""`additive_energies` for training: saves only its arguments, and computes the tanh again in the backward pass."""


class AdditiveEnergies:
    """The energies e_tj = v . tanh(q_t + k_j) at the steps t of one loop. With the kernel, the gradients of keys and v
    are summed over all steps and handed to autograd once, after the loop."""

    def __init__(self, keys_BSA: Tensor, v_A: Tensor, valid_BS: Tensor | None = None, rows: int = 1) -> None:
        """Prepare a loop over these keys. Without gradients, `rows` consecutive rows of the query may share a source.

        At positions where `valid_BS` is False the energies are meaningless; the kernel does not compute them.
        """
        self._rows, self._keys_BSA, self._v_A = rows, keys_BSA, v_A
        self._kernel = _KernelSteps(keys_BSA, v_A, valid_BS) if native.has_kernels_for(keys_BSA) else None
        if self._kernel is not None:
            self._keys_BSA, self._v_A = defer_gradients(self._kernel.gradients, keys_BSA, v_A)

    def __call__(self, query_BA: Tensor, extra_BSA: Tensor | None = None) -> Tensor:
        """Return the energies (B, S) of a step; `extra_BSA` is added to query and keys inside the tanh."""
        with full_precision(query_BA):
            if self._kernel is None:
                formula = additive_energies if not torch.is_grad_enabled() else _recomputed_energies
                return formula(query_BA, self._keys_BSA, self._v_A, extra_BSA, self._rows)
            if not torch.is_grad_enabled():
                return self._kernel.energies(query_BA, extra_BSA, self._rows)
            arguments = (query_BA, extra_BSA, self._keys_BSA, self._v_A, self._kernel)
            energy_BS: Tensor = _Step.apply(*arguments)  # type: ignore[no-untyped-call]
        return energy_BS


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query_BA: Tensor, extra_BSA: Tensor | None, _: Tensor, __: Tensor, kernel: _KernelSteps
    ) -> Tensor:
        ctx.save_for_backward(query_BA, extra_BSA)
        ctx.kernel = kernel
        return kernel.energies(query_BA, extra_BSA, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_BS: Tensor) -> tuple[Tensor | None, ...]:
        query_BA, extra_BSA = ctx.saved_tensors
        return (*ctx.kernel.backward_step(query_BA, extra_BSA, gradient_BS), None, None, None)


class _KernelSteps:
    """Calls the compiled kernel at the steps of one loop. Between steps it holds no tensor (B, S, A) except the keys
    and their gradient."""

    def __init__(self, keys_BSA: Tensor, v_A: Tensor, valid_BS: Tensor | None) -> None:
        self._keys_BSA, self._v_A = keys_BSA.detach().contiguous(), v_A.detach().contiguous()
        self._valid_BS = None if valid_BS is None else valid_BS.contiguous()
        self._gradients: tuple[Tensor, Tensor] | None = None

    def energies(self, query_NA: Tensor, extra_NSA: Tensor | None, rows: int) -> Tensor:
        """Return the energies (N, S) of a step; `rows` consecutive rows of the query share a source."""
        (num_rows, size), length = query_NA.shape, self._keys_BSA.shape[1]
        query_NA, extra_NSA = query_NA.contiguous(), None if extra_NSA is None else extra_NSA.contiguous()
        energies_NS = query_NA.new_empty(num_rows, length)
        tensors = (query_NA, self._keys_BSA, extra_NSA, self._v_A, self._valid_BS, energies_NS)
        chunks = native.num_chunks(num_rows, length * size)
        _FORWARD(query_NA.dtype, num_rows, rows, length, size, chunks, *map(native.address, tensors))
        return energies_NS

    def backward_step(
        self, query_BA: Tensor, extra_BSA: Tensor | None, gradient_BS: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Add a step's gradients of keys and v to their sums, and return its gradients of query and `extra_BSA`."""
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
        """Return the gradients of keys (B, S, A) and v (A), summed over all steps, and forget them."""
        assert self._gradients is not None
        (keys_BSA, v_KA), self._gradients = self._gradients, None
        return keys_BSA, v_KA.sum(dim=0)
