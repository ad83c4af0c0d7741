"""Memory of the process: what is kept for the next step on a CPU, and what happens when it runs out."""

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
    then holds its peak until it ends; elsewhere than on glibc it does not.
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
    """Make oneDNN cache few kernels, for a training. Call this before the first product.

    oneDNN keeps 1,024 kernels with their scratch space, made for shapes of batches that may never come again: a
    gigabyte and more of a training in bfloat16, which is no faster for it. A search is: its shapes come again.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", _KEPT_KERNELS)


def without_running_out(items: Sequence[Item], work: Callable[[Sequence[Item]], list[Result]]) -> list[Result]:
    """Return `work(items)`. Where memory does not suffice, work on two halves, and so on, with a line in the log."""
    try:
        return work(items)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error) or len(items) == 1:
            raise
    half = halved(len(items))
    return [*without_running_out(items[:half], work), *without_running_out(items[half:], work)]


def halved(at_once: int) -> int:
    """Return half as many sentences, and log that.

    Call this after the handler of the error, which still holds tensors.
    """
    half = at_once // 2
    log(f"out of memory with {at_once} sentences at once; going on with {half}")
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return half


def is_broken_device(error: BaseException) -> bool:
    """Return True if this is what torch raises when a GPU is of no use to the process any more, whatever it asks."""
    return isinstance(error, RuntimeError) and "CUDA error" in str(error) and not is_out_of_memory(error)


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if this is what torch raises when an allocation fails, on any device."""
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error)
