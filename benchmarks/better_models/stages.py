"""Named stages that need one another, a few side by side; begun again, they go on where they were.

A stage has a directory of its own below the root. `done.json` is there when it has ended, with its result and its time.
`attempts.jsonl` has the processor time of every command, so that the time of a stage that was stopped counts too. A
command ends with this process: by the signal that this process gets, so that a training saves its state, or at once
where this process is killed. The time of commands that were killed is not known, and `done.json` counts them.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any

from nmt_cli.system.files import locked
from nmt_cli.system.signals import exit_code, handle_signals

CODE = Path(__file__).parents[2]
_LAUNCH = """import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    os.getppid() == int(sys.argv[1]) or sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Has Linux kill the command when the thread that waits for it is gone."""


class Stopped(Exception):
    """A signal has come that ends the work."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A piece of work with a name."""

    name: str
    purpose: str
    minutes: float
    """Processor minutes that it should take, by earlier figures."""
    work: Callable[[Workplace], Mapping[str, Any]]
    """Does the work, and returns the result; called again after a stop, it does what is missing."""
    needs: tuple[str, ...] = ()
    """Names of the stages whose results it uses."""


class Children:
    """The commands that run now, and the signal that ends them."""

    def __init__(self) -> None:
        self.received = 0
        """The number of the first signal, or 0."""
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._lock = threading.RLock()  # a handler may come in between

    def run(self, command: Sequence[str], log: Path, output: Path | None) -> tuple[int, float]:
        """Return the exit code of a command on one thread, and its processor seconds with those of its children."""
        paths = os.pathsep.join(filter(None, (str(CODE), os.environ.get("PYTHONPATH"))))
        environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": paths}
        launched = [sys.executable, "-c", _LAUNCH, str(os.getpid()), *command]
        with log.open("ab") as messages, (output or log).open("ab" if output is None else "wb") as written:
            messages.write(f"$ {shlex.join(command)}\n".encode())
            messages.flush()
            with self._lock:
                self.check()
                process = subprocess.Popen(
                    launched, stdin=subprocess.DEVNULL, stdout=written, stderr=messages, env=environment,
                    start_new_session=True,  # Control-C reaches this process, which passes it on
                )  # fmt: skip
                self._processes[process.pid] = process
            _, status, usage = os.wait4(process.pid, 0)
            with self._lock:
                del self._processes[process.pid]
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, usage.ru_utime + usage.ru_stime

    def stop(self, number: int, _: FrameType | None = None) -> None:
        """Pass a signal on to all commands; none begins any more."""
        with self._lock:
            self.received = self.received or number
            for process in self._processes.values():
                with suppress(ProcessLookupError):  # it has just ended
                    os.kill(process.pid, signal.SIGTERM)

    def check(self) -> None:
        """Raise `Stopped` if a signal has come."""
        if self.received:
            raise Stopped


class Workplace:
    """The directory of a stage, and the commands that it runs."""

    def __init__(self, root: Path, name: str, children: Children) -> None:
        self.root, self.name = root, name
        self.directory = root / name
        self._children = children
        self.directory.mkdir(parents=True, exist_ok=True)

    def of(self, name: str) -> Path:
        """Return the directory of another stage."""
        return self.root / name

    @property
    def log(self) -> Path:
        """The messages of the commands."""
        return self.directory / "messages.log"

    def nmt(self, *arguments: str | Path, output: Path | None = None) -> None:
        """Run a command of the toolkit."""
        self.python("-m", "nmt_cli", *arguments, output=output)

    def python(self, *arguments: str | Path, output: Path | None = None) -> None:
        """Run Python in a process of its own, whose standard output goes to a file or else to `log`.

        Raises:
            Stopped: a signal has come.
            RuntimeError: the command failed.
        """
        words = list(map(str, arguments))
        self._children.check()
        self._record({"began": " ".join(words[:3])})
        code, seconds = self._children.run([sys.executable, *words], self.log, output)
        self._record({"seconds": round(seconds, 2), "code": code})
        self._children.check()
        if code:
            raise RuntimeError(f"failed ({code}): {shlex.join(words)}\nits messages are in {self.log}")

    def once(self, made: Path, *arguments: str | Path) -> None:
        """Run a command of the toolkit that writes the file `made`, whole or not at all, unless it is there."""
        if not made.exists():
            self.nmt(*arguments)

    def processor(self) -> tuple[float, int]:
        """Return the processor seconds of all commands, and how many were killed before they could be measured."""
        path = self.directory / "attempts.jsonl"
        records = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
        ended = [record["seconds"] for record in records if "seconds" in record]
        return sum(ended), len(records) - 2 * len(ended)

    def _record(self, values: Mapping[str, Any]) -> None:
        with (self.directory / "attempts.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")


