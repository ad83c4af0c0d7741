"""Dynamic int8 quantisation: weights once, with a scale a column; activations at every product, with a scale a row, so
that a sentence does not depend on its neighbours."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nmt_cli.model.attention import AdditiveScore
from nmt_cli.model.cells import InputProjection, RecurrentCell
from nmt_cli.model.seq2seq import Seq2Seq


class Int8Product:
    """x W with both in int8, summed in int32."""

    def __init__(self, weight_IO: Tensor) -> None:
        """`weight_IO` is (inputs, outputs)."""
        scale_O = weight_IO.abs().amax(dim=0).clamp(min=1e-12) / 127.0
        quantised_IO = (weight_IO / scale_O).round().to(torch.int8)
        self._weight_IO = quantised_IO.t().contiguous().t()  # the layout in which the product is fastest
        self._scale_O = scale_O

    def __call__(self, inputs: Tensor) -> Tensor:
        rows_NI = inputs.reshape(-1, inputs.shape[-1])
        scale_N1 = rows_NI.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / 127.0
        quantised_NI = (rows_NI / scale_N1).round().to(torch.int8)
        product_NO: Tensor = torch._int_mm(quantised_NI, self._weight_IO).to(inputs.dtype) * scale_N1 * self._scale_O
        return product_NO.view(*inputs.shape[:-1], -1)


class _Int8Linear(nn.Module):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self._product = Int8Product(linear.weight.detach().t())
        self._bias = linear.bias

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = self._product(inputs)
        return outputs if self._bias is None else outputs + self._bias


def quantise(model: Seq2Seq) -> Seq2Seq:
    """Quantise, in place, the matrices of the decoder and the projection to the vocabulary.

    The encoder runs once a sentence and stays in float32, as do products too small to gain anything.
    """
    for parent in list(model.decoder.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear) and min(child.weight.shape) >= 64:
                setattr(parent, name, _Int8Linear(child))
        if isinstance(parent, (InputProjection, RecurrentCell)) and parent.weight.dim() == 2 and len(parent.weight):
            parent.quantised = Int8Product(parent.weight.detach())
        if isinstance(parent, AdditiveScore):
            parent.quantised = Int8Product(parent.query.detach())
    model.quantised_output = Int8Product(model.output_weight.detach().t())
    return model
