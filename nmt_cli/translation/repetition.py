"""Words that a model repeats without end, cut from its translations.

A model that has learned too little often falls into a circle: `the cat is is is is is`. Such a translation ends where
it begins to repeat itself: `the cat is`. If the source repeats itself as well, as `ha ha ha ha ha` does, the
translation keeps as many copies as the source has.
The option `no_repeat_ngram` is different: it forbids pieces in the search, so the text continues in another way.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from nmt_cli.data.tokenizer import Tokenizer
from nmt_cli.search.hypothesis import Hypothesis
from nmt_cli.text.letters import MARKS, WITHOUT_SPACES
from nmt_cli.translation.prefix import PieceIndex

if TYPE_CHECKING:
    from nmt_cli.translation.results import Part

MAX_COPIES = 4
"""Most copies of a sequence in a row that a translation may have; more, if the source has more."""
MAX_UNIT = 4
"""Words of the longest sequence whose copies count, or its characters in scripts that write no blanks."""
MAX_GROWTH = 3
"""Most characters up to the end of the copies that a translation may have, per byte of a source that repeats itself.
Bytes, because a Chinese character says about as much as three letters."""
_TOKEN = re.compile(rf"(?!\s){WITHOUT_SPACES.pattern}[{MARKS}]*|[^\s{WITHOUT_SPACES.pattern[1:]}+")
"""A character of a script that writes no blanks, or a word up to a blank or such a character."""
_LETTERS = re.compile(r"[^\W\d_]+")
_REPEATED_CHARACTERS = re.compile(rf"(\D{{1,{MAX_UNIT}}}?)\1{{{MAX_COPIES},}}")


class Run(NamedTuple):
    """Copies of the same words in a row, as places in a text, in characters."""

    ends: tuple[int, ...]
    """The end of each whole copy."""
    end: int
    """The end of the last copy, of which there may be only a part."""


def without_repetition(hypothesis: Hypothesis, part: Part, tokenizers: tuple[Tokenizer, Tokenizer]) -> Hypothesis:
    """Return a hypothesis of a part, cut after the first copy of the words that it repeats without end.

    The hypothesis is returned unchanged if it does not repeat itself. If the source or the prefix of the part repeats
    itself too, a run may have some copies more than these, and a longer one is cut after as many as these have. Pieces
    of the prefix and of terms stay: if a term follows the cut, the hypothesis continues with the next one.
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
        run = _first_excess(text, start, part, tokenizers[0], max_copies)
        if run is None:
            break
        begin, end = (bisect_left(spans, place, key=lambda span: span[0]) for place in run)
        if part.prefix is not None:
            begin = max(begin, part.prefix.pieces_within(cut.ids, tokenizers[1].compute_once(PieceIndex))[0])
        begin = max([begin, *(term.end for term in cut.generated_terms if term.begin < end)])
        end = min((term.begin for term in cut.generated_terms if term.begin >= end), default=len(cut.ids))
        if begin < end:
            cut = cut.without(begin, end)
        else:
            start = run[1]
    return cut


def _may_repeat(ids: Sequence[int]) -> bool:
    """Return False if the text of some pieces cannot have a run. This quick check rules out most texts."""
    return len(ids) - len(set(ids)) >= MAX_COPIES


def _first_excess(text: str, start: int, part: Part, tokenizer: Tokenizer, max_copies: int) -> tuple[int, int] | None:
    """Return the place after the copies that are allowed, and the end, of the first run with too many; or None."""
    if found := find_runs(text, start, max_copies):
        given = [tokenizer.decode(part.ids), *([part.prefix.text] if part.prefix is not None else [])]
        most, length = max(map(count_copies, given)), MAX_GROWTH * max(len(text.encode()) for text in given)
        for run in found:
            allowed = max(1, min(most, bisect_right(run.ends, length)))
            if len(run.ends) - allowed >= max_copies:
                return run.ends[allowed - 1], run.end
    return None


def find_runs(text: str, start: int = 0, max_copies: int = MAX_COPIES) -> list[Run]:
    """Return the runs after character `start`, in order: more than `max_copies` copies of at most `MAX_UNIT` words."""
    found = list(_TOKEN.finditer(text, start))
    words = [one[0] for one in found]
    runs = sorted(run for size in range(1, MAX_UNIT + 1) for run in _periods(words, size, max_copies))
    return [
        Run(tuple(found[last - 1].end() for last in range(begin + size, end + 1, size)), found[end - 1].end())
        for begin, size, end in runs
    ]


def _periods(words: Sequence[str], size: int, max_copies: int) -> Iterator[tuple[int, int, int]]:
    """Yield the words (begin, size, end) that are more than `max_copies` copies of `size` words."""
    num_same = 0
    for place in range(size, len(words) + 1):
        if place < len(words) and words[place] == words[place - size]:
            num_same += 1
            continue
        if num_same >= max_copies * size:
            yield place - num_same - size, size, place
        num_same = 0


def count_copies(source: str) -> int:
    """Return the number of copies in a row that the translation of a source may have: 1, or more than `MAX_COPIES`.

    Capitals and punctuation make no difference, and syllables count: `Hahahahaha`, `No, no, no, no, no!`, `.....`.
    """
    source = source.casefold()
    words = _LETTERS.findall(source)
    texts = ("".join(source.split()), "".join(words))
    of_characters = [len(one[0]) // len(one[1]) for text in texts for one in _REPEATED_CHARACTERS.finditer(text)]
    return max([1, *of_characters, *(len(run.ends) for run in find_runs(" ".join(words)))])
