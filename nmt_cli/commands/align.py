"""`nmt align`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from nmt_cli.commands.options import Checkpoint, Device, ModelDirs, OutputFile, SourceText, TargetText, Threads
from nmt_cli.data.lines import input_name
from nmt_cli.data.output import open_output
from nmt_cli.system.console import counted, log
from nmt_cli.system.errors import InputError
from nmt_cli.translation.windows import windows_of_pairs

if TYPE_CHECKING:
    from nmt_cli.text.alignment import Link


def align(
    source: SourceText,
    target: TargetText,
    model: ModelDirs = None,
    output: OutputFile = None,
    format_: Annotated[
        str, typer.Option("--format", metavar="F", help="pharaoh (0-0 1-2) or jsonl (words, links and weights).")
    ] = "pharaoh",
    level: Annotated[
        str,
        typer.Option(
            "--level", metavar="L", help="What is aligned: word (between white space in the raw text) or piece."
        ),
    ] = "word",
    gold: Annotated[
        str | None,
        typer.Option(
            "--gold", help="True links, a line a pair: 0-0 is sure, 0?1 possible. The error rate goes to stderr.",
            metavar="FILE",
        ),
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
    checkpoint: Checkpoint = "best",
) -> None:  # fmt: skip
    """Align the words of given pairs by the model's attention.

    Example: nmt align source.txt target.txt --model runs/demo
    """
    from nmt_cli.assembly.alignment_quality import check_links, read_gold, record
    from nmt_cli.assembly.inputs import refuse_standard_input_twice
    from nmt_cli.assembly.named_models import named_models
    from nmt_cli.assembly.overwriting import refuse_overwriting

    for option, value, allowed in (("--format", format_, ("pharaoh", "jsonl")), ("--level", level, ("word", "piece"))):
        if value not in allowed:
            raise InputError(f"{option} {value}: must be one of {', '.join(allowed)}")
    if gold is not None and level == "piece":
        raise InputError("--gold: true links are between words; leave out --level piece")
    from nmt_cli.assembly.translator import open_scorer
    from nmt_cli.text.alignment import alignment_error_rate, hard_links, pharaoh

    inputs = [source, target, *([] if gold is None else [gold])]
    refuse_standard_input_twice(inputs)
    experiments = named_models(list(model or []))
    refuse_overwriting(output, inputs, experiments)
    if gold is not None:
        sure, possible = read_gold(gold)
    directories = [experiment.directory for experiment in experiments]
    scorer = open_scorer(directories, checkpoint=checkpoint, device=device, threads=threads)
    if not scorer.models.has_attention:
        without = scorer.models.without_attention
        raise InputError(f"{without} (model.attention.type: none), so it cannot align")
    found: list[list[Link]] = []
    with open_output(output) as out:
        for window in windows_of_pairs(source, target):
            scores = scorer.scores([(pair.source, pair.target) for pair in window])
            for pair, scored in zip(window, scores, strict=True):
                weights = scored.weights if level == "word" else scored.piece_weights
                links = hard_links(weights)
                if gold is not None:
                    if pair.number <= len(sure):
                        own = sure[pair.number - 1] | possible[pair.number - 1]
                        check_links(f"{input_name(gold)}:{pair.number}", own, weights.shape)
                    found.append(links)
                if format_ == "pharaoh":
                    line = pharaoh(links)
                else:
                    line = json.dumps(record(pair, scored, level, links), ensure_ascii=False)
                out.write(line.encode("utf-8", errors="replace") + b"\n")
            out.flush()
        if gold is not None and len(sure) != len(found):
            lines, pairs = counted(len(sure), "line"), counted(len(found), "aligned pair")
            raise InputError(f"{input_name(gold)} has {lines} for {pairs}; line i must have the links of pair i")
    if gold is not None:
        log(f"AER = {alignment_error_rate(found, sure, possible):.4f}")
