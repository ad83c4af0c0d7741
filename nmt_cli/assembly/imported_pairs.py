"""Import of pairs from tables, translation memories and other formats into two text files and a report."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from nmt_cli.assembly.file_checks import refuse_invalid_languages, rereadable_paths
from nmt_cli.data.lines import input_name
from nmt_cli.data.output import check_new, check_prefix, open_new_outputs
from nmt_cli.formats.importing import plan, read_job
from nmt_cli.formats.languages import Languages, is_language_name, language_of_path
from nmt_cli.formats.members import FORMATS, ONE_SIDE_FORMATS, Settings, recognise_input
from nmt_cli.formats.opening import Input, unpack_spreadsheets
from nmt_cli.formats.report import ImportReport
from nmt_cli.system.console import Progress, format_count, log, warn
from nmt_cli.system.errors import InputError
from nmt_cli.system.files import removed_on_failure

_PROGRESS_INTERVAL = 1000


class ImportedFiles(NamedTuple):
    """The files that an import has written; for text in one language, `source` and `target` are the same file."""

    source: Path
    target: Path
    report: Path


def import_corpus(files: Sequence[str], prefix: str, settings: Settings) -> None:
    """Write the pairs of the files as `import_pairs` does, and log the `nmt init` command that uses them next.

    Raises:
        InputError: the prefix, the format or the separator is wrong, a file is not understood, no pair is found, or an
            output exists already.
    """
    languages = settings.languages
    check_prefix(prefix, example=f"-o corpus for corpus.{languages.source}")
    if settings.format is not None and settings.format not in FORMATS:
        raise InputError(f"--format {settings.format}: must be one of {', '.join(FORMATS)}")
    if settings.separator is not None and len(settings.separator) != 1:
        raise InputError(f"--separator {settings.separator}: must be one character, or tab")
    made = import_pairs(files, prefix, settings)
    if settings.is_single:
        return
    source, target, config = (shlex.quote(str(name)) for name in (made.source, made.target, f"{prefix}.yaml"))
    given = f"--source-lang {languages.source} --target-lang {languages.target}"
    log(f"try: nmt init --source {source} --target {target} {given} -o {config}")


def languages_of(source_lang: str | None, target_lang: str | None, lang: str | None) -> Languages:
    """Return the languages of an import: source and target, or `lang` twice.

    Raises:
        InputError: neither `lang` alone nor both of the others are given.
    """
    if lang is not None and source_lang is None and target_lang is None:
        return Languages(lang, lang)
    if lang is not None or source_lang is None or target_lang is None:
        raise InputError("give --source-lang XX and --target-lang YY, or --lang XX for text in one language")
    return Languages(source_lang, target_lang)


def _imported_paths(prefix: str, languages: tuple[str, str]) -> ImportedFiles:
    """Return the names of the files that an import writes, after a check of the options.

    Raises:
        InputError: a language code cannot end a file name, or a file is there already or cannot be made.
    """
    refuse_invalid_languages(languages)
    if languages[0].lower() == languages[1].lower():
        languages = (f"source.{languages[0]}", f"target.{languages[1]}")
    made = ImportedFiles(*(Path(f"{prefix}.{ending}") for ending in (*languages, "report.json")))
    check_new(made)
    return made


def import_pairs(files: Sequence[str], prefix: str, settings: Settings) -> ImportedFiles:
    """Write the pairs of the files as two files of sentences and a report: all three, or none.

    Text in one language becomes one file and a report. The names of all files begin with `prefix` and a dot.

    Raises:
        InputError: a file is not understood, holds no pair, or an output exists already.
    """
    if settings.is_single:
        refuse_invalid_languages((settings.languages.source,), ("--lang",))
        text = Path(f"{prefix}.{settings.languages.source}")
        made = ImportedFiles(text, text, Path(f"{prefix}.report.json"))
        check_new([made.source, made.report])
    else:
        made = _imported_paths(prefix, (settings.languages.source, settings.languages.target))
    files = _expand_directories(files, settings)
    with rereadable_paths(files) as paths:
        packed = [Input(path, display_name=input_name(file)) for path, file in zip(paths, files, strict=True)]
        with unpack_spreadsheets(packed) as inputs:
            report = _write_pairs(inputs, made, settings)
    _log_report(report, made)
    return made


def _expand_directories(files: Sequence[str], settings: Settings) -> list[str]:
    """Return the files; a directory is replaced by the files in it that can be imported, and the others are logged.

    A file in a directory that holds one language only, such as text or subtitles, is left out if its name does not fit
    the languages of the import (see `_is_excluded_by_name`).

    Raises:
        InputError: nothing in a directory can be imported.
    """
    listed = []
    for name in files:
        if not os.path.isdir(name):
            listed.append(name)
            continue
        asked = " or ".join(dict.fromkeys(settings.languages))
        found: list[str] = []
        refused: list[str] = []
        for path in sorted(Path(name).rglob("*")):
            if not path.is_file() or any(part.startswith(".") for part in path.relative_to(name).parts):
                continue
            try:
                kinds, _ = recognise_input(Input(str(path)), settings)
            except InputError as error:
                log(f"not read: {error}")
                refused.append(str(error))
                continue
            is_side = any(one.format in ONE_SIDE_FORMATS for one in kinds)
            if is_side and _is_excluded_by_name(path.relative_to(name).as_posix(), settings):
                refused.append(f"{path}: is text in one language, and its path does not name {asked}")
                log(f"not read: {refused[-1]}")
            else:
                found.append(str(path))
        if not found:
            raise InputError(
                f"{name}: no file in this directory can be imported; "
                + (f"the first problem is {refused[0]}" if refused else "it has no files")
            )
        listed += found
    return listed


def _is_excluded_by_name(path: str, settings: Settings) -> bool:
    """Return whether a file is left out because of the language in its path within the directory.

    In an import of two languages, its path must name one of them. In an import of one, it must not name another.
    """
    if language_of_path(path, settings.languages) is not None:
        return False
    *folders, name = path.lower().split("/")
    return not settings.is_single or any(is_language_name(part) for part in (*folders, *name.split(".")[1:]))


def _write_pairs(inputs: Sequence[Input], made: ImportedFiles, settings: Settings) -> ImportReport:
    """Write the pairs of the inputs and the report, and return the report; `InputError` where there is no pair."""
    jobs = plan(inputs, settings)
    report = ImportReport()
    for job in jobs:
        log(str(job))
    for name in dict.fromkeys(name for job in jobs for name in job.ignored):
        log(f"not read: {name}")
    # The report is named last: where it is, the texts are.
    outputs = open_new_outputs(list(dict.fromkeys([made.report, made.target, made.source])))
    unit = "line" if settings.is_single else "pair"
    with outputs as (report_file, *text_files), Progress("importing", unit=unit) as progress:
        for job in jobs:
            for source, target in read_job(job, settings, report):
                for text_file, text in zip(text_files, (target, source), strict=False):
                    text_file.write(f"{text}\n".encode())
                if not report.pairs % _PROGRESS_INTERVAL:
                    progress.advance(_PROGRESS_INTERVAL)
        if not report.pairs:
            names = ", ".join(given.file for given in inputs)
            what = "text" if settings.is_single else "pair"
            raise InputError(f"{names}: no {what} was found; {_skipped_reasons(report) or 'nothing is in it'}")
        values = json.dumps(report.as_values(), ensure_ascii=False, indent=1)
        report_file.write(values.encode(errors="backslashreplace") + b"\n")
    return report


@contextmanager
def imported_files(files: Sequence[str], prefix: str, languages: tuple[str, str]) -> Iterator[ImportedFiles]:
    """Import files for another command and yield the files written; if the block fails, remove them.

    Raises:
        InputError: as for `import_pairs`; if a file can be read in two ways, the message names the options of
            `nmt import` that decide.
    """
    try:
        made = import_pairs(files, prefix, Settings(Languages(*languages)))
    except InputError as error:
        if not re.search(r"the same command|--(?:columns|encoding|format|sheet|member)\b", str(error)):
            raise
        options = ("-o", prefix, "--source-lang", languages[0], "--target-lang", languages[1])
        command = f"`{shlex.join(['nmt', 'import', *files, *options])}`"
        advice = str(error).replace("the same command", command)
        if command not in advice:
            advice += f". `nmt import` has this option: {command}"
        raise InputError(f"{advice}. Then give what it writes as --source and --target") from None
    with removed_on_failure(made):
        yield made


def _log_report(report: ImportReport, made: ImportedFiles) -> None:
    """Log the recognised columns and sides, the skipped pairs, and the files written."""
    for seen in report.inputs:
        name = " and ".join(seen["members"] if len(seen["members"]) > 1 else seen["files"])
        if len(seen.get("columns", ())) == 1:
            log(f"{name}: text in column {seen['columns'][0]}")
        elif "columns" in seen:
            source, target = seen["columns"]
            if "columns_by" in seen:
                reason = seen["columns_by"]
                log(f"{name}: source in column {source}, target in column {target} (chosen by {reason})")
                if seen["header_row"] and not reason.startswith("the header row"):
                    cells = "".join(c for c in " | ".join(seen["header"])[:100] if c.isprintable())
                    log(f"{name}: its first row is taken for a header, not for a pair: {cells}")
            else:
                log(f"{name}: source in field {source}, target in field {target}")
        elif "sides_by" in seen:
            log(f"{name}: source first (chosen by {seen['sides_by']})")
    if report.skipped:
        warn(f"skipped: {_skipped_reasons(report)}")
    if report.num_joined:
        log(f"{format_count(report.num_joined, 'pair')} had line ends inside a side; each became a space")
    if report.notes:
        log(f"also found: {'; '.join(f'{what} ({number:,})' for what, number in report.notes.items())}")
    if made.source == made.target:
        log(f"{format_count(report.pairs, 'line')} written to {made.source}")
    else:
        log(f"{format_count(report.pairs, 'pair')} written to {made.source} and {made.target}")
    log(f"format, encoding and skipped pairs are in {made.report}")


def _skipped_reasons(report: ImportReport) -> str:
    """Return the reasons for skipping, each with its number of pairs and the place of the first one."""
    return "; ".join(
        f"{reason} ({number:,}, the first is {report.examples[reason][0]})" for reason, number in report.skipped.items()
    )
