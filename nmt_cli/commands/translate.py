"""`nmt translate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from nmt_cli.commands.options import Checkpoint, Device, InputFile, ModelDirs, OutputFile, Threads
from nmt_cli.console import Progress, log
from nmt_cli.errors import InputError


def translate(
    file: InputFile = None,
    model: ModelDirs = None,
    output: OutputFile = None,
    beam_size: Annotated[
        int | None, typer.Option("--beam-size", "-k", min=1, help="1 is greedy; the model's own unless told.")
    ] = None,
    n_best: Annotated[int, typer.Option("--n-best", min=1, help="Translations a line, at most the beam.")] = 1,
    length_penalty: Annotated[
        float | None, typer.Option("--length-penalty", min=0.0, help="alpha of ((5+n)/6)^alpha.")
    ] = None,
    format_: Annotated[str, typer.Option("--format", help="text, jsonl or moses.")] = "text",
    alignment: Annotated[str, typer.Option("--alignment", help="none, hard (Pharaoh) or soft (weights).")] = "none",
    sample: Annotated[bool, typer.Option("--sample", help="Draw from the model instead of searching.")] = False,
    temperature: Annotated[float, typer.Option("--temperature", min=0.01, help="Of --sample.")] = 1.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of --sample.")] = 1,
    copy_unknown: Annotated[
        bool, typer.Option("--copy-unknown", help="Copy words that the model does not know from where it looked.")
    ] = False,
    markup: Annotated[
        bool, typer.Option("--markup", help="Carry tags (<b>...</b>) and placeholders (__URL__) across by alignment.")
    ] = False,
    no_repeat_ngram: Annotated[
        int | None, typer.Option("--no-repeat-ngram", min=0, help="No sequence of N pieces twice; 0 is off.")
    ] = None,
    batch_tokens: Annotated[
        int | None, typer.Option("--batch-tokens", min=1, help="Beam rows times source positions in a batch.")
    ] = None,
    shortlist: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--shortlist", help="Say only what `nmt shortlist` found to go with the source: faster.", metavar="FILE"
        ),
    ] = None,
    device: Device = "auto",
    precision: Annotated[str, typer.Option("--precision", help="auto (fp32), fp32, bf16 or int8.")] = "auto",
    threads: Threads = None,
    checkpoint: Checkpoint = "best",
) -> None:
    """Translate lines of text; as many come out as go in, in order.

    Example: nmt translate file.txt --model runs/demo
    """
    for option, value, allowed in (
        ("--format", format_, ("text", "jsonl", "moses")),
        ("--alignment", alignment, ("none", "hard", "soft")),
    ):
        if value not in allowed:
            raise InputError(f"{option} {value}: must be one of {', '.join(allowed)}")
    from nmt_cli.commands.loading import open_translator
    from nmt_cli.data.lines import iter_lines, open_input
    from nmt_cli.data.output import open_output
    from nmt_cli.translation.formats import formatter
    from nmt_cli.translation.translator import WINDOW_SIZE
    from nmt_cli.translation.windows import ReadAhead

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
            sampling_temperature=temperature if sample else None,
            seed=seed,
        )
        if translator.options.with_alignment and not translator.models.has_attention:
            raise InputError(
                "this model has no attention, so --alignment, --copy-unknown and --markup are not possible"
            )
        if not sample and n_best > translator.options.beam_size:
            raise InputError(
                f"--n-best {n_best}: is more than the beam, {translator.options.beam_size}; raise --beam-size"
            )
        write = formatter(format_, n_best=n_best, alignment=alignment)
        with open_output(output) as out, Progress("translating", unit="line") as progress:
            clock = _Clock()
            for window in ReadAhead(iter_lines(stream), WINDOW_SIZE).windows():
                first = translator.counts.lines
                for number, translated in enumerate(translator.translate_window(window), start=first):
                    out.write(write(number, translated).encode("utf-8", errors="replace"))
                out.flush()
                progress.advance(len(window))
        translator.report()
        counts = translator.counts
        seconds = clock.seconds()
        log(
            f"{counts.lines:,} lines in {seconds:.1f} s: {counts.lines / seconds:,.1f} sentences/s, "
            f"{counts.target_pieces / seconds:,.0f} tokens/s"
        )


class _Clock:
    def __init__(self) -> None:
        from time import monotonic

        self._now = monotonic
        self._began = monotonic()

    def seconds(self) -> float:
        return max(self._now() - self._began, 1e-9)
