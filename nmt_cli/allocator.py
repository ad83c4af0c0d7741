"""What memory is kept for the next step during training and translation on a CPU, and what is not."""

from __future__ import annotations

import ctypes
import os
import sys

# malloc.h of glibc
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4
_KEPT_KERNELS = "32"


def keep_freed_memory() -> None:
    """Have the C library keep what is freed for the next step, and oneDNN few of the kernels it has made.

    Every step takes and frees the same hundreds of megabytes. glibc maps each large block anew, and the system clears
    it page by page at the first touch, which takes longer than the work on it: see docs/performance.md. The process
    then holds its peak until it ends; elsewhere than on glibc it does not.

    oneDNN keeps 1,024 kernels with their scratch space, made for shapes of batches that may never come again: a
    gigabyte and more of a training in bfloat16, which is no faster for it.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", _KEPT_KERNELS)  # read at the first product
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(_M_MMAP_MAX, 0)
    mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
