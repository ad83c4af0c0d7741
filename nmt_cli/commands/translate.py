"""`nmt translate`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice, repeat
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from nmt_cli.commands.options import (
    OUTPUT,
    SEARCH,
    SPEED,
    AdaptWriting,
    BatchTokens,
    BeamSize,
    Checkpoint,
    Confidence,
    CopyUnknown,
    Device,
    GlossaryFile,
    GlossaryWeight,
    InputFile,
    LengthPenalty,
    Markup,
    ModelDirs,
    NoRepeatNgram,
    OutputFile,
    Precision,
    Prefixes,
    Sample,
    Seed,
    Shortlist,
    Temperature,
    Threads,
)
from nmt_cli.console import Progress, counted, log, warn
from nmt_cli.errors import InputError

if TYPE_CHECKING:
    from nmt_cli.commands.document import Job
    from nmt_cli.translation.formats import Formatter
    from nmt_cli.translation.translator import Translator

    WithPrefixes = Callable[[Iterable[list[bytes]]], Iterator[tuple[list[bytes], list[str] | None]]]
    """A function that gives each window of lines the prefixes of its translations."""


def translate(
    file: InputFile = None,
    model: ModelDirs = None,
    output: OutputFile = None,
    beam_size: BeamSize = None,
    n_best: Annotated[
        int,
        typer.Option(
            "--n-best", min=1, max=1_000, metavar="N", rich_help_panel=SEARCH,
            help="Translations of each line, at most the size of the beam. As text, each line gives N lines.",
        ),
    ] = 1,
    length_penalty: LengthPenalty = None,
    format_: Annotated[
        str, typer.Option("--format", help="text, jsonl or moses.", metavar="F", rich_help_panel=OUTPUT)
    ] = "text",
    alignment: Annotated[
        str,
        typer.Option(
            "--alignment", metavar="A", rich_help_panel=OUTPUT,
            help="none, hard (links such as 0-0 1-2, known as Pharaoh format) or soft (weights).",
        ),
    ] = "none",
    confidence: Confidence = False,
    sample: Sample = False,
    temperature: Temperature = None,
    seed: Seed = None,
    adapt_writing: AdaptWriting = None,
    copy_unknown: CopyUnknown = False,
    markup: Markup = False,
    glossary: GlossaryFile = None,
    glossary_weight: GlossaryWeight = None,
    prefix: Prefixes = None,
    paragraphs: Annotated[
        bool,
        typer.Option(
            "--paragraphs", rich_help_panel=OUTPUT,
            help="Each line is a paragraph, which is translated sentence by sentence.",
        ),
    ] = False,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", rich_help_panel=OUTPUT,
            help="In PO and XLIFF, translate also what has a translation already.",
        ),
    ] = False,
    no_repeat_ngram: NoRepeatNgram = None,
    batch_tokens: BatchTokens = None,
    shortlist: Shortlist = None,
    shard: Annotated[
        str | None,
        typer.Option(
            "--shard", metavar="I/N", rich_help_panel=SPEED,
            help="Translate only the I-th of N equal parts of FILE, for a job array.",
        ),
    ] = None,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    checkpoint: Checkpoint = "best",
) -> None:  # fmt: skip
    """Translate lines of text. As many lines come out as go in, in order.

    With --n-best N and the format text, each line gives N lines. If the search finds fewer translations,
    empty lines take their place. The format moses writes no such lines, and jsonl writes one line for each line.

    A FILE that ends in .html, .po, .xlf, .srt or .vtt is translated as a document if -o is given: its text is
    translated, and all else stays as it is.

    Example: nmt translate file.txt --model runs/demo
    """
    from nmt_cli.commands.document import job_of, run_job, warn_of_lost_form
    from nmt_cli.commands.loading import need_attention, open_translator, requested_options
    from nmt_cli.data.lines import iter_lines, lines_of_shard, open_input
    from nmt_cli.data.output import open_output
    from nmt_cli.translation.formats import formatter

    _check_choice("--format", format_, ("text", "jsonl", "moses"))
    _check_choice("--alignment", alignment, ("none", "hard", "soft"))
    _check_constraints(
        file, shortlist, {"--glossary": glossary, "--prefix": prefix}, sample=sample, weight=glossary_weight
    )
    job = job_of(
        file, output, paragraphs=paragraphs, markup=markup, overwrite=overwrite, confidence=confidence,
        of_lines={"--n-best": n_best > 1, "--format": format_ != "text", "--alignment": alignment != "none",
                  "--shard": shard is not None, "--copy-unknown": copy_unknown, "--prefix": prefix is not None},
    )  # fmt: skip
    if confidence:
        _check_confidence(format_, of_lines=job is None, sample=sample)
    inputs = [file, *(path for path in (shortlist, glossary, prefix) if path is not None)]
    directories = _models_beside(output, inputs, model or [], job)
    _check_number_of_prefixes(file, prefix)
    chosen = lines_of_shard(file, shard) if shard is not None else None
    options = requested_options(
        sample=sample,
        temperature=temperature,
        copy_unknown=copy_unknown,
        markup=markup,
        alignment=alignment != "none",
        beam_size=beam_size,
        n_best=n_best,
        length_penalty=length_penalty,
        no_repeat_ngram=no_repeat_ngram,
        adapt_writing=adapt_writing,
        batch_tokens=batch_tokens,
        seed=seed,
        glossary_weight=glossary_weight,
    )

    def load(model_dirs: list[Path]) -> Translator:
        translator = open_translator(
            model_dirs, checkpoint=checkpoint, device=device, precision=precision, threads=threads,
            shortlist=shortlist, glossary=glossary, confidence=confidence, **options,
        )  # fmt: skip
        of_search = {"--beam-size": beam_size, "--length-penalty": length_penalty}
        _warn_of_idle_options(translator, {"--temperature": temperature, "--seed": seed}, of_search)
        return translator

    if job is not None:
        run_job(job, directories, load)
        return
    with open_input(file, warns_of_format=not warn_of_lost_form(file)) as stream:
        translator = load(directories)
        need_attention(translator)
        _check_beam(translator, n_best)
        lines = iter_lines(stream)
        if chosen is not None:
            lines, translator.first_line = islice(lines, chosen.start, chosen.stop), chosen.start
        with _prefixes(prefix, chosen, file) as beginnings, open_output(output) as out:
            write = formatter(format_, n_best=n_best, alignment=alignment, glossary=glossary is not None)
            _translate(translator, lines, out, write, beginnings)


def _models_beside(
    output: Path | None, inputs: Sequence[str | Path | None], model_dirs: Sequence[Path], job: Job | None
) -> list[Path]:
    """Return the directories of the models; refuse outputs that would overwrite an input or data of the models."""
    from nmt_cli.commands.overwriting import refuse_overwriting
    from nmt_cli.experiment import source_of

    experiments = source_of(list(model_dirs))
    refuse_overwriting(output, inputs, experiments)
    if job is not None and job.confidence:
        refuse_overwriting(job.report_path, [*inputs, output], experiments)
    return [experiment.directory for experiment in experiments]


def _check_choice(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(f"{option} {value}: must be one of {', '.join(allowed)}")


def _check_beam(translator: Translator, n_best: int) -> None:
    """Refuse to give more translations of a line than the search finds."""
    options = translator.options
    if options.sampling_temperature is None and n_best > options.beam_size:
        raise InputError(f"--n-best {n_best}: is more than the beam, {options.beam_size}; raise --beam-size")


def _check_confidence(format_: str, *, of_lines: bool, sample: bool) -> None:
    if sample:
        raise InputError("--confidence: tells how good the best translation is, so it does not go with --sample")
    if of_lines and format_ != "jsonl":
        raise InputError(f"--confidence: has no place in the format {format_}; add --format jsonl")


def _check_constraints(
    file: str | None, shortlist: Path | None, given: Mapping[str, str | None], *, sample: bool, weight: float | None
) -> None:
    """Refuse options that do not go with a constraint, and standard input for several files."""
    from nmt_cli.commands.reading import refuse_standard_input_twice

    if weight is not None and given["--glossary"] is None:
        raise InputError("--glossary-weight: needs --glossary FILE.tsv, whose terms it makes likelier")
    for option, path in given.items():
        if path is not None and sample:
            raise InputError(f"{option}: constrains a search, so it does not go with --sample; leave out one of them")
        if path is not None and shortlist is not None:
            raise InputError(f"{option}: may need any piece, so it does not go with --shortlist; leave out one of them")
    refuse_standard_input_twice([file, *(path for path in given.values() if path is not None)])


def _check_number_of_prefixes(file: str | None, prefix: str | None) -> None:
    """Refuse prefixes that are more or fewer than the lines, before any work, if both can be read twice."""
    from nmt_cli.data.lines import input_name, is_special_file, is_standard_input, iter_lines, open_input
    from nmt_cli.translation.prefix import other_length

    if prefix is None or any(is_standard_input(path) or is_special_file(path) for path in (file, prefix)):
        return  # if given, they are counted as they come
    num_lines = []
    for name in (file, prefix):
        with open_input(name, warns_of_format=False) as stream:
            num_lines.append(sum(1 for _ in iter_lines(stream)))
    if num_lines[0] != num_lines[1]:
        raise other_length((input_name(file), input_name(prefix)), *num_lines)


@contextmanager
def _prefixes(path: str | None, chosen: range | None, file: str | None) -> Iterator[WithPrefixes | None]:
    """Yield a function that gives each window the prefixes of its lines, or of a shard's lines if there is one."""
    from nmt_cli.data.lines import input_name, iter_lines, open_input
    from nmt_cli.translation.prefix import with_prefixes

    if path is None:
        yield None
        return
    with open_input(path) as stream:
        lines = iter_lines(stream)
        own = lines if chosen is None else islice(lines, chosen.start, chosen.stop)
        first_line = 1 if chosen is None else chosen.start + 1
        yield partial(with_prefixes, prefixes=own, names=(input_name(file), input_name(path)), first_line=first_line)


def _translate(
    translator: Translator,
    lines: Iterable[bytes],
    out: IO[bytes],
    write: Formatter,
    prefixes: WithPrefixes | None = None,
) -> None:
    """Write the translation of every line, a window at a time, and say at the end how fast that was."""
    from time import monotonic

    from nmt_cli.translation.windows import windows_of_lines

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


def _warn_of_idle_options(
    translator: Translator, sampling: Mapping[str, float | None], search: Mapping[str, float | None]
) -> None:
    from nmt_cli.commands.loading import warn_of_idle_options

    warn_of_idle_options(translator.options, sampling, search)
    if translator.options.copy_unknown and translator.tokenizers[0].spells_bytes:
        warn("--copy-unknown does nothing: this model spells unknown words with bytes, so no word is unknown to it")
