"""`nmt improve`."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nmt_cli.commands.options import ConfigFile, Overrides
from nmt_cli.console import command_line, log, warn
from nmt_cli.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nmt_cli.config.schema import Config
    from nmt_cli.data.tokenizer import Tokenizer
    from nmt_cli.improve.estimate import Speed
    from nmt_cli.improve.plan import Amounts, Recipe
    from nmt_cli.improve.record import Ledger
    from nmt_cli.improve.stages import Stage

MIN_LINES_TO_MEASURE = 200_000
"""Lines of all trainings from which on a short trial is worth its time."""


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
    from nmt_cli.distributed import find_device
    from nmt_cli.improve.plan import Recipe, plan
    from nmt_cli.improve.record import LOCK, Ledger
    from nmt_cli.preflight.resuming import config_to_train

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
    _check(effective, directory)
    amounts = _amounts(effective)
    fixed = keep_sizes or effective.training.init_from is not None
    sizes = {} if fixed else _sizes(effective, recipe, amounts)
    planned = partial(plan, effective, recipe, amounts, directory, sizes)
    stages = planned()
    is_long = sum(stage.work.lines for stage in stages if stage.config is not None) >= MIN_LINES_TO_MEASURE
    is_new = not ledger.plan_path.is_file()
    tokenizers = _first_tokenizers(effective) if dry_run or is_new or is_long else {}
    if effective.training.max_steps is not None:
        log("training.max_steps is for a training on the pairs; a training on twice the lines gets twice the updates")
    if dry_run:
        _print_plan(stages, ledger, _measured(effective, recipe, tokenizers))
        return
    from nmt_cli.files import locked

    with locked(directory / LOCK, "the directory of `nmt improve`", "wait for it or choose another -o"):
        ledger.check_place(effective)
        ledger.check_plan(effective, recipe)
        ledger.remove_leftovers(stages)
        _go(planned, ledger, effective, recipe, tokenizers if is_long else {})


def _check(config: Config, directory: Path) -> None:
    """Refuse what would stop a stage, and a configuration without text in one language."""
    from nmt_cli.experiment import Experiment
    from nmt_cli.preflight.inputs import check_counts, check_inputs

    if config.data.monolingual is None:
        raise InputError(
            "data.monolingual: is missing. Name text in one language there, such as monolingual: {target: [mono.de]}"
        )
    if config.tokenizer.model_type == "word" and config.model.attention.type == "none":
        raise InputError(
            "tokenizer.model_type: word models write ⁇ for unknown words, and without attention (model.attention.type: "
            "none) these cannot be copied from the source. So their translations are no text to learn from. Choose "
            "another model_type, or an attention"
        )
    check_inputs(Experiment(directory), config)
    check_counts(config)
    if config.data.dev is None:
        warn("data.dev: is missing, so no training is stopped or chosen by a score")


def _amounts(config: Config) -> Amounts:
    from nmt_cli.improve.plan import Amounts
    from nmt_cli.improve.record import count_lines

    def counted(paths: Sequence[str]) -> tuple[int, ...]:
        return tuple(count_lines(Path(path)) for path in paths)

    text = config.data.monolingual
    amounts = Amounts(
        counted([corpus.source for corpus in config.data.train]),
        counted(text.target if text else ()),
        counted(text.source if text else ()),
    )
    if not sum((*amounts.target, *amounts.source)):
        raise InputError("data.monolingual: the files hold no line")
    return amounts


def _sizes(config: Config, recipe: Recipe, amounts: Amounts) -> dict[str, Any]:
    """Return the sizes for the lines of one epoch, where the configuration has those that `nmt init` gave to the pairs.

    A run that goes out from another one keeps the sizes of that one.
    """
    from dataclasses import replace

    from nmt_cli.data.pairs import Corpus
    from nmt_cli.preflight.sizing import resized, sizes_for
    from nmt_cli.preflight.survey import survey

    text = config.data.monolingual
    pairs = [Corpus(corpus.source, corpus.target) for corpus in config.data.train]
    alone = survey(pairs)
    num_lines = sum((*amounts.target, *amounts.source))
    num_pairs = alone.num_pairs + min(num_lines, round(recipe.ratio * alone.num_pairs))
    others = [Corpus(path, path) for path in ((*text.target, *text.source) if text else ())]
    sizes = resized(config, sizes_for(alone), sizes_for(replace(survey([*pairs, *others]), num_pairs=num_pairs)))
    if sizes:
        told = ", ".join(f"{key} {value}" for key, value in sizes.items())
        log(f"sizes for the {num_pairs:,} lines of an epoch (--keep-sizes keeps the sizes for the pairs): {told}")
    return sizes


def _first_tokenizers(config: Config) -> dict[str, Tokenizer]:
    """Return the tokenizers of the first training by side. It learns from the pairs alone, so they allow the fewest
    pieces.

    Raises:
        InputError: the pairs do not allow the vocabulary, which the training would find after the text was cleaned.
    """
    from nmt_cli.commands.tokenizer import tokenizers_of, trained_tokenizers

    log(f"checking that the pairs allow tokenizer.vocab_size {config.tokenizer.vocab_size}")
    text = config.data.monolingual
    # The reverse direction goes out from no other run.
    return trained_tokenizers(config) if text is not None and text.target else tokenizers_of(config)


def _measured(config: Config, recipe: Recipe, tokenizers: Mapping[str, Tokenizer]) -> Speed:
    """Return the speed of this machine; where the trial fails, the speed of a slow one, with a warning."""
    from nmt_cli.improve.estimate import TRIAL_STEPS, Speed, TrialError, measure

    log(f"measuring this machine by a training of {TRIAL_STEPS} steps")
    try:
        return measure(config, tokenizers, beam_size=recipe.beam_size, int8=recipe.int8)
    except TrialError as error:
        warn(f"{error}. So the times are rough")
        return Speed()


def _print_plan(stages: Sequence[Stage], ledger: Ledger, speed: Speed) -> None:
    from nmt_cli.improve.estimate import table

    measured = "for this machine as it is now" if speed.is_measured else "rough, because the trial failed"
    print(f"{len(stages)} stages in {ledger.directory}; times {measured}")
    for line in table(stages, speed):
        print(line)


def _go(
    planned: Callable[..., list[Stage]],
    ledger: Ledger,
    config: Config,
    recipe: Recipe,
    tokenizers: Mapping[str, Tokenizer],
) -> None:
    """Run what has not been run, and make the result. With tokenizers, the speed of this machine is measured first."""
    from nmt_cli.improve.estimate import Speed
    from nmt_cli.improve.plan import final_models
    from nmt_cli.improve.result import best_of, copy_model, publish
    from nmt_cli.improve.running import run_stages

    stages = planned()
    if not ledger.plan_path.is_file():
        ledger.write_plan(config, recipe, stages)
    speed = _measured(config, recipe, tokenizers) if tokenizers else Speed()
    run_stages(planned, ledger, speed)
    models = final_models(stages)
    chosen = best_of(models)
    copy_model(chosen, ledger.directory)
    ledger.write_result(recipe, stages, chosen, models)
    publish(chosen, ledger.directory)
    log(f"finished: {ledger.directory} holds the model of {chosen.relative_to(ledger.directory)}")
    _compare(config, chosen)
    if len(models) > 1:
        named = (word for model in models for word in ("--model", model))
        together = command_line("nmt", "translate", "FILE", *named)
        log(f"all {len(models)} together translate better and more slowly: {together}")
    log(f"try: {command_line('nmt', 'translate', 'FILE', '--model', ledger.directory)}")


def _compare(config: Config, chosen: Path) -> None:
    """Tell the dev score of the result, beside the score of the model from the pairs alone, if there is one."""
    from nmt_cli.checkpoint import sign
    from nmt_cli.improve.result import dev_score, score_before

    now, before = dev_score(chosen), score_before(config)
    if now is None:
        return
    told = f"{now.metric} of the result on the dev set: {now.value:.2f}"
    if before is None or before.metric != now.metric:
        log(told)
        return
    told += f"; of the model in {config.model_dir}: {before.value:.2f}"
    if sign(now.metric) * (now.value - before.value) > 0:
        log(told)
    else:
        warn(f"the result is not better than the model before. {told}")
