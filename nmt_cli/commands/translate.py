"""`nmt translate`."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from nmt_cli.commands.options import (
    BatchTokens,
    BeamSize,
    Checkpoint,
    CopyUnknown,
    Device,
    InputFile,
    LengthPenalty,
    Markup,
    ModelDirs,
    NoRepeatNgram,
    OutputFile,
    Precision,
    Sample,
    Seed,
    Shortlist,
    Temperature,
    Threads,
)
from nmt_cli.console import Progress, counted, log, warn
from nmt_cli.errors import InputError

if TYPE_CHECKING:
    from nmt_cli.translation.translator import Translator


def translate(
    file: InputFile = None,
    model: ModelDirs = None,
    output: OutputFile = None,
    beam_size: BeamSize = None,
    n_best: Annotated[
        int,
        typer.Option(
            "--n-best", min=1, max=1_000, help="Translations of each line, at most the beam. Each line gives N lines."
        ),
    ] = 1,
    length_penalty: LengthPenalty = None,
    format_: Annotated[str, typer.Option("--format", help="text, jsonl or moses.")] = "text",
    alignment: Annotated[str, typer.Option("--alignment", help="none, hard (Pharaoh) or soft (weights).")] = "none",
    sample: Sample = False,
    temperature: Temperature = None,
    seed: Seed = None,
    copy_unknown: CopyUnknown = False,
    markup: Markup = False,
    no_repeat_ngram: NoRepeatNgram = None,
    batch_tokens: BatchTokens = None,
    shortlist: Shortlist = None,
    shard: Annotated[
        str | None,
        typer.Option("--shard", help="Only the I-th of N equal parts of FILE, for a job array.", metavar="I/N"),
    ] = None,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    checkpoint: Checkpoint = "best",
) -> None:
    """Translate lines of text; as many come out as go in, in order.

    With --n-best N each line gives N lines, as text; where fewer translations are found, empty lines fill up. The
    format moses does not fill up, and jsonl always gives one line for each.

    Example: nmt translate file.txt --model runs/demo
    """
    for option, value, allowed in (
        ("--format", format_, ("text", "jsonl", "moses")),
        ("--alignment", alignment, ("none", "hard", "soft")),
    ):
        if value not in allowed:
            raise InputError(f"{option} {value}: must be one of {', '.join(allowed)}")
    from nmt_cli.commands.loading import need_attention, open_translator
    from nmt_cli.commands.reading import refuse_overwriting
    from nmt_cli.data.lines import iter_lines, lines_of_shard, open_input
    from nmt_cli.data.output import open_output
    from nmt_cli.translation.formats import formatter
    from nmt_cli.translation.windows import windows_of_lines

    refuse_overwriting(output, [file, *([] if shortlist is None else [shortlist])])
    chosen = lines_of_shard(file, shard) if shard is not None else None
    with open_input(file) as stream:
        translator = open_translator(
            model or [],
            checkpoint=checkpoint,
            device=device,
            precision=precision,
            threads=threads,
            shortlist=shortlist,
            beam_size=beam_size,
            n_best=n_best,
            length_penalty=length_penalty,
            no_repeat_ngram=no_repeat_ngram,
            batch_tokens=batch_tokens,
            with_alignment=alignment != "none" or copy_unknown or markup,
            copy_unknown=copy_unknown,
            keep_markup=markup,
            sampling_temperature=(temperature or 1.0) if sample else None,
            seed=seed,
        )
        need_attention(translator)
        _warn_of_idle_options(
            translator,
            {"--temperature": temperature is not None, "--seed": seed is not None},
            {"--beam-size": beam_size is not None, "--length-penalty": length_penalty is not None},
        )
        if not sample and n_best > translator.options.beam_size:
            raise InputError(
                f"--n-best {n_best}: is more than the beam, {translator.options.beam_size}; raise --beam-size"
            )
        write = formatter(format_, n_best=n_best, alignment=alignment)
        with open_output(output) as out, Progress("translating", unit="line") as progress:
            clock = _Clock()
            lines = iter_lines(stream)
            if chosen is not None:
                lines, translator.first_line = islice(lines, chosen.start, chosen.stop), chosen.start
            for window in windows_of_lines(lines):
                first = translator.first_line + translator.counts.lines
                for number, translated in enumerate(translator.translate_window(window), start=first):
                    out.write(write(number, translated).encode("utf-8", errors="replace"))
                out.flush()
                progress.advance(len(window))
        translator.report()
        counts = translator.counts
        seconds = clock.seconds()
        log(
            f"{counted(counts.lines, 'line')} in {seconds:.1f} s: {counts.lines / seconds:,.1f} sentences/s, "
            f"{counts.target_pieces / seconds:,.0f} tokens/s"
        )


def _warn_of_idle_options(translator: Translator, sampling: dict[str, bool], search: dict[str, bool]) -> None:
    """Say which of the options that were given change nothing."""
    options = translator.options
    is_sampling = options.sampling_temperature is not None
    for option, is_given in (search if is_sampling else sampling).items():
        if is_given:
            warn(f"{option} does nothing {'with' if is_sampling else 'without'} --sample")
    if options.copy_unknown and translator.tokenizers[0].spells_bytes:
        warn("--copy-unknown does nothing: this model spells what it does not know, so no word is unknown to it")


class _Clock:
    def __init__(self) -> None:
        from time import monotonic

        self._now = monotonic
        self._began = monotonic()

    def seconds(self) -> float:
        return max(self._now() - self._began, 1e-9)
