"""`nmt translate`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from nmt_cli.data.lines import iter_lines, lines_of_shard, open_input
from nmt_cli.data.output import open_output

if TYPE_CHECKING:
    from nmt_cli.translation.translator import Translator

    WithPrefixes = Callable[[Iterable[list[bytes]]], Iterator[tuple[list[bytes], list[str] | None]]]
    "A function that gives each window of lines the prefixes of its translations."


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
    from nmt_cli.assembly.document import job_of, run_job, warn_of_lost_form
    from nmt_cli.assembly.line_translation import (
        check_beam,
        check_choice,
        check_confidence,
        check_constraints,
        check_number_of_prefixes,
        models_beside,
        translate_lines,
        warn_of_options,
        windows_of_prefixes,
    )
    from nmt_cli.assembly.translator import need_attention, open_translator, requested_options
    from nmt_cli.translation.output_formats import formatter

    check_choice("--format", format_, ("text", "jsonl", "moses"))
    check_choice("--alignment", alignment, ("none", "hard", "soft"))
    check_constraints(
        file, shortlist, {"--glossary": glossary, "--prefix": prefix}, sample=sample, weight=glossary_weight
    )
    job = job_of(
        file, output, paragraphs=paragraphs, markup=markup, overwrite=overwrite, confidence=confidence,
        of_lines={"--n-best": n_best > 1, "--format": format_ != "text", "--alignment": alignment != "none",
                  "--shard": shard is not None, "--copy-unknown": copy_unknown, "--prefix": prefix is not None},
    )  # fmt: skip
    if confidence:
        check_confidence(format_, of_lines=job is None, sample=sample)
    inputs = [file, *(path for path in (shortlist, glossary, prefix) if path is not None)]
    directories = models_beside(output, inputs, model or [], job)
    check_number_of_prefixes(file, prefix)
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
        warn_of_options(translator, {"--temperature": temperature, "--seed": seed}, of_search)
        return translator

    if job is not None:
        run_job(job, directories, load)
        return
    with open_input(file, warns_of_format=not warn_of_lost_form(file)) as stream:
        translator = load(directories)
        need_attention(translator)
        check_beam(translator, n_best)
        lines = iter_lines(stream)
        if chosen is not None:
            lines, translator.first_line = islice(lines, chosen.start, chosen.stop), chosen.start
        with windows_of_prefixes(prefix, chosen, file) as beginnings, open_output(output) as out:
            write = formatter(format_, n_best=n_best, alignment=alignment, glossary=glossary is not None)
            translate_lines(translator, lines, out, write, beginnings)
