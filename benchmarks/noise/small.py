"""Count right pairs of small corpora that count as another language: `python -m benchmarks.noise.small --data DIR`.

Samples of each size are drawn from Tatoeba and Multi30K, 4,000 pairs together. Each is judged as it is, and with
wrong translations in one pair of ten: a sentence of a third language in place of the target. The table is Markdown.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.noise.corpora import Pair, french, multi30k, tatoeba
from nmt_cli.corpora.language_filter import LanguageFilter

SIZES = (300, 500, 1_000, 2_000)
PAIRS = 4_000
"""Pairs of all samples of a size."""
PART = 10
"""One of this many pairs gets a wrong translation."""


class Counts(NamedTuple):
    """Pairs of one sample."""

    right: int
    """Right pairs that are flagged."""
    found: int
    """Wrong pairs that are flagged."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="directory with multi30k/ and tatoeba/")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    third = french(asked.data)
    german = [target for _, target in multi30k(asked.data)]
    corpora = {
        "Tatoeba en-fr": (tatoeba(asked.data, "fra"), german),
        "Tatoeba en-vi": (tatoeba(asked.data, "vie"), third),
        "Tatoeba en-zh": (tatoeba(asked.data, "cmn"), third),
        "Multi30K en-de": (multi30k(asked.data), third),
    }
    print("| corpus | pairs | right ones flagged | with wrong ones beside them | wrong ones found |")
    print("|---|---|---|---|---|")
    for name, (pairs, foreign) in corpora.items():
        whole = list({source: (source, target) for source, target in pairs if source and target}.values())
        for size in SIZES:
            draw = random.Random(asked.seed * 100_000 + size)
            clean, noisy = 0, Counts(0, 0)
            for _ in range(PAIRS // size):
                sample = draw.sample(whole, size)
                clean += judged(sample, set()).right
                chosen = set(draw.sample(range(size), size // PART))
                wrong = iter(draw.sample(foreign, len(chosen)))
                mixed = [(source, next(wrong) if row in chosen else target)
                         for row, (source, target) in enumerate(sample)]  # fmt: skip
                noisy = Counts(*(one + other for one, other in zip(noisy, judged(mixed, chosen), strict=True)))
            total = PAIRS // size * size
            others = total - total // PART
            print(f"| {name} | {size:,} | {clean / total:.2%} | {noisy.right / others:.2%} | "
                  f"{noisy.found / (total // PART):.3f} |", flush=True)  # fmt: skip


def judged(sample: list[Pair], chosen: set[int]) -> Counts:
    """Return how many pairs are flagged as swapped or in another language, of the right ones and of those chosen."""
    sides = [source for source, _ in sample], [target for _, target in sample]
    flags = LanguageFilter(*sides).flag(*sides)
    rows = set(np.flatnonzero(flags.swapped | flags.wrong_language).tolist())
    return Counts(len(rows - chosen), len(rows & chosen))


if __name__ == "__main__":
    main()
