"""Turns a sentence into the line that the model reads, and its translation into text as the document spells it.

The steps of `normalization/` take tags and placeholders out and put them back. This module refuses a translation that
has other placeholders than its sentence.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import NamedTuple

from nmt_cli.documents.division import CuePart, divide_words
from nmt_cli.documents.sentences import Unit
from nmt_cli.formats.segments import Atom, Kind, closing_tags
from nmt_cli.formats.work import Work
from nmt_cli.normalization.code_finder import CodeFinder, may_have_codes
from nmt_cli.normalization.conventions import CHARACTER_REFERENCE
from nmt_cli.normalization.placeholder_names import NameFinder
from nmt_cli.normalization.placeholders import Placeholders, default_name, restore_placeholders
from nmt_cli.normalization.placing import AlignedWords, monotonic_alignment
from nmt_cli.normalization.tags import RemovedCodes, TaggedLine, Tags
from nmt_cli.text import translation as texts
from nmt_cli.text.alignment import MAX_WEIGHTS
from nmt_cli.text.edits import Change, Edits, Span, word_spans
from nmt_cli.text.line import Code, CodeKind, UndoRecord
from nmt_cli.text.line import Line as ReadLine
from nmt_cli.translation.results import Translation

_MANY_WORDS = 1_000
"""Number of words of a sentence beyond which each further word counts as a part of the work (see `Work`). The words of
an ordinary sentence are held only briefly."""
_MAX_WORD = 1_000_000
"""Characters of a translated word beyond which its sentence stays untranslated: no other thread runs while a word is
searched."""
_KINDS = {
    Kind.OPEN: CodeKind.OPEN,
    Kind.CLOSE: CodeKind.CLOSE,
    Kind.STANDALONE: CodeKind.STANDALONE,
    Kind.ACCELERATOR: CodeKind.ACCELERATOR,
    Kind.PLACEHOLDER: CodeKind.PLACEHOLDER,
}
_TAGS, _PLACEHOLDERS = Tags(), Placeholders()
_REFERENCE = re.compile(CHARACTER_REFERENCE)
_QUOTES = ("'", '"')
_SIGNS = "%{}<>"
"""Signs that may form a placeholder; they stay in a translation only if the source has them as text."""


class RestoredUnit(NamedTuple):
    """A translated sentence with its tags and placeholders put back."""

    chunks: list[str]
    """The text as the document spells it, cut at its seams, the borders of subtitle cues; one string without seams."""
    num_lost: int
    """Number of placeholders that the model lost and that were put back."""


@dataclass(frozen=True, slots=True)
class Line:
    """The line that the model reads for a sentence, with the places of tags, placeholders and cue borders in it."""

    model_line: ReadLine
    seams: tuple[int, ...]
    """Offset of each seam, the border of two subtitle cues, in the text that the model reads."""
    names: tuple[str, ...]
    """The words that the model reads in place of the placeholders."""
    source: str
    """The sentence as the document spells it, with its tags and placeholders."""
    quotes: tuple[tuple[str, str], ...] = ()
    """Quotation marks that the document spells otherwise than the model reads them, each as (spelling in the document,
    mark that the model reads)."""

    @property
    def text(self) -> str:
        """The text that the model reads."""
        return self.model_line.text

    @property
    def is_plain(self) -> bool:
        """True if the unit has no seams, and the model reads all of it as it is."""
        return not self.model_line.undo_records and not self.seams


def line_of(unit: Unit, raw: Callable[[Atom], str], work: Work) -> Line:
    """Return the line that the model reads for a unit; `raw` returns an atom as the translated document writes it."""
    parts: list[str] = []
    codes: list[Code] = []
    seams: list[int] = []
    place, ends_with_blank = 0, True
    closing = closing_tags(unit.atoms)
    opening = {end: start for start, end in closing.items()}
    source, quotes = list[str](), set[tuple[str, str]]()
    for number, atom in enumerate(unit.atoms):
        work.step()
        written = raw(atom)
        source.append(" " if atom.kind is Kind.SEAM else written)
        if atom.kind in _KINDS:
            pair = number if number in closing else opening.get(number)
            name = "" if pair is None else str(pair)
            if atom.kind is Kind.PLACEHOLDER:
                name = "" if atom.text == default_name(written) and not written.startswith("<") else atom.text
            ends_with_blank = False
            codes.append(Code(place, place + len(written), _KINDS[atom.kind], name))
            parts.append(written)
        else:
            text = re.sub(r"\s+", " ", atom.visible_text)
            text = text[1:] if ends_with_blank and text.startswith(" ") else text
            if atom.kind is Kind.SEAM:
                seams.append(place)
            if atom.text in _QUOTES and atom.raw != atom.text:
                quotes.add((atom.raw, atom.text))
            ends_with_blank = text.endswith(" ") if text else ends_with_blank
            parts.append(text)
        place += len(parts[-1])
    text = "".join(parts)
    for _ in work.each(islice(re.finditer(r"\S+", text), _MANY_WORDS, None)):
        pass
    line = ReadLine.of(text, codes=codes)
    for step in (_TAGS, _PLACEHOLDERS):
        line = step.read(line)
    for undo in line.undo_records:
        seams = [undo.edits.new_span(seam, seam)[0] for seam in seams]
    names = tuple(one.name for one in _undo_of(line, _PLACEHOLDERS.name).data)
    return Line(line, tuple(seams), names, "".join(source), tuple(sorted(quotes)))


def _undo_of(line: ReadLine, name: str) -> UndoRecord:
    """Return the record by which the normalisation step `name` can be undone; an empty one if it changed nothing."""
    is_first = name == _TAGS.name
    nothing = UndoRecord(
        name, Edits.identity(line.raw if is_first else line.text), RemovedCodes(()) if is_first else ()
    )
    return next((undo for undo in line.undo_records if undo.step == name), nothing)


def restore_unit(
    line: Line,
    translation: Translation,
    escape: Callable[[str], str],
    cue_parts: Sequence[CuePart],
    signs: str = "",
    finder: CodeFinder | None = None,
) -> RestoredUnit | None:
    """Return the translation with the tags, placeholders and seams of its line; None if that is not possible.

    It also keeps the placeholders in terms of a glossary. `escape` returns a text as the document spells it.
    `cue_parts` has the time and the length of each part between the seams; it is empty without seams. `signs` are
    signs, such as `%`, that the translation may have though the line lacks them. `finder` finds the tags and
    placeholders that the translation must have as often as the source.
    """
    brought = " ".join(use.translation for use in translation.terms if use.translation is not None)
    num_words = len(translation.text.split())
    if not line.is_plain and num_words * len(line.text.split()) > MAX_WEIGHTS:
        return None
    if max(map(len, translation.text.split()), default=0) > _MAX_WORD:
        return None
    finder = (finder or CodeFinder()).counted()
    if signs and "%" not in line.source + brought:
        finder = replace(finder, has_percentages=True)
    expected = finder.counts(line.source) + finder.counts(escape(brought))
    own = _UnexpectedCodes(line, finder, finder.counts(brought))
    found = texts.Translation(line.text, translation.text, alignment=translation.alignment)
    # Signs that the model wrote may make a placeholder of what stands beside them, so there are three attempts.
    for allowed in dict.fromkeys((own.signs + brought + signs, own.signs + brought, brought)):
        done = _Writer(line, found, escape, own, allowed).write(cue_parts)
        whole = " ".join(done.chunks)
        if whole.strip() and finder.counts(whole) in (expected, expected + own.parted):
            return done
    return None


class _UnexpectedCodes:
    """Finds text in a translation that looks like a placeholder but is neither in its source nor in a glossary term."""

    def __init__(self, line: Line, finder: CodeFinder, brought: Counter[str]) -> None:
        """Expect the placeholders of the line, and `brought`, the counts of those in terms of a glossary."""
        names, counts = NameFinder(set(line.names)), finder.counts(line.source)
        # Text of the document may look like a reference only where references are placeholders.
        has_references = any(map(_REFERENCE.fullmatch, line.names))
        self._finder = replace(finder, references="last") if has_references else finder
        self.parted = finder.counts(line.text) - Counter(line.names) - counts
        """Counts of placeholders that appear only when the tags within them are taken out, such as the address in
        `a@<b>x.org`. The translation may have them or not."""
        self._others = brought + self.parted
        position, parts = 0, []
        for begin, end in names.spans(line.text):
            parts.append(line.text[position:begin])
            position = end
        self.signs = "".join([*parts, line.text[position:]])
        """The text of the line without its placeholders; the signs in it may be in the translation too."""

    def spans(self, text: str, kept: Sequence[Span], allowed: str) -> Iterator[Span]:
        """Yield the spans of a translation that must be removed.

        `kept` has the spans of placeholders that are dealt with already, in order; `allowed` the signs that may stay.
        """
        left = self._others.copy()
        stay = list(kept)
        ends = [end for _, end in kept]
        gone: list[Span] = []
        for begin, end in self._codes_of_words(text):
            number = bisect_right(ends, begin)
            if number < len(kept) and kept[number][0] < end:
                continue
            name = text[begin:end]
            if left[name]:
                left[name] -= 1
                stay.append((begin, end))
            else:
                gone.append((begin, end))
        yield from gone
        taken = sorted([*stay, *gone])
        ends = [end for _, end in taken]
        for sign in re.finditer(f"[{_SIGNS}]", text):
            number = bisect_right(ends, sign.start())
            is_free = number == len(taken) or taken[number][0] > sign.start()
            if is_free and sign[0] not in allowed:
                yield sign.span()

    def _codes_of_words(self, text: str) -> Iterator[Span]:
        """Yield the spans of tags and placeholders within single words: two words that look like `% d` are text."""
        for begin, end in word_spans(text):
            if may_have_codes(text[begin:end]):
                for code in self._finder.codes(text[begin:end]):
                    yield begin + code.begin, begin + code.end


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes a translation as its document spells it."""

    line: Line
    translation: texts.Translation
    escape: Callable[[str], str]
    unexpected: _UnexpectedCodes
    allowed: str

    def write(self, cue_parts: Sequence[CuePart]) -> RestoredUnit:
        """Return the translation with the tags and placeholders of its line, cut at the seams."""
        undo = _undo_of(self.line.model_line, _PLACEHOLDERS.name)
        changes, num_lost = restore_placeholders(undo, self.translation, self._unexpected)
        translation = self.translation.undo_step(undo, changes)
        codes = _places_of(changes, undo.edits.old)
        undo = _undo_of(self.line.model_line, _TAGS.name)
        if self.line.seams:
            chunks = self._chunks(undo, translation, codes, cue_parts)
        else:
            chunks = [
                self._write_span(translation.text, (0, len(translation.text)), _TAGS.undo(undo, translation), codes)
            ]
        return RestoredUnit(chunks, num_lost)

    def _unexpected(self, text: str, kept: Sequence[Span]) -> Iterable[Span]:
        return self.unexpected.spans(text, kept, self.allowed)

    def _chunks(
        self, undo: UndoRecord, translation: texts.Translation, codes: Sequence[Span], cue_parts: Sequence[CuePart]
    ) -> list[str]:
        """Return the part of the translation for each cue, with the tags that this cue had in the source."""
        alignment = translation.alignment or monotonic_alignment(translation.source, translation.text)
        reading = TaggedLine.of(undo.edits, undo.data, alignment)
        words = reading.align_words(translation, alignment)
        last_unit = max(len(reading.units) - 1, 0)
        aligned_to = [looks if looks >= 0 else last_unit for looks in words.aligned_to]
        ends = [end for _, end in reading.units]
        seams = [bisect_right(ends, seam) for seam in self._seams()]
        written = [words.written(row) for row in range(len(words.spans))]
        cuts = [0, *divide_words(written, aligned_to, seams, cue_parts), len(written)]
        columns = [0, *seams, len(reading.units)]
        chunks = []
        for part, (begin, end) in enumerate(pairwise(cuts)):
            first, last = columns[part], columns[part + 1]
            is_last = part == len(cuts) - 2
            tags = [tag for tag in reading.tags if first <= tag.start and (tag.start < last or is_last)]
            inside = [min(max(column, first), max(first, last - 1)) for column in aligned_to[begin:end]]
            spans = words.spans[begin:end]
            place = (
                spans[0][0] if spans else words.spans[begin][0] if begin < len(words.spans) else len(translation.text)
            )
            around = (place, spans[-1][1] if spans else place)
            own = AlignedWords(translation.text, spans, inside, words.atomic_spans, around[1])
            chunks.append(self._write_span(translation.text, around, reading.attention_changes(own, tags), codes))
        return chunks

    def _seams(self) -> list[int]:
        """Return the offsets of the seams in the line with placeholders written as in the document."""
        back = _undo_of(self.line.model_line, _PLACEHOLDERS.name).edits.inverse()
        return [back.new_span(seam, seam)[0] for seam in self.line.seams]

    def _write_span(self, text: str, span: Span, changes: Iterable[Change], codes: Sequence[Span]) -> str:
        """Return a span of a translation as the document spells it.

        `changes`, such as insertions of tags, are made; the placeholders at the spans `codes` are copied unchanged.
        """
        begins = [begin for begin, _ in codes]
        kept = [
            Change(begin, end, text[begin:end])
            for begin, end in codes[bisect_left(begins, span[0]) : bisect_left(begins, span[1])]
        ]
        parts, position = [], span[0]
        for change in sorted([*changes, *kept], key=lambda one: (one.begin, one.end)):
            parts += [self._escape_text(text[position : change.begin]), change.text]
            position = max(position, change.end)
        return "".join([*parts, self._escape_text(text[position : span[1]])])

    def _escape_text(self, text: str) -> str:
        for raw, quote in self.line.quotes:
            if self.escape("\\" + quote) == raw:  # with a backslash in the text itself
                text = text.replace(quote, "\\" + quote)
        return self.escape(text)


def _places_of(changes: Sequence[Change], source: str) -> list[Span]:
    """Return the spans of the source's placeholders in the changed text, without signs that were put back with them."""
    found: list[Span] = []
    grown = 0
    for change in sorted(changes, key=lambda one: (one.begin, one.end)):
        if change.origin is not None:
            code = source[slice(*change.origin)]
            begin = change.begin + grown + max(0, change.text.find(code))
            found.append((begin, begin + len(code)))
        grown += len(change.text) - (change.end - change.begin)
    return found
