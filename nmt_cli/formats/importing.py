"""Recognises the given files, chooses a reader for each, and reads the pairs in them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nmt_cli.formats.columns import rows_as_pairs, rows_as_texts
from nmt_cli.formats.csv import read_csv
from nmt_cli.formats.encoded_text import declared_charset, decode_document, detect_document_encoding, note_on_encoding
from nmt_cli.formats.encoding import TextFacts, asked_codec, detect_encoding, is_plainly_utf8, read_lines, text_head
from nmt_cli.formats.jsonl import read_json_lines, read_json_texts
from nmt_cli.formats.languages import language_of_name, other_language_of_name
from nmt_cli.formats.members import ONE_SIDE_FORMATS, RecognisedInput, Settings, recognise_input
from nmt_cli.formats.ods import read_ods
from nmt_cli.formats.opening import Input
from nmt_cli.formats.parallel_text import order_sides, pair_files, read_parallel
from nmt_cli.formats.readers import READERS
from nmt_cli.formats.references import unescape
from nmt_cli.formats.report import ImportedPair, ImportReport, clean_pairs
from nmt_cli.formats.segment_pairs import pairs_of, texts_of
from nmt_cli.formats.segments import Content
from nmt_cli.formats.subtitle_pairs import cues_of, match_cues
from nmt_cli.formats.tmx import TmxHandler
from nmt_cli.formats.tsv import read_tsv
from nmt_cli.formats.xlsx import advice_on_formulas, load_openpyxl, read_xlsx
from nmt_cli.formats.xml import read_events
from nmt_cli.system.console import warn
from nmt_cli.system.errors import InputError

_LIBRARIES = {"XLSX": load_openpyxl}
"""Formats that need an extra package, each with the function that raises `InputError` if it is missing."""
_REFERENCE = re.compile(r"&(?:#\d{2,7}|#[xX][0-9A-Fa-f]{2,6}|quot|apos|nbsp);")
"""References that web programs leave in texts and that people do not write. `&amp;` is left out, as it may be meant."""


@dataclass(frozen=True, slots=True)
class Job:
    """The files that are read together: one with source and target texts, or two with one each, source first."""

    format: str
    inputs: tuple[tuple[Input, TextFacts | None], ...]
    reason: str = ""
    """Evidence by which one of two files is taken for the source, such as `the file names`, for the user."""
    ignored: tuple[str, ...] = ()
    """Members of the archive that are not read."""

    def __str__(self) -> str:
        names = " and ".join(input_file.name for input_file, _ in self.inputs)
        known = dict.fromkeys(str(facts) for _, facts in self.inputs if facts is not None)
        packed = dict.fromkeys(input_file.compression for input_file, _ in self.inputs if input_file.compression)
        return ", ".join([f"{names}: {format_label(self.format)}", *known, *packed])


def plan(inputs: Sequence[Input], settings: Settings) -> list[Job]:
    """Return the jobs that read the given files: one for each file with both sides, or for two files with one each.

    Raises:
        InputError: a file is not understood, or more than one way to read it is possible.
    """
    standalone_files: list[RecognisedInput] = []
    side_files: list[RecognisedInput] = []
    ignored: tuple[str, ...] = ()
    for input_file in inputs:
        chosen, left = recognise_input(input_file, settings)
        ignored += tuple(left)
        for one in chosen:
            (side_files if one.format in ONE_SIDE_FORMATS else standalone_files).append(one)
    _refuse_doubles([*side_files, *standalone_files])
    for one in side_files:
        if (other := other_language_of_name(one.input_file.inner_name, settings.languages)) is not None:
            asked = " or ".join(dict.fromkeys(settings.languages))
            raise InputError(f"{one.input_file.name}: is named as {other}, not as {asked}; if it is, rename the file")
    _refuse_tables_by_language(standalone_files, side_files, settings)
    if settings.is_single:
        standalone_files, side_files = [*side_files, *standalone_files], []
    if len(side_files) % 2:
        one = side_files[-1]
        what = "plain text in one language" if one.format == "text" else f"{one.format} in one language"
        raise InputError(
            f"{one.input_file.name}: is {what}; give the file with its translations too, or if it is a table, say so "
            "with --format tsv or --format csv. `nmt import FILE -o PREFIX --lang XX` takes a text in one language"
        )
    names = [one.input_file.inner_path for one in side_files]
    jobs = [
        _job_of_two((side_files[first], side_files[second]), settings, ignored)
        for first, second in pair_files(names, settings.languages)
    ]
    for one in standalone_files:
        if one.format in _LIBRARIES:
            _LIBRARIES[one.format](one.input_file.name)
        facts = None if one.format in ("XLSX", "ODS") else _detect_encoding(one, settings)
        if facts is not None and _contradicts(settings.encoding, one.input_file):
            warn(
                f"{one.input_file.name}: is valid UTF-8, but is read as --encoding {settings.encoding} says; leave it "
                "out if characters come out wrong"
            )
        jobs.append(Job(one.format, ((one.input_file, facts),), ignored=ignored))
    _warn_of_idle_options(jobs, settings)
    return jobs


def _detect_encoding(one: RecognisedInput, settings: Settings) -> TextFacts:
    """Return the encoding and line ends of a file that is read alone; warn if it declares another encoding."""
    charset = TmxHandler.charset if one.format == "TMX" else READERS.get(one.format, Content).charset
    facts = detect_document_encoding(one.input_file, charset, settings.languages, settings.encoding)
    declared = declared_charset(one.input_file.head(), charset)
    is_ascii = facts.codec.startswith("utf") and all(chunk.isascii() for chunk in one.input_file.chunks())
    if settings.encoding is None and (note := note_on_encoding(declared, facts, is_ascii=is_ascii)) is not None:
        warn(f"{one.input_file.name}: {note}")
    return facts


def _warn_of_idle_options(jobs: list[Job], settings: Settings) -> None:
    """Warn of options that have no effect because no file is of the kind that they are for."""
    formats = {job.format for job in jobs}
    is_zip = any(input_file.member is not None for job in jobs for input_file, _ in job.inputs)
    for option, value, matters in (
        ("--columns", settings.columns, formats & {"TSV", "CSV", "XLSX", "ODS", "JSON lines"}),
        ("--sheet", settings.sheet, formats & {"XLSX", "ODS"}),
        ("--encoding", settings.encoding, formats - {"XLSX", "ODS"}),
        ("--member", settings.member, is_zip),
        ("--separator", settings.separator, formats & {"TSV", "CSV"}),
        (
            "--with-unfinished",
            True if settings.with_unfinished else None,
            formats & {"PO", "XLIFF", "TSV", "CSV", "XLSX", "ODS", "JSON lines"},
        ),
    ):
        if value is not None and not matters:
            given = option if value is True else f"{option} {value}"
            warn(f"{given}: does nothing for {', '.join(sorted(map(format_label, formats)))}")


def format_label(name: str) -> str:
    """Return the name of a format for messages and reports: `parallel text` for `text`, else the name itself."""
    return "parallel text" if name == "text" else name


def _refuse_doubles(inputs: list[RecognisedInput]) -> None:
    """Raise `InputError` if a file, or a member of an archive, is given twice: its pairs would count twice."""
    seen = set()
    for one in inputs:
        place = os.path.realpath(one.input_file.path), one.input_file.member
        if place in seen:
            others = "give the source text and its translations" if one.format in ONE_SIDE_FORMATS else "leave one out"
            raise InputError(f"{one.input_file.name}: is given twice; {others}")
        seen.add(place)


def _refuse_tables_by_language(
    standalone_files: list[RecognisedInput], side_files: list[RecognisedInput], settings: Settings
) -> None:
    """Raise `InputError` if two files are named after the languages but one looks like a table.

    They may be parallel text, or tables with both languages.
    """
    both = [*standalone_files, *side_files]
    if settings.format is not None or len(both) != 2 or not {one.format for one in standalone_files} & {"TSV", "CSV"}:
        return
    names = [language_of_name(one.input_file.inner_name, settings.languages, at_end=True) for one in both]
    if {*names} == {*settings.languages} and None not in names:
        kind = next(one.format for one in standalone_files if one.format in ("TSV", "CSV"))
        raise InputError(
            f"{both[0].input_file.name} and {both[1].input_file.name}: are named like parallel text, but look like "
            f"{kind}. Run the same command again with one of these: --format text; or --format {kind.lower()}"
        )


def _job_of_two(two: Sequence[RecognisedInput], settings: Settings, ignored: tuple[str, ...]) -> Job:
    first, second = two
    if (first.format == "text") != (second.format == "text"):
        raise InputError(
            f"{first.input_file.name} is {first.format} and {second.input_file.name} is {second.format}; two files "
            "that belong together need one format"
        )
    facts = [_detect_side_encoding(one.input_file, settings) for one in two]
    sides = (first.input_file, facts[0]), (second.input_file, facts[1])
    ordered, reason = order_sides(sides, settings.languages)
    return Job(", ".join(dict.fromkeys(one.format for one in two)), ordered, reason, ignored)


def _detect_side_encoding(input_file: Input, settings: Settings) -> TextFacts:
    """Return the encoding and line ends of one of two files; if it plainly is UTF-8, warn and ignore --encoding."""
    asked = settings.encoding
    if _contradicts(asked, input_file):
        warn(f"{input_file.name}: is valid UTF-8 and is read so, not as --encoding {asked} says")
        asked = None
    return detect_encoding(input_file, settings.languages, asked)


def _contradicts(asked: str | None, input_file: Input) -> bool:
    """Return whether an encoding other than UTF-8 is asked for, though the file plainly is UTF-8."""
    return asked is not None and not asked_codec(asked).startswith("utf-8") and is_plainly_utf8(input_file)


def read_job(job: Job, settings: Settings, report: ImportReport) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a job, source first; the properties of its files and the skipped pairs go into the report.

    Raises:
        InputError: a file is damaged, or it is not certain where its two sides are.
    """
    kind = format_label(job.format)
    report.formats.append(kind)
    encodings = [facts.encoding if facts is not None else "UTF-8" for _, facts in job.inputs]
    report.encodings += encodings
    report.inputs.append(
        {
            "files": [os.path.basename(input_file.file) for input_file, _ in job.inputs],
            "members": [input_file.member for input_file, _ in job.inputs if input_file.member],
            "format": kind,
            "encodings": encodings,
            "line_ends": [facts.line_ends for _, facts in job.inputs if facts is not None],
            **({"sides_by": job.reason} if job.reason else {}),
            **({"ignored": list(job.ignored)} if job.ignored else {}),
        }
    )
    input_file, num_before, skipped_before = job.inputs[0][0], report.pairs, dict(report.skipped)
    try:
        found = _read_texts(job, settings, report) if settings.is_single else _read_pairs(job, settings, report)
        found = found if job.format == "text" else _unescape_references(found, report)
        yield from clean_pairs(found, input_file.name, report, is_single=settings.is_single)
    except InputError as error:
        if job.format != "XLSX" or not (advice := advice_on_formulas(input_file, settings.sheet)):
            raise
        raise InputError(f"{error}. {advice[0].upper()}{advice[1:]}") from None
    is_short = job.format == "XLSX" and (report.pairs == num_before or report.skipped != skipped_before)
    if is_short and (advice := advice_on_formulas(input_file, settings.sheet)):
        if report.pairs == num_before:
            raise InputError(f"{input_file.name}: no pair was found; {advice}")
        warn(f"{input_file.name}: {advice}")