def run_all(
    stages: Sequence[Stage],
    root: Path,
    lanes: int,
    *,
    facts: Mapping[str, Any] = MappingProxyType({}),
    after: Callable[[], None] = lambda: None,
) -> int:
    """Do what has not been done, the first stages first, and return an exit code: 0 if all have ended.

    A stage that fails keeps those that need it from running, and no others. `after` is called when one has ended. Its
    `done.json` has the `facts` too.
    """
    check(stages)
    root.mkdir(parents=True, exist_ok=True)
    children = Children()
    with locked(root / ".lock", str(root), "wait for the other program"), handle_signals(children.stop):
        failed = _run(stages, root, lanes, children, facts, after)
    if children.received:
        note(root, "stopped; the same command goes on")
        return exit_code(children.received)
    for name in failed:
        note(root, f"{name}: FAILED; see {root / name}")
    return 1 if failed else 0


def _run(
    stages: Sequence[Stage],
    root: Path,
    lanes: int,
    children: Children,
    facts: Mapping[str, Any],
    after: Callable[[], None],
) -> list[str]:
    done = {stage.name for stage in stages if is_done(root, stage.name)}
    waiting = [stage for stage in stages if stage.name not in done]
    note(root, f"{len(done)} of {len(stages)} stages have ended before; {lanes} at a time")
    known = {stage.name for stage in stages}
    failed: list[str] = []
    running: dict[Future[None], Stage] = {}
    with ThreadPoolExecutor(lanes) as pool:
        while waiting or running:
            ready = [stage for stage in waiting if all(need in done or need not in known for need in stage.needs)]
            for stage in ready[: 0 if children.received else lanes - len(running)]:
                waiting.remove(stage)
                running[pool.submit(_do, stage, root, children, facts)] = stage
            if not running:
                break  # what is left needs what has failed
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                stage = running.pop(future)
                error = future.exception()
                if error is None:
                    done.add(stage.name)
                    after()
                elif not isinstance(error, Stopped):
                    failed.append(stage.name)
                    note(root, f"{stage.name}: {error}")
    return failed


def _do(stage: Stage, root: Path, children: Children, facts: Mapping[str, Any]) -> None:
    place = Workplace(root, stage.name, children)
    began, own = time.monotonic(), time.thread_time()
    seconds, _ = place.processor()
    note(root, f"{stage.name}: begins" + (f" again, after {seconds / 60:.1f} processor minutes" if seconds else ""))
    result = dict(stage.work(place))
    seconds, killed = place.processor()
    seconds += time.thread_time() - own
    values = {
        "result": result,
        "processor_minutes": round(seconds / 60, 2),
        "killed": killed,
        "ended": time.strftime("%Y-%m-%d %H:%M:%S"),
        **facts,
    }
    write_json(place.directory / "done.json", values)
    told = ", ".join(f"{key} {value:.2f}" for key, value in result.items() if isinstance(value, float))
    minutes = (time.monotonic() - began) / 60
    unknown = f", {killed} commands were killed unmeasured" if killed else ""
    note(
        root,
        f"{stage.name}: ended, {minutes:.1f} minutes, {seconds / 60:.1f} processor minutes of {stage.minutes:.0f} "
        f"expected{unknown}; {told}",
    )


def check(stages: Sequence[Stage]) -> None:
    """Refuse a name that stands twice, and a stage that needs a later one or none of these."""
    known: set[str] = set()
    for stage in stages:
        if stage.name in known:
            raise ValueError(f"two stages have the name {stage.name}")
        if unknown := [need for need in stage.needs if need not in known]:
            raise ValueError(f"{stage.name} needs {', '.join(unknown)}, which no stage before it is called")
        known.add(stage.name)


def with_needs(stages: Sequence[Stage], names: Sequence[str]) -> list[Stage]:
    """Return the stages of these names and all that they need, in the order of `stages`."""
    by_name = {stage.name: stage for stage in stages}
    wanted: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in wanted:
            wanted.add(name)
            left += by_name[name].needs
    return [stage for stage in stages if stage.name in wanted]


def is_done(root: Path, name: str) -> bool:
    """Return whether a stage has ended."""
    return (root / name / "done.json").exists()


def show_plan(stages: Sequence[Stage], root: Path) -> None:
    """Print a line for each stage: what it does, what it needs, and its processor minutes."""
    left = 0.0
    print("| stage | processor minutes | needs | does |")
    print("|---|---|---|---|")
    for stage in stages:
        ended = is_done(root, stage.name)
        left += 0.0 if ended else stage.minutes
        minutes = (
            f"{_read(root / stage.name / 'done.json')['processor_minutes']:.0f} (ended)"
            if ended
            else f"{stage.minutes:.0f}"
        )
        print(f"| {stage.name} | {minutes} | {' '.join(stage.needs)} | {stage.purpose} |")
    print(f"\n{len(stages)} stages; about {left:,.0f} processor minutes ({left / 60:.1f} hours) are left.")


def note(root: Path, text: str) -> None:
    """Write a line with the time to `stages.log` and to standard error."""
    line = f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {text}"
    with (root / "stages.log").open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    print(line, file=sys.stderr, flush=True)


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
