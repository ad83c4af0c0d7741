"""Translates a document in place, or paragraphs: the formats find the text, and all of it is translated together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import NamedTuple

from nmt_cli.documents.cues import join_cues
from nmt_cli.documents.division import CuePart
from nmt_cli.documents.segment_codes import cut_codes, finder_of, signs_of
from nmt_cli.documents.sentences import Item, Splitter, Unit, split_into_sentences
from nmt_cli.documents.units import RestoredUnit, line_of, restore_unit
from nmt_cli.formats.encoded_text import EncodedText, document_of, encode_document
from nmt_cli.formats.html import Page
from nmt_cli.formats.languages import Languages
from nmt_cli.formats.readers import READERS
from nmt_cli.formats.recognise import ENDINGS, detect_non_text, inner_name, utf16_encoding
from nmt_cli.formats.segments import Atom, CodeSyntax, Content, Edit, Kind, Segment, State, UnreadablePart, apply_edits
from nmt_cli.formats.work import SEGMENT_PARTS, Work
from nmt_cli.normalization.code_finder import ACCELERATORS, find_used_conventions, is_format
from nmt_cli.system.console import format_count, warn
from nmt_cli.system.errors import InputError
from nmt_cli.text.language_codes import primary_language
from nmt_cli.translation.results import Translation

Translate = Callable[[Sequence[str]], Iterable[Translation]]
"""Function that translates lines, with one result each in their order. The attention weights of a result place the
tags; without them, the order of the words does."""
MAX_BYTES = 32_000_000
"""Largest document, in bytes, as it is held in memory several times. Ordinary catalogues and pages are far smaller."""
_INVALID = re.compile("[\\0\ud800-\udfff]")
"""Characters of a text that is not valid: a zero byte, or a byte that could not be decoded."""


@dataclass(slots=True)
class DocumentCounts:
    """Counts and notes of the translation of a document, for the warnings at the end."""

    segments: int = 0
    sentences: int = 0
    num_repaired: int = 0
    """Segments with a placeholder that the model lost and that was put back."""
    num_untranslated: int = 0
    """Segments with a sentence left in the source language because its tags and placeholders could not be kept."""
    empty: int = 0
    """Segments with a sentence left in the source language because its translation is empty."""
    notes: list[str] = field(default_factory=list)
    languages: list[str] = field(default_factory=list)
    """Languages that the document declares for its text."""

    def report(self, name: str) -> None:
        """Print each warning on stderr, after the name of the document."""
        for warning in self.warnings():
            warn(f"{name}: {warning}")

    def warnings(self) -> list[str]:
        """Return the notes, and the warnings about lost placeholders and untranslated sentences, one string each."""
        found = list(self.notes)
        if self.num_repaired:
            found.append(
                f"in {self.num_repaired:,} of {format_count(self.segments, 'text')} the model lost a placeholder; it "
                "was put back in the most likely place"
            )
        if self.num_untranslated:
            found.append(
                f"{format_count(self.num_untranslated, 'text')} {'keeps' if self.num_untranslated == 1 else 'keep'} a "
                "sentence untranslated, because its placeholders could not be kept in the translation"
            )
        if self.empty:
            found.append(
                f"{format_count(self.empty, 'text')} {'keeps' if self.empty == 1 else 'keep'} a sentence untranslated, "
                "because the model gave an empty translation"
            )
        return found


class TranslatedDocument(NamedTuple):
    """A document in the target language, in its encoding, with the counts for the warnings about its translation."""

    content: bytes
    counts: DocumentCounts


class Paragraph(NamedTuple):
    """A paragraph in the target language."""

    text: str
    sentences: list[tuple[str, Translation]]
    """Each sentence of `text` in order, with the model's translation from which it is made."""


def translate_document(
    name: str,
    data: bytes,
    translate: Translate,
    split: Splitter,
    *,
    target_lang: str | None,
    source_lang: str = "",
    overwrite: bool = False,
    work: Work | None = None,
) -> TranslatedDocument:
    """Return a document with its text translated and all else as it was.

    The ending of `name` tells the format. Where the document declares its language, `target_lang` is written; with
    None, the declaration stays. With `overwrite`, entries that have a translation are translated again.

    Raises:
        InputError: the document is damaged, too large, in an unknown encoding, or nested beyond reason, or it would
            keep translations in another language than `target_lang`.
        KeyError: no format has this ending.
    """
    kind = READERS[{**ENDINGS, ".txt": "text"}[PurePath(inner_name(name)).suffix.lower()]]
    check_document(name, data)
    document = document_of(name, data, kind.charset, Languages(source_lang, target_lang or ""))
    content = kind(document, work)
    text, counts = _translate_in_place(
        content, translate, split, target_lang=target_lang, source_lang=source_lang, overwrite=overwrite
    )
    content_bytes, note = encode_document(document, text, kind.charset, has_references=kind.HAS_REFERENCES)
    counts.notes += [] if note is None else [note]
    return TranslatedDocument(content_bytes, counts)


