"""`nmt shortlist`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt_cli.commands.options import Checkpoint, Device, ModelDir, SourceText, TargetText, Threads, output_file
from nmt_cli.data.lines import input_name
from nmt_cli.data.output import open_output
from nmt_cli.experiment import Experiment
from nmt_cli.system.console import Progress, log
from nmt_cli.system.errors import InputError
from nmt_cli.translation.windows import windows_of_pairs


def shortlist(
    source: SourceText,
    target: TargetText,
    model: ModelDir,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="The file to write, whole or not at all.", metavar="OUT", parser=output_file
        ),
    ],
    likely: Annotated[
        int,
        typer.Option(
            "--likely", min=1, metavar="N",
            help="Number of target pieces that go with a source piece, besides the frequent ones.",
        ),
    ] = 20,
    frequent: Annotated[
        int,
        typer.Option(
            "--frequent", min=1, metavar="N",
            help="Number of the most frequent target pieces, which every sentence may use.",
        ),
    ] = 100,
    device: Device = "auto",
    threads: Threads = None,
    checkpoint: Checkpoint = "best",
) -> None:  # fmt: skip
    """Learn which target pieces go with a source piece, for `nmt translate --shortlist`.

    Example: nmt shortlist train.en train.fr --model runs/demo -o runs/demo/shortlist.safetensors
    """
    from nmt_cli.assembly.inputs import refuse_standard_input_twice
    from nmt_cli.assembly.overwriting import refuse_overwriting
    from nmt_cli.assembly.translator import open_scorer
    from nmt_cli.translation.shortlist import LinkCounts, write_shortlist

    refuse_standard_input_twice([source, target])
    refuse_overwriting(output, [source, target], [Experiment(model)])
    if output.suffix == ".gz":
        raise InputError(f"{output}: a shortlist cannot be compressed. Leave out .gz")
    scorer = open_scorer([model], checkpoint=checkpoint, device=device, threads=threads)
    if not scorer.models.has_attention:
        raise InputError("this model has no attention (model.attention.type: none), so it cannot make a shortlist")
    sides = scorer.tokenizers
    counts = LinkCounts(*(side.vocab_size for side in sides))
    num_pairs = 0
    with open_output(output) as out, Progress("aligning", unit="pair") as progress:
        for window in windows_of_pairs(source, target):
            scores = scorer.scores([(pair.source, pair.target) for pair in window])
            counts.add(
                [
                    (sides[0].ids_of(scored.source_pieces), sides[1].ids_of(scored.target_pieces), scored.piece_weights)
                    for scored in scores
                ]
            )
            num_pairs += len(window)
            progress.advance(len(window))
        if not num_pairs:
            raise InputError(f"{input_name(source)} is empty; a shortlist is learnt from parallel text")
        if not counts.has_links:
            raise InputError(
                f"{input_name(source)} | {input_name(target)}: no pair has text on both sides; a shortlist is learnt "
                "from parallel text"
            )
        made = counts.shortlist(frequent=frequent, likely=likely, joint=sides[0] is sides[1])
        write_shortlist(out, made, Experiment(model).fingerprints)
    log(
        f"{output}: {len(made.frequent_F):,} frequent pieces and up to {likely} for each source piece hold "
        f"{counts.share_within(made):.2%} of the links of {num_pairs:,} pairs"
    )
