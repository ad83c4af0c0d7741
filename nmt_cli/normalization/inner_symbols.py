"""Symbols within a line that are rare in the training text are not read: brackets, dashes, slashes, emoji.

A model that does not know a symbol makes something of it, and loses the sentence. So it reads the line without it, or
with commas in the place of brackets and dashes. Where the words on both sides of a symbol still follow each other in
the translation, the characters between them come back as they were, blanks included. Elsewhere the attention determines
the place.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from nmt_cli.normalization.elements import Tag
from nmt_cli.normalization.placing import (
    COMMAS,
    AlignedWords,
    Gaps,
    UnreadElement,
    marks_of,
    missing_tags,
    without_overlaps,
)
from nmt_cli.normalization.step import RestoringStep
from nmt_cli.normalization.symbol_finder import InnerSymbol, SymbolFinder
from nmt_cli.normalization.symbols import MAX_LENGTH, KnownSymbols
from nmt_cli.text.edits import Change, Edits, Span, word_spans
from nmt_cli.text.letters import SIGN_WORD
from nmt_cli.text.line import Line, UndoRecord
from nmt_cli.text.translation import Translation


class InnerSymbols(RestoringStep):
    """Takes rare symbols out of a line, and puts them into its translation."""

    name = "inner symbols"

    def __init__(self, symbols: KnownSymbols) -> None:
        """Leave out the symbols that are rare according to `symbols`, those of the training text."""
        self._symbols = symbols
        self._finder = SymbolFinder(symbols)

    def read(self, line: Line) -> Line:
        """Return the line without symbols that the training text hardly has."""
        text = line.text
        if len(text) > MAX_LENGTH or text[:1].isspace():
            return line
        if self._symbols.has_all_often(text) and not SIGN_WORD.search(text):
            return line
        symbols = self._finder.symbols(text, (0, len(text)), line.protected_spans())
        if not symbols:
            return line
        changes = [Change(one.replacement_begin, one.end, one.read) for one in symbols]
        return line.apply_step(self.name, changes, tuple(symbols), needs_alignment=True)

    def undo(self, undo: UndoRecord, translation: Translation) -> list[Change]:
        """Return the changes of the translation that put the symbols back.

        The prefix (the given beginning of the translation) does not change, and symbols that it has are not repeated.
        Commas that the model has generated in place of symbols are deleted.
        """
        if translation.alignment is None:
            return []
        removed_symbols = _RemovedSymbols.of(undo.edits, undo.data)
        spans = word_spans(translation.text)
        words = AlignedWords(translation.text, spans, translation.alignment.aligned_to(removed_symbols.words, spans))
        prefix = translation.text[: translation.prefix_length]
        num_prefix_words = len(prefix.split())
        missing = missing_tags(removed_symbols.tags(), prefix)
        if prefix:  # the prefix may have all words of a pair, which would enclose nothing then
            own = words.aligned_to[num_prefix_words:]
            missing = [
                tag
                for tag in missing
                if tag.closing is None or tag.is_open or any(tag.start <= looks < tag.end for looks in own)
            ]
        wanted = {number for tag in missing if not tag.is_open for number in (tag.open_index, tag.close_index)}
        elements = [UnreadElement(symbol.begin, symbol.end, symbol.partner) for symbol in undo.data]
        gaps = Gaps(undo.edits, removed_symbols.words, words, elements)
        verbatim_changes = gaps.verbatim_changes(wanted, translation.prefix_length)
        done = {number for numbers, _ in verbatim_changes for number in numbers}
        rest = [tag for tag in missing if tag.open_index not in done]
        changes = [change for _, change in verbatim_changes]
        return (
            [
                *changes,
                *without_overlaps(removed_symbols.attention_changes(words.from_row(num_prefix_words), rest), changes),
            ]
            if rest
            else changes
        )


class _RemovedSymbols(NamedTuple):
    """The symbols that were left out of a line, at their places in the text that the model has read."""

    edits: Edits
    symbols: Sequence[InnerSymbol]
    words: Sequence[Span]
    """Spans of the words in the text that the model has read, except commas that it has read in place of symbols."""
    begins: Sequence[int]
    """For each of `words`, the index of its first character in the line."""

    @classmethod
    def of(cls, edits: Edits, symbols: Sequence[InnerSymbol]) -> _RemovedSymbols:
        of_symbols = {symbol.replacement_begin for symbol in symbols}
        words = word_spans(edits.new)
        begins = edits.inverse().new_spans([(begin, begin + 1) for begin, _ in words])
        own = [(span, begin) for span, (begin, _) in zip(words, begins, strict=True) if begin not in of_symbols]
        return cls(edits, symbols, [span for span, _ in own], [begin for _, begin in own])

    def word_index_at(self, place: int) -> int:
        """Return the index in `words` of the first one that begins at or after a place of the line."""
        return bisect_left(self.begins, place)

    def attention_changes(self, words: AlignedWords, tags: Sequence[Tag]) -> list[Change]:
        """Return the changes that put the symbols `tags` next to the words aligned to their neighbours.

        Commas that the model has generated in place of these symbols are deleted.
        """
        aligned_to = _realign_commas([words.written(row) for row in range(len(words.spans))], words.aligned_to, self)
        marks = marks_of(AlignedWords(words.text, words.spans, aligned_to), tags)
        changes = []
        for mark in marks:
            symbol = self.symbols[mark.number]
            written = _adjust_spacing(words.text, mark.place, mark.text)
            changes.append(Change(mark.place, mark.place, written, (symbol.begin, symbol.end)))
        places = {mark.place for mark in marks if self.symbols[mark.number].is_comma}
        taken = {mark.place for mark in marks}
        for begin, end in words.spans:
            is_word = end - begin == 1
            follows = end - 1 in places or (is_word and begin - 1 in places)
            precedes = end + 1 in places or (end in places and not is_word)
            if words.text[end - 1] in COMMAS and (follows or precedes):
                has_blank = is_word and begin > 0 and begin not in taken  # a mark may stand behind it
                changes.append(Change(end - 1 - has_blank, end, ""))
        return changes

    def tags(self) -> list[Tag]:
        """Return a tag for each pair of symbols, around its words, and for each other symbol, at its word."""
        text = self.edits.old
        tags: list[Tag] = []
        for number, symbol in enumerate(self.symbols):
            written, place = text[symbol.begin : symbol.end], self.word_index_at(symbol.begin)
            if symbol.partner is None:
                is_in_front = not symbol.is_word and not text[symbol.begin - 1 : symbol.begin].strip()
                if is_in_front:  # of the words aligned to the word that it touches
                    tags.append(Tag(written, "", place, place + 1, number, number))
                    continue
                follows_mark = symbol.is_word and not written.startswith("°") and not text[symbol.end :][:1].strip()
                blanks = ("", " " * symbol.is_word)
                before, behind = blanks if place == 0 else blanks[::-1]
                tags.append(
                    Tag(
                        before + written + behind, None, place, place, number, number,
                        is_after=place > 0, is_apart=symbol.is_word, cuts_last=not follows_mark,
                    )
                )  # fmt: skip
            elif symbol.partner > number:
                end = self.symbols[symbol.partner]
                tags.append(
                    Tag(
                        written, text[end.begin : end.end], place, self.word_index_at(end.begin), number,
                        symbol.partner,
                        is_apart=True, cuts_first=text[symbol.end].isalnum(), cuts_last=text[end.begin - 1].isalnum(),
                    )
                )  # fmt: skip
        return tags


def _realign_commas(target: Sequence[str], aligned_to: Sequence[int], removed_symbols: _RemovedSymbols) -> list[int]:
    """Return the index of each target word's source word, changed so that the commas that the model wrote for a pair
    of brackets fall outside of the pair.

    If several words are aligned into the pair, the first ends in a comma, and the word before it does not, the first is
    aligned to the source word before the pair. Then those of the words after the next comma (and this comma, if it is a
    word) are aligned to the source word after the pair, unless the source has a comma within the pair.
    """
    text, symbols, found = removed_symbols.edits.old, removed_symbols.symbols, list(aligned_to)
    for symbol in symbols:
        if symbol.partner is None or symbol.begin > symbols[symbol.partner].begin:
            continue
        end = symbols[symbol.partner]
        inner = range(removed_symbols.word_index_at(symbol.begin), removed_symbols.word_index_at(end.begin))
        rows = [row for row, looks in enumerate(found) if looks in inner]
        follows_comma = bool(rows) and rows[0] > 0 and _ends_in_comma(target[rows[0] - 1])
        if symbol.is_comma and len(rows) > 1 and _ends_in_comma(target[rows[0]]) and not follows_comma:
            found[rows.pop(0)] = inner.start - 1
        is_parted = any(other.is_comma for other in symbols if symbol.begin < other.begin < end.begin)
        if end.is_comma and not is_parted and not set(COMMAS) & set(text[symbol.end : end.begin]):
            comma = next((row for row in range(*_index_range(rows)) if _ends_in_comma(target[row])), len(target))
            for row in rows:
                if row > comma or (row == comma and target[row] in COMMAS):
                    found[row] = inner.stop
    return found


def _index_range(rows: Sequence[int]) -> tuple[int, int]:
    """Return the first of some indices in rising order, and the last plus one; (0, 0) if there are none."""
    return (rows[0], rows[-1] + 1) if rows else (0, 0)


def _ends_in_comma(word: str) -> bool:
    return word[-1] in COMMAS


def _adjust_spacing(text: str, place: int, written: str) -> str:
    """Return the symbol to insert at index `place`, without blanks next to other blanks or ends of the text."""
    if written[0].isspace() and not text[:place][-1:].strip():
        written = written.lstrip() + " "
    return written.rstrip() if place == len(text) or text[place].isspace() else written
