"""Words that a model repeats without end, cut from its translations.

A model that has learned too little often falls into a circle: `the cat is is is is is`. Such a translation ends where
it begins to repeat itself: `the cat is`. If the source repeats itself as well, as `ha ha ha ha ha` does, nothing is
cut.
The option `no_repeat_ngram` is different: it forbids pieces in the search, so the text continues in another way.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from nmt_cli.data.tokenizer import Tokenizer
from nmt_cli.search.hypothesis import Hypothesis
from nmt_cli.text.letters import MARKS, WITHOUT_SPACES
from nmt_cli.translation.prefix import PieceIndex

if TYPE_CHECKING:
    from nmt_cli.translation.results import Part

MAX_COPIES = 4
"""Most copies of a sequence in a row that a translation may have."""
MAX_UNIT = 4
"""Words of the longest sequence whose copies count, or its characters in scripts that write no blanks."""
_TOKEN = re.compile(rf"(?!\s){WITHOUT_SPACES.pattern}[{MARKS}]*|[^\s{WITHOUT_SPACES.pattern[1:]}+")
"""A character of a script that writes no blanks, or a word up to a blank or such a character."""
_LETTERS = re.compile(r"[^\W\d_]+")
_REPEATED_CHARACTERS = re.compile(rf"(\D{{1,{MAX_UNIT}}}?)\1{{{MAX_COPIES}}}")


class Run(NamedTuple):
    """Copies of the same words in a row, as places in a text, in characters."""

    first_end: int
    """The end of the first copy."""
    end: int
    """The end of the last copy, of which there may be only a part."""


def without_repetition(hypothesis: Hypothesis, part: Part, tokenizers: tuple[Tokenizer, Tokenizer]) -> Hypothesis:
    """Return a hypothesis of a part, cut after the first copy of the words that it repeats without end.

    The hypothesis is returned unchanged if it does not repeat itself, or if the source or the prefix of the part
    repeats itself too. Pieces of the prefix and of terms stay: if a term follows the cut, the hypothesis continues with
    the next one.
    """
    return _without_repetition(hypothesis, part, tokenizers, MAX_COPIES)


def is_endless(ids: Sequence[int], part: Part, tokenizers: tuple[Tokenizer, Tokenizer]) -> bool:
    """Return True if `without_repetition` would cut every hypothesis of the part that begins with these pieces.

    False for a part with terms.
    """
    if part.terms or not _may_repeat(ids):
        return False
    begun = Hypothesis(tuple(ids), log_prob=0.0, score=0.0, has_ended=False)
    # The last copy may end with the beginning of another word.
    return _without_repetition(begun, part, tokenizers, MAX_COPIES + 1) is not begun


def _without_repetition(
    hypothesis: Hypothesis, part: Part, tokenizers: tuple[Tokenizer, Tokenizer], max_copies: int
) -> Hypothesis:
    """Return the result of `without_repetition`, in which a run has more than `max_copies` copies."""
    cut, start = hypothesis, 0
    while _may_repeat(cut.ids):
        text, spans = tokenizers[1].decode_spans(cut.ids)
        run = first_run(text, start, max_copies)
        if run is None or (cut is hypothesis and _may_have_runs(part, tokenizers[0])):
            break
        begin, end = (bisect_left(spans, place, key=lambda span: span[0]) for place in run)
        if part.prefix is not None:
            begin = max(begin, part.prefix.pieces_within(cut.ids, tokenizers[1].compute_once(PieceIndex))[0])
        begin = max([begin, *(term.end for term in cut.generated_terms if term.begin < end)])
        end = min((term.begin for term in cut.generated_terms if term.begin >= end), default=len(cut.ids))
        if begin < end:
            cut = cut.without(begin, end)
        else:
            start = run.end
    return cut


def _may_repeat(ids: Sequence[int]) -> bool:
    """Return False if the text of some pieces cannot have a run. This quick check rules out most texts."""
    return len(ids) - len(set(ids)) >= MAX_COPIES


def _may_have_runs(part: Part, tokenizer: Tokenizer) -> bool:
    """Return True if the source of a part or its prefix repeats itself."""
    given = "" if part.prefix is None else part.prefix.text
    return any(map(repeats_itself, (tokenizer.decode(part.ids), given)))


def first_run(text: str, start: int = 0, max_copies: int = MAX_COPIES) -> Run | None:
    """Return the first run after character `start`: more than `max_copies` copies of at most `MAX_UNIT` words."""
    found = list(_TOKEN.finditer(text, start))
    words = [one[0] for one in found]
    runs = [run for size in range(1, MAX_UNIT + 1) if (run := _first_period(words, size, max_copies))]
    if not runs:
        return None
    begin, size, end = min(runs)
    return Run(found[begin + size - 1].end(), found[end - 1].end())


def _first_period(words: Sequence[str], size: int, max_copies: int) -> tuple[int, int, int] | None:
    """Return the first words (begin, size, end) that are more than `max_copies` copies of `size` words, or None."""
    num_same = 0
    for place in range(size, len(words) + 1):
        if place < len(words) and words[place] == words[place - size]:
            num_same += 1
            continue
        if num_same >= max_copies * size:
            return place - num_same - size, size, place
        num_same = 0
    return None


def repeats_itself(source: str) -> bool:
    """Return True if a source has more than `MAX_COPIES` copies in a row, so that its translation may have them too.

    Capitals and punctuation make no difference, and syllables count: `Hahahahaha`, `No, no, no, no, no!`, `.....`.
    """
    source = source.casefold()
    words = _LETTERS.findall(source)
    texts = ("".join(source.split()), "".join(words))
    return first_run(" ".join(words)) is not None or any(map(_REPEATED_CHARACTERS.search, texts))
