"""Translates a document in place, or paragraphs: the formats find the text, and all of it is translated together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, NamedTuple

from nmt_cli.documents import html, po, subtitles, xliff
from nmt_cli.documents.codes import CODE, with_codes
from nmt_cli.documents.division import Shown
from nmt_cli.documents.encoding import Characters, encoded
from nmt_cli.documents.segments import Atom, Edit, Kind, Located, Segment, spliced
from nmt_cli.documents.sentences import Item, Splitter, Unit, items_of
from nmt_cli.documents.units import Restored, line_of, restored
from nmt_cli.documents.work import SEGMENT, Work
from nmt_cli.formats.po import in_utf8
from nmt_cli.system.console import counted, warn
from nmt_cli.system.errors import InputError
from nmt_cli.translation.results import Translation

Translate = Callable[[Sequence[str]], Iterable[Translation]]
"""Translates lines; weights of attention place the tags, and without them the order of the words does."""
ENDINGS = {
    ".html": html, ".htm": html, ".xhtml": html, ".po": po, ".pot": po, ".xlf": xliff, ".xliff": xliff,
    ".srt": subtitles, ".vtt": subtitles,
}  # fmt: skip
"""The format of each ending of a name."""


@dataclass(slots=True)
class DocumentCounts:
    """Numbers for the report at the end."""

    segments: int = 0
    sentences: int = 0
    put_back: int = 0
    """Segments with a placeholder that the model lost."""
    kept: int = 0
    """Segments with a sentence whose tags and placeholders could not be kept, which stays in the source language."""
    notes: list[str] = field(default_factory=list)
    languages: list[str] = field(default_factory=list)
    """Languages that the document says its text is in."""

    def report(self, name: str) -> None:
        """Say on stderr what was not ordinary."""
        for warning in self.warnings():
            warn(f"{name}: {warning}")

    def warnings(self) -> list[str]:
        """Return what was not ordinary, a sentence each."""
        found = list(self.notes)
        if self.put_back:
            found.append(
                f"{counted(self.put_back, 'segment')} of {self.segments:,} with a placeholder that the model lost; "
                "it was put back in its most likely place"
            )
        if self.kept:
            found.append(
                f"{counted(self.kept, 'segment')} with a sentence that stays as it was, because its placeholders "
                "could not be kept in the translation"
            )
        return found


class Translated(NamedTuple):
    """A document in the target language."""

    content: bytes
    counts: DocumentCounts


class Paragraph(NamedTuple):
    """A paragraph in the target language."""

    text: str
    sentences: list[tuple[str, Translation]]
    """Each sentence as it stands in the text, in order, with the translation that it is made from."""


def ending_of(name: str) -> str | None:
    """Return the ending of a name, without `.gz`, that tells the format of a document, or None."""
    ending = _suffix(name)
    return ending if ending in ENDINGS else None


def _suffix(name: str) -> str:
    return PurePath(name.removesuffix(".gz")).suffix.lower()


def translate_document(
    name: str,
    data: bytes,
    translate: Translate,
    split: Splitter,
    *,
    target_lang: str | None,
    overwrite: bool = False,
    work: Work | None = None,
) -> Translated:
    """Return a document with its text translated and all else as it was.

    The ending of `name` tells the format. `target_lang` is written where the document names its language; None leaves
    that. With `overwrite`, entries that have a translation are translated again.

    Raises:
        InputError: the document is damaged, too large, in an unknown encoding, or nested beyond reason.
        KeyError: no format has this ending.
    """
    form = ENDINGS[_suffix(name)]
    document = form.decoded(name, data)
    text, counts = _in_place(
        form, document, translate, split, work or Work(), target_lang=target_lang, overwrite=overwrite
    )
    try:
        content = encoded(document, text, has_references=form.HAS_REFERENCES)
    except InputError:  # of a catalogue: the others are in Unicode or have references
        content = in_utf8(text)
        counts.notes.append(
            f"its encoding, {document.codec}, lacks characters of the translation, so it is in UTF-8 now"
        )
    return Translated(content, counts)


def translate_page(
    text: str, translate: Translate, split: Splitter, *, target_lang: str | None, work: Work | None = None
) -> str:
    """Return HTML with its text translated and all else as it was; an encoding that it declares has no meaning here.

    Raises:
        InputError: a tag is cut off, or elements are nested beyond reason.
    """
    page = Characters("q", text, "utf-8")
    return _in_place(html, page, translate, split, work or Work(), target_lang=target_lang)[0]


def _in_place(
    form: Any,
    document: Characters,
    translate: Translate,
    split: Splitter,
    work: Work,
    *,
    target_lang: str | None,
    overwrite: bool = False,
) -> tuple[str, DocumentCounts]:
    """Return the text of a document of this format (a module of `ENDINGS`) with its sentences translated."""
    located: Located = form.locate(document, target_lang, work, overwrite=overwrite)
    counts = DocumentCounts(notes=located.notes, languages=located.languages)
    edits = _translated(located.segments, translate, split, counts, work, keeps_codes=True).edits
    return spliced(document.text, [*located.edits, *edits]), counts


def translate_paragraphs(
    paragraphs: Sequence[str],
    translate: Translate,
    split: Splitter,
    counts: DocumentCounts,
    *,
    markup: bool = False,
    work: Work | None = None,
) -> list[Paragraph]:
    """Return each paragraph translated sentence by sentence, with the white space between them as it was.

    One of white space alone gives an empty text. With `markup`, tags and placeholders are carried across.
    """
    work = work or Work()
    segments = []
    for paragraph in paragraphs:
        work.count(1 + SEGMENT)
        atoms = (Atom(paragraph, paragraph),)
        segments.append(Segment(0, len(paragraph), with_codes(atoms, work=work) if markup else atoms))
    edits, sentences = _translated(segments, translate, split, counts, work, keeps_codes=markup)
    found = []
    for paragraph, edit, own in zip(paragraphs, edits, sentences, strict=True):
        text = spliced(paragraph, [edit])
        found.append(Paragraph("", [("", one) for _, one in own]) if text.isspace() else Paragraph(text, own))
    return found


class _Segments(NamedTuple):
    """The translation of segments."""

    edits: list[Edit]
    sentences: list[list[tuple[str, Translation]]]
    """See `Paragraph.sentences`."""


def _translated(
    segments: Sequence[Segment],
    translate: Translate,
    split: Splitter,
    counts: DocumentCounts,
    work: Work,
    *,
    keeps_codes: bool,
) -> _Segments:
    """Return an edit for each segment; the sentences of all are translated at once, equal ones once.

    With `keeps_codes`, a translation has the tags and placeholders of its sentence, or the sentence stays as it was.
    Without it, they are text like any other.
    """
    items: dict[int, list[Item]] = {}

    def split_all(some: Iterable[Segment]) -> Iterator[Unit]:
        for segment in some:
            work.check()
            items[id(segment)] = items_of(segment.atoms, split, work)
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
    assembly = _Assembly(items, found, counts, work, keeps_codes=keeps_codes)
    edits = []
    for segment in segments:
        work.check()
        edits.append(Edit(segment.start, segment.end, assembly.of(segment)))
    return _Segments(edits, [assembly.sentences.get(id(segment), []) for segment in segments])


class _Assembly:
    """Puts translated units back among what stays."""

    def __init__(
        self,
        items: dict[int, list[Item]],
        translations: dict[int, Translation],
        counts: DocumentCounts,
        work: Work,
        *,
        keeps_codes: bool,
    ) -> None:
        self._items, self._translations, self._counts = items, translations, counts
        self._work, self._keeps_codes = work, keeps_codes
        self._attributes: dict[int, str] = {}
        self.sentences: dict[int, list[tuple[str, Translation]]] = {}
        """For each segment, its sentences as they were put back, with their translations."""

    def of(self, segment: Segment) -> str:
        """Return what takes the place of a segment."""
        chunks: list[list[str]] = [[]]
        num_lost = num_kept = 0
        lengths = _chunk_lengths(segment.atoms)
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
                num_kept += 1
                found = self._as_it_was(item)
            self.sentences.setdefault(id(segment), []).append(("".join(found.chunks), self._translations[id(item)]))
            num_lost += found.num_lost
            chunks[-1].append(found.chunks[0])
            chunks += [[chunk] for chunk in found.chunks[1:]]
        self._counts.put_back += num_lost > 0
        self._counts.kept += num_kept > 0
        return segment.finish(list(map("".join, chunks)))

    def _raw(self, atom: Atom) -> str:
        for inner in atom.inner:
            if id(inner) not in self._attributes:
                self._attributes[id(inner)] = self.of(inner)
        return spliced(atom.raw, [Edit(one.start, one.end, self._attributes[id(one)]) for one in atom.inner])

    def _restored(self, unit: Unit, segment: Segment, chunk: int, lengths: Sequence[int]) -> Restored | None:
        line = line_of(unit, self._raw, self._work)
        translation = self._translations[id(unit)]
        if translation.text == line.text:
            return self._as_it_was(unit)
        if not self._keeps_codes:
            return Restored([translation.text], 0)
        shown = []
        for number, length in enumerate(_chunk_lengths(unit.atoms) if line.seams else ()):
            seconds = segment.seconds[chunk + number] if segment.seconds else 0.0
            shown.append(Shown(seconds * length / max(1, lengths[chunk + number]), length))
        codes = segment.codes or CODE
        return restored(line, translation, segment.spell, shown, self._raw, segment.signs, codes)

    def _as_it_was(self, unit: Unit) -> Restored:
        """Return a unit untranslated; if its translation is the same text, it keeps its spelling and its lines."""
        chunks: list[list[str]] = [[]]
        for atom in unit.atoms:
            if atom.kind is Kind.SEAM:
                chunks.append([])
            else:
                chunks[-1].append(self._raw(atom))
        return Restored(list(map("".join, chunks)), 0)


def _chunk_lengths(atoms: Iterable[Atom]) -> list[int]:
    """Return how many characters of text stand between the seams."""
    lengths = [0]
    for atom in atoms:
        if atom.kind is Kind.SEAM:
            lengths.append(0)
        elif atom.is_shown:
            lengths[-1] += len(atom.text)
    return lengths
