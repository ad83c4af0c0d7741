"""The processors of this machine: how many this process may use, and how much of them other programs use."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from nmt_cli.system.control_groups import groups_of

ROOT = Path("/")
"""Directory that holds /proc and /sys. Tests replace it."""


def num_available() -> int:
    """Return the number of processors that this process may use: its affinity, or fewer under a quota (cgroups)."""
    quotas = list(_quotas(ROOT))
    return max(1, min([len(_affinity()), *(math.ceil(quota) for quota in quotas)]))


def _affinity() -> set[int]:
    """Return the numbers of the processors that the system lets this process run on."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _quotas(root: Path) -> Iterator[float]:
    """Yield for each control group of this process that has a quota the number of processors that it may use."""
    for group in groups_of("cpu", root):
        if (quota := _quota(group)) is not None:
            yield quota


def _quota(group: Path) -> float | None:
    """Return the number of processors that a cgroup (version 1 or 2) may use, such as 1.5; None without a limit."""
    try:
        if (group / "cpu.max").is_file():
            given, period = (group / "cpu.max").read_text(encoding="ascii").split()
        else:
            given, period = (
                (group / f"cpu.cfs_{name}_us").read_text(encoding="ascii").strip() for name in ("quota", "period")
            )
        quota = float(given) / float(period)
    except (OSError, ValueError, ZeroDivisionError):  # "max" is no number
        return None
    return quota if quota > 0.0 else None


_LEVELS = {
    "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    "x86-64-v3": {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"},
}
"""Levels of x86-64 for which the kernels are compiled separately, each with the processor flags that it needs."""


def describe_processors() -> str:
    """Return one line with the model of the processors, their instruction set, such as `x86-64-v3`, and the number of
    them that this process may use."""
    values: dict[str, str] = {}
    with suppress(OSError, ValueError):
        for line in (ROOT / "proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            values.setdefault(name.strip(), value.strip())
    known = set(values.get("flags", "").split())
    level = next((name for name, needed in _LEVELS.items() if needed <= known), os.uname().machine)
    number = num_available()
    kind = values.get("model name") or "unknown kind"
    return f"{kind}, {level}, {number} processor{'' if number == 1 else 's'}"


class Usage(NamedTuple):
    """Times at one moment, in seconds, to compute differences from; `clock` is the wall clock (`time.monotonic`)."""

    clock: float
    process_seconds: float
    """Processor time of this process."""
    total_seconds: float
    """Processor time of all programs on the processors that this process may run on; what a host of virtual machines
    takes away counts too."""


def usage() -> Usage | None:
    """Return the current time, and the processor time that this process and all programs have used so far, in seconds.

    None if the system does not tell the processor time of all programs, as without /proc.
    """
    try:
        lines = (ROOT / "proc/stat").read_text(encoding="ascii").splitlines()
        ticks, names = 0, {f"cpu{number}" for number in _affinity()}
        for name, *numbers in map(str.split, lines):
            if name in names:
                user, nice, system, _idle, _waiting, interrupts, soft, stolen, *_ = map(int, [*numbers, *["0"] * 8])
                ticks += user + nice + system + interrupts + soft + stolen
        return Usage(time.monotonic(), time.process_time(), ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError):
        return None