def check_document(name: str, data: bytes) -> None:
    """Raise `InputError` if a document is larger than `MAX_BYTES`, or is not text."""
    if len(data) > MAX_BYTES:
        line = data.count(b"\n", 0, MAX_BYTES) + 1
        raise InputError(f"{name}:{line}: the document is larger than {MAX_BYTES // 1_000_000} MB; cut it into parts")
    head = data[:4096]
    if utf16_encoding(head) is None and (foreign := detect_non_text(head)) is not None and "XLIFF" not in foreign.kind:
        raise InputError(f"{name}:1: is {foreign.kind}, but a document in text is expected here; {foreign.advice}")


def _translate_in_place(
    content: Content,
    translate: Translate,
    split: Splitter,
    *,
    target_lang: str | None,
    source_lang: str = "",
    overwrite: bool = False,
) -> tuple[str, DocumentCounts]:
    """Return the text of a document with its untranslated segments translated, and the counts for the report.

    With `overwrite`, segments that have a translation are translated again.
    """
    document, segments = content.document, []
    content.source_lang = source_lang
    num_unfinished = 0
    for segment in content.segments():
        if segment.state is State.EXCLUDED:
            continue
        if segment.state is not State.NEW and not overwrite:
            num_unfinished += segment.state is State.UNFINISHED
            declared = segment.declared
            _refuse_mixture(document, declared.place, declared.name, declared.target, target_lang)
        elif invalid := _INVALID.search(segment.text):
            what = "a zero byte" if invalid[0] == "\0" else "a byte that is not valid in its encoding"
            content.unreadable_parts.append(UnreadablePart(segment.line, f"has {what}; fix the line"))
        else:
            segments.append(segment)
    counts = DocumentCounts(notes=list(document.notes), languages=content.languages)
    segments = list(join_cues(segments, source_lang))
    num_subflows = sum(segment.has_subflow for segment in segments)
    found = _translate_segments(segments, translate, split, counts, content.work, keeps_codes=True, content=content)
    edits = [edit for edits in found.edits for edit in edits]
    if target_lang is not None:
        edits += content.language_edits(target_lang)
    counts.notes += content.notes
    if num_unfinished:
        counts.notes.append(
            f"{format_count(num_unfinished, 'unfinished translation')} {'was' if num_unfinished == 1 else 'were'} "
            "left; nmt translate --overwrite replaces them"
        )
    if num_subflows:
        counts.notes.append(
            f"{format_count(num_subflows, 'text')} {'has' if num_subflows == 1 else 'have'} a footnote or the like "
            "inside a code (sub), which stays in the source language"
        )
    counts.notes += _unreadable_notes(content.unreadable_parts)
    return apply_edits(document.text, edits), counts


def _refuse_mixture(document: EncodedText, place: int, name: str, declared: str, target_lang: str | None) -> None:
    """Refuse a document that keeps translations in another language than the target language.

    `declared` is the language in the header or attribute `name`, which is at `place`. If it is empty, the translations
    count as in the target language. Regions make no difference.

    Raises:
        InputError: the translations that stay are in another language.
    """
    if declared.strip() and target_lang is not None and primary_language(declared) != primary_language(target_lang):
        document.refuse(
            place,
            f"its {name} is {declared.strip()} and it has translations, but the model translates into {target_lang}. "
            f"Two languages would stand in one file. Correct {name} if it is wrong, take the translations out, or "
            "replace them with nmt translate --overwrite",
        )


def _unreadable_notes(unreadable_parts: Sequence[UnreadablePart]) -> list[str]:
    """Return a note for each kind of unreadable part, with its first line and the number of others."""
    lines: dict[str, list[int]] = {}
    for line, what in sorted(unreadable_parts):
        lines.setdefault(what, []).append(line)
    notes = []
    for what, some in lines.items():
        others = f" and {format_count(len(some) - 1, 'other')}" if some[1:] else ""
        notes.append(f"line {some[0]:,}{others}, left as it is: {what}")
    return notes


def translate_page(
    text: str,
    translate: Translate,
    split: Splitter,
    *,
    target_lang: str | None,
    source_lang: str = "",
    name: str = "q",
    work: Work | None = None,
) -> str:
    """Return an HTML page with its text translated and all else as it was; the encoding that it declares is ignored.

    The page then declares `target_lang` as its language; with None, the declaration stays. Zero bytes are taken out, as
    browsers do. Errors call the page `name`.

    Raises:
        InputError: a tag is cut off, or elements are nested beyond reason.
    """
    page = Page(EncodedText(name, text.replace("\0", ""), "utf-8"), work)
    return _translate_in_place(page, translate, split, target_lang=target_lang, source_lang=source_lang)[0]


