"""The sizes that `nmt init` chooses beside their neighbours, at equal minutes; `python -m benchmarks.defaults`.

Six corpora: the Tatoeba files vie, cmn and fra, and Multi30K with 1,000, 5,000 and 29,000 pairs. For each, `nmt init`
writes a configuration. Neighbours have half or double the vocabulary, half or double the hidden size, and weaker or
stronger dropout; 5,000 captions also have a quarter of the vocabulary, and fra has other batches, the other schedule,
and two layers. Half the vocabulary of cmn has no room for its rare characters, which are spelt in bytes then. Word
pairs, which `nmt init` turns on, are a neighbour too: all other runs are without them.

Every run of a corpus gets the same processor time on one thread. First, 20 and 60 updates measure the time of one
update; the length of the training follows from it. Where the default has run already, perhaps on another machine, a
neighbour gets the time that the updates of the default would take on this one. Other dropout takes no other time, so
it gets as many updates as the default, whatever these measurements say. Each run is scored on the dev set at five
points, and the best counts. No test set is read. A run's figures go to `docs/studies/defaults.jsonl` as it ends, and
one that stands there is not trained again. Two tables, as Markdown, go to standard output: what each neighbour gains,
and all runs.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import yaml

from benchmarks.runs import Run, metrics, nmt, num_parameters, train_all

DIRECTORY = Path("runs/defaults")
RESULTS = Path("docs/studies/defaults.jsonl")
TATOEBA = {"vie": "vi", "cmn": "zh", "fra": "fr"}
MINUTES = {"vie": 10, "cmn": 20, "fra": 40, "m30k-1000": 6, "m30k-5000": 15, "m30k-29000": 25}
"""Processor minutes of each run."""
MAX_HELD_OUT = 1_000
"""Pairs in each of dev and test; of a small corpus at most a twentieth."""
PROBES = (20, 60)
"""Updates of the two short trainings that measure the time of one update."""
DEFAULT = "default"
NEIGHBOURS = (
    *("vocabulary-half", "vocabulary-double", "hidden-half", "hidden-double", "dropout-weaker", "dropout-stronger"),
    *("word-pairs", "batch-half", "batch-double", "other-schedule", "two-layers"),
)
AS_LONG = (DEFAULT, "dropout-weaker", "dropout-stronger", "word-pairs")
"""Variants whose updates take equal time."""
ALONE = ("training.threads=1", "training.patience=null", "training.max_epochs=null")
"""Settings that every run changes, so that only its number of updates ends it."""
WORD_PAIRS = "data.word_pairs=true"
_writing = Lock()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("data"), help="directory with tatoeba/ and multi30k/")
    parser.add_argument("--lanes", type=int, default=2, help="trainings side by side, each on one core")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--corpora", nargs="+", choices=MINUTES, default=list(MINUTES), metavar="CORPUS")
    parser.add_argument("--variants", nargs="+", metavar="VARIANT", help="only these, such as default vocabulary-half")
    parser.add_argument("--show", action="store_true", help="only print the tables of what has run")
    asked = parser.parse_args()
    if not asked.show:
        done = {(row["corpus"], row["variant"], row["seed"]) for row in _rows()}
        runs = []
        for seed in asked.seeds:
            for corpus in asked.corpora:
                config = _prepared(corpus, asked.data)
                for variant, overrides in _variants(corpus, config).items():
                    wanted = asked.variants is None or variant in asked.variants
                    if wanted and (corpus, variant, seed) not in done:
                        runs.append(_run(corpus, variant, seed, config, overrides))
        if runs:
            train_all(runs, asked.lanes)
    _show(_rows())


# The corpora ------------------------------------------------------------------------------------------------------


def _prepared(corpus: str, data: Path) -> Path:
    """Return the configuration that `nmt init` writes for a corpus, which is split first if it is not yet."""
    directory = DIRECTORY / corpus
    config = directory / "default.yaml"
    if config.exists():
        return config
    directory.mkdir(parents=True, exist_ok=True)
    if corpus in TATOEBA:
        languages = ("en", TATOEBA[corpus])
        ends = [f".{language}" for language in languages]
        if not (directory / "all.report.json").exists():
            options = ["--source-lang", languages[0], "--target-lang", languages[1]]
            nmt("import", str(data / "tatoeba" / f"{corpus}-eng.zip"), "-o", str(directory / "all"), *options)
        pairs = _read(*(directory / f"all{end}" for end in ends))
        for name, part in split(pairs, min(MAX_HELD_OUT, len(pairs) // 20)).items():
            _write(part, *(directory / f"{name}{end}" for end in ends))
    else:
        languages, ends = ("en", "de"), [".en", ".de"]
        for name, given in (("train", "train"), ("dev", "val")):
            pairs = _read(*(data / "multi30k" / f"{given}.lc.tok{end}" for end in ends))
            number = int(corpus.partition("-")[2]) if name == "train" else len(pairs)
            _write(pairs[:number], *(directory / f"{name}{end}" for end in ends))
    texts = [
        word
        for name, options in (("train", ("--source", "--target")), ("dev", ("--dev-source", "--dev-target")))
        for option, end in zip(options, ends, strict=True)
        for word in (option, str(directory / f"{name}{end}"))
    ]
    nmt("init", *texts, "--source-lang", languages[0], "--target-lang", languages[1], "-o", str(config))
    return config


def split(pairs: Sequence[tuple[str, str]], num_held_out: int, seed: int = 1) -> dict[str, list[tuple[str, str]]]:
    """Split pairs into train, dev and test so that no sentence of either side stands in two of them.

    Pairs that share a source or a target, directly or through other pairs, stay together. Groups are drawn at random;
    dev and test take small ones only (at most 5 pairs), one pair of each, and the rest of these groups is left out.

    Args:
        pairs: source and target sentences.
        num_held_out: pairs in each of dev and test.
        seed: of the drawing.

    Returns:
        The pairs of "train", in their order, of "dev" and of "test".
    """
    parent = list(range(len(pairs)))

    def root(one: int) -> int:
        while parent[one] != one:
            parent[one] = parent[parent[one]]
            one = parent[one]
        return one

    first: dict[tuple[int, str], int] = {}
    for number, pair in enumerate(pairs):
        for side, text in enumerate(pair):
            other = first.setdefault((side, text.casefold().strip()), number)
            parent[root(number)] = root(other)
    groups: dict[int, list[int]] = {}
    for number in range(len(pairs)):
        groups.setdefault(root(number), []).append(number)
    small = sorted(numbers for numbers in groups.values() if len(numbers) <= 5)
    drawn = random.Random(seed).sample(small, 2 * num_held_out)
    taken = {number for group in drawn for number in group}
    return {
        "train": [pair for number, pair in enumerate(pairs) if number not in taken],
        "dev": [pairs[group[0]] for group in drawn[:num_held_out]],
        "test": [pairs[group[0]] for group in drawn[num_held_out:]],
    }


def _read(source: Path, target: Path) -> list[tuple[str, str]]:
    sides = (path.read_text(encoding="utf-8").split("\n")[:-1] for path in (source, target))
    return list(zip(*sides, strict=True))


def _write(pairs: Sequence[tuple[str, str]], *paths: Path) -> None:
    for side, path in enumerate(paths):
        path.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")


# The runs ---------------------------------------------------------------------------------------------------------


def _variants(corpus: str, config: Path) -> dict[str, tuple[str, ...]]:
    """Return the neighbours of a configuration, each with what it changes."""
    values = yaml.safe_load(config.read_text(encoding="utf-8"))
    model, training = values["model"], values["training"]

    def hidden(size: int) -> tuple[str, ...]:
        keys = ("encoder.hidden_size", "decoder.hidden_size", "attention.size")
        return tuple(f"model.{key}={size}" for key in keys)

    def dropout(factor: float) -> tuple[str, ...]:
        return tuple(f"model.dropout.{key}={round(factor * rate, 3)}" for key, rate in model["dropout"].items() if rate)

    vocabulary, size, batch = values["tokenizer"]["vocab_size"], model["encoder"]["hidden_size"], training["batch_size"]
    found = {
        DEFAULT: (),
        "vocabulary-half": (f"tokenizer.vocab_size={vocabulary // 2}",),
        "vocabulary-double": (f"tokenizer.vocab_size={vocabulary * 2}",),
        "hidden-half": hidden(size // 2),
        "hidden-double": hidden(size * 2),
        "dropout-weaker": dropout(0.5),
        "dropout-stronger": dropout(1.5),
        "word-pairs": (WORD_PAIRS,),
    }
    if corpus == "cmn":  # half as many pieces are fewer than its characters
        found["vocabulary-half"] += ("tokenizer.character_coverage=0.99",)
    if corpus == "m30k-5000":  # where the rule was another one before
        found["vocabulary-quarter"] = (f"tokenizer.vocab_size={vocabulary // 4}",)
    if corpus == "fra":
        falls = training["schedule"] == "cosine"
        found |= {
            "batch-half": (f"training.batch_size={batch // 2}",),
            "batch-double": (f"training.batch_size={batch * 2}",),
            "other-schedule": (f"training.schedule={'constant' if falls else 'cosine'}",),
            "two-layers": ("model.encoder.num_layers=2", "model.decoder.num_layers=2"),
        }  # fmt: skip
    return found


def _run(corpus: str, variant: str, seed: int, config: Path, overrides: tuple[str, ...]) -> Run:
    directory = DIRECTORY / corpus / f"{variant}-{seed}"
    alone = overrides if WORD_PAIRS in overrides else (*overrides, "data.word_pairs=false")
    overrides = (*alone, f"seed={seed}", *ALONE)
    had = _updates_of_default(corpus, seed)
    steps = had if had is not None and variant in AS_LONG else _steps(corpus, directory, config, overrides, had)

    def ended(run: Run) -> None:
        best = max(metrics(run.directory, "validation"), key=lambda record: record["bleu"])
        row = {
            "corpus": corpus,
            "variant": variant,
            "seed": seed,
            "bleu": best["bleu"],
            "chrf": best["chrf"],
            "step": best["step"],
            "steps": steps,
            "minutes": MINUTES[corpus],
            "parameters": num_parameters(run.directory),
        }
        with _writing, RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    length = (f"training.max_steps={steps}", f"training.validation_freq={max(1, steps // 5)}")
    return Run(f"{corpus} {variant} {seed}", config, directory, None, (*overrides, *length), ended=ended)


def _updates_of_default(corpus: str, seed: int) -> int | None:
    """Return the updates of the default, with another seed if need be; None where it has none yet."""
    ended = next((row["steps"] for row in _rows() if (row["corpus"], row["variant"]) == (corpus, DEFAULT)), None)
    record = DIRECTORY / corpus / f"{DEFAULT}-{seed}.steps.json"
    return ended if ended is not None or not record.exists() else json.loads(record.read_text(encoding="utf-8"))


def _steps(corpus: str, directory: Path, config: Path, overrides: Sequence[str], had: int | None) -> int:
    """Return the updates of a run, which a file beside its directory keeps: those that fit into the minutes of its
    corpus, or into the time that the updates of the default would take here, if the default has had some."""
    record = directory.with_suffix(".steps.json")
    if not record.exists():
        seconds = _seconds_an_update(directory, config, overrides)
        given = 60.0 * MINUTES[corpus]
        if had is not None:
            given = had * _seconds_an_update(DIRECTORY / corpus / DEFAULT, config, ALONE)
        record.write_text(json.dumps(max(1, round(given / seconds))), encoding="utf-8")
    steps = json.loads(record.read_text(encoding="utf-8"))
    assert isinstance(steps, int)
    return steps


def _seconds_an_update(directory: Path, config: Path, overrides: Sequence[str]) -> float:
    """Return the processor seconds of an update on this machine, measured once for each run."""
    record = directory.with_suffix(".probe.json")
    if not record.exists():
        times = []
        for number in PROBES:
            options = (*overrides, f"model_dir={directory}.probe{number}", f"training.max_steps={number}")
            sets = [word for option in (*options, "data.dev=null") for word in ("--set", option)]
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, "-m", "nmt_cli", "train", "--config", str(config), *sets]
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        seconds = (times[1] - times[0]) / (PROBES[1] - PROBES[0])
        record.write_text(json.dumps({"seconds_an_update": seconds}), encoding="utf-8")
    seconds = json.loads(record.read_text(encoding="utf-8"))["seconds_an_update"]
    assert isinstance(seconds, float)
    return seconds


# The table --------------------------------------------------------------------------------------------------------


def _rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()] if RESULTS.exists() else []


def _show(rows: Sequence[dict[str, Any]]) -> None:
    """Print what each neighbour gains, then every run."""
    rows = sorted(rows, key=lambda row: (list(MINUTES).index(row["corpus"]), row["seed"]))
    found = {(row["corpus"], row["seed"], row["variant"]): row["bleu"] for row in rows}
    print(f"| | {' | '.join(MINUTES)} |")
    print("|---" * (len(MINUTES) + 1) + "|")
    for variant in (DEFAULT, *NEIGHBOURS):
        cells = (", ".join(_figure(row, found) for row in rows if _is_of(row, corpus, variant)) for corpus in MINUTES)
        print(f"| {variant} | {' | '.join(cells)} |")
    print("\n| corpus | variant | seed | dev BLEU | against the default | dev chrF | updates | parameters |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        gain = "" if row["variant"] == DEFAULT else _figure(row, found)
        print(
            f"| {row['corpus']} | {row['variant']} | {row['seed']} | {row['bleu']:.2f} | {gain} | {row['chrf']:.2f} "
            f"| {row['steps']:,} | {row['parameters']:,} |"
        )


def _is_of(row: dict[str, Any], corpus: str, variant: str) -> bool:
    return bool(row["corpus"] == corpus and row["variant"] == variant)


def _figure(row: dict[str, Any], found: dict[tuple[str, int, str], float]) -> str:
    """Return the BLEU of a default, and what a neighbour gains; empty where the default has not run."""
    if row["variant"] == DEFAULT:
        return f"{row['bleu']:.2f}"
    # "2600 pieces, hidden-half" belongs to "2600 pieces", the default of an earlier rule.
    base = found.get((row["corpus"], row["seed"], row["variant"].rpartition(", ")[0] or DEFAULT))
    return "" if base is None else f"{row['bleu'] - base:+.2f}"


if __name__ == "__main__":
    main()
