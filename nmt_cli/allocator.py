"""The memory allocator during training and translation on a CPU."""

from __future__ import annotations

import ctypes
import sys

# malloc.h of glibc
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4


def keep_freed_memory() -> None:
    """Have the C library keep what is freed for the next step, and not hand it back to the system.

    Every step takes and frees the same hundreds of megabytes. glibc maps each large block anew, and the system clears
    it page by page at the first touch, which takes longer than the work on it: see docs/performance.md. The process
    then holds its peak until it ends. Elsewhere than on glibc nothing happens.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(_M_MMAP_MAX, 0)
    mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
