"""The program of an ONNX export beside `nmt translate`: first translation, speed, equal lines, BLEU. One thread each.

`python -m benchmarks.export --model DIR --text FILE --reference FILE` prints a table. The ratios are to `nmt translate`
in fp32. Processor time is shown because other programs on the machine do not change it much.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from nmt_cli.scoring import score_corpus

NMT = (sys.executable, "-m", "nmt_cli")


class Run(NamedTuple):
    """One process."""

    output: bytes
    seconds: float
    processor_seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3, help="of which the median counts")
    asked = parser.parse_args()
    text = asked.text.read_bytes()
    references = asked.reference.read_text(encoding="utf-8").split("\n")[: text.count(b"\n")]
    with tempfile.TemporaryDirectory() as directory:
        programs = dict(commands(asked.model, Path(directory)))
        first: dict[str, list[Run]] = {name: [] for name in programs}
        whole: dict[str, list[Run]] = {name: [] for name in programs}
        for _ in range(asked.rounds):  # in turns, so that what else the machine does meets all of them
            for name, command in programs.items():
                first[name].append(run(command, text.split(b"\n")[0] + b"\n"))
                whole[name].append(run(command, text))
    expected = whole["nmt translate, fp32"][0].output.split(b"\n")
    print("| | first translation, s | ratio | 1,000 lines, processor s | ratio | sentences/s | equal lines | BLEU |")
    print("|---|---|---|---|---|---|---|---|")
    base: list[float] = []
    for name in programs:
        start, total = (middle(runs) for runs in (first[name], whole[name]))
        figures = [start.processor_seconds, total.processor_seconds]
        base = base or figures
        lines = whole[name][0].output.split(b"\n")
        equal = sum(one == other for one, other in zip(lines, expected, strict=True)) - 1
        bleu = score_corpus([line.decode() for line in lines[:-1]], [references])[0].score
        speed = (len(lines) - 1) / (total.processor_seconds - start.processor_seconds)
        print(
            f"| {name} | {start.seconds:.2f} ({start.processor_seconds:.2f} processor) | {figures[0] / base[0]:.2f} | "
            f"{figures[1]:.1f} | {figures[1] / base[1]:.2f} | {speed:.0f} | {equal} | {bleu:.2f} |"
        )


def commands(model: Path, directory: Path) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield what is compared, exported first; the first is what the ratios are to."""
    for precision in ("fp32", "int8"):
        exported = directory / precision
        options = ("--model", str(model), "--precision", precision)
        subprocess.run([*NMT, "export", *options, "-o", exported, "--format", "onnx"], check=True)
        yield f"nmt translate, {precision}", (*NMT, "translate", *options)
        yield f"translate.py, {precision}", (sys.executable, str(exported / "translate.py"))


def run(command: Sequence[str], text: bytes) -> Run:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    output = subprocess.run(
        [*command, "--threads", "1"], input=text, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
    ).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(output, time.perf_counter() - began, used)


def middle(runs: Sequence[Run]) -> Run:
    """The medians."""
    return Run(b"", *(statistics.median(values) for values in zip(*(run[1:] for run in runs), strict=True)))


if __name__ == "__main__":
    main()
