"""Measures what a given beginning costs: `python -m benchmarks.prefix --model DIR --test SOURCE`.

The prefix of a line is a share of the words of the model's own translation. The time should fall as the prefix grows.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from nmt_cli.assembly.trained_translator import open_translator


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--test", required=True, metavar="FILE")
    parser.add_argument("--lines", type=int, default=300)
    options = parser.parse_args()
    lines = Path(options.test).read_bytes().split(b"\n")[: options.lines]
    translator = open_translator([Path(options.model)], threads=1)
    own = [found.translations[0].text for found in translator.translate_window(lines)]
    print("| share of the words given | time, against none | the rest is the same |\n|---|---|---|")
    seconds: dict[float, float] = {}
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        words = [text.split() for text in own]
        prefixes = [" ".join(of_line[: int(share * len(of_line))]) for of_line in words]
        times = []
        for _ in range(2):
            began = time.process_time()
            found = translator.translate_window(lines, prefixes=prefixes)
            times.append(time.process_time() - began)
        seconds[share] = min(times)
        same = sum(one.translations[0].text == text for one, text in zip(found, own, strict=True))
        print(f"| {share:.0%} | {seconds[share] / seconds[0.0]:.2f} | {same} of {len(own)} |", flush=True)


if __name__ == "__main__":
    main()