def _unescape_references(found: Iterable[ImportedPair], report: ImportReport) -> Iterator[ImportedPair]:
    """Yield pairs with characters in place of the references that programs of the web leave in texts."""
    for one in found:
        if _REFERENCE.search(one.source) or _REFERENCE.search(one.target):
            report.count_note("pairs with references such as &#039;, which were read as characters")
            one = ImportedPair(one.place, unescape(one.source), unescape(one.target))
        yield one


def _read_pairs(job: Job, settings: Settings, report: ImportReport) -> Iterator[ImportedPair]:
    input_file, facts = job.inputs[0]
    languages, columns = settings.languages, settings.columns
    if job.format == "XLSX" or facts is None:
        rows = read_xlsx(input_file, settings.sheet) if job.format == "XLSX" else read_ods(input_file, settings.sheet)
        return rows_as_pairs(rows, input_file.name, settings, report, is_grid=True)
    if job.format == "TSV":
        return rows_as_pairs(read_tsv(input_file, facts, report), input_file.name, settings, report)
    if job.format == "CSV":
        table = read_csv(input_file, facts, text_head(input_file, facts), report, settings.separator)
        return rows_as_pairs(table, input_file.name, settings, report)
    if job.format == "JSON lines":
        return read_json_lines(input_file, facts, languages, columns, report, with_unfinished=settings.with_unfinished)
    if job.format in READERS and len(job.inputs) == 1:
        content = READERS[job.format](decode_document(input_file, facts))
        return pairs_of(content, languages, report, with_unfinished=settings.with_unfinished)
    if job.format == "TMX":
        return _read_tmx(input_file, facts, settings, report)
    (source, source_facts), (target, target_facts) = job.inputs
    assert source_facts is not None
    assert target_facts is not None
    if job.format == "text":
        return read_parallel((source, source_facts), (target, target_facts))
    cues = [
        cues_of(READERS["SRT"](decode_document(one, its_facts)), report)
        for one, its_facts in ((source, source_facts), (target, target_facts))
    ]
    return match_cues(cues[0], cues[1], (source.name, target.name), report)


