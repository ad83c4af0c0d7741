"""The pairs of files of other programs, imported as two files of sentences and a report."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from nmt_cli.assembly.named_files import readable_again, refuse_odd_languages
from nmt_cli.data.lines import input_name
from nmt_cli.data.output import check_new, check_prefix, open_new_outputs
from nmt_cli.formats.importing import plan, read_job
from nmt_cli.formats.languages import Languages
from nmt_cli.formats.members import FORMATS, Settings
from nmt_cli.formats.opening import Input, spreadsheets_unpacked
from nmt_cli.formats.report import ImportReport
from nmt_cli.system.console import Progress, counted, log, warn
from nmt_cli.system.errors import InputError
from nmt_cli.system.files import removed_on_failure

_TICK = 1000


class Imported(NamedTuple):
    """The files that an import has written."""

    source: Path
    target: Path
    report: Path


def import_corpus(files: Sequence[str], prefix: str, settings: Settings) -> None:
    """Write the pairs of the files as `import_pairs` does, and log the command that goes on with them.

    Raises:
        InputError: as for `import_pairs`; the prefix or the format is wrong.
    """
    languages = settings.languages
    check_prefix(prefix, example=f"-o corpus for corpus.{languages.source}")
    if settings.format is not None and settings.format not in FORMATS:
        raise InputError(f"--format {settings.format}: must be one of {', '.join(FORMATS)}")
    made = import_pairs(files, prefix, settings)
    source, target, config = (shlex.quote(str(name)) for name in (made.source, made.target, f"{prefix}.yaml"))
    given = f"--source-lang {languages.source} --target-lang {languages.target}"
    log(f"try: nmt init --source {source} --target {target} {given} -o {config}")


def _imported_paths(prefix: str, languages: tuple[str, str]) -> Imported:
    """Return the names of the files that an import writes, after a check of the options.

    Raises:
        InputError: a language code cannot end a file name, or a file is there already or cannot be made.
    """
    refuse_odd_languages(languages)
    if languages[0].lower() == languages[1].lower():
        languages = (f"source.{languages[0]}", f"target.{languages[1]}")
    made = Imported(*(Path(f"{prefix}.{ending}") for ending in (*languages, "report.json")))
    check_new(made)
    return made


def import_pairs(files: Sequence[str], prefix: str, settings: Settings) -> Imported:
    """Write the pairs of the files as two files of sentences and a report: all three, or none.

    Raises:
        InputError: a file is not understood, holds no pair, or an output exists already.
    """
    made = _imported_paths(prefix, (settings.languages.source, settings.languages.target))
    with readable_again(files) as paths:
        packed = [Input(path, shown=input_name(file)) for path, file in zip(paths, files, strict=True)]
        with spreadsheets_unpacked(packed) as inputs:
            report = _written(inputs, made, settings)
    _tell(report, made)
    return made


def _written(inputs: Sequence[Input], made: Imported, settings: Settings) -> ImportReport:
    """Write the pairs of the inputs and the report, and return the report; `InputError` where there is no pair."""
    jobs = plan(inputs, settings)
    report = ImportReport()
    for job in jobs:
        log(str(job))
    for name in dict.fromkeys(name for job in jobs for name in job.ignored):
        log(f"not read: {name}")
    # The report is named last: where it is, the texts are.
    outputs = open_new_outputs([made.report, made.target, made.source])
    with outputs as (report_file, target_file, source_file), Progress("importing", unit="pair") as progress:
        for job in jobs:
            for source, target in read_job(job, settings, report):
                source_file.write(f"{source}\n".encode())
                target_file.write(f"{target}\n".encode())
                if not report.pairs % _TICK:
                    progress.advance(_TICK)
        if not report.pairs:
            names = ", ".join(given.file for given in inputs)
            raise InputError(f"{names}: no pair was found; {_losses(report) or 'nothing is in it'}")
        values = json.dumps(report.as_values(), ensure_ascii=False, indent=1)
        report_file.write(values.encode(errors="backslashreplace") + b"\n")
    return report


@contextmanager
def imported(files: Sequence[str], prefix: str, languages: tuple[str, str]) -> Iterator[Imported]:
    """Import files for another command; where the block fails, what was written is removed.

    Raises:
        InputError: as for `import_pairs`; its message names options of `nmt import` that settle a doubt.
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


def _tell(report: ImportReport, made: Imported) -> None:
    """Log what was recognised, what was left out, and where the result is."""
    for seen in report.inputs:
        name = " and ".join(seen["files"])
        if "columns" in seen:
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
        warn(f"skipped {_losses(report)}")
    if report.joined:
        log(f"{counted(report.joined, 'pair')} had line ends inside a side; each became a space")
    if report.notes:
        log(f"noted {'; '.join(f'{number:,}: {what}' for what, number in report.notes.items())}")
    log(f"{counted(report.pairs, 'pair')} written to {made.source} and {made.target}")
    log(f"format, encoding and skipped pairs are in {made.report}")


def _losses(report: ImportReport) -> str:
    """Return the reasons with their numbers and a place each."""
    return "; ".join(
        f"{number:,}: {reason} (such as {report.examples[reason][0]})" for reason, number in report.skipped.items()
    )
