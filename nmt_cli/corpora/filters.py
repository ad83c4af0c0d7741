"""The filters of `nmt clean`, called rules in its messages: their names, descriptions and advice.

As in OpusFilter, a filter only finds the pairs that fail it. Whether such a pair is dropped is another decision.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import NamedTuple

from nmt_cli.system.errors import InputError


class Filter(NamedTuple):
    """The description of a filter of pairs, or of lines in one language, with advice for what fails it."""

    name: str
    description: str
    advice: str
    harm: float
    """Factor on the share of failing pairs when findings are sorted: 3 for pairs that teach wrong translations, 1 for
    pairs that waste time, less for pairs that are often right."""
    drops_by_default: bool = True
    """False if failing pairs, which are often good, are only counted unless the user asks to drop them."""


FILTERS = (
    Filter("empty", "a side is empty", "training leaves these pairs out anyway", 1),
    Filter(
        "encoding", "a side has broken characters (U+FFFD, or Ã¤ for ä)",
        "import the file again with its right --encoding, or drop these pairs", 3,
    ),
    Filter(
        "mixed-encodings", "a side is not UTF-8, although most lines are",
        "the file was put together from texts in several encodings: import each of these with its --encoding, or drop "
        "these pairs", 3,
    ),
    Filter(
        "copy", "the target is a copy of the source", "such pairs teach the model to copy; drop them", 3
    ),
    Filter("swapped", "each side is in the language of the other", "drop these pairs, or exchange their sides", 3),
    Filter(
        "wrong-language", "a side is not in its language",
        "such pairs teach the model to answer in that language; drop them", 3
    ),
    Filter(
        "out-of-step", "the files are shifted against each other here",
        "look at the first place: a line is missing or doubled in one file. Fix it, or drop the stretch", 3,
    ),
    Filter(
        "leak", "the source is also in a file given with --without",
        "take these sentences out of the training text, or scores of this set are too high", 3,
    ),
    Filter("too-long", "a side has more than 200 words or 1,000 characters", "cut these pairs into sentences", 1),
    Filter(
        "length-ratio", "one side is much shorter than usual", "probably a part is not translated; drop them", 2
    ),
    Filter("markup", "tags on one side only, or HTML entities", "take the markup out of both sides, or drop them", 2),
    Filter("numbers", "the numbers on the two sides differ", "drop these pairs if numbers matter to you", 2),
    Filter("duplicate", "the same pair has come before", "drop these pairs, so that they do not count twice", 0.5),
    Filter(
        "invisible", "a side has control, zero-width, bidi or private-use characters",
        "the tokenizer removes most of them; drop these pairs with --drop invisible if they matter", 1,
        drops_by_default=False,
    ),
    Filter(
        "many-targets", "the source has come before with three other targets",
        "if they say different things, the model mixes them; the command keeps the first three", 0.5,
        drops_by_default=False,
    ),
    Filter(
        "tokenised", "there are spaces before punctuation, as in `food , soup .`",
        "the model has its own tokenizer and would write such text: train on the text as people write it", 0.05,
        drops_by_default=False,
    ),
)  # fmt: skip
"""The filters of pairs, worst first: a dropped pair is listed under the first filter that drops it."""
INACTIVE_REASON = "too few pairs that are translations of each other, or sides that are too alike, to learn from"
"""The reason why filters that learn from the corpus find nothing in it."""
FILTER_NAMES = tuple(filter_.name for filter_ in FILTERS)
LINE_FILTERS = (
    Filter("empty", "the line is empty", "they teach nothing", 1),
    Filter("encoding", "broken characters (U+FFFD, or Ã¤ for ä)", "import the file again with its right --encoding", 3),
    Filter("too-long", "more than 200 words or 1,000 characters", "cut these lines into sentences", 1),
    Filter("leak", "the line is also in a file given with --without", "such text must not be learned from", 3),
    Filter("duplicate", "the same line has come before", "they would count twice", 1),
    Filter(
        "invisible", "control, zero-width, bidi or private-use characters", "the tokenizer removes most of them", 1,
        drops_by_default=False,
    ),
)  # fmt: skip
"""The filters of text in one language, in the order of `FILTERS`."""


def dropping_filters(
    keep: Iterable[str] = (), drop: Iterable[str] = (), filters: tuple[Filter, ...] = FILTERS
) -> frozenset[str]:
    """Return the names of the filters that drop pairs or lines: the default ones, without `keep` and with `drop`.

    Raises:
        InputError: a name is unknown, or is in both `keep` and `drop`.
    """
    keep, drop, known = list(keep), list(drop), [filter_.name for filter_ in filters]
    for option, names in (("--keep", keep), ("--drop", drop)):
        for name in names:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                guess = f"; did you mean {near[0]}?" if near else f"; the rules are {', '.join(known)}"
                raise InputError(f"{option} {name}: there is no such rule{guess}")
    if both := [name for name in keep if name in drop]:
        raise InputError(f"--keep {both[0]} and --drop {both[0]} contradict each other; give one of them")
    usual = {filter_.name for filter_ in filters if filter_.drops_by_default}
    return frozenset((usual | set(drop)) - set(keep))
