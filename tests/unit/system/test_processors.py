"""The processors that a process may use, by affinity and by the quotas of either version of control groups."""

import os
import time

import pytest

from nmt_cli.system import processors

HOST = 64
"""Processors of the machine in these tests."""


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A machine whose /proc and /sys the test writes."""
    monkeypatch.setattr(processors, "ROOT", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(HOST)), raising=False)

    def write(files):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)

    return write


V2 = {"proc/self/cgroup": "0::/system.slice/nmt.service\n"}
V1 = {"proc/self/cgroup": "5:memory:/docker/1\n3:cpu,cpuacct:/docker/1\n1:cpuset:/\n"}


@pytest.mark.parametrize(
    ("files", "available"),
    [
        ({}, HOST),
        (V2 | {"sys/fs/cgroup/system.slice/nmt.service/cpu.max": "max 100000\n"}, HOST),
        (V2 | {"sys/fs/cgroup/system.slice/nmt.service/cpu.max": "200000 100000\n"}, 2),
        (V2 | {"sys/fs/cgroup/system.slice/nmt.service/cpu.max": "150000 100000\n"}, 2),
        (V2 | {"sys/fs/cgroup/system.slice/nmt.service/cpu.max": "20000 100000\n"}, 1),
        (V2 | {"sys/fs/cgroup/system.slice/cpu.max": "300000 100000\n"}, 3),
        (V2 | {"sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4),
        (V1 | {"sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us": "-1\n",
               "sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us": "100000\n"}, HOST),
        (V1 | {"sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us": "300000\n",
               "sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us": "100000\n"}, 3),
        (V1 | {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "500000\n",
               "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, 5),
        (V2 | {"sys/fs/cgroup/cpu.max": "nonsense"}, HOST),
        ({"proc/self/cgroup": "nonsense\n::\n"}, HOST),
    ],
    ids=["no groups", "no limit", "two", "one and a half", "a fifth", "of a slice above", "of the container",
         "v1: none", "v1: three", "v1: of the container", "damaged quota", "damaged list"],
)  # fmt: skip
def test_the_quota_of_a_container_or_a_service_limits_the_processors(root, files, available):
    root(files)
    assert processors.num_available() == available


def test_so_does_the_affinity(root, monkeypatch):
    root(V2 | {"sys/fs/cgroup/cpu.max": "400000 100000\n"})
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5, 7, 9})
    assert processors.num_available() == 3


def test_a_system_without_affinity_has_all_processors(root, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert processors.num_available() == 6


def test_the_time_of_all_programs_is_read_for_the_own_processors_alone_without_idle_time(root, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2})
    busy = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 4 1000 1000 8 16 32 7 7\ncpu1 5 5 5 5 5 5 5 5 0 0\n"
    root({"proc/stat": f"{busy}cpu2 64 0 0 1000\nintr 12 34\nctxt 5\n"})
    usage = processors.usage()
    assert usage is not None
    assert usage.total_seconds * os.sysconf("SC_CLK_TCK") == pytest.approx(1 + 2 + 4 + 8 + 16 + 32 + 64)
    assert usage.process_seconds <= time.process_time()


def test_a_system_that_does_not_tell_gives_nothing(root):
    assert processors.usage() is None
