"""The table of attentions: every mechanism at one size, seed and budget; `python -m benchmarks.papers.attentions`.

Each row is `configs/papers/attentions.yaml` with the overrides that stand here. The table, as Markdown, goes to
standard output, and with all figures unrounded to `runs/attentions/table.json`.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.runs import Run, median_speed, metrics, nmt, num_parameters, train_all

CONFIG = Path("configs/papers/attentions.yaml")
DIRECTORY = Path("runs/attentions")
BASELINE = "additive"

NONE = ("model.attention.type=none", "model.decoder.recurrence=bahdanau")
LUONG = ("model.decoder.recurrence=luong",)
SYSTEMS: dict[str, tuple[str, ...]] = {
    BASELINE: (),
    "additive, bahdanau": ("model.decoder.recurrence=bahdanau",),
    "none, Cho (GRU)": (*NONE, "model.attention.context=every_step"),
    "none, Sutskever (GRU)": (*NONE, "model.attention.context=initial"),
    "none, Sutskever (LSTM, one direction)": (
        *NONE, "model.attention.context=initial", "model.encoder.rnn_type=lstm", "model.decoder.rnn_type=lstm",
        "model.encoder.bidirectional=false", "model.encoder.hidden_size=256",
    ),
    "none, Sutskever (LSTM, one direction, reversed)": (
        *NONE, "model.attention.context=initial", "model.encoder.rnn_type=lstm", "model.decoder.rnn_type=lstm",
        "model.encoder.bidirectional=false", "model.encoder.hidden_size=256", "model.encoder.reverse_source=true",
    ),
    "dot, luong": (*LUONG, "model.attention.type=dot"),
    "general, luong": (*LUONG, "model.attention.type=general"),
    "general, luong, no input feeding": (
        *LUONG, "model.attention.type=general", "model.decoder.input_feeding=false",
    ),
    "concat, luong": (*LUONG, "model.attention.type=concat"),
    "local-m (general), luong": (*LUONG, "model.attention.type=local-m", "model.attention.window=5"),
    "local-p (general), luong": (*LUONG, "model.attention.type=local-p", "model.attention.window=5"),
    "location": ("model.attention.type=location",),
    "location, smoothing": ("model.attention.type=location", "model.attention.smoothing=true"),
    "location, sharpening 2": ("model.attention.type=location", "model.attention.sharpening=2.0"),
    "coverage, See": ("model.attention.coverage=linguistic", "model.attention.coverage_loss=0.5"),
    "coverage, Tu": ("model.attention.coverage=neural",),
    "multihead (4)": ("model.attention.type=multihead",),
    "additive, guided by its own alignment": (),
    "additive, seed 2": ("seed=2",),
}  # fmt: skip
GUIDED = "additive, guided by its own alignment"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lanes", type=int, default=2, help="trainings side by side, each on one core")
    lanes = parser.parse_args().lanes
    test = _test_set()
    runs = [_run(name, test["source"]) for name in SYSTEMS]
    train_all(runs, lanes)
    with ThreadPoolExecutor(lanes) as pool:
        measured = list(pool.map(lambda run: _measure(run, runs[0], test), runs))
    rows = {run.name: row for run, row in zip(runs, measured, strict=True)}
    (DIRECTORY / "table.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    _show(rows)


def directory_of(name: str) -> Path:
    """Return the directory of a system: its name in letters, digits and hyphens."""
    words = "".join(letter if letter.isalnum() else " " for letter in name.lower()).split()
    return DIRECTORY / "-".join(words)


def _run(name: str, test_source: str) -> Run:
    overrides = SYSTEMS[name]
    if name != GUIDED:
        return Run(name, CONFIG, directory_of(name), test_source, overrides)
    links = directory_of(name) / "train.align"
    (corpus,) = _config()["data"]["train"]
    corpus_with_links = json.dumps([corpus | {"alignment": str(links)}])
    overrides = (*overrides, f"data.train={corpus_with_links}")
    return Run(name, CONFIG, directory_of(name), test_source, overrides, BASELINE, _aligner(links))


def _aligner(links: Path) -> Callable[[Path], None]:
    def align(_: Path) -> None:
        """Word alignments of the training text, by the model that had none."""
        (corpus,) = _config()["data"]["train"]
        if not links.exists():
            baseline = str(directory_of(BASELINE))
            nmt("align", corpus["source"], corpus["target"], "--model", baseline, "--threads", "1", "-o", str(links))

    return align


def _config() -> dict[str, dict[str, list[dict[str, str]]]]:
    from nmt_cli.config.loader import load_config

    config: dict[str, dict[str, list[dict[str, str]]]] = load_config(CONFIG).model_dump(mode="json")
    return config


def _test_set() -> dict[str, str]:
    (test,) = _config()["data"]["test"]
    return test


def _measure(run: Run, baseline: Run, test: dict[str, str]) -> dict[str, float | str]:
    directory, output, log = run.directory, str(run.hypotheses), run.log
    options = ["--reference", test["target"], "--tokenize", "none", "--metric", "bleu", "--metric", "chrf", "--json"]
    score = json.loads(nmt("score", output, *options, log=log))
    (validation,) = metrics(directory, "validation")
    row: dict[str, float | str] = {
        "bleu": score["bleu"]["score"],
        "chrf": score["chrf"]["score"],
        "signature": score["bleu"]["signature"],
        "dev_perplexity": validation["perplexity"],
        "dev_bleu": validation["bleu"],
        "parameters": num_parameters(directory),
        "tokens_per_second": median_speed(directory),
        "seconds": metrics(directory, "train")[-1]["seconds"],
    }
    if not run.name.startswith("none"):
        row["entropy"] = _entropy(directory, test)
    if run != baseline:
        compared = json.loads(nmt("score", output, *options, "--baseline", str(baseline.hypotheses), log=log))
        row["p_value"] = compared["baseline"]["bleu"]["p_value"]
    return row


def _entropy(directory: Path, test: dict[str, str]) -> float:
    """Return the entropy of the attention, in bits, as a mean over the target pieces of the forced test set."""
    lines = nmt(
        "align",
        test["source"],
        test["target"],
        "--model",
        str(directory),
        "--format",
        "jsonl",
        "--level",
        "piece",
        "--threads",
        "1",
    ).splitlines()
    entropies = []
    for line in lines:
        for row in json.loads(line)["weights"]:
            total = sum(row)  # local-p's weights do not sum to one
            entropies.append(-sum(w / total * math.log2(w / total) for w in row if w > 0.0) if total else 0.0)
    return sum(entropies) / len(entropies)


def _show(rows: dict[str, dict[str, float | str]]) -> None:
    print("| system | BLEU | chrF | p | dev perplexity | entropy, bits | parameters | tokens/s |")
    print("|---|---|---|---|---|---|---|---|")
    for name, row in rows.items():
        p_value = row.get("p_value")
        verdict = "" if p_value is None else f"{p_value:.3f}" + (" (tie)" if float(p_value) >= 0.05 else "")
        entropy = f"{row['entropy']:.2f}" if "entropy" in row else ""
        print(
            f"| {name} | {row['bleu']:.2f} | {row['chrf']:.2f} | {verdict} | {row['dev_perplexity']:.2f} | {entropy} "
            f"| {row['parameters']:,} | {row['tokens_per_second']:,.0f} |"
        )
    print(rows[BASELINE]["signature"], file=sys.stderr)


if __name__ == "__main__":
    main()
