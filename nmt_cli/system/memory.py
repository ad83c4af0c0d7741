"""Memory settings of the process for fast steps on a CPU, and smaller batches when memory runs out."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from nmt_cli.system.console import log

# malloc.h of glibc
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4
_KEPT_KERNELS = "32"
Item = TypeVar("Item")
Result = TypeVar("Result")


def keep_freed_memory() -> None:
    """Make the C library keep freed memory for the next step.

    Every step takes and frees the same hundreds of megabytes. glibc maps each large block anew, and the system clears
    it page by page at the first touch, which takes longer than the work on it: see docs/performance.md. The process
    then holds its peak until it ends. Without glibc, nothing changes.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(_M_MMAP_MAX, 0)
    mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def keep_few_kernels() -> None:
    """Make oneDNN cache few kernels, for a training. Call this before the first matrix product.

    By default oneDNN keeps 1,024 kernels with their scratch space, made for shapes of batches that may never come
    again: a gigabyte and more in a training in bfloat16, which is not faster with them. A search is faster with them,
    because its shapes come again.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", _KEPT_KERNELS)


def retry_in_halves(items: Sequence[Item], work: Callable[[Sequence[Item]], list[Result]]) -> list[Result]:
    """Return `work(items)`; if memory runs out, log that and do the same for each half of the items, one by one.

    Raises:
        MemoryError, RuntimeError: memory does not suffice for a single item, or `work` has failed otherwise.
    """
    try:
        return work(items)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error) or len(items) == 1:
            raise
    half = halve_batch(len(items))
    return [*retry_in_halves(items[:half], work), *retry_in_halves(items[half:], work)]


def halve_batch(at_once: int) -> int:
    """Return half of `at_once`, a number of sentences that was too large; log that, and free the GPU's cached memory.

    Call this after the handler of the error, which still holds tensors.
    """
    half = at_once // 2
    log(f"out of memory with {at_once} sentences at once; going on with {half}")
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return half


def is_device_failure(error: BaseException) -> bool:
    """Return True if an error of torch means that this process can no longer use its GPU, whatever it asks of it."""
    return isinstance(error, RuntimeError) and "CUDA error" in str(error) and not is_out_of_memory(error)


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if an error of torch or Python means that an allocation has failed, on any device."""
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error)
