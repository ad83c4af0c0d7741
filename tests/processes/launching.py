"""Several processes of one training, in the environment that torchrun makes for them, and how they ended."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
Process = subprocess.Popen[bytes]


@dataclass(frozen=True)
class Outcome:
    """The result of a process."""

    code: int
    out: bytes
    err: str


class Launcher:
    """Starts processes, and leaves none behind."""

    def __init__(self) -> None:
        self._started: list[Process] = []

    def python(self, size: int, *args: str | Path, each: Callable[[int], list[str]] = lambda rank: []) -> list[Process]:
        """So many processes of a Python program; `each` gives, by rank, what one is told beside the others."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        world = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(size)}
        return [
            self.program(sys.executable, *args, *each(rank), env=world | {"RANK": str(rank), "LOCAL_RANK": str(rank)})
            for rank in range(size)
        ]

    def program(self, *args: str | Path, env: dict[str, str] | None = None) -> Process:
        """Any program."""
        always = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PYTHONFAULTHANDLER": "1"}
        environment = os.environ | always | (env or {})
        process = subprocess.Popen(
            [*map(str, args)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        self._started.append(process)
        return process

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()


def outcomes(processes: list[Process]) -> list[Outcome]:
    """Wait for all."""
    ends = []
    for process in processes:
        out, err = process.communicate(timeout=300)
        ends.append(Outcome(process.returncode, out, err.decode()))
    return ends


def train(config: Path, *sets: str) -> list[str | Path]:
    """The arguments of Python for `nmt train`."""
    return ["-m", "nmt_cli", "train", "--config", config, *(word for one in sets for word in ("--set", one))]
