"""The text of the study: pairs of Multi30K and Tatoeba with text in one language, and text with hidden words."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.better_models.lines import read_lines, write_lines
from benchmarks.better_models.stages import Workplace
from benchmarks.better_models.table import RATIO, Corpus, Table
from benchmarks.defaults import MAX_HELD_OUT, TATOEBA, split
from nmt_cli.config.loader import dump_config, load_config

FEW_RATIO = 4.0
"""Translated lines of an epoch for 5,000 pairs or fewer, as in docs/studies/few-pairs.md."""
MASK = "<?>"
TO_SOURCE, TO_TARGET = "<2src>", "<2tgt>"
"""First pieces of a source that name the direction."""
MASKED = 0.12
"""Share of the source words that are hidden, the rate of `nmt init` for 5,000 pairs."""
NUM_MASKED = 10
"""Copies of the text with other words hidden, each of which gives a tenth of an epoch."""


def multi30k(table: Table, name: str, num_pairs: int) -> Corpus:
    """Add the first pairs of Multi30K, the German captions, and the English of the other pairs."""
    corpus = Corpus(name, "en", "de", ratio=RATIO if num_pairs == 29_000 else FEW_RATIO)
    scale, data = table.scale, table.data

    def work(place: Workplace) -> dict[str, Any]:
        directory, given = place.directory, data / "multi30k"
        for end in ("en", "de"):
            for made, file, number in (("dev", "val", 1014), ("test", "test2016", 1000)):
                write_lines(
                    directory / f"{made}.{end}", read_lines(given / f"{file}.lc.tok.{end}")[: scale.lines(number)]
                )
            lines = read_lines(given / f"train.lc.tok.{end}")[: scale.lines(29_000)]
            write_lines(directory / f"train.{end}", lines[: scale.lines(num_pairs)])
            if end == "en":
                write_lines(directory / "all.en", lines[scale.lines(num_pairs) :])
        captions = [data / "captions" / f"train.{number}.lc.tok.de" for number in range(1, 6)]
        write_lines(
            directory / "all.de", (line for path in captions for line in read_lines(path)[: scale.lines(29_000)])
        )
        _clean_and_configure(place, corpus, ("de", "en") if num_pairs < 29_000 else ("de",), "lower case")
        return _counts(directory)

    table.add(name, f"{num_pairs:,} pairs of Multi30K, captions and English text", 2, work)
    return corpus


def tatoeba(table: Table, name: str, file: str, source: str, target: str) -> Corpus:
    """Add a Tatoeba file, and the English of the file fra as text in one language."""
    corpus = Corpus(name, source, target, "zh" if target == "zh" else "13a")
    scale, data = table.scale, table.data

    def work(place: Workplace) -> dict[str, Any]:
        directory = place.directory
        other = TATOEBA[file]
        languages = ("--source-lang", "en", "--target-lang", other)
        _import(place, data / "tatoeba" / f"{file}-eng.zip", "imported", languages)
        sides = [read_lines(directory / f"imported.{end}") for end in ("en", other)]
        pairs = list(zip(*sides, strict=True))[: scale.number(10**9, 600)]
        for part, lines in split(pairs, min(MAX_HELD_OUT, len(pairs) // 20)).items():
            for end, text in zip(("en", other), zip(*lines, strict=True), strict=True):
                write_lines(directory / f"{part}.{end}", text)
        if file != "fra":
            _import(place, data / "tatoeba" / "fra-eng.zip", "fra", ("--source-lang", "en", "--target-lang", "fr"))
            write_lines(
                directory / "all.en", dict.fromkeys(read_lines(directory / "fra.en")[: scale.number(10**9, 1_200)])
            )
        _clean_and_configure(place, corpus, ("en",) if file != "fra" else (), "as people write")
        return _counts(directory)

    table.add(name, f"the Tatoeba file {file}, {source} to {target}, and English text", 2, work)
    return corpus


def _import(place: Workplace, file: Path, prefix: str, languages: Sequence[str]) -> None:
    if not (place.directory / f"{prefix}.report.json").exists():
        place.nmt("import", file, "-o", place.directory / prefix, *languages)


def _clean_and_configure(place: Workplace, corpus: Corpus, texts: Sequence[str], kind: str) -> None:
    """Clean pairs and text as `nmt improve` does, and write the configuration that `nmt init` gives to the pairs."""
    directory = place.directory
    source, target = corpus.source, corpus.target
    for path in [*directory.glob("pairs.*"), *directory.glob("mono.*"), directory / "init.yaml"]:
        path.unlink(missing_ok=True)
    sides = (directory / f"train.{source}", directory / f"train.{target}")
    place.nmt("clean", *sides, "-o", directory / "pairs", "--keep", "markup")
    for end in texts:
        known = [word for name in ("dev", "test", "train") for word in ("--without", directory / f"{name}.{end}")]
        place.nmt("clean", directory / f"all.{end}", "-o", directory / "mono", *known)
        (directory / "mono.dropped.tsv").rename(directory / f"mono.{end}.dropped.tsv")
    named = [
        word
        for name, prefix in (("", "pairs"), ("dev-", "dev"))
        for side, end in (("source", source), ("target", target))
        for word in (f"--{name}{side}", directory / f"{prefix}.{end}")
    ]
    init = directory / "init.yaml"
    place.nmt("init", *named, "--source-lang", source, "--target-lang", target, "-o", init)
    sets = ("tokenizer.normalization=identity", "scoring.tokenize=none") if kind == "lower case" else ()
    config = load_config(init, sets)
    write_lines(directory / "base.yaml", dump_config(config).splitlines())


def _counts(directory: Path) -> dict[str, int]:
    return {
        path.name: len(read_lines(path)) for name in ("pairs", "mono") for path in sorted(directory.glob(f"{name}.??"))
    }


def masked(table: Table, name: str, corpus: Corpus, which: str) -> str:
    """Add copies of the pairs whose frequent or rare source words are hidden more often, `MASKED` of all words."""

    def work(place: Workplace) -> dict[str, Any]:
        lines = read_lines(corpus.file(place.root, f"pairs.{corpus.source}"))
        count = Counter(word for line in lines for word in line.split())
        probability = hiding(count, which)
        for number in range(NUM_MASKED):
            draw = random.Random(number)
            hidden = (
                " ".join(MASK if draw.random() < probability[word] else word for word in line.split()) for line in lines
            )
            write_lines(place.directory / f"{number}.{corpus.source}", hidden)
        return {"words": len(count)}

    return table.add(name, f"hide {which} words of the source, in {NUM_MASKED} copies", 1, work, (corpus.name,))


def hiding(count: Mapping[str, int], which: str) -> dict[str, float]:
    """Return the probability with which each word is hidden.

    `frequent`: 1 - sqrt(t / n) for a word that occurs n times (Mikolov et al., 2013). `rare`: sqrt(t / n), at most a
    half. t is such that `MASKED` of all words are hidden.
    """
    total = sum(count.values())

    def probability(number: int, bound: float) -> float:
        root = math.sqrt(bound / number)
        return max(0.0, 1.0 - root) if which == "frequent" else min(0.5, root)

    def share(bound: float) -> float:
        return sum(number * probability(number, bound) for number in count.values()) / total

    low, high = 0.0, float(total)  # the share falls with the bound for frequent words, and rises for rare ones
    for _ in range(100):
        middle = (low + high) / 2
        is_too_high = share(middle) > MASKED
        low, high = (middle, high) if is_too_high == (which == "frequent") else (low, middle)
    return {word: probability(number, low) for word, number in count.items()}


def both_directions(table: Table, name: str, corpus: Corpus) -> str:
    """Add the pairs in both directions, with marks."""

    def work(place: Workplace) -> dict[str, Any]:
        for of, to, mark in (
            (corpus.source, corpus.target, TO_TARGET),
            (corpus.target, corpus.source, TO_SOURCE),
        ):
            source, target = (read_lines(corpus.file(place.root, f"pairs.{end}")) for end in (of, to))
            write_lines(place.directory / f"to-{to}.source", (f"{mark} {line}" for line in source))
            write_lines(place.directory / f"to-{to}.target", target)
        return {}

    return table.add(name, "the pairs in both directions", 1, work, (corpus.name,))