def _read_texts(job: Job, settings: Settings, report: ImportReport) -> Iterator[ImportedPair]:
    """Yield the texts of the only file of a job, which is in one language, each as source and as target."""
    ((input_file, facts),) = job.inputs
    language, columns = settings.languages.source, settings.columns
    if job.format == "XLSX" or facts is None:
        is_xlsx = job.format == "XLSX"
        rows = read_xlsx(input_file, settings.sheet, 1) if is_xlsx else read_ods(input_file, settings.sheet, 1)
        return rows_as_texts(rows, input_file.name, language, columns, report, is_grid=True)
    if job.format == "TSV":
        return rows_as_texts(read_tsv(input_file, facts, report), input_file.name, language, columns, report)
    if job.format == "CSV":
        table = read_csv(input_file, facts, text_head(input_file, facts), report, settings.separator)
        return rows_as_texts(table, input_file.name, language, columns, report)
    if job.format == "JSON lines":
        return read_json_texts(input_file, facts, language, columns, report)
    if job.format == "TMX":
        return _read_tmx(input_file, facts, settings, report)
    if job.format == "text":
        lines = enumerate(read_lines(input_file, facts), start=1)
        return (ImportedPair(number, bare, bare) for number, line in lines for bare in [line.rstrip("\r\n")])
    content = READERS[job.format](decode_document(input_file, facts))
    return texts_of(content, language, report, with_unfinished=settings.with_unfinished)


def _read_tmx(input_file: Input, facts: TextFacts, settings: Settings, report: ImportReport) -> Iterator[ImportedPair]:
    handler = TmxHandler(input_file.name, settings.languages, report, is_single=settings.is_single)
    yield from read_events(input_file, facts, handler)
    handler.finish()
