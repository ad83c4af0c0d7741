"""The translation of a file for `nmt translate`: lines here, documents and paragraphs in `document_translation`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice, repeat
from typing import IO, TYPE_CHECKING

from nmt_cli.assembly.file_checks import refuse_overwriting
from nmt_cli.assembly.translation_pool import open_pool
from nmt_cli.assembly.translation_task import DecodingOverrides, TranslationTask
from nmt_cli.data.lines import input_name, is_special_file, is_standard_input, iter_lines, lines_of_shard, open_input
from nmt_cli.data.output import open_output
from nmt_cli.system.console import Progress, log, warn
from nmt_cli.translation.line_tasks import number_windows
from nmt_cli.translation.windows import unequal_line_counts_error, windows_of_lines, with_prefixes

if TYPE_CHECKING:
    from nmt_cli.assembly.model_options import ModelOptions
    from nmt_cli.experiment import Experiment
    from nmt_cli.translation.line_tasks import LinePool

    AddPrefixes = Callable[[Iterable[list[bytes]]], Iterator[tuple[list[bytes], list[str] | None]]]
    "A function that yields each window of lines with the prefixes of its translations, or None without prefixes."


def translate_file(task: TranslationTask, models: ModelOptions, decoding: DecodingOverrides) -> None:
    """Write the translation of a file: of its lines, of its paragraphs, or of the document that it is.

    Raises:
        InputError: options do not go together, a file or a model cannot be read, or an output would overwrite an
            input or data of a model.
    """
    task.check(decoding)
    experiments = models.experiments()
    refuse_overwriting(task.output, task.inputs, experiments)
    if task.confidence and not task.is_translated_by_line:
        refuse_overwriting(task.confidence_report_path, [*task.inputs, task.output], experiments)
    if task.is_translated_by_line:
        _translate_lines(task, experiments, models, decoding)
    else:
        from nmt_cli.assembly.document_translation import translate_by_sentence

        translate_by_sentence(task, experiments, models, decoding)


def _translate_lines(
    task: TranslationTask, experiments: Sequence[Experiment], models: ModelOptions, decoding: DecodingOverrides
) -> None:
    """Write the translation of each line of a file, or of a shard of it."""
    file, prefix = task.file, task.prefix
    _check_number_of_prefixes(file, prefix)
    shard_lines = lines_of_shard(file, task.shard) if task.shard is not None else None
    first_line = 0 if shard_lines is None else shard_lines.start
    with (
        open_input(file, warns_of_format=not task.is_named_as_document) as stream,
        open_pool("lines", task, experiments, models, decoding) as pool,
        _open_prefixes(prefix, shard_lines, file) as with_beginnings,
        open_output(task.output) as out,
    ):
        if task.is_named_as_document:
            warn(f"{file}: is read as plain lines; give -o FILE to translate it as a document that keeps its form")
        is_typed = is_standard_input(file) and sys.stdin.isatty()
        if is_typed:
            log("type a sentence and press Enter; Ctrl-D ends")
        total = None if is_typed else len(shard_lines) if shard_lines is not None else _num_lines(file)
        lines = (
            iter_lines(stream)
            if shard_lines is None
            else islice(iter_lines(stream), shard_lines.start, shard_lines.stop)
        )
        windows = windows_of_lines(lines)
        with_prefixes = zip(windows, repeat(None)) if with_beginnings is None else with_beginnings(windows)
        _write_lines(
            pool, pool.translate_windows(number_windows(with_prefixes, first_line)), out, total, is_typed=is_typed
        )


def _num_lines(file: str | None) -> int | None:
    """Return the number of lines for the progress bar; None if no bar is shown or the file can be read only once."""
    if not sys.stderr.isatty() or file is None or is_standard_input(file) or is_special_file(file):
        return None
    with open_input(file, warns_of_format=False) as stream:
        return sum(1 for _ in iter_lines(stream))


def _write_lines(
    pool: LinePool, windows: Iterable[Sequence[bytes]], out: IO[bytes], total: int | None, *, is_typed: bool
) -> None:
    """Write the translated lines in `windows` to `out`, show the progress, and log the speed at the end.

    `total` is the number of lines, if it is known. For lines that a person types there is no progress bar.
    """
    with Progress("translating", total=total, unit="line", is_hidden=is_typed) as progress:
        for outputs in windows:
            out.writelines(outputs)
            out.flush()
            progress.advance(len(outputs))
    pool.report()
    log(pool.speed())


def _check_number_of_prefixes(file: str | None, prefix: str | None) -> None:
    """Raise `InputError` if the files of lines (`file`) and of prefixes (`prefix`) have unequal line counts.

    Standard input and special files such as pipes are not checked, because they can be read only once.
    """
    if prefix is None or any(is_standard_input(path) or is_special_file(path) for path in (file, prefix)):
        return  # if given, they are counted as they come
    num_lines = []
    for name in (file, prefix):
        with open_input(name, warns_of_format=False) as stream:
            num_lines.append(sum(1 for _ in iter_lines(stream)))
    if num_lines[0] != num_lines[1]:
        raise unequal_line_counts_error((input_name(file), input_name(prefix)), *num_lines)


@contextmanager
def _open_prefixes(path: str | None, shard_lines: range | None, file: str | None) -> Iterator[AddPrefixes | None]:
    """Yield a function that adds to each window of lines the prefixes of their translations; None if `path` is None.

    Args:
        path: the file of prefixes, one for each line.
        shard_lines: the lines of the shard to translate; None means all lines.
        file: the file of lines, for messages.
    """
    if path is None:
        yield None
        return
    with open_input(path) as stream:
        lines = iter_lines(stream)
        own = lines if shard_lines is None else islice(lines, shard_lines.start, shard_lines.stop)
        first_line = 1 if shard_lines is None else shard_lines.start + 1
        yield partial(with_prefixes, prefixes=own, names=(input_name(file), input_name(path)), first_line=first_line)
