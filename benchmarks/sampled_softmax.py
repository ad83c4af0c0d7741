"""Measure how much faster a sampled softmax makes trainings: `python -m benchmarks.sampled_softmax CONFIG ...`.

For each configuration, short trainings without and with `training.sampled_softmax` take turns. A speed is the mean over
the last 100 of 150 updates. The table, as Markdown, goes to standard output.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from benchmarks.runs import metrics, nmt

UPDATES, AT_ONCE = 150, 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("configs", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    print("| configuration | vocabulary | hidden units | pieces/s | with a sampled softmax | ratios of the rounds |")
    print("|---|---|---|---|---|---|")
    for config in asked.configs:
        pairs = [
            [_speed(config, is_sampled=is_sampled, threads=asked.threads) for is_sampled in (False, True)]
            for _ in range(asked.rounds)
        ]
        speeds = [statistics.median(speeds) for speeds in zip(*pairs, strict=True)]
        ratios = ", ".join(f"{sampled / whole:.2f}" for whole, sampled in pairs)
        values = yaml.safe_load(config.read_text(encoding="utf-8"))
        vocabulary, hidden = values["tokenizer"]["vocab_size"], values["model"]["decoder"]["hidden_size"]
        print(f"| {config} | {vocabulary:,} | {hidden} | {speeds[0]:,.0f} | {speeds[1]:,.0f} | {ratios} |", flush=True)


def _speed(config: Path, *, is_sampled: bool, threads: int) -> float:
    """Return the target pieces a second of a short training."""
    with TemporaryDirectory() as name:
        changes = {
            "model_dir": name, "data.dev": "null", "training.sampled_softmax": str(is_sampled).lower(),
            "training.max_steps": UPDATES, "training.logging_freq": AT_ONCE, "training.threads": threads,
        }  # fmt: skip
        sets = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
        nmt("train", "--config", str(config), *sets)
        return statistics.mean(record["tokens_per_second"] for record in metrics(Path(name), "train")[1:])


if __name__ == "__main__":
    main()
