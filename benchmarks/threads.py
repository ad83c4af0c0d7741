"""Measures threads, wait policies and precisions, on a quiet machine and beside other programs.

`python -m benchmarks.threads` takes some ten minutes on two processors; it must be the only program that runs. It keeps
each measurement in `runs/threads.jsonl` at once, goes on from there when it is started again, and prints the tables of
docs/performance.md. `--show` only prints them.

Each row is a process of its own, because torch reads the variables for threads when it is loaded. The other programs
are loops of Python that do nothing else. The text is made up, as in `make bench`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

BUSY = (0, 1, 2)
"""Numbers of other programs."""
QUIET = (0,)
SECONDS = 2.5
"""Least time of a measurement. One that takes longer for three updates is not cut."""
ROUNDS = 2
MARKS = ("<!-- benchmarks.threads: begin -->", "<!-- benchmarks.threads: end -->")
MEASURED = "measured"
"""The number of threads that a new training would choose."""
POLICIES: Mapping[str, Mapping[str, str]] = {
    "as it is": {},
    "PASSIVE": {"OMP_WAIT_POLICY": "PASSIVE"},
    "spin 1,000": {"GOMP_SPINCOUNT": "1000"},
    "spin 10,000": {"GOMP_SPINCOUNT": "10000"},
    "spin 100,000": {"GOMP_SPINCOUNT": "100000"},
}
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_PROC_BIND")
WORKS = {
    "recipe": "training configs/multi30k_en_de.yaml, pieces/s",
    "small": "training a model of 72,000 parameters, pieces/s",
    "translation": "translation, beam 5, sentences/s",
}


class Row(NamedTuple):
    """One process: what it does, and how."""

    work: str
    precision: str
    threads: str
    policy: str
    busy: tuple[int, ...]


def rows() -> list[Row]:
    """Return the rows of all tables, those first without which the others say least."""
    most = str(num_processors())
    training = [
        Row(work, "fp32", threads, policy, BUSY)
        for threads, policy in ((most, "as it is"), ("1", "as it is"), (MEASURED, "as it is"), (most, "PASSIVE"),
                                (most, "spin 1,000"), (most, "spin 10,000"), (most, "spin 100,000"))
        for work in ("recipe", "small")
    ]  # fmt: skip
    has_bf16 = {"avx512_bf16", "amx_bf16"} & {*machine()["instructions"]}  # imitated, an update takes half a minute
    precisions = [Row("recipe", "bf16", threads, "as it is", QUIET) for threads in (most, "1") if has_bf16]
    translation = [
        Row("translation", "fp32", threads, policy, BUSY[:2])
        for threads, policy in ((most, "as it is"), ("1", "as it is"), (most, "PASSIVE"), (most, "spin 10,000"))
    ]
    return [*training[:6], *precisions, *training[6:8], *translation, *training[8:]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("runs/threads.jsonl"))
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of which the mean counts")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each measurement")
    parser.add_argument("--works", nargs="+", choices=WORKS, default=list(WORKS), help="what to measure")
    parser.add_argument("--show", action="store_true", help="print the tables and measure nothing")
    parser.add_argument("--page", type=Path, help="a page to write them to, between its marks: docs/performance.md")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.row is not None:
        work(Row(*json.loads(asked.row)), asked.seconds)
        return
    if not asked.show:
        measure(asked.output, asked.rounds, asked.seconds, asked.works)
    records = read(asked.output)
    if not records:
        parser.error(f"{asked.output}: holds no measurement yet")
    text = tables(records)
    print(text)
    if asked.page is not None:
        write(asked.page, text)


# Measuring ------------------------------------------------------------------------------------------------------------


def measure(output: Path, rounds: int, seconds: float, works: list[str]) -> None:
    """Measure each row that a round lacks."""
    output.parent.mkdir(parents=True, exist_ok=True)
    for number in range(rounds):
        for row in rows():
            had = {(record["round"], *record["row"]) for record in read(output)}
            if row.work not in works or (number, *row[:4]) in had:
                continue
            began = time.monotonic()
            found = list(measured(row, seconds))
            record = {"round": number, "row": row[:4], "found": found, "machine": machine()}
            with output.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            speeds = ", ".join(f"{one['speed']:,.0f} beside {one['busy']}" for one in found)
            print(
                f"round {number + 1}, {' '.join(row[:4])}: {speeds}  ({time.monotonic() - began:.0f} s)",
                file=sys.stderr,
            )


def measured(row: Row, seconds: float) -> Iterator[dict[str, Any]]:
    """Yield the speed of a process beside each number of other programs."""
    kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    environment = {**kept, **POLICIES[row.policy]}
    command = (sys.executable, "-m", "benchmarks.threads", "--row", json.dumps(row), "--seconds", str(seconds))
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()  # it is ready
        for busy in row.busy:
            with others(busy):
                process.stdin.write("go\n")
                process.stdin.flush()
                yield {"busy": busy, **json.loads(process.stdout.readline())}
        process.stdin.close()


@contextmanager
def others(number: int) -> Iterator[None]:
    """Let other programs keep processors busy while the block runs."""
    busy = [subprocess.Popen((sys.executable, "-c", "while True: pass")) for _ in range(number)]
    try:
        time.sleep(0.5)
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def machine() -> dict[str, Any]:
    names = [line.partition(":")[2].strip() for line in read_lines("/proc/cpuinfo") if line.startswith("model name")]
    flags = next((line.split() for line in read_lines("/proc/cpuinfo") if line.startswith("flags")), [])
    wanted = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
    return {
        "processor": names[0] if names else platform.machine(),
        "instructions": [flag for flag in wanted if flag in flags],
        "processors": num_processors(),
        "date": str(date.today()),
    }


def read_lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines() if Path(path).exists() else []


def num_processors() -> int:
    from nmt_cli.system.processors import num_available

    return num_available()


# In the process of a row ----------------------------------------------------------------------------------------------


def work(row: Row, seconds: float) -> None:
    """Do what a row says for each line of standard input, and print how fast that went."""
    import torch

    from nmt_cli.system.memory import keep_few_kernels, keep_freed_memory
    from nmt_cli.system.processors import usage

    keep_freed_memory()
    keep_few_kernels()
    torch.set_num_threads(num_processors() if row.threads == MEASURED else int(row.threads))
    units = translating() if row.work == "translation" else training(row)
    for _ in range(3):
        units()
    print("ready", flush=True)
    for _line in sys.stdin:
        if row.threads == MEASURED:
            torch.set_num_threads(num_processors())
            chosen_threads(units)
        before, began, done, count = usage(), time.perf_counter(), 0, 0
        while count < 3 or time.perf_counter() - began < seconds:
            done, count = done + units(), count + 1
        taken, after = time.perf_counter() - began, usage()
        used = 0.0
        if before is not None and after is not None:
            used = (after.total_seconds - before.total_seconds - after.process_seconds + before.process_seconds) / taken
        found = {"speed": done / taken, "threads": torch.get_num_threads(), "used_by_others": used}
        print(json.dumps(found), flush=True)


def chosen_threads(units: Callable[[], int]) -> None:
    from nmt_cli.assembly.measured_settings import set_fastest_threads

    set_fastest_threads(units)


def training(row: Row) -> Callable[[], int]:
    """Return a function that makes an update and returns its target pieces."""
    import torch

    from benchmarks.speed import RECIPE, trainer, training_batches
    from nmt_cli.config.loader import load_config
    from nmt_cli.config.model import ModelConfig
    from nmt_cli.model.build import build_model, initialize
    from nmt_cli.model.dropout import Noise
    from nmt_cli.training.loss import TranslationLoss

    config = load_config(RECIPE)
    shape, vocab, tokens = config.model, config.tokenizer.vocab_size, config.training.batch_size
    if row.work == "small":
        sizes = {"hidden_size": 32}
        shape = ModelConfig.model_validate(
            {"embedding_size": 32, "encoder": sizes, "decoder": sizes, "attention": {"size": 32},
             "tied_embeddings": "all"}
        )  # fmt: skip
        vocab, tokens = 1000, 1000
    model = build_model(shape, source_vocab_size=vocab, target_vocab_size=vocab)
    initialize(model, seed=1)
    loss, noise = TranslationLoss(label_smoothing=0.1), torch.Generator().manual_seed(1)
    update = trainer(model, lambda batch: loss(model, batch, Noise(noise)).total, row.precision == "bf16")
    batches = cycle(training_batches({"vocab": vocab, "tokens": tokens}))

    def one() -> int:
        batch = next(batches)
        update(batch)
        return batch.num_target_tokens

    return one


def translating() -> Callable[[], int]:
    """Return a function that translates some sentences and returns their number."""
    import torch

    from benchmarks.speed import DECODING_SIZES, our_model, search, sentences
    from nmt_cli.translation.step_model import TrainedModels

    model = our_model(DECODING_SIZES).requires_grad_(requires_grad=False)
    models = TrainedModels([model], device=torch.device("cpu"), precision="fp32")
    groups = sentences(400)

    def one() -> int:
        for group in groups[::4]:
            search(models, group, 5)
        return sum(map(len, groups[::4]))

    return one


# Tables ---------------------------------------------------------------------------------------------------------------


def read(output: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in read_lines(str(output))]


def tables(records: list[dict[str, Any]]) -> str:
    """Return the conditions in a paragraph, a table for each kind of work, and one of the precisions, in Markdown."""
    there = records[-1]["machine"]
    quiet = [one["used_by_others"] for record in records for one in record["found"] if not one["busy"]]
    names, num_rounds = ", ".join(there["instructions"]), 1 + max(record["round"] for record in records)
    lines = [
        f"{there['processor']} ({names}), {there['processors']} processors, {there['date']}, {num_rounds} rounds.",
        f"In the column *quiet*, other programs used {statistics.mean(quiet):.2f} processors on average,",
        f"and {max(quiet):.2f} at most.",
    ]
    for name, title in WORKS.items():
        found = speeds(records, name, "fp32")
        beside = sorted({busy for _, _, busy in found})
        if not found:
            continue
        heads = ["quiet" if not busy else f"beside {busy} busy" for busy in beside]
        lines += ["", f"| {title} | waiting | {' | '.join(heads)} |", f"|{'---|' * (2 + len(beside))}"]
        for threads, policy in dict.fromkeys((threads, policy) for threads, policy, _ in found):
            cells = " | ".join(found.get((threads, policy, busy), "") for busy in beside)
            label = "as measured" if threads == MEASURED else "1 thread" if threads == "1" else f"{threads} threads"
            lines.append(f"| {label} | {policy} | {cells} |")
    fp32, bf16 = speeds(records, "recipe", "fp32"), speeds(records, "recipe", "bf16")
    if bf16:
        lines += ["", "| precision of the recipe, pieces/s, quiet | fp32 | bf16 |", "|---|---|---|"]
    for key, speed in bf16.items():
        lines.append(f"| {key[0]} thread{'s' * (key[0] != '1')} | {fp32.get(key, '')} | {speed} |")
    return "\n".join(lines)


def write(page: Path, text: str) -> None:
    """Put the tables between their two marks in a page."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    assert begin
    assert end
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def speeds(records: list[dict[str, Any]], name: str, precision: str) -> dict[tuple[str, str, int], str]:
    """Return the mean speed of each row beside each number of other programs, with the threads that were chosen."""
    found: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for record in records:
        kind, in_precision, threads, policy = record["row"]
        if (kind, in_precision) == (name, precision):
            for one in record["found"]:
                found.setdefault((threads, policy, one["busy"]), []).append(one)
    return {
        key: f"{statistics.mean(one['speed'] for one in ones):,.0f}"
        + (f" ({', '.join(dict.fromkeys(str(one['threads']) for one in ones))})" if key[0] == MEASURED else "")
        for key, ones in found.items()
    }


if __name__ == "__main__":
    main()
