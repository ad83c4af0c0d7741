"""`nmt translate`."""

from __future__ import annotations

from typing import Annotated

import typer

from nmt_cli.assembly.preloading import start_loading_torch
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
    LengthPenalty,
    Markup,
    ModelDirs,
    NoRepeatNgram,
    NormalizeInput,
    OutputFile,
    Precision,
    Prefixes,
    Sample,
    Seed,
    Shortlist,
    SourceLang,
    TargetLang,
    Temperature,
    TranslatedFile,
    Workers,
    WorkerThreads,
    ZeroShot,
)


def translate(
    file: TranslatedFile = None,
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
    normalize_input: NormalizeInput = None,
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
    threads: WorkerThreads = None,
    workers: Workers = None,
    checkpoint: Checkpoint = "best",
    source_lang: SourceLang = None,
    target_lang: TargetLang = None,
    zero_shot: ZeroShot = False,
) -> None:  # fmt: skip
    """Translate lines of text. As many lines come out as go in, in order.

    With --n-best N, the format text has N lines for each input line (empty ones if fewer translations are found), moses
    has as many as are found, and jsonl has one line with all of them.

    A FILE in HTML, PO, XLIFF, SRT or WebVTT (.html, .htm, .xhtml, .po, .pot, .xlf, .xliff, .srt, .vtt) is translated as
    a document if -o is given: its text is translated, and all else stays as it is.

    Example: nmt translate file.txt --model runs/demo
    """
    start_loading_torch()
    from nmt_cli.assembly.line_translation import translate_file
    from nmt_cli.assembly.model_options import ModelOptions
    from nmt_cli.assembly.translation_task import DecodingOverrides, TranslationTask

    task = TranslationTask(
        file=file, output=output, format=format_, alignment=alignment, confidence=confidence, shortlist=shortlist,
        glossary=glossary, prefix=prefix, shard=shard, paragraphs=paragraphs, overwrite=overwrite,
    )  # fmt: skip
    decoding = DecodingOverrides(
        beam_size=beam_size, n_best=n_best, length_penalty=length_penalty, sample=sample, temperature=temperature,
        seed=seed, no_repeat_ngram=no_repeat_ngram, batch_tokens=batch_tokens,
        normalize_input=adapt_writing if normalize_input is None else normalize_input,
        glossary_weight=glossary_weight, copy_unknown=copy_unknown, markup=markup, alignment=alignment != "none",
    )  # fmt: skip
    models = ModelOptions(
        model or (), checkpoint, device, threads, precision, workers, source_lang=source_lang, target_lang=target_lang,
        zero_shot=zero_shot,
    )  # fmt: skip
    translate_file(task, models, decoding)
