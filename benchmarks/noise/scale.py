"""Time and memory of `nmt clean` and `nmt check` for many pairs: `python -m benchmarks.noise.scale --data DIR`.

The pairs of Tatoeba English-French are repeated, each time with another number at both ends, until there are enough.
The text goes to a temporary directory and is removed. The table, as Markdown, goes to standard output.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from itertools import count, islice
from pathlib import Path

from benchmarks.noise.corpora import tatoeba

CONFIG = """
name: scale
model_dir: {directory}/run
data: {{source_lang: en, target_lang: fr, train: [{{source: {directory}/a.en, target: {directory}/a.fr}}]}}
tokenizer: {{vocab_size: 32000}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="directory with tatoeba/")
    parser.add_argument("--pairs", type=int, nargs="+", default=[100_000, 10_000_000])
    parser.add_argument("--command", nargs="+", choices=("clean", "check"), default=["clean", "check"])
    asked = parser.parse_args()
    pairs = tatoeba(asked.data, "fra")
    print("| command | pairs | minutes | CPU minutes | peak memory |")
    print("|---|---|---|---|---|")
    for wanted in asked.pairs:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            texts = (
                (f"{source} {number}\n", f"{target} {number}\n") for number in count(1) for source, target in pairs
            )
            with (directory / "a.en").open("w") as sources, (directory / "a.fr").open("w") as targets:
                for source, target in islice(texts, wanted):
                    sources.write(source)
                    targets.write(target)
            (directory / "c.yaml").write_text(CONFIG.format(directory=directory), encoding="utf-8")
            for arguments in (
                ["clean", f"{directory}/a.en", f"{directory}/a.fr", "-o", f"{directory}/made"],
                ["check", "--config", f"{directory}/c.yaml", "--no-measure"],
            ):
                if arguments[0] not in asked.command:
                    continue
                print(f"| `nmt {arguments[0]}` | {wanted:,} | {watched(arguments)} |", flush=True)


def watched(arguments: list[str]) -> str:
    """Run a command of the toolkit and return its time and its memory, as cells."""
    began = time.monotonic()
    child = os.posix_spawn(
        sys.executable, [sys.executable, "-m", "nmt_cli", *arguments], os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
    )  # fmt: skip
    _, status, usage = os.wait4(child, 0)
    if code := os.waitstatus_to_exitcode(status):
        raise SystemExit(f"failed ({code}): nmt {' '.join(arguments)}")
    minutes, busy = (time.monotonic() - began) / 60, (usage.ru_utime + usage.ru_stime) / 60
    return f"{minutes:.1f} | {busy:.1f} | {usage.ru_maxrss / 1000:,.0f} MB"


if __name__ == "__main__":
    main()
