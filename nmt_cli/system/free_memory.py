"""The memory that this process may still take: the machine's, or less in a control group with a limit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

ROOT = Path("/")
"""Directory that holds /proc and /sys. Tests replace it."""


def free_memory() -> int | None:
    """Return the bytes that can be taken without another program's pages; None where the system does not say."""
    return min(_limits(ROOT), default=None)


def _limits(root: Path) -> Iterator[int]:
    """Yield what the machine and each control group of this process may still take."""
    with suppress(OSError, ValueError, IndexError):
        lines = (root / "proc/meminfo").read_text(encoding="ascii").splitlines()
        yield from (int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    with suppress(OSError, ValueError):
        for line in (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            if line.startswith("0::"):
                mount = root / "sys/fs/cgroup"
                group = mount / line[3:].lstrip("/")
                for directory in (group, *group.parents):
                    if directory.is_relative_to(mount):
                        yield from _left_in_group(directory)


def _left_in_group(group: Path) -> Iterator[int]:
    """Yield what a control group (version 2) may take beyond what it has, if it is limited; caches can be given up."""
    with suppress(OSError, ValueError):
        most, now = (int((group / f"memory.{name}").read_text(encoding="ascii")) for name in ("max", "current"))
        statistics = dict(line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines())
        yield max(0, most - now + int(statistics.get("inactive_file", 0)))
