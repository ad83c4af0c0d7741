"""Alignments of given pairs, and their error against alignments made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nmt_cli.data.lines import input_name, read_text_lines
from nmt_cli.system.console import counted, warn
from nmt_cli.system.errors import InputError
from nmt_cli.text.alignment import MAX_WEIGHTS

if TYPE_CHECKING:
    from nmt_cli.data.pairs import Pair
    from nmt_cli.text.alignment import Link
    from nmt_cli.translation.forced_decoding import PairScore


def check_links(place: str, links: set[Link], shape: tuple[int, ...]) -> None:
    """Refuse links to words that a pair of this shape (target words, source words) does not have."""
    for source, target in sorted(links):
        if source >= shape[1] or target >= shape[0]:
            raise InputError(
                f"{place}: {source}-{target} names a word that the pair does not have. It has "
                f"{counted(shape[1], 'source word')} and {counted(shape[0], 'target word')}, counted from 0"
            )


def record(pair: Pair, scored: PairScore, level: str, links: Sequence[Link]) -> dict[str, Any]:

    words = level == "word"
    weights = scored.weights if words else scored.piece_weights
    is_small = weights.size <= MAX_WEIGHTS
    if not is_small:
        warn(f"pair {pair.number:,} has links but no weights: it would have {weights.size:,}")
    return {
        "id": pair.number - 1,
        "source": pair.source.split() if words else list(scored.source_pieces),
        "target": pair.target.split() if words else list(scored.target_pieces),
        "log_prob": scored.log_prob,
        "links": [list(link) for link in links],
        "weights": weights.astype(float).round(6).tolist() if is_small else None,
    }


MAX_DIGITS = 9
"""Most digits of a word's number."""


def read_gold(path: str) -> tuple[list[set[Link]], list[set[Link]]]:
    """Return sure and possible links of each line; both are numbered from 0."""

    sure: list[set[Link]] = []
    possible: list[set[Link]] = []
    for number, line in enumerate(read_text_lines(path).lines, start=1):
        sets: dict[str, set[Link]] = {"-": set(), "?": set()}
        for word in line.split():
            mark = "-" if "-" in word else "?"
            first, _, second = word.partition(mark)
            if not (first.isdecimal() and second.isdecimal() and max(len(first), len(second)) <= MAX_DIGITS):
                raise InputError(
                    f"{input_name(path)}:{number}: {word!r} is no link; write 0-0 for a sure "
                    "one, 0?1 for a possible one"
                )
            sets[mark].add((int(first), int(second)))
        sure.append(sets["-"])
        possible.append(sets["?"])
    return sure, possible
