"""BLEU by sentence length (Bahdanau et al., 2015, figure 2); `python -m benchmarks.papers.lengths`.

Multi30K's captions are short, so neighbours are joined: for training into sentences of up to 30 or 50 words (the
number in a system's name), every caption four times in each text, joined differently; for testing into sentences of up
to 10, 20, … 80 words, so that each of these holds the same 1,000 captions. The curves go to `docs/studies/lengths.png`.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.runs import Run, nmt, train_all

CONFIG = Path("configs/papers/lengths.yaml")
DIRECTORY = Path("runs/lengths")
SOURCE = DIRECTORY / "test.en"
TEXT = "data/multi30k/{}.lc.tok.{}"
PASSES = 4
SEED = 1
TEST_LENGTHS = range(10, 81, 10)
PICTURE = Path("docs/studies/lengths.png")

ENCDEC = (
    "model.attention.type=none",
    "model.attention.context=every_step",
    "model.encoder.bidirectional=false",
    "model.encoder.hidden_size=256",
)
SYSTEMS = {
    "RNNsearch-50": (50, ()),
    "RNNsearch-30": (30, ()),
    "RNNencdec-50": (50, ENCDEC),
    "RNNencdec-30": (30, ENCDEC),
}

Pairs = list[tuple[str, str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lanes", type=int, default=2, help="trainings side by side, each on one core")
    lanes = parser.parse_args().lanes
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    write_texts()
    runs = [_run(name) for name in SYSTEMS]
    train_all(runs, lanes)
    hypotheses = []
    source, reference = str(SOURCE), str(DIRECTORY / "test.de")
    for run in runs:
        hypotheses += ["--hypothesis", f"{run.name}={run.hypotheses}"]
        _show(run.name, run.hypotheses, source, reference)
    edges = ",".join(str(length) for length in TEST_LENGTHS[:-1])
    nmt(
        "plot", "lengths", "--source", source, "--reference", reference, *hypotheses, "--tokenize", "none",
        "--edges", edges, "-o", str(PICTURE),
    )  # fmt: skip


def write_texts() -> None:
    """The training texts of each limit, and the test text of all lengths."""
    train, test = _read("train"), _read("test2016")
    for limit in (30, 50):
        draw = partial(random.Random(SEED).randint, 10, limit)
        joined = [pair for _ in range(PASSES) for pair in join(train, draw)]
        _write(f"train.{limit}", [pair for pair in joined if _length(pair) <= limit])
    _write("test", [pair for length in TEST_LENGTHS for pair in join(test, partial(int, length))])


def join(pairs: Pairs, limit: Callable[[], int]) -> Iterator[tuple[str, str]]:
    """Neighbours joined while the source has no more words than the limit, which is drawn anew for each sentence.

    A caption that is longer than the limit alone comes as it is.
    """
    waiting: Pairs = []
    most = limit()
    for pair in pairs:
        if waiting and _length(_joined([*waiting, pair])) > most:
            yield _joined(waiting)
            waiting, most = [], limit()
        waiting.append(pair)
    if waiting:
        yield _joined(waiting)


def _joined(pairs: Pairs) -> tuple[str, str]:
    return " ".join(source for source, _ in pairs), " ".join(target for _, target in pairs)


def _length(pair: tuple[str, str]) -> int:
    return len(pair[0].split())


def _read(split: str) -> Pairs:
    sides = (Path(TEXT.format(split, side)).read_text(encoding="utf-8").split("\n")[:-1] for side in ("en", "de"))
    return list(zip(*sides, strict=True))


def _write(name: str, pairs: Pairs) -> None:
    for side, place in (("en", 0), ("de", 1)):
        text = "".join(f"{pair[place]}\n" for pair in pairs)
        path = DIRECTORY / f"{name}.{side}"
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # a file that is newer makes a new cache
            path.write_text(text, encoding="utf-8")


def _run(name: str) -> Run:
    limit, overrides = SYSTEMS[name]
    text = {"source": str(DIRECTORY / f"train.{limit}.en"), "target": str(DIRECTORY / f"train.{limit}.de")}
    return Run(name, CONFIG, DIRECTORY / name, str(SOURCE), (f"data.train={json.dumps([text])}", *overrides))


def _show(name: str, output: Path, source: str, reference: str) -> None:
    """The scores of a system by length, as `nmt score --by-length` gives them."""
    options = ["--reference", reference, "--source", source, "--by-length", "--tokenize", "none", "--metric", "bleu"]
    print(name, nmt("score", str(output), *options), sep="\n", flush=True)


if __name__ == "__main__":
    main()
