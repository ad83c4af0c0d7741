"""Bulk translation with one worker and with several: `python -m benchmarks.bulk --model DIR --text FILE`.

Each round runs `nmt translate-corpus` anew for every number of workers, in turn; the rate is the command's own, from
when its first worker is ready, so loading the model is left out. The efficiency of N workers is their rate divided by N
times that of one. Prints a table of medians. Give `-- --address local` to have Ray start the workers (`make ray`).
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

NMT = (sys.executable, "-m", "nmt_cli", "translate-corpus")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--workers", type=int, nargs="+", default=(1, 2))
    parser.add_argument("--rounds", type=int, default=3, help="of which the median counts")
    parser.add_argument("--part-lines", type=int, default=4096, help="small enough for several parts a worker")
    parser.add_argument("options", nargs="*", help="of nmt translate-corpus, after --")
    asked = parser.parse_args()
    common = [str(asked.text), "--model", str(asked.model), "--part-lines", str(asked.part_lines), *asked.options]
    rates: dict[int, list[float]] = {workers: [] for workers in asked.workers}
    for _ in range(asked.rounds):
        for workers, measured in rates.items():
            measured.append(lines_per_second([*common, "--workers", str(workers)]))
    median = {workers: statistics.median(measured) for workers, measured in rates.items()}
    one = median[min(median)] / min(median)
    print("| workers | lines/s | of all rounds | efficiency |")
    print("|---|---|---|---|")
    for workers, rate in median.items():
        span = f"{min(rates[workers]):,.1f} to {max(rates[workers]):,.1f}"
        print(f"| {workers} | {rate:,.1f} | {span} | {rate / workers / one:.2f} |")


def lines_per_second(options: Sequence[str]) -> float:
    """Return the speed that one run into a directory of its own reports at its end."""
    with tempfile.TemporaryDirectory() as directory:
        command = [*NMT, *options, "--output", f"{directory}/out"]
        said = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    found = re.search(r" s: ([\d,.]+) (?:line|sentence)s/s, [^;]* -> ", said.stderr)
    if said.returncode or found is None:
        raise SystemExit(said.stderr)
    return float(found[1].replace(",", ""))


if __name__ == "__main__":
    main()
