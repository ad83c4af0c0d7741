"""Trainings side by side, each a process of its own on a core of its own; begun again, they go on."""

from __future__ import annotations

import json
import os
import queue
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Run:
    """A system of a study: a configuration with overrides, and the model directory it makes."""

    name: str
    config: Path
    directory: Path
    test_source: str | None
    """Translated when the training has ended, to `hypotheses`; None: nothing is."""
    overrides: tuple[str, ...] = ()
    after: str | None = None
    """The run whose end `prepare` waits for."""
    prepare: Callable[[Path], None] | None = None
    """Called first, with the directory of `after`."""
    ended: Callable[[Run], None] | None = None
    """Called when the run has ended."""

    @property
    def hypotheses(self) -> Path:
        """The translation of the test set."""
        return self.directory / "test.hyp"

    @property
    def log(self) -> Path:
        """The messages of the commands."""
        return self.directory / "study.log"

    @property
    def arguments(self) -> list[str]:
        """The arguments of `nmt`, such as a reader would type."""
        overrides = (f"model_dir={self.directory}", *self.overrides)
        return ["train", "--config", str(self.config), *(word for one in overrides for word in ("--set", one))]


def nmt(*arguments: str, log: Path | None = None, core: int | None = None) -> str:
    """Run a command of the toolkit and return its standard output; its standard error goes to `log`."""
    command = [sys.executable, "-m", "nmt_cli", *arguments]
    environment = os.environ | ({} if core is None else {"OMP_NUM_THREADS": "1"})
    if core is not None and hasattr(os, "sched_setaffinity"):
        command = [sys.executable, "-c", _PINNED, str(core), *command]
    with (log or Path(os.devnull)).open("ab") as errors:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"failed ({done.returncode}): nmt {shlex.join(arguments)}\nits messages are in {log}")
    return done.stdout.decode()


_PINNED = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])}); os.execv(sys.argv[2], sys.argv[2:])"


def train_all(runs: Sequence[Run], lanes: int) -> None:
    """Train every run, `lanes` at a time; a run that has ended is not trained again."""
    cores: queue.Queue[int] = queue.Queue()  # who waits longest is served first
    for core in range(lanes):
        cores.put(core)
    trained: dict[str, Any] = {}

    def train(run: Run) -> None:
        if run.after is not None:
            trained[run.after].result()
        core = cores.get()
        began = time.monotonic()
        try:
            run.directory.mkdir(parents=True, exist_ok=True)
            if run.prepare is not None:
                run.prepare(run.directory)
            nmt(*run.arguments, log=run.log, core=core)
            if run.test_source is not None and not run.hypotheses.exists():
                translate = ["translate", run.test_source, "--model", str(run.directory), "-o", str(run.hypotheses)]
                nmt(*translate, "--threads", "1", log=run.log, core=core)
        finally:
            cores.put(core)
        if run.ended is not None:
            run.ended(run)
        print(f"{run.name}: {time.monotonic() - began:,.0f} s", file=sys.stderr, flush=True)

    # One worker a run: those that wait for another hold no core.
    with ThreadPoolExecutor(len(runs)) as pool:
        for run in runs:
            trained[run.name] = pool.submit(train, run)
        for waiting in trained.values():
            waiting.result()


def metrics(directory: Path, event: str) -> list[dict[str, float]]:
    """The records of one kind in a run's `metrics.jsonl`."""
    lines = (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [record for record in map(json.loads, lines) if record["event"] == event]


def median_speed(directory: Path) -> float:
    """Target tokens a second of the training, the median over the log's lines."""
    return statistics.median(record["tokens_per_second"] for record in metrics(directory, "train"))


def num_parameters(directory: Path) -> int:
    """All parameters of the model in a directory."""
    count: int = json.loads(nmt("inspect", str(directory), "--json"))["parameters"]["all"]
    return count
