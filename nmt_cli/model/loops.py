"""What the steps of a recurrent loop share, with the gradient of what is shared made once, after the loop.

Autograd alone would make a product and an addition as large as the shared tensor at every step; here the steps keep
what the gradient needs, and one product makes it. A `Loop...` is a value of one forward pass.

Shapes: B batch, I inputs, O outputs, N all steps' rows, or the rows of a step where R of them share a source, S source,
C annotation, A attention, T steps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from nmt_cli import native
from nmt_cli.model.products import matmul, missing_rows, summed_outer, with_missing_rows

Place = Callable[[Tensor], Tensor]
"""Where the gradient of a product belongs, from the product or one like it: who writes it there saves a copy."""


def full_precision(tensor: Tensor) -> torch.autocast:
    """A region in which autocast leaves products alone."""
    return torch.autocast(tensor.device.type, enabled=False)


def tanh_(values: Tensor) -> Tensor:
    """tanh in place; tanh x = 2 sigmoid(2x) - 1, because torch's sigmoid is three to six times faster on CPUs."""
    if values.device.type != "cpu":
        return values.tanh_()
    return values.mul_(2.0).sigmoid_().mul_(2.0).sub_(1.0)


def tanh(values: Tensor) -> Tensor:
    """tanh, by `tanh_`."""
    if not torch.is_grad_enabled():
        return tanh_(values.clone())
    result: Tensor = _Tanh.apply(values)  # type: ignore[no-untyped-call]
    return result


def by_source(rows_NX: Tensor, num_sources: int, rows: int) -> Tensor:
    """(B, R, X): the R rows of each source side by side, zeros where the last are missing."""
    missing = num_sources * rows - rows_NX.shape[0]
    return (F.pad(rows_NX, (0, 0, 0, missing)) if missing else rows_NX).view(num_sources, rows, -1)


def inner_products(keys_BSA: Tensor, query_NA: Tensor, rows: int = 1) -> Tensor:
    """k_j . q for each position j of a row's source (N, S).

    Written with the query on the left: as `bmm(keys, query)` it takes fourteen times as long on CPUs.
    """
    query_BRA = by_source(query_NA, keys_BSA.shape[0], rows)
    return torch.bmm(query_BRA, keys_BSA.transpose(1, 2)).flatten(0, 1)[: query_NA.shape[0]]


def weighted_sum(weights_NS: Tensor, values_BSC: Tensor, rows: int = 1) -> Tensor:
    """sum_j alpha_j h_j of each row (N, C)."""
    weights_BRS = by_source(weights_NS, values_BSC.shape[0], rows)
    return torch.bmm(weights_BRS, values_BSC).flatten(0, 1)[: weights_NS.shape[0]]


class LoopProduct:
    """x_t W for the steps t of one loop, in bfloat16 where autocast says so; W is cast once."""

    def __init__(self, weight_IO: Tensor) -> None:
        """`weight_IO` is (I, O), or (D, I, O) for directions that go side by side."""
        self._steps = ProductSteps(weight_IO)
        (self._shared_IO,) = share(self._steps.weight_gradient, weight_IO)

    def __call__(self, inputs_BI: Tensor) -> Tensor:
        """x W in the dtype of x."""
        return self._multiply(inputs_BI, inputs_BI.dtype)

    def as_multiplied(self, inputs_BI: Tensor) -> tuple[Tensor, Place | None]:
        """x W in the products' dtype, and where its gradient belongs."""
        return self._multiply(inputs_BI, self._steps.product_type), self._steps.place_of_last()

    def _multiply(self, inputs_BI: Tensor, dtype: torch.dtype) -> Tensor:
        if not torch.is_grad_enabled():
            return self._steps.product(inputs_BI.to(self._steps.product_type)).to(dtype)
        product: Tensor = _Product.apply(inputs_BI, self._shared_IO, self._steps, dtype)  # type: ignore[no-untyped-call]
        return product


class LoopInputs:
    """x_t W for the steps t of one loop whose inputs are known before it: one product, and each step gets its part.

    The whole is kept in the products' dtype; what follows the product is done step by step, on memory that is warm.
    """

    def __init__(self, inputs_TBI: Tensor, weight_IO: Tensor) -> None:
        """`inputs_TBI` is (T, B, I), or (D, T, B, I) for a weight (D, I, O)."""
        self._steps = InputSteps(inputs_TBI, weight_IO)
        self._shared = share(self._steps.gradients, inputs_TBI, weight_IO)

    def __call__(self, step: int) -> Tensor:
        """The product (B, O) of a step, in the dtype of the inputs."""
        return self._part(step, self._steps.input_type)

    def as_multiplied(self, step: int) -> tuple[Tensor, Place]:
        """The product of a step in the products' dtype, and where its gradient belongs."""
        return self._part(step, self._steps.product_type), partial(self._steps.place, step)

    def _part(self, step: int, dtype: torch.dtype) -> Tensor:
        if not torch.is_grad_enabled():
            return self._steps.part(step).to(dtype)
        part: Tensor = _Part.apply(*self._shared, self._steps, step, dtype)  # type: ignore[no-untyped-call]
        return part


