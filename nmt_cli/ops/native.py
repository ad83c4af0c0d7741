"""Calls the compiled kernels; `kernels.cpp` is compiled when the package is installed.

The module of each operation has both its kernel and its plain formula. The formula runs where the kernel cannot, and
the tests compare the two (docs/adr/0017).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor

from nmt_cli.ops import kernel_library

NATIVE, PLAIN = "native", "plain"
MIN_ELEMENTS_PER_THREAD = 16_384
"""Least number of tensor elements for which it is worth starting another thread."""
POINTER, SIZE, COUNT, REAL = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_double
"""The ctypes types of kernel arguments: address of a tensor, size (64 bits), small number, floating-point number."""
_TYPES = {torch.float32: "float", torch.float64: "double", torch.bfloat16: "bfloat16"}
_is_enabled = True


def is_built() -> bool:
    """Return True if kernels of this version are installed and can be loaded."""
    return not isinstance(_library(), str)


def why_missing() -> str:
    """Return a message that says why the kernels cannot be used, what follows, and what to do; empty if they can."""
    library = _library()
    return library if isinstance(library, str) else ""


@contextmanager
def path(name: str) -> Iterator[None]:
    """Use in the block the compiled kernels (`native`), if they are built, or only the plain formulas (`plain`)."""
    global _is_enabled
    before, _is_enabled = _is_enabled, name == NATIVE
    try:
        yield
    finally:
        _is_enabled = before


def has_kernels_for(tensor: Tensor) -> bool:
    """Return True if kernels are used for this tensor: they are built and switched on, and support its device and
    dtype."""
    known = tensor.device.type == "cpu" and tensor.dtype in (torch.float32, torch.float64)
    return known and _is_enabled and is_built()


def num_chunks(num_rows: int, row_size: int) -> int:
    """Return the number of chunks into which a kernel divides `num_rows` rows of `row_size` numbers: one for each
    thread that has enough to do. A sum over rows has a partial sum for each chunk."""
    return max(1, min(torch.get_num_threads(), num_rows, num_rows * row_size // MIN_ELEMENTS_PER_THREAD))


class Kernel:
    """One function of the compiled library, which has a variant for each dtype."""

    def __init__(self, name: str, *argument_types: object) -> None:
        self._name, self._argument_types = name, argument_types
        self._entries: dict[torch.dtype, ctypes._FuncPtr] = {}  # type: ignore[name-defined]

    def __call__(self, dtype: torch.dtype, *arguments: object) -> None:
        """Call the variant for `dtype`; tensors are passed as their `address`."""
        entry = self._entries.get(dtype)
        if entry is None:
            library = _library()
            assert not isinstance(library, str)  # the caller has asked `has_kernels_for`
            entry = getattr(library, f"nmt_{self._name}_{_TYPES[dtype]}")
            entry.argtypes, entry.restype = self._argument_types, None
            self._entries[dtype] = entry
        entry(*arguments)


def address(tensor: Tensor | None) -> int | None:
    """Return the address of a contiguous tensor's first number; None becomes a null pointer."""
    if tensor is None:
        return None
    assert tensor.is_contiguous()
    return tensor.data_ptr()


@cache
def _library() -> ctypes.CDLL | str:
    """Return the library of kernels, set to use torch's threads, or the message of `kernel_library.load`; cached."""
    library = kernel_library.load()
    if not isinstance(library, str):
        _connect_openmp(library)
    return library


def _connect_openmp(library: ctypes.CDLL) -> None:
    """Let the kernels share their work among torch's own threads; if torch has no OpenMP, they use one thread.

    torch's OpenMP has many file names and is not always where a library finds it by itself (on ARM it is not).
    """
    names = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
    try:
        torch_library = ctypes.CDLL(
            torch._C.__file__
        )  # already loaded; a name is looked up in all libraries that it needs
        entries = [ctypes.cast(getattr(torch_library, name), POINTER) for name in names]
    except (OSError, AttributeError):
        return
    library.nmt_take_openmp(*entries)
