"""A training on two hosts: two network namespaces of this machine, joined by a cable, each with torchrun's agent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import contents
from launching import Launcher, Process, outcomes, train

ADDRESSES = ("10.213.7.1", "10.213.7.2")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def hosts() -> Iterator[tuple[str, str]]:
    """The names of two namespaces that reach each other, and nothing else."""
    first, second = names = tuple(f"nmt-{os.getpid()}-{number}" for number in (1, 2))
    try:
        ip("netns", "add", first)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs iproute2 and the right to make network namespaces")
    try:
        ip("netns", "add", second)
        ip("-n", first, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", second)
        for name, address in zip(names, ADDRESSES, strict=True):
            ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
            ip("-n", name, "link", "set", "cable", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield first, second
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def agent(launch: Launcher, host: str, number: int, *arguments: str | Path) -> Process:
    """torchrun on one of two hosts."""
    torchrun = Path(sys.executable).with_name("torchrun")
    return launch.program(
        "ip", "netns", "exec", host, torchrun, "--nnodes", "2", "--nproc-per-node", "1", "--node-rank", str(number),
        "--master-addr", ADDRESSES[0], "--master-port", "29400", *arguments,
        env={"GLOO_SOCKET_IFNAME": "cable"},
    )  # fmt: skip


@pytest.mark.soak
def test_a_host_that_dies_ends_the_other_and_both_go_on_to_the_same_end(launch, hosts, config, tmp_path):
    """Every process of the second host is killed at once. Started again, the two end bit for bit like two processes of
    one host that were left alone."""
    sets = ["training.max_steps=30", "training.validation_freq=15"]
    alone = outcomes(launch.python(2, *train(config, *sets, f"model_dir={tmp_path / 'alone'}")))
    assert [end.code for end in alone] == [0, 0], alone[0].err

    agents = [agent(launch, host, number, *train(config, *sets)) for number, host in enumerate(hosts)]
    deadline = time.monotonic() + 120
    while not list((tmp_path / "run").glob("checkpoints/step-*9")):
        assert time.monotonic() < deadline
        assert [process.poll() for process in agents] == [None, None]
        time.sleep(0.02)
    pids = subprocess.run(["ip", "netns", "pids", hosts[1]], check=True, capture_output=True, text=True).stdout.split()
    assert len(pids) >= 2
    for pid in pids:
        os.kill(int(pid), signal.SIGKILL)
    began = time.monotonic()
    first, _ = outcomes(agents)
    assert time.monotonic() - began < 60
    assert first.code == 1
    assert "lost another process (connection" in first.err

    again = outcomes([agent(launch, host, number, *train(config, *sets)) for number, host in enumerate(hosts)])
    assert [end.code for end in again] == [0, 0], again[0].err
    assert "resuming at update" in again[0].err
    assert contents(tmp_path / "run") == contents(tmp_path / "alone")
