"""The memory that may still be taken, and how many workers that allows."""

import pytest

from nmt_cli.system import free_memory, workers

GB = 1_000_000_000
MACHINE = {"proc/meminfo": "MemTotal: 64000000 kB\nMemAvailable:   7812500 kB\n", "proc/self/cgroup": "0::/a/b\n"}


def group(name: str, most: str, now: int, cache: int = 0) -> dict[str, str]:
    files = {"max": f"{most}\n", "current": f"{now}\n", "stat": f"anon 7\ninactive_file {cache}\n"}
    return {f"sys/fs/cgroup/{name}memory.{kind}": text for kind, text in files.items()}


def older_group(name: str, most: int, now: int, cache: int = 0) -> dict[str, str]:
    files = {"limit_in_bytes": f"{most}\n", "usage_in_bytes": f"{now}\n", "stat": f"total_inactive_file {cache}\n"}
    return {f"sys/fs/cgroup/memory/{name}memory.{kind}": text for kind, text in files.items()}


OLDER = MACHINE | {"proc/self/cgroup": "9:memory:/job/a\n4:cpu,cpuacct:/job\n0::/\n"}


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, None),
        (MACHINE, 8 * GB),
        (MACHINE | group("a/b/", "max", GB), 8 * GB),
        (MACHINE | group("a/b/", str(3 * GB), GB), 2 * GB),
        (MACHINE | group("a/b/", str(3 * GB), 3 * GB, cache=GB // 2), GB // 2),
        (MACHINE | group("a/", str(GB), 2 * GB), 0),
        (MACHINE | group("", str(2 * GB), GB), GB),
        (MACHINE | {"proc/meminfo": "nonsense"}, None),
        (OLDER | older_group("job/a/", 2**63 - 4096, GB), 8 * GB),
        (OLDER | older_group("job/a/", 3 * GB, 2 * GB, cache=GB) | older_group("", 2**63 - 4096, GB), 2 * GB),
        (OLDER | older_group("job/", GB, GB // 4), 3 * GB // 4),
    ],
    ids=[
        "unknown",
        "no limit",
        "none here",
        "two",
        "a cache",
        "of a group above",
        "of the container",
        "damaged",
        "version 1, no limit",
        "version 1",
        "version 1, of a group above",
    ],
)
def test_the_limit_of_a_container_or_a_service_limits_the_memory(tmp_path, monkeypatch, files, free):
    monkeypatch.setattr(free_memory, "ROOT", tmp_path)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert free_memory.free_memory() == free


@pytest.mark.parametrize(
    ("threads", "free", "expected"), [(1, None, 8), (1, 8 * GB, 8), (3, 8 * GB, 2), (9, None, 1), (1, GB, 5), (1, 0, 1)]
)
def test_there_are_as_many_workers_as_processors_and_memory_allow(monkeypatch, threads, free, expected):
    monkeypatch.setattr(workers, "num_available", lambda: 8)
    monkeypatch.setattr(workers, "free_memory", lambda: free)
    assert workers.num_workers(threads) == expected
