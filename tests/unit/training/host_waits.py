"""Finds operations that make the host wait for a GPU, without a GPU."""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class NoHostWaits(TorchDispatchMode):
    """Refuses operations that give a number to the host, or whose result has a shape that depends on values."""

    def __init__(self):
        super().__init__()
        self.num_operations = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        assert torch.Tag.data_dependent_output not in function.tags, f"{function} waits for the device"
        indices = args[1] if function.overloadpacket._qualified_op_name.startswith("aten::index") else ()
        masks = [index for index in indices if index is not None and index.dtype == torch.bool] if indices else []
        has_mask = isinstance(indices, (list, tuple)) and masks
        dynamic = torch.Tag.dynamic_output_shape in function.tags and function is not torch.ops.aten.index.Tensor
        assert not dynamic, f"{function} gives a shape that depends on values"
        assert not has_mask, f"{function} picks by a mask"
        self.num_operations += 1
        return function(*args, **(kwargs or {}))
