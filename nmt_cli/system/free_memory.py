"""The memory that this process may still take: what is free in the machine, or less if a control group limits it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nmt_cli.system.control_groups import groups_of

ROOT = Path("/")
"""Directory that holds /proc and /sys. Tests replace it."""
_FILES = (("max", "current", "inactive_file"), ("limit_in_bytes", "usage_in_bytes", "total_inactive_file"))
"""Endings of the names `memory.*` of the files with the limit and with the memory in use, and the line of
`memory.stat` with the size of caches: for version 2 and then version 1 of control groups."""


def free_memory() -> int | None:
    """Return the bytes of memory that this process can take without swapping; None if the system does not say."""
    return min(_limits(ROOT), default=None)


def _limits(root: Path) -> Iterator[int]:
    """Yield the bytes that are still free in the machine and in each control group of this process."""
    with suppress(OSError, ValueError, IndexError):
        lines = (root / "proc/meminfo").read_text(encoding="ascii").splitlines()
        yield from (int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    for group in groups_of("memory", root):
        for names in _FILES:
            yield from _left_in_group(group, *names)


def _left_in_group(group: Path, limit: str, usage: str, cache: str) -> Iterator[int]:
    """Yield the bytes that are still free in a control group, counting caches as free; yield nothing without a limit.

    `limit`, `usage` and `cache` are an entry of `_FILES`.
    """
    with suppress(OSError, ValueError):
        most, now = (int((group / f"memory.{name}").read_text(encoding="ascii")) for name in (limit, usage))
        statistics = dict(line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines())
        yield max(0, most - now + int(statistics.get(cache, 0)))
