"""Measures the worth of each part of the recipe: leave one out, or add one; `python -m benchmarks.ablation`.

Every run is `configs/multi30k_en_de.yaml`, with the part that this study has taken out of it put back, and a budget of
four epochs, about ten minutes of one core, and is scored on val; no test set is read. A run's figures go to
`docs/studies/ablation.jsonl` as it ends, one that stands there is not trained again, and the table, as Markdown, goes
to standard output.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from benchmarks.runs import Run, median_speed, metrics, num_parameters, train_all

CONFIG = Path("configs/multi30k_en_de.yaml")
DIRECTORY = Path("runs/ablation")
RESULTS = Path("docs/studies/ablation.jsonl")
BUDGET = ("training.max_epochs=4", "training.validation_freq=100000", "training.threads=1")
STUDIED = ("model.dropout.annotation=0.4",)
"""Settings that did not pay, and are off in the configuration since."""
SEEDS = (1, 2, 3)
WHOLE = "the recipe"
PARTS: dict[str, tuple[str, ...]] = {
    WHOLE: (),
    "- lexical model": ("model.lexical_model=false",),
    "- layer normalisation": ("model.layer_norm=false",),
    "- averaged weights": ("training.ema_decay=0",),
    "- label smoothing": ("training.label_smoothing=0",),
    "- tied embeddings": ("model.tied_embeddings=none",),
    "- word dropout": ("model.dropout.source_word=0", "model.dropout.target_word=0"),
    "- dropout of embeddings": ("model.dropout.embedding=0",),
    "- dropout in the recurrences": ("model.dropout.recurrent=0",),
    "- dropout of annotations": ("model.dropout.annotation=0",),
    "- dropout of the readout": ("model.dropout.readout=0",),
    "- warm-up": ("training.warmup_steps=0",),
    "half of the learning rate": ("training.learning_rate=2.0e-3",),
    "twice the learning rate": ("training.learning_rate=8.0e-3",),
    "+ cosine decay": ("training.schedule=cosine",),
    "- averaged weights, + cosine decay": ("training.ema_decay=0", "training.schedule=cosine"),
    "vocabulary of 4,000": ("tokenizer.vocab_size=4000",),
    "+ BPE-dropout 0.1": ("tokenizer.sampling_alpha=0.1",),
}
_writing = Lock()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lanes", type=int, default=2, help="trainings side by side, each on one core")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--show", action="store_true", help="only print the table of what has run")
    asked = parser.parse_args()
    if not asked.show:
        done = {(row["part"], row["seed"]) for row in _rows()}
        wanted = [(part, seed) for seed in asked.seeds for part in asked.parts if (part, seed) not in done]
        if wanted:
            train_all([_run(part, seed) for part, seed in wanted], asked.lanes)
    _show(_rows())


def _run(part: str, seed: int) -> Run:
    words = "".join(letter if letter.isalnum() else " " for letter in f"{part} {seed}".lower()).split()
    overrides = (*BUDGET, *STUDIED, f"seed={seed}", *PARTS[part])

    def ended(run: Run) -> None:
        (validation,) = metrics(run.directory, "validation")
        row = {
            "part": part,
            "seed": seed,
            "bleu": validation["bleu"],
            "chrf": validation["chrf"],
            "perplexity": validation["perplexity"],
            "steps": validation["step"],
            "parameters": num_parameters(run.directory),
            "tokens_per_second": median_speed(run.directory),
        }
        with _writing, RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    return Run(f"{part}, seed {seed}", CONFIG, DIRECTORY / "-".join(words), None, overrides, ended=ended)


def _rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()] if RESULTS.exists() else []


def _show(rows: Sequence[dict[str, Any]]) -> None:
    print("| part | seeds | val BLEU | against the recipe | val perplexity | parameters |")
    print("|---|---|---|---|---|---|")
    whole = {row["seed"]: row["bleu"] for row in rows if row["part"] == WHOLE}
    for part in PARTS:
        own = [row for row in rows if row["part"] == part]
        if not own:
            continue
        # Pairs of the same seed: what the seed does to both is no difference between them.
        gains = [row["bleu"] - whole[row["seed"]] for row in own if row["seed"] in whole]
        gain = "" if part == WHOLE or not gains else _mean(gains, sign="+")
        perplexity = statistics.mean(row["perplexity"] for row in own)
        seeds = ", ".join(str(row["seed"]) for row in sorted(own, key=lambda row: row["seed"]))
        print(
            f"| {part} | {seeds} | {_mean([row['bleu'] for row in own])} | {gain} | {perplexity:.2f} "
            f"| {own[0]['parameters']:,} |"
        )


def _mean(values: Sequence[float], sign: str = "") -> str:
    deviation = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):{sign}.2f}{deviation}"


if __name__ == "__main__":
    main()