class LoopSum:
    """c_t = sum_j alpha_tj h_j for the steps t of one loop, in full precision.

    This and what follows: without gradients, `rows` consecutive rows may share a source.
    """

    def __init__(self, values_BSC: Tensor, rows: int = 1) -> None:
        self._rows = rows
        self._steps: list[tuple[Tensor, Tensor]] = []
        (self._shared_BSC,) = share(partial(_sum_of_outer_products, self._steps), values_BSC)

    def __call__(self, weights_BS: Tensor) -> Tensor:
        with full_precision(weights_BS):
            if not torch.is_grad_enabled():
                return weighted_sum(weights_BS, self._shared_BSC, self._rows)
            context_BC: Tensor = _Sum.apply(weights_BS, self._shared_BSC, self._steps)  # type: ignore[no-untyped-call]
        return context_BC


class LoopInnerProducts:
    """e_tj = k_j . q_t for the steps t of one loop, in full precision."""

    def __init__(self, keys_BSA: Tensor, rows: int = 1) -> None:
        self._rows = rows
        self._steps: list[tuple[Tensor, Tensor]] = []
        (self._shared_BSA,) = share(partial(_sum_of_outer_products, self._steps), keys_BSA)

    def __call__(self, query_BA: Tensor) -> Tensor:
        with full_precision(query_BA):
            if not torch.is_grad_enabled():
                return inner_products(self._shared_BSA, query_BA, self._rows)
            energy_BS: Tensor = _Inner.apply(query_BA, self._shared_BSA, self._steps)  # type: ignore[no-untyped-call]
        return energy_BS


class LoopAdditive:
    """e_tj = v . tanh(q_t + k_j) for the steps t of one loop, in full precision (Bahdanau et al., 2015, A.1.2).

    The backward pass makes the tanh again, which costs less than keeping a tensor of (B, S, A) for every step.
    """

    def __init__(self, keys_BSA: Tensor, v_A: Tensor, rows: int = 1) -> None:
        self._rows = rows
        self._steps = (NativeAdditiveSteps if native.takes(keys_BSA) else AdditiveSteps)(keys_BSA, v_A)
        self._shared = share(self._steps.gradients, keys_BSA, v_A)

    def __call__(self, query_BA: Tensor, extra_BSA: Tensor | None = None) -> Tensor:
        """Energies (B, S); `extra_BSA` enters beside query and keys."""
        with full_precision(query_BA):
            if not torch.is_grad_enabled():
                return self._steps.energies_of_rows(query_BA, extra_BSA, self._rows)
            energy_BS: Tensor = _Additive.apply(query_BA, extra_BSA, *self._shared, self._steps)  # type: ignore[no-untyped-call]
        return energy_BS


# What the steps keep. The graph holds these, so they must not hold the graph: a tensor with a history in them would
# close a circle that is never freed.


class ProductSteps:
    """The inputs and the gradients of a `LoopProduct`."""

    def __init__(self, weight_IO: Tensor) -> None:
        self.product_type = _product_type(weight_IO)
        self.cast_IO = weight_IO.detach().to(self.product_type)
        self.inputs: list[Tensor] = []
        self._weight_type = weight_IO.dtype
        self._gradients = StepGradients(self.product_type)

    def product(self, cast_BI: Tensor) -> Tensor:
        """x W, both in the products' dtype."""
        return matmul(cast_BI, self.cast_IO)

    def keep_inputs(self, inputs_BI: Tensor) -> int:
        """Remember what a step multiplied; its number comes back."""
        self.inputs.append(inputs_BI.detach())
        return len(self.inputs) - 1

    def place_of_last(self) -> Place | None:
        """Where the gradient of the product made last belongs; nowhere if the matrix wants none."""
        return partial(self.place, len(self.inputs) - 1) if self.inputs else None

    def place(self, step: int, like_BO: Tensor) -> Tensor:
        """Where the gradient of a step's product belongs."""
        return self._gradients.place(step, len(self.inputs), like_BO)

    def keep_gradient(self, step: int, gradient_BO: Tensor) -> Tensor:
        """Remember the gradient of a step's product, which comes back in the products' dtype."""
        return self._gradients.keep(step, len(self.inputs), gradient_BO)

    def weight_gradient(self) -> tuple[Tensor]:
        """sum_t x_t^T g_t, as one product over all steps' rows."""
        gradients_NO = self._gradients.take()
        missing = gradients_NO.shape[-2] - sum(inputs_BI.shape[-2] for inputs_BI in self.inputs)
        zeros_XI = gradients_NO.new_zeros(*self.inputs[0].shape[:-2], missing, self.inputs[0].shape[-1])
        inputs_NI = torch.cat([*self.inputs, zeros_XI], dim=-2)
        return (summed_outer(inputs_NI, gradients_NO).to(self._weight_type),)


