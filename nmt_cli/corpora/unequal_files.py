"""Finds the place where two files with unequal numbers of lines get out of step, in two passes and bounded memory."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import NamedTuple

from nmt_cli.corpora.filter_pairs import BLOCK, SAMPLE_CHARACTERS, SAMPLE_PAIRS
from nmt_cli.corpora.out_of_step import OutOfStepDetector
from nmt_cli.data.lines import decode_line, iter_lines, open_input
from nmt_cli.system.errors import InputError, UnequalLinesError

MAX_EXAMINED = 200_000
"""About this many pairs are examined to find the mismatch roughly. After that, all pairs near it are examined."""
NUM_BEFORE, NUM_SHOWN = 20, 25
"""Lines before the mismatch, and lines in all, that the command of `look_command` shows."""
Pairs = list[tuple[str, str]]


def add_mismatch_place(error: UnequalLinesError) -> InputError:
    """Return the error with the place of the first mismatch in its message; `error` itself if it cannot be found."""
    mismatch = first_mismatch(error.paths, error.counts) if len(error.paths) == 2 else None
    return error if mismatch is None else InputError(f"{error}. {mismatch}")


class FirstMismatch(NamedTuple):
    """The place from which the lines of two files no longer belong together."""

    line: int
    """The first line, from 1, that does not match the same line of the other file; may be up to 20 lines too late."""
    is_at_end: bool
    """True if all lines of the shorter file match, so that only the end of the longer file has no counterpart."""
    command: str
    """The shell command that shows the lines around this place."""

    def __str__(self) -> str:
        if self.is_at_end:
            return f"The lines belong together up to the end of the shorter file. Look there: {self.command}"
        return f"The lines no longer belong together from about line {self.line:,}. Look there: {self.command}"


def first_mismatch(paths: Sequence[str], counts: Sequence[int]) -> FirstMismatch | None:
    """Return the first mismatch of two files of these unequal line counts; None if their words show too little.

    It is the beginning of the stretch out of step that reaches the end of the shorter file. The words that translate
    each other are learned from lines counted from the beginning, or from the end if these fit better.
    """
    shorter = min(counts)
    from_end = [count - shorter for count in counts]
    stride = max(1, shorter // SAMPLE_PAIRS)
    models = [
        OutOfStepDetector(list(islice(_pairs(paths, skipped, stride), SAMPLE_PAIRS)))
        for skipped in ([0] * len(paths), from_end)
    ]
    detector = max(models, key=lambda model: model.contrast)
    if not detector.is_sure:
        return None
    num_blocks = -(-shorter // BLOCK)
    every = max(1, -(-shorter // MAX_EXAMINED))
    row = _stretch_start(detector, paths, [*range(0, num_blocks - 1, every), num_blocks - 1])
    if row is not None and every > 1:
        last = row // BLOCK
        near = _stretch_start(detector, paths, range(max(0, last - every), last + 1))
        row = row if near is None else near
    line = (shorter if row is None else row) + 1
    return FirstMismatch(line, row is None, look_command(paths, line))


def look_command(paths: Sequence[str], line: int) -> str:
    """Return the shell command that shows two files side by side around a line (from 1)."""
    shown = (f"<(gzip -dc {shlex.quote(path)})" if path.endswith(".gz") else shlex.quote(path) for path in paths)
    first = max(1, line - NUM_BEFORE)
    return f"paste {' '.join(shown)} | sed -n '{first},{first + NUM_SHOWN - 1}p'"


def _stretch_start(detector: OutOfStepDetector, paths: Sequence[str], blocks: Sequence[int]) -> int | None:
    """Return the row, from 0, from which all examined pairs are out of step; None if the last one is in step.

    `blocks` are the numbers, from 0 and rising, of the blocks of `BLOCK` pairs to examine.
    """
    detector.reset()
    begin: int | None = None
    pairs = _pairs(paths, [0] * len(paths))
    for number, block in enumerate(iter(lambda: list(islice(pairs, BLOCK)), [])):
        if number > blocks[-1]:
            break
        if number not in blocks:
            continue
        flags = detector.flag(block)
        if not flags.all():
            in_step = int((~flags).nonzero()[0][-1])
            begin = number * BLOCK + in_step + 1 if in_step + 1 < len(block) else None
        elif begin is None:
            begin = number * BLOCK
    return begin


def _pairs(paths: Sequence[str], skipped: Sequence[int], stride: int = 1) -> Iterator[tuple[str, str]]:
    """Yield pairs of lines, cut to their beginnings, from two files after `skipped` lines of each; with `stride` n,
    only every n-th line of each file."""
    with ExitStack() as stack:
        sides = [islice(iter_lines(stack.enter_context(open_input(path))), number, None, stride)
                 for path, number in zip(paths, skipped, strict=True)]  # fmt: skip
        for source, target in zip(*sides, strict=False):
            # Four bytes a character at most.
            yield decode_line(source[: 4 * SAMPLE_CHARACTERS])[0], decode_line(target[: 4 * SAMPLE_CHARACTERS])[0]
