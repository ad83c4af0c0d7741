"""The inner loops of training and search on a CPU, compiled where the package was installed with a C++ compiler.

What each kernel computes is written plainly where it is used (model/cells.py, model/loops.py, training/loss.py,
search/beam.py, translation/step_model.py), runs there where the kernels do not, and is what the tests hold them to.
docs/adr/0017 has the reasons.

Shapes: D directions, B batch, H hidden, G gates (3H), N rows, S source, A attention, V vocabulary, K chunks of rows.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

import torch
from torch import Tensor

VERSION = 1
"""That of the kernels which this module knows how to call."""
MISSING = "without compiled kernels, so slower: install nmt-cli (again) where there is a C++ compiler"
"""What is said once where they are not."""
NATIVE, PLAIN = "native", "plain"
WORK_OF_A_THREAD = 16_384
"""Numbers below which another thread is not worth its start."""
_TYPES = {torch.float32: "float", torch.float64: "double", torch.bfloat16: "bfloat16"}
_switched_on = True


@cache
def is_built() -> bool:
    """Whether kernels of this version are there and can be loaded."""
    return _library() is not None


@contextmanager
def path(name: str) -> Iterator[None]:
    """A region that takes the kernels (`native`), where they are built, or the plain formulas (`plain`)."""
    global _switched_on
    before, _switched_on = _switched_on, name == NATIVE
    try:
        yield
    finally:
        _switched_on = before


def takes(tensor: Tensor) -> bool:
    """Whether kernels work on this tensor, a state or the like."""
    known = tensor.device.type == "cpu" and tensor.dtype in (torch.float32, torch.float64)
    return known and _switched_on and is_built()


class Term(NamedTuple):
    """One of the products whose sum are a cell's gates, in the dtype of all of them, and what finishes it."""

    product_DBG: Tensor
    """(B, G) or (D, B, G), where a direction may lie anywhere."""
    gain_DG: Tensor | None
    """Of the layer normalisation of each gate; None: there is none."""
    bias_DG: Tensor | None


class TermGradient(NamedTuple):
    """Where the gradients of a `Term` go; those of gain and bias are added to."""

    product_DBG: Tensor
    gain_KDG: Tensor | None
    bias_KDG: Tensor | None


