"""Documents and paragraphs for `nmt translate`: read, translated sentence by sentence, and written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from nmt_cli.assembly.translation_pool import open_pool
from nmt_cli.assembly.translation_task import DecodingOverrides, TranslationTask
from nmt_cli.data.lines import decode_line, input_name, iter_lines, open_input
from nmt_cli.data.output import open_output
from nmt_cli.documents.document import MAX_BYTES, DocumentCounts, translate_document, translate_paragraphs
from nmt_cli.documents.sentences import splitter
from nmt_cli.formats.languages import conflicting_language
from nmt_cli.formats.opening import Input, resolve_input
from nmt_cli.system.console import Progress, format_count, log, warn
from nmt_cli.system.errors import InputError
from nmt_cli.translation.output_formats import confidence_of
from nmt_cli.translation.windows import windows_of_lines

if TYPE_CHECKING:
    from nmt_cli.assembly.model_options import ModelOptions
    from nmt_cli.config.schema import DataConfig
    from nmt_cli.documents.document import Translate
    from nmt_cli.experiment import Experiment
    from nmt_cli.translation.line_tasks import LinePool
    from nmt_cli.translation.results import Translation


def translate_by_sentence(
    task: TranslationTask, experiments: Sequence[Experiment], models: ModelOptions, decoding: DecodingOverrides
) -> None:
    """Write the translation of a document in its format, or of the paragraphs of a text, sentence by sentence.

    Raises:
        InputError: the file cannot be read or is no document of its format, or a model cannot be opened.
    """
    languages = experiments[0].config.data
    split = splitter(languages.direction.source)
    data = _content(str(task.file)) if task.is_document else b""
    with open_pool("sentences", task, experiments, models, decoding) as pool:
        with _confidence_report(task, pool) as translate:
            if task.is_document:
                _translate_document(task, data, translate, split, languages)
            else:
                _translate_paragraphs(task, pool, translate, split)
    pool.report()
    log(pool.speed("sentence"))


def _content(name: str) -> bytes:
    """Return the decompressed bytes of a document, at most MAX_BYTES + 1: one too many shows that it is too large."""
    given, *others = resolve_input(Input(name))[0]
    if others or given.member is not None:
        raise InputError(f"{name}: is an archive; unpack it, and give a document in it")
    with given.open() as stream:
        return stream.read(MAX_BYTES + 1)


@contextmanager
def _confidence_report(task: TranslationTask, pool: LinePool) -> Iterator[Translate]:
    """Yield a function that translates sentences; with `task.confidence` it writes their confidences as JSON lines."""
    if not task.confidence:
        yield partial(translations_of, pool.translate_lines)
        return
    numbers = count()
    with open_output(task.confidence_report_path) as out:

        def translate(lines: Sequence[str]) -> Iterator[Translation]:
            for line, found in zip(lines, translations_of(pool.translate_lines, lines), strict=True):
                record = {"id": next(numbers), "source": line, "translation": found.text, **confidence_of(found)}
                out.write(json.dumps(record, ensure_ascii=False).encode("utf-8", errors="replace") + b"\n")
                yield found

        yield translate
    log(f"confidence of each sentence -> {task.confidence_report_path}")


def _translate_document(
    task: TranslationTask, data: bytes, translate: Translate, split: Any, languages: DataConfig
) -> None:
    """Write the document with the translations of its sentences, and log what could not be translated."""
    name = str(task.file)
    with open_output(task.output) as out:
        done = translate_document(
            name,
            data,
            translate,
            split,
            target_lang=languages.direction.target,
            source_lang=languages.direction.source,
            overwrite=task.overwrite,
        )
        out.write(done.content)
    done.counts.report(name)
    if other := conflicting_language(done.counts.languages, languages.direction.source):
        warn(
            f"{name}: says that its text is in {other}, but the model translates from {languages.direction.source}; if "
            f"that is right, use a model that translates from {other}"
        )
    log(f"{name}: {format_count(done.counts.segments, 'text')}, {format_count(done.counts.sentences, 'sentence')}")


def _translate_paragraphs(task: TranslationTask, pool: LinePool, translate: Translate, split: Any) -> None:
    """Read the file some lines at a time, each line a paragraph, and write their translations."""
    counts, num_invalid = DocumentCounts(), 0
    with open_input(task.file) as stream, open_output(task.output) as out:
        for window in windows_of_lines(iter_lines(stream)):
            texts = [decode_line(line) for line in window]
            num_invalid += sum(not is_valid for _, is_valid in texts)
            found = translate_paragraphs([text for text, _ in texts], translate, split, counts)
            out.write("".join(f"{paragraph.text}\n" for paragraph in found).encode("utf-8", errors="replace"))
            out.flush()
    pool.counts.invalid = num_invalid
    counts.report(input_name(task.file))


def translations_of(translate: Translate, lines: Sequence[str]) -> Iterator[Translation]:
    """Yield the translation of each line, and show the progress."""
    with Progress("translating", total=len(lines), unit="sentence") as progress:
        for translation in translate(lines):
            yield translation
            progress.advance()
