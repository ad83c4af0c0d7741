"""Tags are not read, but are put into the translation around the words aligned to the words that they enclosed.

Where the words on both sides of each tag still follow each other, all of them come back byte for byte, blanks included.
Otherwise the attention determines their places. Elements side by side stay so, and nested ones stay nested. The signs
of accelerators (`_Open`) and of escapes (`\\'`) are not read either, but only the letters that people see.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from nmt_cli.normalization.code_finder import CodeFinder
from nmt_cli.normalization.elements import Tag
from nmt_cli.normalization.placeholder_names import NameFinder
from nmt_cli.normalization.placeholders import SEQUENTIAL_DIRECTIVE
from nmt_cli.normalization.placing import (
    AlignedWords,
    Gaps,
    UnreadElement,
    marks_of,
    monotonic_alignment,
    source_units,
    target_units,
    without_overlaps,
)
from nmt_cli.normalization.step import RestoringStep
from nmt_cli.text.edits import Change, Edits, Span
from nmt_cli.text.letters import OTHER_SCRIPTS, WITHOUT_SPACES
from nmt_cli.text.line import Code, CodeKind, Line, UndoRecord
from nmt_cli.text.translation import Translation
from nmt_cli.text.unit_alignment import Alignment

_OF_ELEMENTS = (CodeKind.OPEN, CodeKind.CLOSE, CodeKind.STANDALONE, CodeKind.LINE_END)
_CODE = "\ue000"
"""Takes the place of each character of a code where words are searched."""
_LETTER = rf"(?:(?!{OTHER_SCRIPTS.pattern})[^\W\d_])"
_BEGIN, _END = rf"(?<!\S)[(\[\"'«“‘¿¡{_CODE}]*+", rf"[)\]\"'»”’.,;:!?…{_CODE}]*+(?!\S)"
_GLUED = re.compile(
    rf"{_BEGIN}(?:(?<={_CODE})[A-Z\u00c0-\u00de\u0386-\u03ab\u0400-\u042f]{_LETTER}{{2,}}+|"
    rf"{_LETTER}{{3,}}+(?=[!?]*+{_CODE})){_END}"
)
"""A word that a code touches: one with a capital behind a code, or one of three letters or more before it."""
_VOID = re.compile("area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr", re.IGNORECASE)
"""Names of HTML tags that stand alone without a slash."""


class TagCode(NamedTuple):
    """Span of a tag in a line, and its partner."""

    begin: int
    end: int
    partner: int | None = None
    """Index among the tags of the line of the opening or closing tag that belongs to it; None if it has none."""


@dataclass(frozen=True, slots=True)
class RemovedCodes:
    """The codes that were taken out of a line."""

    tags: tuple[TagCode, ...]
    accelerators: tuple[Span, ...] = ()
    """Spans of the signs of accelerators, which documents may write as `&amp;`."""
    has_escapes: bool = False
    """True if the line has escaped quotes, so that those of the translation must be escaped."""
    in_prefix: tuple[int, ...] = ()
    """Indices in `tags` of the tags that the prefix has, in the order of the prefix."""
    placeholders: frozenset[str] = frozenset()
    """Texts of the placeholders of the line, within which no tag may be put."""
    has_unpaired: bool = False
    """True if a tag that should enclose text is never closed, or is closed but never opened."""


class Tags(RestoringStep):
    """Reads a line without its tags, and puts them into its translation."""

    name = "tags"

    def __init__(self, finder: CodeFinder | None = None, symbols: Collection[str] = ()) -> None:
        """Find tags with `finder` in lines whose format has marked none; `symbols` of the tokenizer are no tags."""
        self._finder, self._symbols = finder or CodeFinder(), frozenset(symbols)

    def read(self, line: Line) -> Line:
        """Return the line without its tags; its placeholders stay, and are recorded in its `codes`."""
        codes = self._find_codes(line.text) if line.codes is None else line.codes
        codes = glued_as_tags(line.text, codes)
        tags = {line.text[code.begin : code.end] for code in codes if code.kind is CodeKind.STANDALONE}
        found = [
            code._replace(kind=CodeKind.STANDALONE) if line.prefix[code.begin : code.end] in tags else code
            for code in self._find_codes(line.prefix)
        ]
        prefix = [code for code in found if code.kind is not CodeKind.PLACEHOLDER]
        if not codes and not prefix:
            return line
        line = replace(line, codes=codes)
        own = [code for code in codes if code.kind is not CodeKind.PLACEHOLDER]
        if not own and not prefix:
            return line
        elements = [code for code in own if code.kind in _OF_ELEMENTS]
        return line.apply_step(
            self.name,
            remove_codes(line.text, own),
            RemovedCodes(
                pair_tags(elements),
                tuple((code.begin, code.end) for code in own if code.kind is CodeKind.ACCELERATOR),
                any(code.kind is CodeKind.ESCAPE for code in own),
                tags_of_prefix(line.prefix, prefix, line.text, elements) if prefix else (),
                frozenset(line.text[code.begin : code.end] for code in codes if code.kind is CodeKind.PLACEHOLDER),
                _has_unpaired(line.text, elements),
            ),
            prefix_changes=remove_codes(line.prefix, prefix, is_whole=False),
            needs_alignment=bool(own),
        )

    def _find_codes(self, text: str) -> tuple[Code, ...]:
        return tuple(code for code in self._finder.codes(text) if text[code.begin : code.end] not in self._symbols)

    def undo(self, undo: UndoRecord, translation: Translation) -> list[Change]:
        """Return the changes of the translation that put the tags back.

        The prefix (the given beginning of the translation) does not change, and tags that it has are not repeated.
        Without attention, the order of the words determines the places.
        """
        removed_codes = undo.data
        alignment = translation.alignment or monotonic_alignment(undo.edits.new, translation.text)
        tagged_line = TaggedLine.of(undo.edits, removed_codes, alignment)
        words = tagged_line.align_words(translation, alignment)
        missing = _missing_tags(tagged_line.tags, removed_codes.in_prefix)
        changes = tagged_line.verbatim_changes(words, missing, translation.prefix_length)
        if changes is None:
            changes = tagged_line.attention_changes(words.from_place(translation.prefix_length), missing)
        if undo.prefix_edits is not None and _lacks_blank(undo, removed_codes, translation):
            changes = [Change(translation.prefix_length, translation.prefix_length, " "), *changes]
        back = {place for change in changes if change.origin is not None for place in range(*change.origin)}
        accelerators = [key for key in removed_codes.accelerators if key[0] not in back]
        if accelerators:
            changes = [
                *changes,
                *without_overlaps(
                    [*tagged_line.accelerator_changes(words, accelerators, translation.prefix_length)], changes
                ),
            ]
        if removed_codes.has_escapes:
            escaped = {change.end for change in changes if change.text.endswith("\\")}
            quotes = (
                place
                for place in range(translation.prefix_length, len(translation.text))
                if translation.text[place] == "'"
            )
            changes = [*changes, *(Change(place, place, "\\") for place in quotes if place not in escaped)]
        return changes


def glued_as_tags(text: str, codes: Sequence[Code]) -> tuple[Code, ...]:
    """Return the codes of a text, with those placeholders that only touch a whole word as tags that enclose nothing.

    Otherwise the model would read a word that it does not know: `%1$sTheir`. A small letter behind a placeholder may
    begin a unit or an ending, as in `{n}px`, which stays with it. So do placeholders whose order must not change.
    """
    own = [code for code in codes if code.kind is CodeKind.PLACEHOLDER]
    if not own:
        return tuple(codes)
    sequential = {raw for raw in (text[code.begin : code.end] for code in own) if SEQUENTIAL_DIRECTIVE.match(raw)}
    parts, position = [], 0
    for code in codes:
        sign = " " if code.kind is CodeKind.LINE_END else _CODE
        parts += [text[position : code.begin].replace(_CODE, "_"), sign * (code.end - code.begin)]
        position = code.end
    masked = "".join([*parts, text[position:].replace(_CODE, "_")])
    words = [word.span() for word in _GLUED.finditer(masked)]
    ends = [end for _, end in words]
    found = []
    for code in codes:
        number = bisect_right(ends, code.begin)
        is_glued = number < len(words) and words[number][0] <= code.begin and code.kind is CodeKind.PLACEHOLDER
        keeps_order = text[code.begin : code.end] in sequential and len(sequential) > 1
        found.append(code._replace(kind=CodeKind.STANDALONE, name="") if is_glued and not keeps_order else code)
    return tuple(found)


def _lacks_blank(undo: UndoRecord, removed_codes: RemovedCodes, translation: Translation) -> bool:
    """Return whether a prefix ends with a tag that a blank follows in the line, but not in the translation."""
    assert undo.prefix_edits is not None
    shown, text = undo.prefix_edits.old, undo.edits.old
    if not removed_codes.in_prefix or not translation.text[translation.prefix_length :][:1].strip():
        return False
    last = removed_codes.tags[removed_codes.in_prefix[-1]]
    return shown.endswith(text[last.begin : last.end]) and text[last.end : last.end + 1].isspace()


def remove_codes(text: str, codes: Iterable[Code], *, is_whole: bool = True) -> list[Change]:
    """Return the changes that delete the codes of a text, and all but one of the blanks around them.

    If only a line end separates two words, a blank takes its place. An element within a word, as in `x<sup>2</sup>y`,
    separates nothing. A text that is not whole, because more follows, keeps the blank at its end.
    """
    changes: list[Change] = []
    first = len(text) - len(text.lstrip())
    for run in _runs(text, codes):
        begin, end = run[0].begin, run[-1].end
        before, after = text[begin - 1 : begin], text[end : end + 1]
        if run[0].kind not in _OF_ELEMENTS:  # of an escape, the character stays
            changes.append(Change(begin, begin + 1 if run[0].kind is CodeKind.ESCAPE else end, ""))
        elif not before.strip() and not after.strip():
            is_at_begin = begin <= first
            if not after and is_whole:
                begin = len(text[:begin].rstrip())
            changes.append(Change(begin, len(text) - len(text[end:].lstrip()) if is_at_begin else end + len(after), ""))
        else:
            has_blank = any(text[one.end : other.begin] for one, other in itertools.pairwise(run))
            is_parted = any(code.kind is CodeKind.LINE_END for code in run)
            is_unspaced = WITHOUT_SPACES.match(before) or WITHOUT_SPACES.match(after)
            is_parted &= after.isalnum() and not is_unspaced
            is_between = bool(before.strip()) and (bool(after.strip()) or not (after or is_whole))
            changes.append(Change(begin, end, " " * (is_between and (has_blank or is_parted))))
    return changes


def _runs(text: str, codes: Iterable[Code]) -> Iterator[list[Code]]:
    """Yield runs of codes with only blanks between them; an escape or an accelerator is a run of its own."""
    run: list[Code] = []
    for code in codes:
        is_single = code.kind not in _OF_ELEMENTS
        if run and (is_single or run[-1].kind not in _OF_ELEMENTS or text[run[-1].end : code.begin].strip()):
            yield run
            run = []
        run.append(code)
    if run:
        yield run


def pair_tags(codes: Sequence[Code]) -> tuple[TagCode, ...]:
    """Return tags with their partners: each closing tag belongs to the last open tag of its name."""
    partners: dict[int, int] = {}
    opened: dict[str, list[int]] = {}
    for number, code in enumerate(codes):
        if code.kind is CodeKind.OPEN:
            opened.setdefault(code.name, []).append(number)
        elif code.kind is CodeKind.CLOSE and opened.get(code.name):
            first = opened[code.name].pop()
            partners |= {first: number, number: first}
    return tuple(TagCode(code.begin, code.end, partners.get(number)) for number, code in enumerate(codes))


def tags_of_prefix(prefix: str, in_prefix: Sequence[Code], text: str, codes: Sequence[Code]) -> tuple[int, ...]:
    """Return the indices in `codes` of the tags of a line that the beginning of its translation has.

    Of tags that are written alike, these are the first ones. A closing tag belongs to its opening one.
    """
    waiting: dict[str, deque[int]] = defaultdict(deque)
    for number, code in enumerate(codes):
        waiting[text[code.begin : code.end]].append(number)
    own, of_prefix = pair_tags(codes), pair_tags(in_prefix)
    found: dict[int, int] = {}
    for number, tag in enumerate(of_prefix):
        written = waiting[prefix[tag.begin : tag.end]]
        begun = None if tag.partner is None or tag.partner > number else found.get(tag.partner)
        end = None if begun is None else own[begun].partner
        if end is not None and end in written:
            written.remove(end)
            found[number] = end
        elif written:
            found[number] = written.popleft()
    return tuple(found.values())


def has_unpaired_tag(line: Line) -> bool:
    """Return whether a line had a tag that should enclose text and is never closed, or is closed but never opened."""
    return any(undo.step == Tags.name and undo.data.has_unpaired for undo in line.undo_records)


def _has_unpaired(text: str, codes: Iterable[Code]) -> bool:
    own = [code for code in codes if code.kind in (CodeKind.OPEN, CodeKind.CLOSE)]
    alone = (code for code, tag in zip(own, pair_tags(own), strict=True) if tag.partner is None)
    return any(text[code.begin : code.end].startswith("</") or not _VOID.fullmatch(code.name) for code in alone)


@dataclass(frozen=True)
class TaggedLine:
    """A line with its tags, and the text that is read without them."""

    edits: Edits
    codes: Sequence[TagCode]
    places: Sequence[Span]
    """The span in the read text that corresponds to each code; empty if the code was deleted."""
    units: Sequence[Span]
    """Spans of the words of the text that is read, or in scripts without blanks of the pieces of the model."""
    names: NameFinder
    """Finds the placeholders of the line, in its text and in its translation."""

    @classmethod
    def of(cls, edits: Edits, removed_codes: RemovedCodes, alignment: Alignment) -> TaggedLine:
        """Return the line from which these codes were removed; in scripts without blanks, its `units` end at tags."""
        places = edits.new_spans([(code.begin, code.end) for code in removed_codes.tags])
        cuts = [place for span in places for place in span]
        names = NameFinder(removed_codes.placeholders)
        return cls(
            edits, removed_codes.tags, places, source_units(alignment, edits.new, cuts, names.spans(edits.new)), names
        )

    def align_words(self, translation: Translation, alignment: Alignment) -> AlignedWords:
        """Return the words of a translation (pieces, in scripts without blanks), aligned to the `units` of the line."""
        atomic_spans = [*self.names.spans(translation.text)]
        units = target_units(alignment, translation.text, atomic_spans)
        return AlignedWords(translation.text, units, alignment.aligned_to(self.units, units), atomic_spans)

    @cached_property
    def tags(self) -> Sequence[Tag]:
        """The tags with the units of the read text that they enclose, in the order in which they begin."""
        begins, ends = [begin for begin, _ in self.units], [end for _, end in self.units]
        found: list[Tag] = []
        late = self._begins_of_crossing()
        for number, code in enumerate(self.codes):
            if code.partner is not None and code.partner < number:
                continue
            close_index = number if code.partner is None else code.partner
            first_code = late.get(number, number)
            at, end_at = self.places[first_code][0], self.places[close_index][0]
            first, last = bisect_right(ends, at), bisect_left(begins, end_at)
            text = self.edits.old[code.begin : code.end]
            close = None if code.partner is None else self._text(close_index)
            is_within = first < len(begins) and begins[first] < at
            crossing_index = number if number in late else None
            if close is not None and first < last and at < end_at:
                found.append(
                    self._with_punctuation(
                        Tag(text, close, first, last, first_code, close_index, crossing_index=crossing_index),
                        at,
                        end_at,
                    )
                )
                continue
            before, after = self._neighbours(first_code, close_index)
            is_after = is_within or bool(before.strip())
            is_apart = not is_after and not after.strip()
            found.append(
                Tag(
                    text + " " * (is_apart and close is None), close, first + is_within, first + is_within,
                    first_code, close_index,
                    is_after=is_after, is_apart=is_apart, cuts_last=is_within,
                    crossing_index=crossing_index,
                )
            )  # fmt: skip
        return sorted(found, key=lambda tag: (tag.open_index, -tag.close_index))

    def _with_punctuation(self, tag: Tag, at: int, end_at: int) -> Tag:
        """Return a tag with the fields set that tell punctuation inside of it from punctuation outside of it.

        It begins and ends at the indices `at` and `end_at` of the text that is read.
        """
        text = self.edits.new
        inside, outside = text[at:end_at], text[end_at:].strip()
        (first, _), (_, end) = self.units[tag.start], self.units[tag.end - 1]
        cuts_last = end > end_at or (inside.rstrip()[-1:].isalnum() and bool(outside))
        cuts_first = first < at or (cuts_last and inside.lstrip()[:1].isalnum() and bool(text[:at].strip()))
        core = inside.strip()
        bare = len(core.rstrip("".join(one for one in set(core) if not one.isalnum())))
        front = len(core) - len(core.lstrip("".join(one for one in set(core) if not one.isalnum())))
        return replace(
            tag, cuts_first=cuts_first, cuts_last=cuts_last, needs_words=any(map(str.isalnum, core)),
            head=core[:front] if cuts_first else "", tail=core[bare:] if cuts_last else "",
        )  # fmt: skip

    def _text(self, number: int) -> str:
        return self.edits.old[self.codes[number].begin : self.codes[number].end]

    def _neighbours(self, first: int, last: int) -> tuple[str, str]:
        """Return the character before code `first` and the one after code `last`; empty at an end of the line.

        If other codes touch code `first` in front, the character is the one before all of them.
        """
        text = self.edits.old
        begin, end = self._begins[first], self.codes[last].end
        return text[begin - 1 : begin], text[end : end + 1]

    @cached_property
    def _begins(self) -> Sequence[int]:
        """Index of the character at which each code, or the run of touching codes that it belongs to, begins."""
        found: list[int] = []
        for number, code in enumerate(self.codes):
            is_touched = number > 0 and self.codes[number - 1].end == code.begin
            found.append(found[-1] if is_touched else code.begin)
        return found

    def _begins_of_crossing(self) -> dict[int, int]:
        """Return, by the index of each tag that overlaps an earlier one, the index of the earlier tag's end tag.

        In `<b>x<i>y</b>z</i>`, tag 1 overlaps tag 0, whose end tag is 2. The tag is then treated as if it began there.
        """
        late: dict[int, int] = {}
        opened: list[int] = []
        for number, code in enumerate(self.codes):
            if code.partner is None:
                continue
            if code.partner > number:
                opened.append(number)
                continue
            place = len(opened) - 1
            while opened[place] != code.partner:
                place -= 1
            for crossing in opened[place + 1 :]:
                late[crossing] = number
            del opened[place]
        return late

    def verbatim_changes(self, words: AlignedWords, tags: Sequence[Tag], begun: int) -> list[Change] | None:
        """Return the changes that put `tags` back with the text around them; None if words around one are now apart."""
        wanted = {
            number for tag in tags for number in (tag.close_index, tag.close_index if tag.is_open else tag.number)
        }
        elements = [
            UnreadElement(code.begin, code.end, code.partner if code.partner in wanted else None) for code in self.codes
        ]
        found = Gaps(self.edits, self.units, words, elements).verbatim_changes(wanted, begun)
        done = {number for numbers, _ in found for number in numbers}
        return [change for numbers, change in found if numbers] if done == wanted else None

    def attention_changes(self, words: AlignedWords, tags: Sequence[Tag]) -> list[Change]:
        """Return the insertions that put each tag around the words aligned to the source words that it enclosed."""
        changes = []
        for mark in marks_of(words, tags):
            code, text = self.codes[mark.number], mark.text
            is_last = not words.text[mark.place : mark.place + 1].strip()
            changes.append(Change(mark.place, mark.place, text.rstrip() if is_last else text, (code.begin, code.end)))
        return changes

    def accelerator_changes(self, words: AlignedWords, accelerators: Sequence[Span], begun: int) -> Iterator[Change]:
        """Yield the insertion of each accelerator's sign before the first letter of the word aligned to its word."""
        letters = [(row, words.letter(row)) for row in range(len(words.spans))]
        places = {row: place for row, place in letters if place is not None and place >= begun}
        if not places:
            return
        row_of = {words.aligned_to[row]: row for row in reversed(places)}
        ends = [end for _, end in self.units]
        for key in accelerators:
            at = self.edits.new_span(*key)[0]
            unit = bisect_right(ends, at)
            row = row_of.get(unit, next(iter(places)))
            place = places[row]
            if unit < len(self.units) and self.edits.new[slice(*self.units[unit])] == words.written(row):
                place = words.spans[row][0] + at - self.units[unit][0]
            yield Change(place, place, self.edits.old[slice(*key)], key)


def _missing_tags(tags: Sequence[Tag], in_prefix: Sequence[int]) -> list[Tag]:
    """Return the tags that a prefix opens but does not end, outermost first, and then those that it lacks."""
    if not in_prefix:
        return list(tags)
    order = {number: place for place, number in enumerate(in_prefix)}
    opened = [tag for tag in tags if tag.number in order and tag.closing is not None and tag.close_index not in order]
    opened = sorted((replace(tag, is_open=True) for tag in opened), key=lambda tag: order[tag.number])
    return [*opened, *(tag for tag in tags if tag.number not in order)]
