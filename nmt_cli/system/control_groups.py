"""The control groups that this process is in, whose limits a container or a batch system sets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def groups_of(controller: str, root: Path) -> Iterator[Path]:
    """Yield the directories of the groups that limit what a controller (`cpu`, `memory`) counts, innermost first.

    They are those of version 2 and, where the controller has a hierarchy of its own, of version 1. `root` holds /proc
    and /sys.
    """
    lines: list[str] = []
    with suppress(OSError, ValueError):
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    for line in lines:
        controllers, _, path = line.partition(":")[2].partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / controllers
        group = mount / path.lstrip("/")
        # In a container the path may be the host's, and the group itself is what is mounted.
        yield from (directory for directory in (group, *group.parents) if directory.is_relative_to(mount))
