"""Measures the time until a translation comes.

It comes from a cold start, or to a program that writes one line and waits for the answer.

`python -m benchmarks.latency --model DIR --text FILE`; the first lines of FILE go one by one. Prints a table.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

NMT = (sys.executable, "-m", "nmt_cli")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5, help="of which the median counts, for what starts a process")
    parser.add_argument("--lines", type=int, default=200)
    parser.add_argument("options", nargs="*", help="of nmt translate, after --")
    asked = parser.parse_args()
    with asked.text.open("rb") as text:
        lines = list(islice(text, asked.lines))
    command = (*NMT, "translate", "--model", str(asked.model), *asked.options)
    started = {
        "nmt --help": median_start((*NMT, "--help"), b"", asked.rounds),
        "python -c 'import torch'": median_start((sys.executable, "-c", "import torch"), b"", asked.rounds),
        "first translation": median_start(command, lines[0], asked.rounds),
    }
    for name, seconds in started.items():
        print(f"{name:26} {seconds:.2f} s")
    waits = sorted(waiting(command, lines))
    median, high = (1000 * seconds for seconds in (statistics.median(waits), waits[len(waits) * 95 // 100]))
    print(f"{'a line and its answer':26} {median:.0f} ms, 95 % within {high:.0f} ms")


def median_start(command: Sequence[str], stdin: bytes, rounds: int) -> float:
    """Seconds of a whole process; once before for the disk's cache."""
    taken = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        subprocess.run(command, input=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[1:])


def waiting(command: Sequence[str], lines: Sequence[bytes]) -> list[float]:
    """Seconds from each line to its answer in one process, the first left out: it waits for the start."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        taken = []
        for line in lines:
            began = time.perf_counter()
            process.stdin.write(line)
            process.stdin.flush()
            process.stdout.readline()
            taken.append(time.perf_counter() - began)
    return taken[1:]


if __name__ == "__main__":
    main()
