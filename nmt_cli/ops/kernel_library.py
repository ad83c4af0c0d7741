"""Finds and loads the library of compiled kernels. Nothing here needs torch, so `nmt --version` answers at once."""

from __future__ import annotations

import ctypes
from importlib.util import find_spec

VERSION = 3
"""The version of the compiled library that this code can call; `load` refuses any other."""
_NO_KERNELS = "nmt runs without its compiled kernels, which is slower"
NOT_BUILT = f"{_NO_KERNELS}. Reinstall nmt-cli on a machine with a C++ compiler"
"""The message if the kernels were never compiled."""


def load() -> ctypes.CDLL | str:
    """Return the library of kernels, or a message that says why it cannot be used."""
    spec = find_spec("nmt_cli.ops.kernels")
    if spec is None or spec.origin is None:
        return NOT_BUILT
    try:
        library = ctypes.CDLL(spec.origin)
        version = ctypes.c_int32.in_dll(library, "nmt_kernels_version").value
    except (OSError, ValueError) as problem:
        return f"{_NO_KERNELS}, because they cannot be loaded ({problem}). Reinstall nmt-cli"
    if version != VERSION:
        return f"{_NO_KERNELS}, because they belong to another version. Reinstall nmt-cli"
    return library
