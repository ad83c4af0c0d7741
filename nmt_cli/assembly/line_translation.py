"""The translation of a file for `nmt translate`: lines here, documents and paragraphs in `document_translation`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice, repeat
from time import monotonic
from typing import IO, TYPE_CHECKING

from nmt_cli.assembly.document_translation import translate_units
from nmt_cli.assembly.named_files import refuse_overwriting
from nmt_cli.assembly.requested_translation import RequestedDecoding, TranslationTask, need_attention, open_requested
from nmt_cli.data.lines import input_name, is_special_file, is_standard_input, iter_lines, lines_of_shard, open_input
from nmt_cli.data.output import open_output
from nmt_cli.system.console import Progress, counted, log, warn
from nmt_cli.system.errors import InputError
from nmt_cli.translation.output_formats import formatter
from nmt_cli.translation.prefix import other_length, with_prefixes
from nmt_cli.translation.windows import windows_of_lines

if TYPE_CHECKING:
    from nmt_cli.assembly.named_models import ModelOptions
    from nmt_cli.experiment import Experiment
    from nmt_cli.translation.output_formats import Formatter
    from nmt_cli.translation.translator import Translator

    WithPrefixes = Callable[[Iterable[list[bytes]]], Iterator[tuple[list[bytes], list[str] | None]]]
    "A function that gives each window of lines the prefixes of its translations."


def translate_file(task: TranslationTask, models: ModelOptions, decoding: RequestedDecoding) -> None:
    """Write the translation of a file: of its lines, of its paragraphs, or of the document that it is.

    Raises:
        InputError: options do not go together, a file or a model cannot be read, or an output would overwrite an
            input or data of a model.
    """
    task.check(decoding)
    experiments = models.experiments()
    refuse_overwriting(task.output, task.inputs, experiments)
    if task.confidence and not task.is_of_lines:
        refuse_overwriting(task.report_path, [*task.inputs, task.output], experiments)
    if task.is_of_lines:
        _translate_lines_of(task, experiments, models, decoding)
    else:
        translate_units(task, experiments, models, decoding)


def _translate_lines_of(
    task: TranslationTask, experiments: Sequence[Experiment], models: ModelOptions, decoding: RequestedDecoding
) -> None:
    """Write the translation of each line of a file, or of a shard of it."""
    file, prefix = task.file, task.prefix
    _check_number_of_prefixes(file, prefix)
    chosen = lines_of_shard(file, task.shard) if task.shard is not None else None
    if task.is_named_as_document:
        warn(f"{file}: is read as plain lines; give -o FILE to translate it as a document that keeps its form")
    with open_input(file, warns_of_format=not task.is_named_as_document) as stream:
        translator = open_requested(task, experiments, models, decoding)
        _need_attention_and_beam(translator, decoding.n_best)
        lines = iter_lines(stream)
        if chosen is not None:
            lines, translator.first_line = islice(lines, chosen.start, chosen.stop), chosen.start
        with _windows_of_prefixes(prefix, chosen, file) as beginnings, open_output(task.output) as out:
            has_terms = task.glossary is not None
            write = formatter(task.format, n_best=decoding.n_best, alignment=task.alignment, glossary=has_terms)
            _translate_lines(translator, lines, out, write, beginnings)


def _need_attention_and_beam(translator: Translator, n_best: int) -> None:
    """Refuse alignments of a model without attention, and more translations of a line than the search finds."""
    need_attention(translator)
    options = translator.options
    if options.sampling_temperature is None and n_best > options.beam_size:
        raise InputError(f"--n-best {n_best}: is more than the beam, {options.beam_size}; raise --beam-size")


def _check_number_of_prefixes(file: str | None, prefix: str | None) -> None:
    """Refuse prefixes that are more or fewer than the lines, before any work, if both can be read twice."""
    if prefix is None or any(is_standard_input(path) or is_special_file(path) for path in (file, prefix)):
        return  # if given, they are counted as they come
    num_lines = []
    for name in (file, prefix):
        with open_input(name, warns_of_format=False) as stream:
            num_lines.append(sum(1 for _ in iter_lines(stream)))
    if num_lines[0] != num_lines[1]:
        raise other_length((input_name(file), input_name(prefix)), *num_lines)


@contextmanager
def _windows_of_prefixes(path: str | None, chosen: range | None, file: str | None) -> Iterator[WithPrefixes | None]:
    """Yield a function that gives each window the prefixes of its lines, or of a shard's lines if there is one."""
    if path is None:
        yield None
        return
    with open_input(path) as stream:
        lines = iter_lines(stream)
        own = lines if chosen is None else islice(lines, chosen.start, chosen.stop)
        first_line = 1 if chosen is None else chosen.start + 1
        yield partial(with_prefixes, prefixes=own, names=(input_name(file), input_name(path)), first_line=first_line)


def _translate_lines(
    translator: Translator,
    lines: Iterable[bytes],
    out: IO[bytes],
    write: Formatter,
    prefixes: WithPrefixes | None = None,
) -> None:
    """Write the translation of every line, a window at a time, and say at the end how fast that was."""
    began = monotonic()
    with Progress("translating", unit="line") as progress:
        windows = windows_of_lines(lines)
        for window, beginnings in zip(windows, repeat(None)) if prefixes is None else prefixes(windows):
            first = translator.first_line + translator.counts.lines
            found = translator.translate_window(window, prefixes=beginnings)
            for number, translated in enumerate(found, start=first):
                out.write(write(number, translated).encode("utf-8", errors="replace"))
            out.flush()
            progress.advance(len(window))
    translator.report()
    counts, seconds = translator.counts, max(monotonic() - began, 1e-9)
    log(
        f"{counted(counts.lines, 'line')} in {seconds:.1f} s: {counts.lines / seconds:,.1f} sentences/s, "
        f"{counts.target_pieces / seconds:,.0f} pieces/s"
    )