def translate_paragraphs(
    paragraphs: Sequence[str],
    translate: Translate,
    split: Splitter,
    counts: DocumentCounts,
    *,
    keeps_codes: bool = True,
    work: Work | None = None,
) -> list[Paragraph]:
    """Return each paragraph translated sentence by sentence, with the white space between them as it was.

    A paragraph of white space alone gives an empty text. Tags and placeholders are kept in the translation, unless
    `keeps_codes` is false: then they are text like any other. Counts are added to `counts`.
    """
    work = work or Work()
    segments = []
    for paragraph in paragraphs:
        work.count(1 + SEGMENT_PARTS)
        segments.append(Segment(0, len(paragraph), (Atom(paragraph, paragraph),)))
    edits, sentences = _translate_segments(segments, translate, split, counts, work, keeps_codes=keeps_codes)
    found = []
    for paragraph, edit, own in zip(paragraphs, edits, sentences, strict=True):
        text = apply_edits(paragraph, edit)
        found.append(Paragraph("", [("", one) for _, one in own]) if text.isspace() else Paragraph(text, own))
    return found


class _TranslatedSegments(NamedTuple):
    """The translations of segments, as edits of the document and as sentences."""

    edits: list[list[Edit]]
    """The edits of the document that write the translation of each segment."""
    sentences: list[list[tuple[str, Translation]]]
    """Sentences of each segment, as in `Paragraph.sentences`."""


def _translate_segments(
    segments: Sequence[Segment],
    translate: Translate,
    split: Splitter,
    counts: DocumentCounts,
    work: Work,
    *,
    keeps_codes: bool,
    content: Content | None = None,
) -> _TranslatedSegments:
    """Return the edits and the sentences of each segment; all sentences are translated in one call, equal ones once.

    With `keeps_codes`, a translation has the tags and placeholders of its sentence, or the sentence stays untranslated.
    Without it, they are text like any other. `content` is the document of the segments; None for paragraphs.
    """
    is_document = content is not None and content.HAS_CODES  # else it is text, as paragraphs are
    content = content or Content(EncodedText("", "", "utf-8"), work)
    habits = find_used_conventions(map(_text_of, segments)) if keeps_codes else None
    if habits and is_document and any(segment.codes in (CodeSyntax.PAGE, CodeSyntax.TEXT) for segment in segments):
        habits -= ACCELERATORS  # pages and subtitles have no menus
    items: dict[int, list[Item]] = {}
    atoms: dict[int, tuple[Atom, ...]] = {}

    def split_all(some: Iterable[Segment]) -> Iterator[Unit]:
        for segment in some:
            work.check()
            own = segment.atoms if habits is None else cut_codes(segment, work, habits)
            atoms[id(segment)] = own
            items[id(segment)] = split_into_sentences(own, split, work)
            for item in items[id(segment)]:
                if isinstance(item, Unit):
                    yield item
                for atom in item.atoms if isinstance(item, Unit) else (item,):
                    if atom.inner:
                        yield from split_all(atom.inner)

    units = list(split_all(segments))
    lines = []
    for unit in units:
        work.step(len(unit.atoms))
        lines.append(line_of(unit, lambda atom: atom.raw, work).text)
    work.check()
    texts = list(dict.fromkeys(lines))
    translations = dict(zip(texts, translate(texts), strict=True))
    found = {id(unit): translations[line] for unit, line in zip(units, lines, strict=True)}
    del lines
    counts.segments += len(segments)
    counts.sentences += len(units)
    assembly = _Assembly(content, items, atoms, found, counts, work, habits, is_document=is_document)
    edits = []
    lost = {id(segment) for segment in segments if is_document and assembly.is_untranslated(segment)}
    written = {id(segment.group) for segment in segments if segment.group is not None and id(segment) not in lost}
    for segment in segments:
        work.check()
        chunks = assembly.assemble(segment)
        is_left = id(segment) in lost and id(segment.group) not in written
        edits.append([] if is_left else list(_segment_edits(content, segment, chunks)))
    return _TranslatedSegments(edits, [assembly.sentences.get(id(segment), []) for segment in segments])


def _text_of(segment: Segment) -> str:
    """Return the text of a segment in which placeholder conventions are looked for; empty if its flags name them."""
    if any(map(is_format, segment.format_flags)):
        return ""
    return "".join(atom.text for atom in segment.atoms if atom.kind is Kind.TEXT)


def _segment_edits(content: Content, segment: Segment, chunks: Sequence[str]) -> Iterator[Edit]:
    """Yield the edits that write the translation of a segment, or of each of its joined parts, into the document."""
    if not segment.parts:
        yield from content.translation_edits(segment, chunks)
    for part, chunk in zip(segment.parts, chunks if segment.parts else (), strict=True):
        yield from content.translation_edits(part, [chunk])


