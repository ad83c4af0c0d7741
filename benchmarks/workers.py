"""Measures what workers bring to `nmt translate`, and writes the table of docs/performance.md.

    python -m benchmarks.workers --model DIR --text FILE [--against CHECKOUT] [--rounds 5] [--beams 1 5]
        [--precisions fp32 int8]

Measured are the speed with 1 and 2 workers, in alternation; what the parent takes for a line, with workers that
translate nothing; and the memory of each further worker. From these follows what more workers can reach: they share the
cores and the bandwidth of the memory, and the parent is one process. With `--against`, which names a directory with
another version and its `.venv`, both translate with their defaults, and both answer one line and end.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import repeat
from pathlib import Path

from nmt_cli.system.workers import SequentialTaskLoop, ZygoteLauncher, import_and_call
from nmt_cli.translation.counts import Counts
from nmt_cli.translation.line_tasks import LineResult, LineTask, number_windows, translate_windows
from nmt_cli.translation.pool import Pool
from nmt_cli.translation.windows import windows_of_list

PAGE = Path("docs/performance.md")
BEGIN, END = "<!-- benchmarks.workers: begin -->", "<!-- benchmarks.workers: end -->"
SIMULATED = (4, 8, 16, 64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--against", type=Path, help="the directory of another version, which has a .venv")
    parser.add_argument("--rounds", type=int, default=5, help="of which the median counts")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--precisions", nargs="+", default=["fp32", "int8"])
    parser.add_argument("--print", action="store_true", help="leave the page as it is")
    asked = parser.parse_args()
    lines = asked.text.read_bytes().splitlines()
    ceiling = statistics.median(parents_speed(lines) for _ in range(asked.rounds))
    rows = []
    for precision in asked.precisions:
        for beam in asked.beams:
            options = ["--model", str(asked.model), "--beam-size", str(beam), "--precision", precision]
            rows.append(row(f"{precision}, beam {beam}", str(asked.text), options, asked, ceiling))
    table = "\n".join(
        [
            f"The parent alone handles {ceiling:,.0f} lines/s.",
            "",
            "| | 1 worker | 2 workers | ratio | with the start | the other version | a further worker |"
            + "".join(f" {number} workers, computed |" for number in SIMULATED),
            "|" + "---|" * (7 + len(SIMULATED)),
            *rows,
            *(one_line(asked.against, ["--model", str(asked.model)], asked.rounds) if asked.against else ()),
        ]
    )
    print(table)
    if not asked.print:
        text = PAGE.read_text(encoding="utf-8")
        before, after = text.partition(BEGIN)[0], text.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")


def translate(checkout: Path | None = None) -> list[str]:
    """Return the command of this version, or of another."""
    python = sys.executable if checkout is None else str(checkout.resolve() / ".venv/bin/python")
    return [python, "-P", "-m", "nmt_cli", "translate"]  # -P: not the package of the current directory


def row(name: str, text: str, options: Sequence[str], asked: argparse.Namespace, ceiling: float) -> str:
    """Return a row of the table: medians of runs with 1 and 2 workers, and of both versions, in alternation."""
    ways = {"1": [*translate(), "--workers", "1"], "2": [*translate(), "--workers", "2"], "own": translate()}
    if asked.against is not None:
        ways["other"] = translate(asked.against)
    speeds: dict[str, list[float]] = {way: [] for way in ways}
    whole: dict[str, list[float]] = {way: [] for way in ways}
    memory = []
    for _ in range(asked.rounds):
        for way, command in ways.items():
            speed, took, further = run([*command, text, *options])
            speeds[way].append(speed)
            whole[way].append(took)
            memory += further if way == "2" else []
    one, two = (statistics.median(speeds[way]) for way in "12")
    seconds = {way: statistics.median(all_) for way, all_ in whole.items()}
    computed = "".join(f" {simulated(one, two, ceiling, number):,.0f} |" for number in SIMULATED)
    per_worker = f"{statistics.median(memory) / 1e6:.0f} MB" if memory else "-"
    other = f"{seconds['other'] / seconds['own']:.2f} times the time" if "other" in seconds else "-"
    ratios = f"{two / one:.2f} | {seconds['1'] / seconds['2']:.2f} | {other}"
    return f"| {name} | {one:,.1f} | {two:,.1f} | {ratios} | {per_worker} |{computed}"


def one_line(other: Path, options: Sequence[str], rounds: int) -> list[str]:
    """Return how long this version and another take to answer the first line, and to end after the last."""
    times: dict[str, list[tuple[float, float]]] = {"this": [], "the other": []}
    for _ in range(rounds):
        for name, checkout in (("this", None), ("the other", other)):
            times[name].append(answered([*translate(checkout), *options]))
    lines = ["", "| version | start to the first translation | end of the input to the end |", "|---|---|---|"]
    for name, both in times.items():
        first, last = (statistics.median(column) for column in zip(*both, strict=True))
        lines.append(f"| {name} | {first:.2f} s | {last:.2f} s |")
    return lines


def answered(command: Sequence[str]) -> tuple[float, float]:
    """Return the seconds in which a command answers its first line, and those in which it ends after its input."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"a\n")
    process.stdin.flush()
    process.stdout.readline()
    first = time.monotonic()
    process.stdin.close()
    process.wait()
    return first - began, time.monotonic() - first


