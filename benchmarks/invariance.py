"""Counts the translations that change with what should not matter.

Run it as `python -m benchmarks.invariance --model DIR --text FILE`.

Every line is translated by itself, 8 and 64 lines at a time, in reversed and in random order, all lines with few at
once, with one thread and with two, and in each precision. Prints a table: lines whose text differs, and the largest
difference of a score.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from nmt_cli.assembly.trained_translator import open_translator
from nmt_cli.translation.results import Translation
from nmt_cli.translation.translator import Translator

LINES_AT_ONCE = (1, 8, 64)
FEW_POSITIONS = 16 * 5 * 12
"""A dozen short sentences at once with a beam of 5: most lines take the place of another."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--precisions", nargs="+", default=("fp32", "bf16", "int8"))
    asked = parser.parse_args()
    lines = asked.text.read_bytes().split(b"\n")[:-1]
    print(f"{len(lines):,} lines\n")
    print("| compared | lines that differ | largest difference of a score |")
    print("|---|---|---|")
    whole: dict[str, list[Translation]] = {}
    for precision in asked.precisions:
        torch.set_num_threads(1)
        translator = open_translator([asked.model], precision=precision)
        one, *others = (in_order(translator, lines, range(len(lines)), size) for size in LINES_AT_ONCE)
        whole[precision] = one
        for size, found in zip(LINES_AT_ONCE[1:], others, strict=True):
            compare(f"{precision}: one line at a time, {size} at a time", one, found)
        size = LINES_AT_ONCE[-1]
        backwards = in_order(translator, lines, range(len(lines) - 1, -1, -1), size)
        compare(f"{precision}: {size} at a time, in reversed order", one, backwards)
        shuffled = random.Random(1).sample(range(len(lines)), len(lines))
        compare(f"{precision}: {size} at a time, in random order", one, in_order(translator, lines, shuffled, size))
        few = replace(translator, options=translator.options.model_copy(update={"batch_tokens": FEW_POSITIONS}))
        compare(f"{precision}: the whole text, few at once", one, in_order(few, lines, range(len(lines)), len(lines)))
        torch.set_num_threads(2)
        compare(f"{precision}: one thread, two", one, in_order(translator, lines, range(len(lines)), size))
    first = asked.precisions[0]
    for precision in asked.precisions[1:]:
        compare(f"{first}, {precision}", whole[first], whole[precision])


def in_order(translator: Translator, lines: Sequence[bytes], order: Sequence[int], size: int) -> list[Translation]:
    """The translations of the lines, taken in an order, so many at once."""
    found: dict[int, Translation] = {}
    for start in range(0, len(order), size):
        numbers = order[start : start + size]
        translated = translator.translate_window([lines[number] for number in numbers])
        found |= {number: one.translations[0] for number, one in zip(numbers, translated, strict=True)}
    return [found[number] for number in range(len(lines))]


def compare(name: str, ours: Sequence[Translation], theirs: Sequence[Translation]) -> None:
    differ = sum(one.text != other.text for one, other in zip(ours, theirs, strict=True))
    largest = max(abs(one.score - other.score) for one, other in zip(ours, theirs, strict=True))
    print(f"| {name} | {differ:,} | {largest:.2g} |", flush=True)


if __name__ == "__main__":
    main()
