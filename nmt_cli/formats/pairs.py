"""The pairs of the segments of a document, or of two: what `nmt import` takes."""

from __future__ import annotations

from collections.abc import Iterator

from nmt_cli.formats.inline import SUBFLOW_NOTE
from nmt_cli.formats.languages import Languages, warn_of_region
from nmt_cli.formats.report import Found, ImportReport
from nmt_cli.formats.segments import Content, Declared, State
from nmt_cli.system.errors import InputError
from nmt_cli.text.language_codes import primary


def pairs_of(
    content: Content, languages: Languages, report: ImportReport, *, with_unfinished: bool = False
) -> Iterator[Found]:
    """Yield each segment with its translation; those that are no pair, or not finished, are counted.

    Raises:
        InputError: the document translates between other languages, or nothing in it can be read.
    """
    name = content.document.name
    swapped: dict[Declared, bool] = {}
    for segment in content.segments():
        is_left = segment.state is State.LEFT and segment.target is None
        is_left |= segment.state is State.UNFINISHED and not with_unfinished
        if is_left or (segment.reason and segment.state is State.NEW):
            report.skip(segment.reason or "not to be translated", f"{name}:{segment.line}")
        elif segment.target is not None:
            if segment.declared not in swapped:
                swapped[segment.declared] = _is_swapped(content, segment.declared, languages, report)
            if segment.has_subflow:
                report.note(SUBFLOW_NOTE)
            for sides in segment.marked or ((segment.text, segment.target),):
                yield Found(segment.line, *(sides[::-1] if swapped[segment.declared] else sides))
    for line, what in content.odd:
        report.skip(what, f"{name}:{line}")


def _is_swapped(content: Content, declared: Declared, languages: Languages, report: ImportReport) -> bool:
    """Return whether a document translates from the language asked for as target into that of the source."""
    name, own, asked = content.document.name, (declared.source, declared.target), tuple(languages)
    fits, fits_swapped = (
        all(not code or primary(code) == primary(wanted) for code, wanted in zip(own, order, strict=True))
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