def num_chunks(num_rows: int, row_size: int) -> int:
    """In how many chunks so many rows of so many numbers are done: K of what sums over rows."""
    return max(1, min(torch.get_num_threads(), num_rows, num_rows * row_size // WORK_OF_A_THREAD))


def gru(terms: Sequence[Term], hidden_DBH: Tensor) -> Tensor:
    """h' of a gated recurrent unit (`model.cells.gru_update`), the last term being that of the recurrence."""
    updated_DBH = torch.empty_like(hidden_DBH)
    packed, sizes = _packed(terms, [None] * len(terms)), _gru_sizes(hidden_DBH)
    _kernel("gru_forward", terms[0].product_DBG)(packed, len(terms), *sizes, _at(hidden_DBH), _at(updated_DBH))
    return updated_DBH


def gru_backward(
    terms: Sequence[Term], gradients: Sequence[TermGradient], hidden_DBH: Tensor, gradient_DBH: Tensor
) -> Tensor:
    """Write the gradients of the terms; that of h comes back, without what comes through the recurrent product."""
    hidden_gradient_DBH = torch.empty_like(hidden_DBH)
    packed, sizes = _packed(terms, gradients), _gru_sizes(hidden_DBH)
    _kernel("gru_backward", terms[0].product_DBG)(
        packed, len(terms), *sizes, _at(hidden_DBH), _at(gradient_DBH), _at(hidden_gradient_DBH)
    )
    return hidden_gradient_DBH


def additive(query_NA: Tensor, keys_BSA: Tensor, extra_NSA: Tensor | None, v_A: Tensor, rows: int) -> Tensor:
    """v . tanh(q + k (+ extra)) of every position (N, S); so many consecutive rows share a source."""
    (num_rows, size), length = query_NA.shape, keys_BSA.shape[1]
    energies_NS = query_NA.new_empty(num_rows, length)
    _kernel("additive_forward", query_NA)(
        *(num_rows, rows, length, size, num_chunks(num_rows, length * size)),
        *(_at(query_NA), _at(keys_BSA), _at(extra_NSA), _at(v_A), _at(energies_NS)),
    )
    return energies_NS


def additive_backward(
    query_BA: Tensor, keys_BSA: Tensor, extra_BSA: Tensor | None, v_A: Tensor, gradient_BS: Tensor,
    keys_gradient_BSA: Tensor, v_gradient_KA: Tensor,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Add to the gradients of keys and v; those of query and extra come back."""
    num_rows, length, size = keys_BSA.shape
    query_gradient_BA = torch.empty_like(query_BA)
    extra_gradient_BSA = None if extra_BSA is None else torch.empty_like(extra_BSA)
    _kernel("additive_backward", query_BA)(
        *(num_rows, length, size, len(v_gradient_KA), _at(query_BA), _at(keys_BSA), _at(extra_BSA), _at(v_A)),
        *(_at(gradient_BS), _at(query_gradient_BA), _at(keys_gradient_BSA), _at(extra_gradient_BSA)),
        _at(v_gradient_KA),
    )
    return query_gradient_BA, extra_gradient_BSA


def cross_entropy(
    product_NV: Tensor, bias_V: Tensor, targets_N: Tensor, counted_N: Tensor | None, smoothing: float,
    bias_gradient_KV: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Turn the product with the vocabulary into softmax - (1 - smoothing) target, in place, whose sum over the rows is
    added to the bias's gradient. The negative log-likelihood and the target's logit of each row come back (N), zeros
    for rows that do not count."""
    num_rows, vocab_size = product_NV.shape
    nll_N, chosen_N = bias_V.new_empty(num_rows), bias_V.new_empty(num_rows)
    _kernel("loss", product_NV)(
        *(num_rows, vocab_size, len(bias_gradient_KV), _at(bias_V), _at(targets_N), _at(counted_N)),
        *(ctypes.c_double(smoothing), _at(product_NV), _at(bias_gradient_KV), _at(nll_N), _at(chosen_N)),
    )
    return nll_N, chosen_N


def log_softmax_(logits_NV: Tensor) -> Tensor:
    """Log-probabilities in the place of logits."""
    num_rows, vocab_size = logits_NV.shape
    _kernel("log_softmax", logits_NV)(num_rows, vocab_size, num_chunks(num_rows, vocab_size), _at(logits_NV))
    return logits_NV


def fold(values_NV: Tensor, folds: int) -> Tensor:
    """(N, V // folds + V % folds): the best of the numbers m, m + M, m + 2M ... for each m of M = V // folds, and what
    remains of V as it is."""
    num_rows, vocab_size = values_NV.shape
    best_NM = values_NV.new_empty(num_rows, vocab_size // folds + vocab_size % folds)
    chunks = num_chunks(num_rows, vocab_size)
    _kernel("fold", values_NV)(num_rows, vocab_size, folds, chunks, _at(values_NV), _at(best_NM))
    return best_NM


# How a kernel is called -------------------------------------------------------------------------------------------


class _Term(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("product", "product_gradient", "gain", "bias")),
        *((name, ctypes.c_void_p) for name in ("gain_gradient", "bias_gradient")),
        *((name, ctypes.c_int64) for name in ("direction", "gradient_direction")),
    ]


_POINTER, _SIZE, _COUNT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
_TERMS = ctypes.POINTER(_Term)
_SIGNATURES = {
    "gru_forward": (_TERMS, _COUNT, _SIZE, _SIZE, _SIZE, _COUNT, _POINTER, _POINTER),
    "gru_backward": (_TERMS, _COUNT, _SIZE, _SIZE, _SIZE, _COUNT, _POINTER, _POINTER, _POINTER),
    "additive_forward": (_SIZE, _SIZE, _SIZE, _SIZE, _COUNT, *[_POINTER] * 5),
    "additive_backward": (_SIZE, _SIZE, _SIZE, _COUNT, *[_POINTER] * 9),
    "log_softmax": (_SIZE, _SIZE, _COUNT, _POINTER),
    "fold": (_SIZE, _SIZE, _SIZE, _COUNT, _POINTER, _POINTER),
    "loss": (_SIZE, _SIZE, _COUNT, _POINTER, _POINTER, _POINTER, ctypes.c_double, *[_POINTER] * 4),
}


@cache
def _library() -> ctypes.CDLL | None:
    spec = find_spec("nmt_cli.native.kernels")
    if spec is None or spec.origin is None:
        return None
    try:
        library = ctypes.CDLL(spec.origin)
        version = ctypes.c_int32.in_dll(library, "nmt_kernels_version").value
    except (OSError, ValueError):  # torch has brought no OpenMP of the compiler's kind; not our library
        return None
    return library if version == VERSION else None


@cache
def _entry(name: str, dtype: torch.dtype) -> ctypes._FuncPtr:  # type: ignore[name-defined]
    entry = getattr(_library(), f"nmt_{name}_{_TYPES[dtype]}")
    entry.argtypes, entry.restype = _SIGNATURES[name], None
    return entry


def _kernel(name: str, tensor: Tensor) -> ctypes._FuncPtr:  # type: ignore[name-defined]
    return _entry(name, tensor.dtype)


def _at(tensor: Tensor | None) -> int | None:
    if tensor is None:
        return None
    assert tensor.is_contiguous()
    return tensor.data_ptr()


def _gru_sizes(hidden_DBH: Tensor) -> tuple[int, int, int, int]:
    """Directions, batch, hidden units and chunks."""
    *directions, batch, size = hidden_DBH.shape
    num_directions = directions[0] if directions else 1
    return num_directions, batch, size, gru_chunks(hidden_DBH)


def gru_chunks(hidden_DBH: Tensor) -> int:
    """K of the sums of `gru_backward`."""
    size = hidden_DBH.shape[-1]
    return num_chunks(hidden_DBH.numel() // max(1, size), 3 * size)


def _packed(terms: Sequence[Term], gradients: Sequence[TermGradient | None]) -> ctypes.Array[_Term]:
    packed = (_Term * len(terms))()
    for one, term, gradient in zip(packed, terms, gradients, strict=True):
        one.product, one.direction = _rows_at(term.product_DBG)
        one.gain, one.bias = _at(term.gain_DG), _at(term.bias_DG)
        if gradient is not None:
            one.product_gradient, one.gradient_direction = _rows_at(gradient.product_DBG)
            one.gain_gradient, one.bias_gradient = _at(gradient.gain_KDG), _at(gradient.bias_KDG)
    return packed


def _rows_at(tensor_DBG: Tensor) -> tuple[int, int]:
    """Where the rows of the first direction begin, and how far it is to the next direction."""
    assert are_rows(tensor_DBG)
    return tensor_DBG.data_ptr(), tensor_DBG.stride(0) if tensor_DBG.dim() == 3 else 0


def are_rows(tensor_DBG: Tensor) -> bool:
    """Whether the rows of a direction follow one another."""
    rows, columns = tensor_DBG.stride()[-2:]
    return columns == 1 and (rows == tensor_DBG.shape[-1] or tensor_DBG.shape[-2] <= 1)