class _Assembly:
    """Joins translated sentences with the tags and the text that are not translated."""

    def __init__(
        self,
        content: Content,
        items: dict[int, list[Item]],
        atoms: dict[int, tuple[Atom, ...]],
        translations: dict[int, Translation],
        counts: DocumentCounts,
        work: Work,
        habits: frozenset[str] | None,
        *,
        is_document: bool,
    ) -> None:
        """Take the items and atoms of each segment, and the translation of each unit, all by the `id` of the object.

        `habits` are the placeholder conventions found in the whole text; None if tags and placeholders are not kept.
        """
        self._content, self._atoms = content, atoms
        self._items, self._translations, self._counts = items, translations, counts
        self._work, self._habits, self._is_document = work, habits, is_document
        self._attributes: dict[int, list[Edit]] = {}
        self.sentences: dict[int, list[tuple[str, Translation]]] = {}
        """By the `id` of each segment, its sentences as the document has them now, with their translations."""

    def is_untranslated(self, segment: Segment) -> bool:
        """Return whether a segment has no tags or placeholders, and the translations of all its sentences are empty."""
        if any(atom.kind not in (Kind.TEXT, Kind.BREAK, Kind.SEAM) for atom in self._atoms[id(segment)]):
            return False
        units = [item for item in self._items[id(segment)] if isinstance(item, Unit)]
        return bool(units) and not any(self._translations[id(unit)].text.strip() for unit in units)

    def assemble(self, segment: Segment) -> list[str]:
        """Return the translated text of a segment, cut at its seams into one string for each cue."""
        chunks: list[list[str]] = [[]]
        num_lost = num_kept = num_empty = 0
        lengths = _chunk_lengths(self._atoms[id(segment)])
        for item in self._items[id(segment)]:
            if isinstance(item, Atom):
                if item.kind is Kind.SEAM:
                    chunks.append([])
                else:
                    chunks[-1].append(self._raw(item))
                continue
            self._work.step(len(item.atoms))
            found = self._restored(item, segment, len(chunks) - 1, lengths)
            if found is None:
                is_empty = not self._translations[id(item)].text.strip()
                num_empty, num_kept = num_empty + is_empty, num_kept + (not is_empty)
                found = self._left_unchanged(item)
            self.sentences.setdefault(id(segment), []).append(("".join(found.chunks), self._translations[id(item)]))
            num_lost += found.num_lost
            chunks[-1].append(found.chunks[0])
            chunks += [[chunk] for chunk in found.chunks[1:]]
        self._counts.num_repaired += num_lost > 0
        self._counts.num_untranslated += num_kept > 0
        self._counts.empty += num_empty > 0
        return list(map("".join, chunks))

    def _raw(self, atom: Atom) -> str:
        for inner in atom.inner:
            if id(inner) not in self._attributes:
                self._attributes[id(inner)] = list(self._content.translation_edits(inner, self.assemble(inner)))
        return apply_edits(atom.raw, [edit for one in atom.inner for edit in self._attributes[id(one)]])

    def _restored(self, unit: Unit, segment: Segment, chunk: int, lengths: Sequence[int]) -> RestoredUnit | None:
        line = line_of(unit, self._raw, self._work)
        translation = self._translations[id(unit)]
        if translation.text == line.text:
            return self._left_unchanged(unit)
        if self._habits is None or (line.is_plain and not self._is_document):
            return RestoredUnit([translation.text], 0)
        if not translation.text.strip():  # a line without text would end a cue, and a message would count as new
            return None
        cue_parts = []
        for number, length in enumerate(_chunk_lengths(unit.atoms) if line.seams else ()):
            seconds = segment.seconds[chunk + number] if segment.seconds else 0.0
            cue_parts.append(CuePart(seconds * length / max(1, lengths[chunk + number]), length))
        signs = signs_of(segment, self._atoms[id(segment)])
        return restore_unit(line, translation, segment.escape, cue_parts, signs, finder_of(segment, self._habits))

    def _left_unchanged(self, unit: Unit) -> RestoredUnit:
        """Return a sentence untranslated, as the document spells it, because its translation is unusable or equal."""
        chunks: list[list[str]] = [[]]
        for atom in unit.atoms:
            if atom.kind is Kind.SEAM:
                chunks.append([])
            else:
                chunks[-1].append(self._raw(atom))
        return RestoredUnit(list(map("".join, chunks)), 0)


def _chunk_lengths(atoms: Iterable[Atom]) -> list[int]:
    """Return the number of characters of text in each part between the seams, the borders of cues."""
    lengths = [0]
    for atom in atoms:
        if atom.kind is Kind.SEAM:
            lengths.append(0)
        elif atom.is_visible:
            lengths[-1] += len(atom.text)
    return lengths
