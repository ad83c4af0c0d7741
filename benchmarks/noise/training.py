"""Measure the BLEU that noise costs and `nmt clean` restores: `python -m benchmarks.noise.training --data DIR`.

One model is trained on the clean text, one on the text with mixed noise in a share of its pairs, and one on what
`nmt clean` makes of that. All else is the same, and the dev and test sets are clean. The table, as Markdown, goes to
standard output. What lies in the directory from an earlier call is used again.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import NamedTuple

from benchmarks.noise.corpora import Pair, french, lines_of, multi30k, tatoeba, write_pairs
from benchmarks.noise.kinds import MIXED, inject
from benchmarks.runs import metrics, nmt

NUM_DEV, NUM_TEST = 500, 1_000
TEXTS = ("clean", "noisy", "cleaned")


class Text(NamedTuple):
    """A corpus to train on, with its dev and test sets."""

    train: list[Pair]
    dev: tuple[Path, Path]
    test: tuple[Path, Path]
    config: Path
    overrides: tuple[str, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="directory with multi30k/ and tatoeba/")
    parser.add_argument("--directory", type=Path, default=Path("runs/noise"))
    parser.add_argument("--corpus", choices=("multi30k", "vie"), nargs="+", default=["vie", "multi30k"])
    parser.add_argument("--text", choices=TEXTS, nargs="+", default=TEXTS, help="what models are trained on")
    parser.add_argument("--share", type=float, default=0.3)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    foreign = french(asked.data)
    print("| corpus | training text | pairs | updates | dev BLEU | test BLEU | test chrF |")
    print("|---|---|---|---|---|---|---|")
    for corpus in asked.corpus:
        directory = asked.directory / f"{corpus}-{asked.share:.2f}"
        directory.mkdir(parents=True, exist_ok=True)
        text = (vietnamese if corpus == "vie" else german)(asked.data, directory)
        paths = {name: (directory / f"{name}.source", directory / f"{name}.target") for name in ("clean", "noisy")}
        write_pairs(text.train, *paths["clean"])
        write_pairs(inject(text.train, MIXED, asked.share, seed=asked.seed, foreign=foreign).pairs, *paths["noisy"])
        paths["cleaned"] = directory / "cleaned.source", directory / "cleaned.target"
        if not paths["cleaned"][0].exists():
            nmt("clean", *map(str, paths["noisy"]), "-o", str(directory / "cleaned"), log=directory / "clean.log")
        for name in asked.text:
            run = directory / f"{name}-{asked.epochs}"
            overrides = (*text.overrides, f"training.max_epochs={asked.epochs}", f"seed={asked.seed}")
            print(f"| {corpus} | {name} | {row(text, paths[name], run, overrides)} |", flush=True)


def row(text: Text, files: tuple[Path, Path], run: Path, overrides: tuple[str, ...]) -> str:
    """Train a model on these files, translate the test set, and return the cells of its row."""
    sets = [
        *overrides, f"model_dir={run}", f"data.train.0.source={files[0]}", f"data.train.0.target={files[1]}",
        f"data.dev.source={text.dev[0]}", f"data.dev.target={text.dev[1]}", "training.threads=1", "data.test=[]",
    ]  # fmt: skip
    run.mkdir(exist_ok=True)
    log, hypotheses = run / "study.log", run / "test.hyp"
    nmt("train", "--config", str(text.config), *(word for one in sets for word in ("--set", one)), log=log)
    if not hypotheses.exists():
        nmt("translate", str(text.test[0]), "--model", str(run), "-o", str(hypotheses), "--threads", "1", log=log)
    given = ("--tokenize", "none") if text.config.parent.name == "configs" else ()
    scores = json.loads(nmt("score", str(hypotheses), "--reference", str(text.test[1]), "--json", *given, log=log))
    validations = metrics(run, "validation")
    steps, best = int(validations[-1]["step"]), max(one["bleu"] for one in validations)
    return (
        f"{len(lines_of(files[0])):,} | {steps:,} | {best:.2f} | {scores['bleu']['score']:.2f} | "
        f"{scores['chrf']['score']:.2f}"
    )


def german(data: Path, directory: Path) -> Text:
    """Return the lowercased, tokenised form of Multi30K English-German and its configuration."""
    del directory
    dev, test = (
        (data / f"multi30k/{name}.lc.tok.en", data / f"multi30k/{name}.lc.tok.de") for name in ("val", "test2016")
    )
    overrides = ("training.validation_freq=305", "training.checkpoint_freq=305")
    return Text(multi30k(data, ".lc.tok"), dev, test, Path("configs/multi30k_en_de.yaml"), overrides)


def vietnamese(data: Path, directory: Path) -> Text:
    """Split Tatoeba English-Vietnamese so that no English sentence is in two parts, and configure the training part."""
    pairs = tatoeba(data, "vie")
    sources = sorted({source for source, _ in pairs})
    random.Random(1).shuffle(sources)
    parts = dict.fromkeys(sources[:NUM_TEST], "test")
    parts |= dict.fromkeys(sources[NUM_TEST : NUM_TEST + NUM_DEV], "dev")
    files = {}
    for part in ("train", "dev", "test"):
        files[part] = directory / f"{part}.en", directory / f"{part}.vi"
        write_pairs([pair for pair in pairs if parts.get(pair[0], "train") == part], *files[part])
    config = directory / "vie.yaml"
    if not config.exists():
        given = zip(
            ("--source", "--target", "--dev-source", "--dev-target"), (*files["train"], *files["dev"]), strict=True
        )
        options = (word for option, path in given for word in (option, str(path)))
        nmt("init", *options, "--source-lang", "en", "--target-lang", "vi", "-o", str(config))
    train = [pair for pair in pairs if pair[0] not in parts]
    # Small batches, so that a few epochs make enough updates.
    overrides = ("training.batch_size=250", "training.validation_freq=250", "training.checkpoint_freq=250")
    return Text(train, files["dev"], files["test"], config, overrides)


if __name__ == "__main__":
    main()
