"""Find and load the library of compiled kernels. Nothing here needs torch, so `nmt --version` answers at once."""

from __future__ import annotations

import ctypes
from importlib.util import find_spec

VERSION = 3
"""The version of the kernels that `native` knows how to call."""
NOT_BUILT = "without compiled kernels, so slower: install nmt-cli (again) where there is a C++ compiler"
"""The message where they were never compiled."""


def load() -> ctypes.CDLL | str:
    """Return the kernels, or a line that says why there are none."""
    spec = find_spec("nmt_cli.ops.kernels")
    if spec is None or spec.origin is None:
        return NOT_BUILT
    try:
        library = ctypes.CDLL(spec.origin)
        version = ctypes.c_int32.in_dll(library, "nmt_kernels_version").value
    except (OSError, ValueError) as problem:
        return f"the compiled kernels cannot be loaded ({problem}), so it is slower without: install nmt-cli again"
    if version != VERSION:
        return "the compiled kernels belong to another version, so it is slower without: install nmt-cli again"
    return library
