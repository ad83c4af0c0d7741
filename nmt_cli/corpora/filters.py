"""The names of the rules, what each finds, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import NamedTuple

from nmt_cli.system.errors import InputError


class Rule(NamedTuple):
    """A reason to leave out a pair."""

    name: str
    description: str
    advice: str
    harm: float
    """Weight of a share of such pairs when findings are sorted: 3 teaches wrong translations, 1 wastes time. Less is
    often as it should be."""
    drops: bool = True
    """False for what is only counted unless the user asks for more: such pairs are often good."""


RULES = (
    Rule("empty", "a side is empty", "training leaves these pairs out anyway", 1),
    Rule(
        "encoding", "a side has broken characters (U+FFFD, or Ã¤ for ä)",
        "import the file again with its right --encoding, or drop these pairs", 3,
    ),
    Rule(
        "mixed-encodings", "a side is not UTF-8, although most lines are",
        "the file was put together from texts in several encodings: import each of these with its --encoding, or drop "
        "these pairs", 3,
    ),
    Rule("copy", "the target is a copy of the source", "a model learns from such pairs not to translate; drop them", 3),
    Rule("swapped", "each side is in the language of the other", "drop these pairs, or exchange their sides", 3),
    Rule("wrong-language", "a side is not in its language", "a model learns to answer in that language; drop them", 3),
    Rule(
        "out-of-step", "the files are shifted against each other here",
        "look at the first place: a line is missing or doubled in one file. Mend it, or drop the stretch", 3,
    ),
    Rule(
        "leak", "the source stands in a file of --without",
        "take these sentences out of the training text, or scores of this set are too high", 3,
    ),
    Rule("too-long", "a side has more than 200 words or 1,000 characters", "cut these pairs into sentences", 1),
    Rule("length-ratio", "one side is far too short for the other", "probably a part is not translated; drop them", 2),
    Rule("markup", "tags on one side only, or HTML entities", "take the markup out of both sides, or drop them", 2),
    Rule("numbers", "the numbers on the two sides differ", "drop these pairs if numbers matter to you", 2),
    Rule("duplicate", "the same pair has come before", "drop these pairs, so that they do not count twice", 0.5),
    Rule(
        "invisible", "a side has control, zero-width, bidi or private-use characters",
        "the tokenizer removes most of them; drop these pairs with --drop invisible if they matter", 1, drops=False,
    ),
    Rule(
        "many-targets", "the source has come before with three other targets",
        "if they say different things, the model mixes them; the command keeps the first three", 0.5, drops=False,
    ),
    Rule(
        "tokenised", "blanks stand before punctuation, as in `food , soup .`",
        "the model has its own tokenizer and would write such text: train on the text as people write it", 0.05,
        drops=False,
    ),
)  # fmt: skip
"""The rules, worst first: a dropped pair is listed under the first rule that drops it."""
TOO_LITTLE = "too few pairs, or sides that are too alike, to learn from"
"""The reason why rules that learn from the corpus find nothing in it."""
NAMES = tuple(rule.name for rule in RULES)
LINE_RULES = (
    Rule("empty", "the line is empty", "they teach nothing", 1),
    Rule("encoding", "broken characters (U+FFFD, or Ã¤ for ä)", "import the file again with its right --encoding", 3),
    Rule("too-long", "more than 200 words or 1,000 characters", "cut these lines into sentences", 1),
    Rule("known", "the line stands in a file that --without names", "such text must not be learnt from", 3),
    Rule("duplicate", "the same line has come before", "they would count twice", 1),
    Rule(
        "invisible", "control, zero-width, bidi or private-use characters", "the tokenizer removes most of them", 1,
        drops=False,
    ),
)  # fmt: skip
"""The rules for text in one language, in the same order."""


def rules_that_drop(
    keep: Iterable[str] = (), drop: Iterable[str] = (), rules: tuple[Rule, ...] = RULES
) -> frozenset[str]:
    """Return the names of the rules that drop pairs or lines: the usual ones without `keep` and with `drop`.

    Raises:
        InputError: a name is unknown, or is asked for both ways.
    """
    keep, drop, known = list(keep), list(drop), [rule.name for rule in rules]
    for option, names in (("--keep", keep), ("--drop", drop)):
        for name in names:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                guess = f"; did you mean {near[0]}?" if near else f"; the rules are {', '.join(known)}"
                raise InputError(f"{option} {name}: there is no such rule{guess}")
    if both := [name for name in keep if name in drop]:
        raise InputError(f"--keep {both[0]} and --drop {both[0]} contradict each other; give one of them")
    usual = {rule.name for rule in rules if rule.drops}
    return frozenset((usual | set(drop)) - set(keep))
