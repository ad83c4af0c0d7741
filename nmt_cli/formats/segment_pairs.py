"""Takes pairs of texts, or texts in one language, from the segments of a document for `nmt import`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nmt_cli.formats.inline import SUBFLOW_NOTE
from nmt_cli.formats.languages import Languages, warn_of_mixture, warn_of_region
from nmt_cli.formats.report import ImportedPair, ImportReport
from nmt_cli.formats.segments import CodeSyntax, Content, DeclaredLanguages, Kind, Segment, State
from nmt_cli.system.errors import InputError
from nmt_cli.text.language_codes import primary_language


def pairs_of(
    content: Content, languages: Languages, report: ImportReport, *, with_unfinished: bool = False
) -> Iterator[ImportedPair]:
    """Yield the text of each segment with its translation; segments without one, or unfinished ones, are counted.

    Raises:
        InputError: the document translates between other languages, or nothing in it can be read.
    """
    name = content.document.name
    swapped: dict[DeclaredLanguages, bool] = {}
    num_declared: dict[DeclaredLanguages, int] = {}
    for segment in content.segments():
        is_left = segment.state is State.EXCLUDED and segment.target is None
        is_left |= segment.state is State.UNFINISHED and not with_unfinished
        if is_left or (segment.reason and segment.state is State.NEW):
            report.skip(segment.reason or "not to be translated", f"{name}:{segment.line}")
        elif segment.target is not None:
            if segment.declared not in swapped:
                swapped[segment.declared] = _is_swapped(content, segment.declared, languages, report)
            num_declared[segment.declared] = num_declared.get(segment.declared, 0) + 1
            if segment.has_subflow:
                report.count_note(SUBFLOW_NOTE)
            sides = segment.text, segment.target
            yield ImportedPair(segment.line, *(sides[::-1] if swapped[segment.declared] else sides))
    for line, what in content.unreadable_parts:
        report.skip(what, f"{name}:{line}")
    for language, codes in zip(languages, _declared_codes(num_declared, swapped), strict=True):
        warn_of_mixture(name, codes, language)


def texts_of(
    content: Content, language: str, report: ImportReport, *, with_unfinished: bool = False
) -> Iterator[ImportedPair]:
    """Yield each text in one language, as source and as target; of a bilingual file, take the side in this language.

    Raises:
        InputError: the document has no text in this language, or nothing in it can be read.
    """
    name = content.document.name
    content.source_lang = language
    for segment in content.segments():
        declared = segment.declared
        is_target = bool(declared.target) and primary_language(declared.target) == primary_language(language)
        if not is_target and declared.source and primary_language(declared.source) != primary_language(language):
            line = content.line_at(declared.place)
            raise InputError(
                f"{name}:{line}: translates from {declared.source} to {declared.target or 'a language without a name'}"
                f", and has no text in {language}"
            )
        is_cue = segment.time is not None
        is_left = (segment.state is State.EXCLUDED and (is_cue or not segment.atoms)) or (
            is_cue and bool(segment.reason)
        )
        if is_target:
            is_left |= segment.state is State.UNFINISHED and not with_unfinished
            is_left |= bool(segment.reason) and segment.state in (State.NEW, State.EXCLUDED)
        if is_left:
            report.skip(segment.reason or "not to be translated", f"{name}:{segment.line}")
            continue
        for text in [segment.target or ""] if is_target else _texts_in(segment):
            yield ImportedPair(segment.line, text, text)
    for line, what in content.unreadable_parts:
        report.skip(what, f"{name}:{line}")


def _texts_in(segment: Segment) -> Iterator[str]:
    """Yield the text of a segment, or the texts between its breaks in a page, and the texts of its attributes."""
    text = segment.text
    if segment.num_repeated:
        text = "\n".join([line for line in text.split("\n") if line.strip()][segment.num_repeated :])
    texts = [text]
    if segment.codes is CodeSyntax.PAGE:
        runs = ("\0" if atom.kind is Kind.BREAK else atom.visible_text for atom in segment.atoms)
        texts = [" ".join(part.split()) for part in "".join(runs).split("\0")]
        texts = [part for part in texts if any(map(str.isalpha, part))]
    yield from texts
    for atom in segment.atoms:
        for inner in atom.inner:
            yield " ".join(inner.text.split())


def _declared_codes(
    numbers: Mapping[DeclaredLanguages, int], swapped: Mapping[DeclaredLanguages, bool]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return, for the source and for the target of the import, each declared language code and its number of segments.

    For each declaration, `numbers` has its number of segments, and `swapped` is True if its source language is the
    target language of the import.
    """
    sides: tuple[dict[str, int], dict[str, int]] = {}, {}
    for declared, number in numbers.items():
        for side, code in enumerate((declared.source, declared.target)):
            codes = sides[1 - side if swapped[declared] else side]
            if code:
                codes[code] = codes.get(code, 0) + number
    return sides


def _is_swapped(content: Content, declared: DeclaredLanguages, languages: Languages, report: ImportReport) -> bool:
    """Return whether a document translates from the target language of the import into its source language.

    Raises:
        InputError: the document translates between other languages.
    """
    name, own, asked = content.document.name, (declared.source, declared.target), tuple(languages)
    fits, fits_swapped = (
        all(
            not code or primary_language(code) == primary_language(wanted)
            for code, wanted in zip(own, order, strict=True)
        )
        for order in (asked, asked[::-1])
    )
    if not fits and not fits_swapped:
        line = content.line_at(declared.place)
        ways = f"translates from {declared.source} to {declared.target or 'a language without a name'}, not from "
        if not declared.source:
            ways = f"translates into {declared.target}, which is neither {asked[0]} nor {asked[1]}; give its language "
            raise InputError(f"{name}:{line}: {ways}as --target-lang")
        raise InputError(
            f"{name}:{line}: {ways}{asked[0]} to {asked[1]}; give its languages as --source-lang and --target-lang"
        )
    seen = report.inputs[-1].setdefault("languages", [])
    if (both := f"{declared.source} to {declared.target}" if declared.source else declared.target) not in seen:
        seen.append(both)
        for code, language in zip(own, asked if fits else asked[::-1], strict=True):
            if code:
                warn_of_region(name, code, language)
    return not fits
