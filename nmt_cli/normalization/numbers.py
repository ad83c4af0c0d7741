"""Numbers, codes and addresses stay as they are: the translation must have them.

A model learns the translation of a number from the training lines that have it. Most numbers are in none: the model
knows their digits, but not that they are to be kept. So it reads another number in their place, one that it has often
seen kept, and the search must generate this one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection
from typing import NamedTuple

from nmt_cli.normalization.number_spans import (
    ADDRESS,
    INDIVISIBLE_NUMBER,
    QUANTITY,
    SPACED_NUMBERS,
    NumberHabits,
    has_no_letters,
    number_spans,
)
from nmt_cli.normalization.step import RestoringStep
from nmt_cli.text.edits import Change, Span
from nmt_cli.text.line import Constraint, Line, UndoRecord
from nmt_cli.text.translation import Translation

_NO_TEXT = r"__|[<>{}\\]|%\w|\]_"
"""Signs of a word that is a placeholder or a tag, and not a number that people read."""
_DIGIT = re.compile(r"\d")
_WORD = re.compile(r"\S+")


class _NumberMatch(NamedTuple):
    """A number that a translation must keep, in a text."""

    begin: int
    end: int
    substitute: str
    """The number that the model reads and generates in its place, perhaps the number itself."""


class Numbers(RestoringStep):
    """Replaces numbers by others that the training text keeps, and puts the original ones back into the translation."""

    name = "numbers"

    def __init__(
        self,
        habits: NumberHabits,
        *,
        is_rare: Callable[[str], bool],
        symbols: Collection[str] = (),
        may_lack_blank_before: bool = False,
    ) -> None:
        """Replace numbers by those that `habits` says the training text keeps.

        Args:
            habits: the numbers that the training text keeps, and those that it rewrites.
            is_rare: whether a character is the sign of a currency or a share (`%`) that the training text hardly has;
                then it is a part of its number.
            symbols: symbols of the tokenizer; words with one of them have no numbers.
            may_lack_blank_before: the target language writes no blank before a number.
        """
        self._is_rare, self._may_be_glued = is_rare, may_lack_blank_before
        self._rewritten = frozenset(habits.rewritten)
        self._by_shape: dict[str, list[str]] = {}
        self._kept = frozenset(habits.kept)
        for number in habits.kept:
            self._by_shape.setdefault(_number_shape(number), []).append(number)
        self._no_text = re.compile("|".join([_NO_TEXT, *map(re.escape, sorted(symbols, key=len, reverse=True))]))

    def read(self, line: Line) -> Line:
        """Return the line with its numbers replaced by some that the training text keeps, all different if possible."""
        found = self._find_numbers(line)
        if not found:
            return line
        numbers = [line.text[one.begin : one.end] for one in found]
        rest = _missing_end(line.prefix, numbers)
        in_prefix = _indices_in_prefix(line.prefix + rest, numbers)
        # A number that its translation may write otherwise leaves all digits free, unless the prefix has a number: then
        # the model must not generate its substitute.
        is_free = any(
            self._is_rewritten(line.text[slice(*one)]) for one, both in self._amounts(line.text) if one == both
        )
        return line.apply_step(
            self.name,
            [Change(one.begin, one.end, one.substitute) for one in found],
            tuple(numbers),
            lock=[(one.begin, one.end) for one in found],
            constraints=[
                Constraint(
                    one.begin,
                    one.end,
                    (one.substitute,),
                    self.name,
                    key,
                    one.substitute in self._kept,
                    self._may_be_glued,
                )
                for key, one in enumerate(found)
                if key not in in_prefix
            ],
            prefix_continuation=rest,
            keeps_digits=bool(in_prefix) or not is_free,
        )

    def undo(self, undo: UndoRecord, translation: Translation) -> list[Change]:
        """Return the changes that put the line's numbers in the place of the substitutes that the model generated."""
        changes = []
        for term, span in translation.terms:
            if span is None or term.step != self.name:
                continue
            (substitute,), number = term.forms, undo.data[term.key]
            place = translation.text.find(substitute, *span)  # a blank or a full stop may be of the same piece
            if place >= translation.prefix_length and number != substitute:
                # Of a number of several words only the first has the attention of what the model generated.
                origin = undo.edits.old_span(term.begin, term.end)
                changes.append(Change(place, place + len(substitute), number, origin))
        return changes

    def _find_numbers(self, line: Line) -> list[_NumberMatch]:
        text = line.text
        everything = self._amounts(text)
        if not everything:
            return []
        terms = line.protected_spans()
        ends = [end for _, end in terms]

        def is_free(span: Span) -> bool:
            following = bisect_right(ends, span[0])
            return following == len(terms) or terms[following][0] >= span[1]

        everything = [(one, both if is_free(both) else one) for one, both in everything if is_free(one)]
        blocked = bytearray(len(text))
        for word in _WORD.finditer(text):
            if self._no_text.search(word[0]):
                blocked[word.start() : word.end()] = b"\1" * len(word[0])
        taken = {text[slice(*number)] for number, _ in everything} & self._rewritten
        own = {text[slice(*number)] for number, _ in everything} & self._kept
        found: list[_NumberMatch] = []
        for number, amount in everything:
            # An address may hold such signs itself.
            is_blocked = blocked[number[0]] and not ADDRESS.match(text, *number)
            if is_blocked or (number == amount and self._is_rewritten(text[slice(*number)])):
                continue
            substitute = self._choose_substitute(text[slice(*number)], taken, own)
            taken.add(substitute)
            found.append(_NumberMatch(*amount, substitute))
        return found

    def _is_rewritten(self, number: str) -> bool:
        return number in self._rewritten

    def _amounts(self, text: str) -> list[tuple[Span, Span]]:
        """Return the spans of each number of a text, alone and with a rare sign of its unit: `€50`, `50 €`, `50 %`."""
        found: list[tuple[Span, Span]] = []
        last = 0
        for begin, end in number_spans(text):
            before = begin - 1 - (text[begin - 1 : begin] == " ")
            after = end + (text[end : end + 1] == " ")
            amount = (begin, end)
            if before >= last and self._is_rare(text[before]) and not text[before - 1 : before].isalnum():
                amount = (before, end)
            elif after < len(text) and self._is_rare(text[after]) and not text[after + 1 : after + 2].isalnum():
                amount = (begin, after + 1)
            found.append(((begin, end), amount))
            last = amount[1]
        return found

    def _choose_substitute(self, number: str, taken: Collection[str], own: Collection[str]) -> str:
        """Return the number that the model reads in place of `number`; it may be `number` itself.

        It is the one that the training text keeps, has the same shape (`0:0` for 14:30), and has the nearest length; of
        several, the most frequent. Numbers that are `taken` for others, or are the line's `own`, are not used. If no
        kept number has the same shape, one without signs is used for a quantity or a number in groups. A code, and a
        time or a date whose signs no kept number has, stays.
        """
        if number in self._kept and number not in taken:
            return number
        shape = _number_shape(number)
        is_indivisible = INDIVISIBLE_NUMBER.fullmatch(number) is not None
        is_quantity = QUANTITY.fullmatch(number) or SPACED_NUMBERS.fullmatch(number)
        if is_indivisible or (shape not in self._by_shape and is_quantity):
            shape = "0"
        kept = [one for one in self._by_shape.get(shape, ()) if one not in taken and one not in own]
        if not kept or not (is_indivisible or has_no_letters(number)):
            return number
        return min(kept, key=lambda one: abs(len(one) - len(number)))


def _missing_end(prefix: str, numbers: Collection[str]) -> str:
    """Return the missing end of the number that the last word of a prefix begins; empty if none or several fit."""
    last = "" if prefix[-1:].isspace() else prefix.rpartition(" ")[2]
    if not _DIGIT.search(last):
        return ""
    rests = {number[len(last) :] for number in numbers if number.startswith(last)}
    return rests.pop() if len(rests) == 1 else ""


def _indices_in_prefix(prefix: str, numbers: Collection[str]) -> set[int]:
    """Return the indices in `numbers` of those that a prefix has; of equal ones, of the first, as many as it has."""
    found: set[int] = set()
    for number in {*numbers} if _DIGIT.search(prefix) or "&" in prefix else ():
        num_there = len(re.findall(rf"(?<!\w){re.escape(number)}(?!\w)", prefix))
        found.update([key for key, one in enumerate(numbers) if one == number][:num_there])
    return found


def _number_shape(number: str) -> str:
    """Return a number with one 0 for each run of digits: 0:0 for 14:30."""
    return re.sub(r"\d+", "0", number)
