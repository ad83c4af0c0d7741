"""`nmt improve`."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt_cli.commands.options import ConfigFile, Overrides
from nmt_cli.system.console import command_line, log
from nmt_cli.system.files import locked

if TYPE_CHECKING:
    pass


def improve(
    config: ConfigFile,
    set_: Overrides = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR",
            help="The directory of the new model and of all stages. The default is model_dir with -improved.",
        ),
    ] = None,
    rounds: Annotated[
        int, typer.Option("--rounds", min=1, max=100, metavar="N", help="Translate the text N times, each time better.")
    ] = 1,
    ensemble: Annotated[
        int, typer.Option("--ensemble", min=1, max=100, metavar="K", help="Train K models with different seeds.")
    ] = 1,
    distil: Annotated[
        bool, typer.Option("--distil", help="At the end, train one model on the translations of the ensemble.")
    ] = False,
    ratio: Annotated[
        float,
        typer.Option(
            "--ratio", min=0.01, max=1_000.0, metavar="R",
            help="Translated lines in each epoch, as a multiple of the pairs; at most all there are.",
        ),
    ] = 2.0,
    beam_size: Annotated[
        int, typer.Option("--beam-size", "-k", min=1, max=1_000, metavar="N", help="Beam for text to learn from.")
    ] = 5,
    sample: Annotated[
        bool | None,
        typer.Option(
            "--sample/--best",
            help="Draw the translations to learn from at random, or search the best. From 500,000 pairs on: drawn.",
        ),
    ] = None,
    keep_sizes: Annotated[
        bool,
        typer.Option(
            "--keep-sizes",
            help="Keep the sizes of the configuration, instead of those that `nmt init` gives to so much text.",
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print the plan, with time and disk space for this machine. Make nothing."),
    ] = False,
) -> None:  # fmt: skip
    """Make a better model from pairs and text in one language. To go on after a stop, give the same command again.

    The configuration names the text: data.monolingual: {target: [FILE], source: [FILE]}. The stages are ordinary
    commands, which are printed: clean the text, train the reverse direction, translate the target text back, train on
    both. DIR becomes an ordinary model directory.

    Example: nmt improve --config en_de.yaml --rounds 2
    """
    from nmt_cli.assembly.improvement import (
        MIN_LINES_TO_MEASURE,
        amounts_of_text,
        carry_out,
        check,
        first_tokenizers,
        measured,
        print_plan,
        sizes_of_stages,
    )
    from nmt_cli.assembly.resume_checks import config_to_train
    from nmt_cli.improve.plan import Recipe, plan
    from nmt_cli.improve.record import LOCK, Ledger
    from nmt_cli.system.distributed import find_device

    effective = config_to_train(config, set_ or ())
    directory = Path(os.path.realpath(output if output is not None else f"{effective.model_dir}-improved"))
    int8 = find_device(effective.training.device).type == "cpu"
    recipe = Recipe(rounds, ensemble, distil, ratio, beam_size, sample, int8, not keep_sizes)
    ledger = Ledger(directory)
    ledger.check_place(effective)
    ledger.check_plan(effective, recipe)
    if ledger.is_finished and not dry_run:
        log(f"finished already; try: {command_line('nmt', 'translate', 'FILE', '--model', directory)}")
        return
    check(effective, directory)
    amounts = amounts_of_text(effective)
    fixed = keep_sizes or effective.training.init_from is not None
    sizes = {} if fixed else sizes_of_stages(effective, recipe, amounts)
    planned = partial(plan, effective, recipe, amounts, directory, sizes)
    stages = planned()
    is_long = sum(stage.work.lines for stage in stages if stage.config is not None) >= MIN_LINES_TO_MEASURE
    is_new = not ledger.plan_path.is_file()
    tokenizers = first_tokenizers(effective) if dry_run or is_new or is_long else {}
    if effective.training.max_steps is not None:
        log("training.max_steps is for a training on the pairs; a training on twice the lines gets twice the updates")
    if dry_run:
        print_plan(stages, ledger, measured(effective, recipe, tokenizers))
        return

    with locked(directory / LOCK, "the directory of `nmt improve`", "wait for it or choose another -o"):
        ledger.check_place(effective)
        ledger.check_plan(effective, recipe)
        ledger.remove_leftovers(stages)
        carry_out(planned, ledger, effective, recipe, tokenizers if is_long else {})
