"""Documents and paragraphs for `nmt translate`: what is asked for, and the parts put together."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from nmt_cli.assembly.named_models import named_models
from nmt_cli.data.lines import decode_line, input_name, iter_lines, open_input
from nmt_cli.data.output import open_output
from nmt_cli.documents.document import DocumentCounts, ending_of, translate_document, translate_paragraphs
from nmt_cli.documents.encoding import MAX_BYTES
from nmt_cli.documents.languages import unlike
from nmt_cli.documents.sentences import splitter
from nmt_cli.system.console import Progress, counted, log, warn
from nmt_cli.system.errors import InputError
from nmt_cli.translation.output_formats import confidence_of
from nmt_cli.translation.windows import windows_of_lines

if TYPE_CHECKING:
    from nmt_cli.config.schema import DataConfig
    from nmt_cli.documents.document import Translate
    from nmt_cli.translation.results import Translation
    from nmt_cli.translation.translator import Translator

_CATALOGUES = (".po", ".pot", ".xlf", ".xliff")


@dataclass(frozen=True, slots=True)
class Job:
    """A document or paragraphs to translate."""

    file: str | None
    output: Path | None
    is_document: bool
    markup: bool
    """In paragraphs, tags and placeholders are carried across; in documents they always are."""
    overwrite: bool
    confidence: bool = False
    """The confidence of each sentence is written to `report_path`."""

    @property
    def report_path(self) -> Path:
        """The output with another ending."""
        assert self.output is not None
        return self.output.with_name(f"{self.output.name}.confidence.jsonl")


def job_of(
    file: str | None,
    output: Path | None,
    *,
    paragraphs: bool,
    markup: bool,
    overwrite: bool,
    confidence: bool = False,
    of_lines: Mapping[str, bool],
) -> Job | None:
    """Return what to do if it is not lines that are to be translated.

    Args:
        file: the input.
        output: the output.
        paragraphs: `--paragraphs`.
        markup: `--markup`.
        overwrite: `--overwrite`.
        confidence: `--confidence`.
        of_lines: options that go with lines alone, and if they were given.

    Raises:
        InputError: `paragraphs` is asked of a document, `overwrite` of what has no translations, an option of lines
            with either, or `confidence` without a file beside which it could be written.
    """
    ending = None if output is None else _document_ending(file)
    if overwrite and ending not in _CATALOGUES:
        raise InputError("--overwrite: goes with a PO or XLIFF file as FILE and with -o OUT")
    if paragraphs and ending is not None:
        raise InputError(f"--paragraphs: {file} is translated as a document, whose paragraphs are known; leave it out")
    if not paragraphs and ending is None:
        return None
    if given := [option for option, is_given in of_lines.items() if is_given]:
        what = "--paragraphs" if ending is None else f"{file} is translated as a document, which"
        raise InputError(f"{', '.join(given)}: {what} gives one text; take the option away, or give plain lines")
    job = Job(file, output, ending is not None, markup or ending is not None, overwrite, confidence)
    if confidence and (output is None or str(output) == "-"):
        raise InputError("--confidence: of paragraphs it goes to a file beside the output; give -o OUT")
    return job


def warn_of_lost_form(file: str | None) -> bool:
    """Say of a document that it is read as lines; return False for any other file."""
    if _document_ending(file) is None:
        return False
    warn(f"{file}: is read as plain lines; give -o FILE to translate it as a document that keeps its form")
    return True


def _document_ending(file: str | None) -> str | None:
    """Return the ending of a document's name, or None."""

    return None if file is None else ending_of(file)