class InputSteps:
    """The product of a `LoopInputs` and its gradients."""

    def __init__(self, inputs_TBI: Tensor, weight_IO: Tensor) -> None:
        self.input_type, self.product_type = inputs_TBI.dtype, _product_type(weight_IO)
        self._sizes = inputs_TBI.shape[-3:-1]
        self._inputs_NI = with_missing_rows(inputs_TBI.detach().to(self.product_type).flatten(-3, -2))
        self._weight_IO = weight_IO.detach().to(self.product_type)
        self._products_TBO = self._of_steps(torch.matmul(self._inputs_NI, self._weight_IO))
        self._gradients = StepGradients(self.product_type)

    def part(self, step: int) -> Tensor:
        """What a step gets."""
        part_BO: Tensor = self._products_TBO.select(-3, step)
        return part_BO

    def place(self, step: int, like_BO: Tensor) -> Tensor:
        """Where the gradient of a step's part belongs."""
        return self._gradients.place(step, self._sizes[0], like_BO)

    def keep_gradient(self, step: int, gradient_BO: Tensor) -> None:
        """Remember the gradient of a step's part."""
        self._gradients.keep(step, self._sizes[0], gradient_BO)

    def gradients(self) -> tuple[Tensor, Tensor]:
        """Of the inputs and of the weight, a product each."""
        gradients_NO = self._gradients.take()
        inputs_NI = torch.matmul(gradients_NO, self._weight_IO.transpose(-1, -2))
        weight_IO = summed_outer(self._inputs_NI, gradients_NO)
        return self._of_steps(inputs_NI).to(self.input_type), weight_IO.to(self.input_type)

    def _of_steps(self, rows_NX: Tensor) -> Tensor:
        """(T, B, X), without the rows that only pad."""
        steps_TBX: Tensor = rows_NX[..., : self._sizes.numel(), :].unflatten(-2, self._sizes)
        return steps_TBX


