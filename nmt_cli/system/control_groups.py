"""The Linux control groups (cgroups) of this process, through which a container or a batch system limits it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def groups_of(controller: str, root: Path) -> Iterator[Path]:
    """Yield the cgroup directories of this process for a controller (`cpu` or `memory`), innermost first.

    These are directories of version 2 of control groups and, if the controller has a hierarchy of version 1, of
    version 1. `root` is the directory with `proc` and `sys`; nothing is yielded if they cannot be read.
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
