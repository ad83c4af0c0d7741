"""CUDA graphs without a GPU: operations are recorded with the tensors that they read and write, and done again."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten


def tensors_in(tree):
    return [value for value in tree_flatten(tree)[0] if isinstance(value, Tensor)]


class Tape(TorchDispatchMode):
    """A record like a CUDA graph's: every operation below autograd and autocast, with its arguments as they stand.

    Whatever Python did on the way (a number read, a branch taken, a seed) is not on it. What a graph cannot hold is an
    error: an operation that gives a number to the host, or whose result has a shape that depends on values.
    """

    def __init__(self):
        super().__init__()
        self.operations = []
        self._made, self._before = set(), {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        assert torch.Tag.data_dependent_output not in function.tags, f"{function} waits for the device"
        indices = args[1] if function.overloadpacket._qualified_op_name.startswith("aten::index") else ()
        masks = [index for index in indices if index is not None and index.dtype == torch.bool] if indices else []
        has_mask = isinstance(indices, (list, tuple)) and masks
        dynamic = torch.Tag.dynamic_output_shape in function.tags and function is not torch.ops.aten.index.Tensor
        assert not dynamic, f"{function} gives a shape that depends on values"
        assert not has_mask, f"{function} picks by a mask"
        for tensor in tensors_in((args, kwargs)):
            place = tensor.untyped_storage().data_ptr()
            if place not in self._made and place not in self._before:
                self._before[place] = (tensor, tensor.clone())
        results = function(*args, **kwargs)
        made = tensors_in(results)
        self._made.update(tensor.untyped_storage().data_ptr() for tensor in made)
        aliases = [returned.alias_info for returned in function._schema.returns]
        if any(alias is not None and not alias.is_write for alias in aliases):
            kind = "view"
        else:
            kind = "in place" if any(aliases) else "new"
        self.operations.append((kind, function, args, kwargs, made))
        return results

    def rewind(self):
        """Undo what recording did to tensors that were there before: a capture does nothing."""
        for tensor, values in self._before.values():
            with torch.no_grad():
                tensor.copy_(values)
        self._before.clear()

    def play(self):
        with torch.no_grad():
            for kind, function, args, kwargs, made in self.operations:
                if kind == "view":
                    continue
                again = function(*args, **kwargs)
                if kind == "new":
                    for kept, values in zip(made, tensors_in(again), strict=True):
                        kept.copy_(values)


class Tapes:
    """Takes the place of `CudaGraphs`, and remembers what was asked of it."""

    def __init__(self, failure=None, *, spoil=None):
        """`failure` is raised by every capture; `spoil` is called after every replay."""
        self.asked, self._failure, self._spoil = [], failure, spoil
        self._broken = None

    def run(self, work):
        self.asked.append("run")
        before = self._broken and self._broken.get_state()
        work()
        assert self._broken is None or torch.equal(self._broken.get_state(), before), "a broken generator was asked"

    def capture(self, work, generator):
        self.asked.append("capture")
        if self._failure is not None:
            # As in torch, whose generators stay in the capture that failed: to ask them is an error from then on.
            self._broken = generator
            raise self._failure
        state, tape = generator.get_state(), Tape()
        with tape:
            work()
        tape.rewind()
        generator.set_state(state)

        def replay():
            self.asked.append("replay")
            tape.play()
            if self._spoil is not None:
                self._spoil()

        return replay

    def release(self):
        self.asked.append("release")
