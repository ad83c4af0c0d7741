"""Ways to better models from the same text, each scored on the dev set; `python -m benchmarks.better_models`.

A: 29,000 pairs of Multi30K and 141,000 German captions. B5 and B1: 5,000 and 1,000 of the pairs. C: everyday sentences
of Tatoeba. D: 40 BLEU on val sooner than `configs/multi30k_en_de.yaml`. `--plan` prints all stages with their times.

Every command runs on one thread at a low priority. Stop the program with SIGTERM or Control-C; the same command goes
on. `results.jsonl` in the directory has the scores of all systems, with seed, processor and signatures, and
`stages.log` says when each stage began and ended, and its processor minutes.

No stage reads a test set, except to leave its lines out of the text to learn from. `--test` translates and scores the
test sets with the systems that are named, once; it is meant for the end, when all choices have been made.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from benchmarks.better_models.lines import read_lines, write_lines
from benchmarks.better_models.plan import table_of
from benchmarks.better_models.stages import CODE, Stage, Workplace, is_done, run_all, show_plan, with_needs
from benchmarks.better_models.table import Scale, Table, scored

NICE = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"), help="with multi30k/, captions/ and tatoeba/")
    parser.add_argument("--directory", type=Path, default=Path("runs/better-models"), help="of all stages")
    parser.add_argument("--lanes", type=int, choices=(1, 2), default=2, help="stages side by side, each on one thread")
    parser.add_argument("--precision", choices=("auto", "fp32", "bf16"), default="auto", help="of all trainings")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these stages and what they need; A-* is a pattern")
    parser.add_argument("--plan", action="store_true", help="print the stages and run nothing")
    parser.add_argument("--show", action="store_true", help="print the scores and run nothing")
    parser.add_argument("--test", action="store_true", help="score the test sets with the systems of --only, once")
    parser.add_argument("--tiny", action="store_true", help="shrink everything, to try the program")
    asked = parser.parse_args()
    root = asked.directory.resolve()
    table = table_of(asked.data.resolve(), Scale(asked.tiny, asked.precision))
    stages = table.stages
    if asked.only:
        names = [stage.name for stage in stages if any(fnmatch(stage.name, pattern) for pattern in asked.only)]
        if not names:
            parser.error(f"no stage is called {' or '.join(asked.only)}; --plan lists them")
        stages = with_needs(stages, names)
        if asked.test:
            stages = [stage for stage in stages if stage.name in names]
    if asked.test:
        stages = tests(table, [stage.name for stage in stages], root)
    if asked.plan:
        show_plan(stages, root)
    elif asked.show:
        show(root)
    else:
        os.setpriority(os.PRIO_PROCESS, 0, max(NICE, os.getpriority(os.PRIO_PROCESS, 0)))
        facts = {"processor": _processor(), "threads": 1, "code": _commit()}
        sys.exit(run_all(stages, root, asked.lanes, facts=facts, after=lambda: collect(root)))


def tests(table: Table, names: Sequence[str], root: Path) -> list[Stage]:
    """Return a stage for each system that has run, which scores it on its test set."""

    def stage(name: str) -> Stage:
        corpus, system = table.systems[name]

        def work(place: Workplace) -> dict[str, Any]:
            return {"set": "test", "corpus": corpus.name, "system": name, **scored(place, corpus, system, "test")}

        return Stage(f"test-{name}", "the test set, once", 2, work)

    return [stage(name) for name in names if name in table.systems and is_done(root, name)]


def collect(root: Path) -> None:
    """Write `results.jsonl`: a line for each stage that has ended and has scores or times."""
    rows = []
    for path in sorted(root.glob("*/done.json"), key=lambda path: path.stat().st_mtime):
        values = json.loads(path.read_text(encoding="utf-8"))
        result = values.pop("result")
        if "bleu" in result or "curve" in result:
            rows.append({"stage": path.parent.name, **result, **values})
    write_lines(root / "results.jsonl", map(json.dumps, rows))


def show(root: Path) -> None:
    """Print the scores as Markdown."""
    print("| stage | set | seed | BLEU | chrF | processor minutes | more |")
    print("|---|---|---|---|---|---|---|")
    path = root / "results.jsonl"
    for row in map(json.loads, read_lines(path) if path.exists() else []):
        scores = " | ".join(f"{row[metric]:.2f}" if metric in row else "" for metric in ("bleu", "chrf"))
        more = ", ".join(
            f"{key} {row[key]}" if not isinstance(row[key], float) else f"{key} {row[key]:.1f}"
            for key in ("weights", "without_weights", "steps", "minutes_to_38", "minutes_to_40", "minutes_to_42")
            if row.get(key) is not None
        )
        print(
            f"| {row['stage']} | {row.get('set', 'dev')} | {row.get('seed') or ''} | {scores} "
            f"| {row['processor_minutes']:.1f} | {more} |"
        )


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    return f"{names.get('model name', 'unknown')}, family {names.get('cpu family')}, model {names.get('model')}"


def _commit() -> str:
    command = ["git", "-C", str(CODE), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    main()