def simulated(one: float, two: float, ceiling: float, workers: int) -> float:
    """Return the lines/s of workers with a core each, from the speed of one and two and that of the parent.

    What two lose against twice the speed of one is taken for a part of the work that is done one at a time: reading the
    memory, and the caches that cores share (Amdahl's law). On machines with more channels of memory it is less.
    """
    serial = max(0.0, 2 * one / two - 1)
    return min(ceiling, workers * one / (1 + serial * (workers - 1)))


def run(command: Sequence[str]) -> tuple[float, float, list[int]]:
    """Return the lines/s that a command reports, its seconds as a whole, and the memory of its workers at the end."""
    began, memory = time.monotonic(), {}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            for pid in workers_below(process.pid):
                with suppress(OSError, ValueError):
                    memory[pid] = own_memory(pid)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.2)
        seconds = time.monotonic() - began
        assert process.stderr is not None
        told = process.stderr.read()
    found = re.search(r"([\d,.]+) (?:line|sentence)s/s", told)
    if process.returncode or found is None:
        raise SystemExit(told)
    return float(found[1].replace(",", "")), seconds, list(memory.values())


def own_memory(pid: int) -> int:
    """Return what a process takes of memory, shared pages divided among those that share them (PSS), in bytes."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return next(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:"))


def workers_below(pid: int) -> Iterator[int]:
    """Yield the workers of a command: the children of its child."""
    for zygote in children(pid):
        yield from children(zygote)


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    found = []
    for entry in os.listdir("/proc"):
        with suppress(OSError):
            if entry.isdigit() and int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry))
    return found


def parents_speed(lines: Sequence[bytes]) -> float:
    """Return the lines/s that a parent reads, sends, takes back in order and writes, per second of its own time."""
    with (
        Pool(ZygoteLauncher(partial(import_and_call, "benchmarks.workers", "build_echo")), workers=2) as pool,
        open(os.devnull, "wb") as out,
    ):
        pool.submit(LineTask((), ())).result()
        began = time.process_time()
        for result in translate_windows(pool, number_windows(zip(windows_of_list(lines), repeat(None))), workers=2):
            out.writelines(result.outputs)
        return len(lines) / max(time.process_time() - began, 1e-9)


def echo(task: LineTask) -> LineResult:
    return LineResult(tuple(line + b"\n" for line in task.lines), Counts(len(task.lines)))


def build_echo() -> SequentialTaskLoop:
    """Return the work of those who give lines back."""
    return SequentialTaskLoop(echo)


if __name__ == "__main__":
    main()