def run_job(job: Job, model_dirs: Sequence[Path], load: Callable[[list[Path]], Translator]) -> None:
    """Translate a document or paragraphs with the translator that `load` makes of model directories."""

    experiments = named_models(list(model_dirs))
    languages = experiments[0].config.data
    split = splitter(languages.source_lang)
    if job.is_document:
        data = _content(str(job.file))
    translator = load([experiment.directory for experiment in experiments])
    needs_alignment = job.markup
    if needs_alignment and not translator.models.has_attention:
        without = translator.models.without_attention
        warn(f"{without}, so the order of the words alone places tags and placeholders")
        needs_alignment = False
    # Tags are taken out and put back here, for a whole sentence of a document.
    changed = {"with_alignment": needs_alignment, "keep_markup": False}
    translator.options = translator.options.model_copy(update=changed)
    began = monotonic()
    with _report(job, translator) as translate:
        if job.is_document:
            _translate_document(job, data, translate, split, languages)
        else:
            _translate_paragraphs(job, translator, translate, split)
    translator.report()
    counts, seconds = translator.counts, max(monotonic() - began, 1e-9)
    log(f"{counted(counts.lines, 'sentence')} in {seconds:.1f} s: {counts.lines / seconds:,.1f} sentences/s")


def _content(name: str) -> bytes:
    """Return the bytes of a document, up to the first that is too much."""

    try:
        with gzip.open(name) if name.endswith(".gz") else open(name, "rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InputError(f"{name}: there is no such file") from None
    except IsADirectoryError:
        raise InputError(f"{name}: is a directory; give a document") from None
    except (EOFError, zlib.error) as error:
        raise InputError(f"{name}: is damaged or cut off: {error}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"{name}: cannot be opened: {reason.lower()}") from None


@contextmanager
def _report(job: Job, translator: Translator) -> Iterator[Translate]:
    """Yield what translates sentences; with `job.confidence` each is also written to the report."""

    if not job.confidence:
        yield partial(translations_of, translator)
        return
    numbers = count()
    with open_output(job.report_path) as out:

        def translate(lines: Sequence[str]) -> Iterator[Translation]:
            for line, found in zip(lines, translations_of(translator, lines), strict=True):
                record = {"id": next(numbers), "source": line, "translation": found.text, **confidence_of(found)}
                out.write(json.dumps(record, ensure_ascii=False).encode("utf-8", errors="replace") + b"\n")
                yield found

        yield translate
    log(f"confidence of each sentence -> {job.report_path}")


def _translate_document(job: Job, data: bytes, translate: Translate, split: Any, languages: DataConfig) -> None:

    name = str(job.file)
    with open_output(job.output) as out:
        done = translate_document(
            name, data, translate, split, target_lang=languages.target_lang, overwrite=job.overwrite
        )
        out.write(done.content)
    done.counts.report(name)
    if other := unlike(done.counts.languages, languages.source_lang):
        warn(
            f"{name}: says that its text is in {other}, but the model translates from {languages.source_lang}; if "
            f"that is right, use a model that translates from {other}"
        )
    log(f"{name}: {counted(done.counts.segments, 'segment')} with {counted(done.counts.sentences, 'sentence')}")


def _translate_paragraphs(job: Job, translator: Translator, translate: Translate, split: Any) -> None:
    """Write the translation of every paragraph, a window at a time."""

    counts, num_invalid = DocumentCounts(), 0
    with open_input(job.file) as stream, open_output(job.output) as out:
        for window in windows_of_lines(iter_lines(stream)):
            texts = [decode_line(line) for line in window]
            num_invalid += sum(not is_valid for _, is_valid in texts)
            found = translate_paragraphs([text for text, _ in texts], translate, split, counts, markup=job.markup)
            out.write("".join(f"{paragraph.text}\n" for paragraph in found).encode("utf-8", errors="replace"))
            out.flush()
    translator.counts.invalid = num_invalid
    counts.report(input_name(job.file))


def translations_of(translator: Translator, lines: Sequence[str]) -> Iterator[Translation]:
    """Yield the translation of each line, with the attention that `translator.options` asks for."""
    with Progress("translating", total=len(lines), unit="sentence") as progress:
        for translated in translator.translate(lines):
            yield translated.translations[0]
            progress.advance()
