"""Symbols around a line that the training text does not have are not read: emoji, bullets, brackets.

A model that has never seen a symbol makes something of it, and loses the sentence.
"""

from __future__ import annotations

from collections.abc import Callable

from nmt_cli.normalization.step import RestoringStep
from nmt_cli.normalization.symbols import MAX_LENGTH, PARTNERS, QUOTES, KnownSymbols
from nmt_cli.text.edits import Change, Span
from nmt_cli.text.line import Line, UndoRecord
from nmt_cli.text.translation import Translation


class OuterSymbols(RestoringStep):
    """Takes unknown symbols around a line away, and puts them around its translation."""

    name = "outer symbols"

    def __init__(self, symbols: KnownSymbols) -> None:
        """Leave out the symbols that are unknown according to `symbols`, those of the training text."""
        self._symbols = symbols

    def read(self, line: Line) -> Line:
        """Return the line without the unknown symbols at its beginning and end, and the blanks beside them."""
        if self._symbols.has_all(line.text):
            return line
        begin, end = without_symbols(line.text, self._symbols.is_unknown)
        protected_spans = line.protected_spans()
        begin, end = (
            min([begin, *(first for first, _ in protected_spans)]),
            max([end, *(last for _, last in protected_spans)]),
        )
        if (begin, end) == (0, len(line.text)):
            return line
        return line.apply_step(self.name, [Change(0, begin, ""), Change(end, len(line.text), "")], (begin, end))

    def undo(self, undo: UndoRecord, translation: Translation) -> list[Change]:
        """Return the changes that put the symbols around the translation.

        After a prefix (the given beginning of the translation), none is put at the beginning, and none at the end if
        the prefix already has those of the end.
        """
        (begin, end), text = undo.data, undo.edits.old
        before, after = (0, begin), (end, len(text))
        if translation.prefix_length:
            before, mark, prefix = (begin, begin), text[end:].strip(), translation.text[: translation.prefix_length]
            after = (end, end) if mark and prefix.count(mark) > text[:end].count(mark) else after
        # Without words between them, blanks part one side from nothing.
        is_alone = not translation.text and not (text[slice(*before)].strip() and text[slice(*after)].strip())
        before = _without_blanks(text, before, at_begin=True, at_end=is_alone)
        after = _without_blanks(text, after, at_begin=is_alone, at_end=True)
        around = ((0, *before), (len(translation.text), *after))
        return [Change(place, place, text[one:other], (one, other)) for place, one, other in around if one < other]


def _without_blanks(text: str, span: Span, *, at_begin: bool, at_end: bool) -> Span:
    """Return a span without the blanks at its beginning, at its end, or both."""
    begin, end = span
    begin = end - len(text[begin:end].lstrip()) if at_begin else begin
    return begin, begin + len(text[begin:end].rstrip()) if at_end else end


def without_symbols(text: str, is_unknown: Callable[[str], bool]) -> Span:
    """Return the span of a text without the unknown symbols around it, and without the blanks beside these.

    The known symbols of an emoticon, `:)`, are left out with the unknown ones. A sign beside a digit stays, as in `#1`,
    and so does a bracket or quote whose partner stays. Nothing is left out of a text that begins with a blank, because
    it may be a part of a line, nor of one that is longer than `MAX_LENGTH`.
    """
    begin, end = 0, len(text)
    if end > MAX_LENGTH or text[:1].isspace():
        return begin, end
    while begin < end and (text[begin].isspace() or is_unknown(text[begin])):
        begin += 1
    while end > begin and (text[end - 1].isspace() or is_unknown(text[end - 1])):
        end -= 1
    if begin < end < len(text) and not text[end].isspace():
        glued = text[begin:end].split()[-1]
        if not any(map(str.isalnum, glued)):
            end = max(begin, len(text[: end - len(glued)].rstrip()))
    if begin < end and text[begin].isdigit() and not text[:begin][-1:].isspace():
        begin = 0
    if begin < end and text[end - 1].isdigit() and not text[end : end + 1].isspace():
        end = len(text)
    while True:
        core = text[begin:end]
        first = next((place for place in range(begin) if _has_partner_in(text[place], core)), begin)
        last = (
            next((place for place in reversed(range(end, len(text))) if _has_partner_in(text[place], core)), end - 1)
            + 1
        )
        if (first, last) == (begin, end):
            return begin, end if text[end:].strip() else len(text)
        begin, end = first, last


def _has_partner_in(symbol: str, core: str) -> bool:
    """Return whether a symbol is a bracket or a quote, and the text between the symbols has its partner."""
    if symbol in QUOTES:
        return any(quote in core for quote in QUOTES)
    return symbol in PARTNERS and PARTNERS[symbol] in core
