"""Shows what does not grow with the corpus, and what it costs to prepare one: `python -m benchmarks.scale`.

Pairs of the phrase book, two joined to one, are written until there are enough of them; then `nmt train` makes its
store and trains on it, watched from outside. A table, as Markdown, goes to standard output. What lies in the directory
from an earlier call is used again.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from nmt_cli.data.batch import BatchMaker
from nmt_cli.data.pairs import Corpus, LengthLimits
from nmt_cli.data.sampler import Cursor, Sampler
from nmt_cli.data.store import PairStore, open_store
from nmt_cli.demo import phrasebook
from nmt_cli.experiment import Experiment

LINES_AT_ONCE = 200_000
BATCH_SIZE = 2000
CONFIG = """
name: scale
model_dir: {directory}/run-{pairs}
data:
  source_lang: en
  target_lang: fr
  train: [{{source: {directory}/{pairs}.en, target: {directory}/{pairs}.fr}}]
tokenizer: {{model_type: bpe, vocab_size: 1000}}
model:
  embedding_size: 128
  encoder: {{hidden_size: 128}}
  decoder: {{hidden_size: 128}}
  attention: {{size: 128}}
training:
  batch_size: {batch_size}
  max_epochs: null
  max_steps: {steps}
  checkpoint_freq: 1000000
  logging_freq: 10
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=Path, default=Path("runs/scale"))
    parser.add_argument("--pairs", type=int, default=20_000_000)
    parser.add_argument("--small", type=int, default=20_000, help="pairs of the corpus to compare with")
    parser.add_argument("--sample", type=int, default=200_000, help="pairs whose preparation is timed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100)
    asked = parser.parse_args()
    asked.directory.mkdir(parents=True, exist_ok=True)
    print("| what | pairs | |")
    print("|---|---|---|")
    sizes = (asked.small, asked.pairs)
    for pairs in sizes:
        write_corpus(asked.directory, pairs)
        if not (asked.directory / f"run-{pairs}").exists():
            show_training(asked.directory, pairs, asked.steps, "store made")
        show_training(asked.directory, pairs, asked.steps + 20 * asked.rounds, "store there already")
    for pairs in sizes:
        show_batches(asked.directory, pairs, asked.rounds)
    write_corpus(asked.directory, asked.sample)
    tokenizers = Experiment(asked.directory / f"run-{asked.small}").tokenizers
    source, target = (str(asked.directory / f"{asked.sample}.{language}") for language in ("en", "fr"))
    corpus = Corpus(source, target)
    for threads in (1, 2):
        rates = []
        for round_ in range(asked.rounds):
            began = time.monotonic()
            root = asked.directory / f"prepared-{threads}-{round_}-{time.time_ns()}"
            open_store(root, [corpus], tokenizers, LengthLimits(), threads=threads)
            rates.append(asked.sample / (time.monotonic() - began))
        row(f"preparation, {threads} threads", asked.sample, f"{statistics.median(rates):,.0f} pairs/s")


def row(what: str, pairs: int, figure: str) -> None:
    print(f"| {what} | {pairs:,} | {figure} |", flush=True)


def write_corpus(directory: Path, pairs: int) -> None:
    """Random pairs of the phrase book, two joined to one, by seed."""
    paths = [directory / f"{pairs}.{language}" for language in ("en", "fr")]
    if all(path.exists() for path in paths):
        return
    book = phrasebook.generate(num_train=20_000).train
    random = np.random.default_rng(pairs)
    sides = [[pair.source.encode() for pair in book], [pair.target.encode() for pair in book]]
    with paths[0].open("wb") as source, paths[1].open("wb") as target:
        for start in range(0, pairs, LINES_AT_ONCE):
            firsts, seconds = random.integers(len(book), size=(2, min(LINES_AT_ONCE, pairs - start))).tolist()
            for file, texts in ((source, sides[0]), (target, sides[1])):
                joined = (b"%b %b\n" % (texts[i], texts[j]) for i, j in zip(firsts, seconds, strict=True))
                file.write(b"".join(joined))


def show_training(directory: Path, pairs: int, steps: int, state: str) -> None:
    """One `nmt train`, whose memory and messages are looked at while it runs."""
    config = directory / f"{pairs}.yaml"
    config.write_text(CONFIG.format(directory=directory, pairs=pairs, steps=steps, batch_size=BATCH_SIZE))
    began = time.monotonic()
    command = [sys.executable, "-m", "nmt_cli", "train", "--config", str(config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        status = Path(f"/proc/{process.pid}/status")
        memory: dict[str, int] = {}
        ready = 0.0
        for line in process.stderr:
            if line.startswith("scale: "):
                ready = time.monotonic() - began
                memory["before the first step"] = resident(status, "VmHWM")
            elif line.startswith("update "):
                memory["while training"] = resident(status, "VmRSS")
    if process.returncode:
        raise SystemExit(f"failed ({process.returncode}): {' '.join(command)}")
    row(f"start of training, {state}", pairs, f"{ready:.1f} s")
    for when, size in memory.items():
        row(f"resident memory {when}, {state}", pairs, f"{size / 1e6:,.0f} MB")


def resident(status: Path, field: str) -> int:
    """Bytes: `VmRSS` is what is resident now, `VmHWM` the most that ever was."""
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(lines[field].split()[0]) * 1024


def show_batches(directory: Path, pairs: int, rounds: int) -> None:
    """The time of a batch from the store, without the training, and of the first one in the middle of an epoch."""
    experiment = Experiment(directory / f"run-{pairs}")
    (store_path,) = (path for path in experiment.cache_path.iterdir() if path.is_dir())
    store = PairStore(store_path)
    make = BatchMaker(store, experiment.tokenizers, seed=1)
    sampler = Sampler(
        store.source_lengths, store.target_lengths, bounds=store.bounds, target_pieces=store.target_pieces,
        weights=[1.0], batch_size=BATCH_SIZE, batch_type="tokens", seed=1,
    )  # fmt: skip
    middle = Cursor(3, int(sampler.batches_per_epoch() / 200), 0)
    firsts, batches = [], []
    for _ in range(rounds):
        began = time.monotonic()
        drawn = sampler.batches_from(middle)
        make(first := next(drawn), 1, range(len(first.pairs)))
        firsts.append(time.monotonic() - began)
        began = time.monotonic()
        count = sum(1 for one in islice(drawn, 300) if make(one, 1, range(len(one.pairs))))
        batches.append((time.monotonic() - began) / count)
    row("first batch in the middle of an epoch", pairs, f"{1000 * statistics.median(firsts):.1f} ms")
    row("a batch", pairs, f"{1000 * statistics.median(batches):.2f} ms")
    row("store on the disk", pairs, f"{sum(sizes(store_path)) / pairs:.1f} bytes a pair")


def sizes(directory: Path) -> Iterator[int]:
    return (path.stat().st_size for path in directory.iterdir())


if __name__ == "__main__":
    main()
