"""Twelve kinds of noise, one for each rule of `nmt clean`, and their injection into a part of the pairs of a corpus."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from benchmarks.noise.corpora import Pair

STRETCH = 40
"""Pairs of a stretch that is out of step."""
STEP = "out-of-step"
MIXED = "mixed"
KINDS = (
    "empty", "encoding", "copy", "swapped", "wrong-language", STEP, "too-long", "length-ratio", "markup", "numbers",
    "duplicate", "invisible",
)  # fmt: skip
Change = Callable[[random.Random, Pair], Pair]


class Noisy(NamedTuple):
    """A corpus with noise."""

    pairs: list[Pair]
    kinds: dict[int, str]
    """The kind of noise of each row that was changed; rows count from 0."""


def inject(pairs: Sequence[Pair], kind: str, share: float, *, seed: int, foreign: Sequence[str]) -> Noisy:
    """Change a share of the pairs by one kind of noise, or by all of them in equal parts (`mixed`).

    `foreign` are sentences of a third language.
    """
    draw = random.Random(seed)
    kinds = list(KINDS) if kind == MIXED else [kind]
    each = int(share * len(pairs) / len(kinds))
    chosen = dict.fromkeys(_stretches(draw, len(pairs), each), STEP) if STEP in kinds else {}
    others = [one for one in kinds if one != STEP]
    free = [row for row in range(1, len(pairs)) if row not in chosen]  # nothing is repeated by the first row
    rows = draw.sample(free, each * len(others))
    for number, one in enumerate(others):
        chosen |= dict.fromkeys(rows[number * each : (number + 1) * each], one)
    noisy = list(pairs)
    unchanged = [row for row in range(len(pairs)) if row not in chosen]
    _shift(noisy, [row for row in chosen if chosen[row] == STEP])
    changes = _changes(foreign)
    for row, one in chosen.items():
        if one == "duplicate":
            noisy[row] = pairs[draw.choice(unchanged[: max(1, _num_below(unchanged, row))])]
        elif one != STEP:
            noisy[row] = changes[one](draw, pairs[row])
    return Noisy(noisy, {row: one for row, one in chosen.items() if one == "duplicate" or noisy[row] != pairs[row]})


def _num_below(rows: Sequence[int], row: int) -> int:
    return sum(other < row for other in rows)


def _stretches(draw: random.Random, num_pairs: int, wanted: int) -> list[int]:
    """Return the rows of stretches that are at least as far apart as they are long."""
    blocks = range(0, num_pairs - 2 * STRETCH, 2 * STRETCH)
    return [row for block in draw.sample(blocks, round(wanted / STRETCH)) for row in range(block, block + STRETCH)]


def _shift(pairs: list[Pair], rows: Collection[int]) -> None:
    """Move the targets of each stretch on by one line; the last comes first."""
    chosen = set(rows)
    for start in sorted(row for row in chosen if row - 1 not in chosen):
        targets = [target for _, target in pairs[start : start + STRETCH]]
        for place, target in enumerate([targets[-1], *targets[:-1]], start):
            pairs[place] = pairs[place][0], target


def _changes(foreign: Sequence[str]) -> dict[str, Change]:
    return {
        "empty": lambda draw, pair: draw.choice((("", pair[1]), (pair[0], " "))),
        "encoding": lambda _, pair: (pair[0], pair[1].encode().decode("cp1252", errors="replace")),
        "copy": lambda _, pair: (pair[0], pair[0]),
        "swapped": lambda _, pair: pair[::-1],
        "wrong-language": lambda draw, pair: (pair[0], draw.choice(foreign)),
        "too-long": lambda _, pair: (_long(pair[0]), _long(pair[1])),
        "length-ratio": lambda _, pair: (pair[0], pair[1][: max(1, len(pair[1]) // 6)]),
        "markup": lambda _, pair: (pair[0], f"<b>{pair[1]}</b>"),
        "numbers": _other_number,
        "invisible": lambda _, pair: (pair[0], f"\u200b{pair[1]}"),
    }


def _long(text: str) -> str:
    """Repeat a text until it is longer than a sentence."""
    return " ".join([text] * (1 + max(210 // max(1, len(text.split())), 1)))


def _other_number(draw: random.Random, pair: Pair) -> Pair:
    first = draw.randint(3, 900)
    return f"{pair[0]} {first}", f"{pair[1]} {first + draw.choice((1, 7, 13, 40))}"