class AdditiveSteps:
    """The gradients of keys and v of a `LoopAdditive`, and the formulas of both passes.

    With s = sigmoid(2q + 2k) the energy is 2 v . s - sum_a v_a.
    """

    def __init__(self, keys_BSA: Tensor, v_A: Tensor) -> None:
        self._keys_BSA, self._v_A = keys_BSA.detach(), v_A.detach()
        # Written again at every step: memory that is warm, and no more of it than one step needs.
        self._gates_BSA: Tensor | None = None
        self._step_gradient_BSA: Tensor | None = None
        self._gradients: tuple[Tensor, Tensor] | None = None

    def gates(self, query_BA: Tensor, extra_BSA: Tensor | None) -> Tensor:
        """s (B, S, A)."""
        summed_BSA = torch.add(2.0 * query_BA.unsqueeze(1), self._keys_BSA, alpha=2.0, out=self._gates_BSA)
        self._gates_BSA = summed_BSA
        if extra_BSA is not None:
            summed_BSA.add_(extra_BSA, alpha=2.0)
        return summed_BSA.sigmoid_()

    def energies(self, gates_BSA: Tensor) -> Tensor:
        """2 v . s - sum_a v_a."""
        return torch.matmul(gates_BSA, 2.0 * self._v_A).sub_(self._v_A.sum())

    def energies_of_rows(self, query_NA: Tensor, extra_NSA: Tensor | None, rows: int) -> Tensor:
        """Energies (N, S) where so many rows share a source; not for a step that has a gradient."""
        if rows == 1:
            return self.energies(self.gates(query_NA, extra_NSA))
        query_BRA = by_source(query_NA, self._keys_BSA.shape[0], rows)
        summed_BRSA = torch.add(2.0 * query_BRA.unsqueeze(2), self._keys_BSA.unsqueeze(1), alpha=2.0)
        summed_NSA = summed_BRSA.flatten(0, 1)[: query_NA.shape[0]]
        if extra_NSA is not None:
            summed_NSA.add_(extra_NSA, alpha=2.0)
        return self.energies(summed_NSA.sigmoid_())

    def step(self, query_BA: Tensor, extra_BSA: Tensor | None) -> Tensor:
        """The energies of a step."""
        return self.energies(self.gates(query_BA, extra_BSA))

    def step_back(
        self, query_BA: Tensor, extra_BSA: Tensor | None, gradient_BS: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Add a step's share to the gradients of keys and v; those of query and extra come back."""
        gates_BSA = self.gates(query_BA, extra_BSA)
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
        """Of keys and v."""
        assert self._gradients is not None
        gradients, self._gradients = self._gradients, None
        return gradients


class NativeAdditiveSteps:
    """`AdditiveSteps` by the kernels, which hold nothing of (B, S, A) but the gradient of the keys."""

    def __init__(self, keys_BSA: Tensor, v_A: Tensor) -> None:
        self._keys_BSA, self._v_A = keys_BSA.detach().contiguous(), v_A.detach().contiguous()
        self._gradients: tuple[Tensor, Tensor] | None = None

    def energies_of_rows(self, query_NA: Tensor, extra_NSA: Tensor | None, rows: int) -> Tensor:
        """Energies (N, S) where so many rows share a source."""
        return native.additive(query_NA.contiguous(), self._keys_BSA, _contiguous(extra_NSA), self._v_A, rows)

    def step(self, query_BA: Tensor, extra_BSA: Tensor | None) -> Tensor:
        """The energies of a step."""
        return self.energies_of_rows(query_BA, extra_BSA, 1)

    def step_back(
        self, query_BA: Tensor, extra_BSA: Tensor | None, gradient_BS: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Add a step's share to the gradients of keys and v; those of query and extra come back."""
        if self._gradients is None:
            (num_rows, length, size), v_A = self._keys_BSA.shape, self._v_A
            chunks = native.num_chunks(num_rows, length * size)
            self._gradients = torch.zeros_like(self._keys_BSA), v_A.new_zeros(chunks, size)
        keys_BSA, v_A = self._keys_BSA, self._v_A
        return native.additive_backward(
            query_BA.contiguous(), keys_BSA, _contiguous(extra_BSA), v_A, gradient_BS.contiguous(), *self._gradients
        )

    def gradients(self) -> tuple[Tensor, Tensor]:
        """Of keys and v."""
        assert self._gradients is not None
        (keys_BSA, v_KA), self._gradients = self._gradients, None
        return keys_BSA, v_KA.sum(dim=0)


def _contiguous(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.contiguous()


class StepGradients:
    """The gradients of all steps of a loop in one tensor, into which each is written when it is known."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._all_NO: Tensor | None = None
        """Those of all steps, and rows of zeros below."""
        self._num_rows = 0
        """Of a step."""
        self._missing: set[int] = set()

    def place(self, step: int, num_steps: int, like_BO: Tensor) -> Tensor:
        """Where a step's gradient belongs."""
        if self._all_NO is None:
            *directions, self._num_rows, size = like_BO.shape
            num_rows = num_steps * self._num_rows
            missing = missing_rows(num_rows, like_BO.device, self._dtype)
            self._all_NO = like_BO.new_empty(*directions, num_rows + missing, size, dtype=self._dtype)
            self._all_NO[..., num_rows:, :] = 0
            self._missing = set(range(num_steps))
        return self._of_step(self._all_NO, step)

    def keep(self, step: int, num_steps: int, gradient_BO: Tensor) -> Tensor:
        """Write a step's gradient, unless it stands in its place already; its place comes back."""
        kept_BO = self.place(step, num_steps, gradient_BO)
        if gradient_BO.data_ptr() != kept_BO.data_ptr():
            kept_BO.copy_(gradient_BO)
        self._missing.discard(step)
        return kept_BO

    def take(self) -> Tensor:
        """All steps' rows (N, O), with those that products want below, and zeros for a step on which nothing depended;
        they are kept no longer."""
        assert self._all_NO is not None
        all_NO, self._all_NO = self._all_NO, None
        for step in self._missing:
            self._of_step(all_NO, step).zero_()
        return all_NO

    def _of_step(self, all_NO: Tensor, step: int) -> Tensor:
        return all_NO.narrow(-2, step * self._num_rows, self._num_rows)


def _product_type(weight: Tensor) -> torch.dtype:
    """The dtype in which autocast multiplies with a weight."""
    device_type = weight.device.type
    autocasts = torch.is_autocast_enabled(device_type) and weight.dtype == torch.float32
    return torch.get_autocast_dtype(device_type) if autocasts else weight.dtype


def share(gradients: Callable[[], tuple[Tensor, ...]], *tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors as the steps of a loop get them. The steps return no gradients for them: `gradients` makes these when
    autograd has gone back through all steps."""
    if not torch.is_grad_enabled():
        return tensors
    shared: tuple[Tensor, ...] = _Shared.apply(gradients, *tensors)  # type: ignore[no-untyped-call]
    return shared


def _sum_of_outer_products(steps: list[tuple[Tensor, Tensor]]) -> tuple[Tensor]:
    """sum_t a_t b_t^T (B, S, C) of all steps' (B, S) and (B, C)."""
    left_BST, right_BTC = torch.stack([left for left, _ in steps], 2), torch.stack([right for _, right in steps], 1)
    steps.clear()
    return (torch.bmm(left_BST, right_BTC),)


# Every backward pass below is compared with autograd's of the plain formula in tests/unit/model/test_gradients.py.


class _Shared(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gradients: Callable[[], tuple[Tensor, ...]], *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.gradients = gradients
        ctx.set_materialize_grads(False)
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *_: Tensor | None) -> tuple[Tensor | None, ...]:
        return (None, *ctx.gradients())


class _Tanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        result = tanh_(values.clone())
        ctx.save_for_backward(result)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (result,) = ctx.saved_tensors
        before: Tensor = torch.ops.aten.tanh_backward(gradient, result)
        return before


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs_BI: Tensor, _: Tensor, steps: ProductSteps, dtype: torch.dtype) -> Tensor:
        cast_BI = inputs_BI.to(steps.product_type)
        ctx.steps, ctx.input_type = steps, inputs_BI.dtype
        ctx.step = steps.keep_inputs(cast_BI) if ctx.needs_input_grad[1] else None
        return steps.product(cast_BI).to(dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_BO: Tensor) -> tuple[Tensor | None, None, None, None]:
        steps: ProductSteps = ctx.steps
        cast_BO = gradient_BO.to(steps.product_type) if ctx.step is None else steps.keep_gradient(ctx.step, gradient_BO)
        if not ctx.needs_input_grad[0]:
            return None, None, None, None
        return matmul(cast_BO, steps.cast_IO.transpose(-1, -2)).to(ctx.input_type), None, None, None


class _Part(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, _: Tensor, __: Tensor, steps: InputSteps, step: int, dtype: torch.dtype) -> Tensor:
        ctx.steps, ctx.step = steps, step
        return steps.part(step).to(dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_BO: Tensor) -> tuple[None, ...]:
        ctx.steps.keep_gradient(ctx.step, gradient_BO)
        return None, None, None, None, None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights_BS: Tensor, values_BSC: Tensor, steps: list[tuple[Tensor, Tensor]]) -> Tensor:
        ctx.save_for_backward(weights_BS, values_BSC)
        ctx.steps = steps
        return weighted_sum(weights_BS, values_BSC)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_BC: Tensor) -> tuple[Tensor, None, None]:
        weights_BS, values_BSC = ctx.saved_tensors
        ctx.steps.append((weights_BS, gradient_BC))
        return inner_products(values_BSC, gradient_BC), None, None


class _Inner(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query_BA: Tensor, keys_BSA: Tensor, steps: list[tuple[Tensor, Tensor]]) -> Tensor:
        ctx.save_for_backward(query_BA, keys_BSA)
        ctx.steps = steps
        return inner_products(keys_BSA, query_BA)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_BS: Tensor) -> tuple[Tensor, None, None]:
        query_BA, keys_BSA = ctx.saved_tensors
        ctx.steps.append((gradient_BS, query_BA))
        return torch.bmm(gradient_BS.unsqueeze(1), keys_BSA).squeeze(1), None, None


class _Additive(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query_BA: Tensor, extra_BSA: Tensor | None, _: Tensor, __: Tensor,
        steps: AdditiveSteps | NativeAdditiveSteps,
    ) -> Tensor:  # fmt: skip
        ctx.save_for_backward(query_BA, extra_BSA)
        ctx.steps = steps
        return steps.step(query_BA, extra_BSA)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_BS: Tensor) -> tuple[Tensor | None, ...]:
        query_BA, extra_BSA = ctx.saved_tensors
        return (*ctx.steps.step_back(query_BA, extra_BSA, gradient_BS), None, None, None)
