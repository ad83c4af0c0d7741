"""A better model from pairs and text in one language: the stages of `nmt improve`, planned and carried out."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt_cli.assembly.language_profiles import learn_profiles
from nmt_cli.assembly.resume_checks import load_training_config
from nmt_cli.assembly.tokenizers import tokenizers_of, trained_tokenizers
from nmt_cli.assembly.training_inputs import check_counts, check_inputs
from nmt_cli.corpora.sizes import size_changes, sizes_for
from nmt_cli.corpora.survey import survey
from nmt_cli.data.language_profile import LanguageProfile, language_probabilities
from nmt_cli.data.lines import decode_line, iter_lines, open_input
from nmt_cli.data.pairs import Corpus
from nmt_cli.experiment import Experiment
from nmt_cli.improve.estimate import Speed, TrialError, measure_machine, plan_lines
from nmt_cli.improve.plan import LineCounts, final_models, has_reverse_directions, plan
from nmt_cli.improve.record import LOCK, StageRecords, count_lines
from nmt_cli.improve.result import baseline_checkpoint, best_checkpoint, best_model, copy_model, dev_bleu, publish
from nmt_cli.improve.stage_runner import run_stages, warn_of_poor_teacher
from nmt_cli.improve.training import has_all_directions
from nmt_cli.system.console import command_line, format_count, log, warn
from nmt_cli.system.errors import InputError
from nmt_cli.system.files import locked
from nmt_cli.text.direction import format_directions
from nmt_cli.training.checkpoints import metric_sign, read_meta

if TYPE_CHECKING:
    from nmt_cli.config.schema import Config
    from nmt_cli.data.tokenizer import Tokenizer
    from nmt_cli.improve.plan import Recipe
    from nmt_cli.improve.stages import Stage

LINES_TO_JUDGE = 500
"""Number of first lines of a file in one language by which its language is judged."""
MIN_LANGUAGE_PROBABILITY = 0.9
"""Probability of a language above which a line is taken to be in it."""
MIN_LINES_TO_MEASURE = 200_000
"""Least number of lines, over all epochs of all trainings, for which a trial measures the speed of the machine."""


def improve_model(
    path: Path,
    overrides: Sequence[str],
    output: Path | None,
    recipe: Recipe,
    *,
    dry_run: bool,
    workers: int | None = None,
) -> None:
    """Run the stages that are not finished, and make the directory of the new model; or only print the plan.

    Args:
        path: the configuration of the model from the pairs alone.
        overrides: settings `KEY=VALUE` that replace values of the configuration.
        output: the directory of the new model; None means `model_dir` with `-improved`.
        recipe: the options of the command; its `int8` is replaced by whether the device is a CPU.
        workers: processes that translate; None for one for each core.
        dry_run: print the stages with their time and disk space, and make nothing.

    Raises:
        ConfigError: the configuration is wrong.
        InputError: the text is missing or unfit, or the directory holds something else or another plan.
    """
    config = load_training_config(path, overrides)
    from nmt_cli.system.distributed import find_device

    directory = Path(os.path.realpath(output if output is not None else f"{config.model_dir}-improved"))
    recipe = replace(recipe, int8=find_device(config.training.device).type == "cpu")
    records = StageRecords(directory)
    records.check_result_directory(config)
    records.check_plan(config, recipe)
    if records.is_finished and not dry_run:
        command = command_line("nmt", "translate", "FILE", "--model", directory, *_direction_options(config))
        log(f"finished already; try: {command}")
        return
    _check_configuration(config, directory)
    _check_reverse(config, recipe)
    line_counts = _line_counts(config)
    is_fixed = not recipe.resizes or config.training.init_from is not None or len(config.data.directions) > 1
    sizes = {} if is_fixed else _sizes_of_stages(config, recipe, line_counts)
    make_stages = partial(plan, config, recipe, line_counts, directory, sizes)
    stages = make_stages()
    is_long = sum(stage.work.lines for stage in stages if stage.config is not None) >= MIN_LINES_TO_MEASURE
    is_new = not records.plan_path.is_file()
    tokenizers = _first_tokenizers(config, recipe) if dry_run or is_new or is_long else {}
    if config.training.max_steps is not None:
        log("training.max_steps is for a training on the pairs; a training on twice the lines gets twice the updates")
    if dry_run:
        _print_plan(stages, records, _measured_speed(config, recipe, tokenizers))
        return
    with locked(directory / LOCK, "used as the directory of `nmt improve`", "wait for it or choose another -o"):
        records.check_result_directory(config)
        records.check_plan(config, recipe)
        records.remove_leftovers(stages)
        _execute_plan(make_stages, records, config, recipe, tokenizers if is_long else {}, workers)


def _check_configuration(config: Config, directory: Path) -> None:
    """Refuse a configuration or text with which a stage would fail, or that has no text in one language."""
    if config.data.monolingual is None:
        raise InputError(
            "data.monolingual: is missing. Give text in one language by --target-text or --source-text, or name it "
            "there, such as monolingual: {target: [mono.de]}"
        )
    if config.tokenizer.model_type == "word" and config.model.attention.type == "none":
        raise InputError(
            "tokenizer.model_type: word models write ⁇ for unknown words, and without attention (model.attention.type: "
            "none) these cannot be copied from the source. So their translations cannot be learned from. Choose "
            "another model_type, or an attention"
        )
    check_inputs(Experiment(directory), config)
    check_counts(config)
    _refuse_other_languages(config)
    if config.data.dev is None:
        warn("data.dev: is missing, so no training is stopped or chosen by a score")


def _check_reverse(config: Config, recipe: Recipe) -> None:
    """Refuse a model in `--reverse` that cannot translate the target text back, or that makes the source text useless.

    Warn if a reverse direction is trained from random weights at the learning rate of a fine-tuning.
    """
    origin = config.training.init_from
    if origin is not None and _trains_reverse_anew(config, recipe):
        warn(
            f"training.init_from: {origin} is no model of several directions with the reverse one, so the training of "
            f"the reverse direction begins with random weights, at the learning rate {config.training.learning_rate:g}"
            + ("" if recipe.reverse else ". If you have a model of the reverse direction, name it with --reverse")
        )
    if recipe.reverse is None:
        return
    if has_reverse_directions(config.data.directions):
        raise InputError("--reverse: this model has its directions both ways, and translates back by itself")
    languages = {language for _, language in config.data.monolingual_files("target")}
    if not languages:
        raise InputError("--reverse: translates text in the target language, and there is none (--target-text FILE)")
    if config.data.monolingual_files("source") and recipe.rounds == 1 and not recipe.distil:
        raise InputError(
            "--reverse: text in the source language teaches the reverse direction, which is not trained here; leave "
            "out that text, or --reverse"
        )
    _check_reverse_model(config, recipe.reverse, languages)


def _trains_reverse_anew(config: Config, recipe: Recipe) -> bool:
    """Return whether a stage trains the reverse direction from random weights."""
    directions, origin = config.data.directions, config.training.init_from
    if not config.data.monolingual_files("target") or has_reverse_directions(directions):
        return False
    if recipe.reverse is not None and recipe.rounds == 1:
        return False
    return origin is None or not has_all_directions(Path(origin), [one.reverse_direction for one in directions])


def _check_reverse_model(config: Config, directory: str, languages: Container[str]) -> None:
    """Refuse a model that cannot translate text in some languages back, and warn of a poor one."""
    reverse_model = Experiment(Path(directory))
    try:
        known, tokenizer = reverse_model.config.data.directions, reverse_model.config.tokenizer
        reverse_directions = [one.reverse_direction for one in config.data.directions if one.target in languages]
        if missing := tuple(one for one in reverse_directions if one not in known):
            raise InputError(f"{directory}: translates {format_directions(known)}, not {format_directions(missing)}")
        if tokenizer.model_type == "word" and config.tokenizer.model_type != "word":
            raise InputError(
                f"{directory}: is a model of whole words and writes ⁇ for unknown ones, which this model would learn. "
                "Give a model with another tokenizer.model_type"
            )
        if config.tokenizer.model_type == "word" and reverse_model.config.model.attention.type == "none":
            raise InputError(f"{directory}: cannot copy unknown words, because it has no attention")
        read_meta(reverse_model.checkpoints.resolve("best"), reverse_model.fingerprints)
        warn_of_poor_teacher(f"--reverse {directory}", dev_bleu(reverse_model.directory))
    except InputError as error:
        raise InputError(f"--reverse: {error}") from None


def _refuse_other_languages(config: Config) -> None:
    """Refuse a file if most of its first lines are in another language of the model than the configured one."""
    profiles = learn_profiles(config)
    problems = []
    for side in ("target", "source"):
        for path, language in config.data.monolingual_files(side):
            with open_input(path) as stream:
                lines = [decode_line(line)[0] for line in islice(iter_lines(stream), LINES_TO_JUDGE)]
            found = Counter(_detected_language(line, profiles) for line in lines)
            other, count = next(iter(found.most_common(1)), (None, 0))
            if other not in (None, language) and 2 * count > len(lines):
                problems.append(
                    f"data.monolingual.{side}: {path}: {count} of its first {format_count(len(lines), 'line')} look "
                    f"like {other}, not {language}. Give text in {language}, or name the file for {other}"
                )
    if problems:
        raise InputError("\n".join(problems))


def _detected_language(line: str, profiles: Mapping[str, LanguageProfile]) -> str | None:
    """Return the language of a line; None if its probability is not above MIN_LANGUAGE_PROBABILITY."""
    language, probability = next(iter(language_probabilities(line, profiles).items()))
    return language if probability > MIN_LANGUAGE_PROBABILITY else None


def _line_counts(config: Config) -> LineCounts:
    """Return the number of lines of each file; `InputError` if the files in one language have none."""

    def count_all(paths: Sequence[str]) -> tuple[int, ...]:
        return tuple(count_lines(Path(path)) for path in paths)

    line_counts = LineCounts(
        count_all([corpus.source for corpus in config.data.train]),
        *(count_all([path for path, _ in config.data.monolingual_files(side)]) for side in ("target", "source")),
    )
    if not sum((*line_counts.target, *line_counts.source)):
        raise InputError("data.monolingual: the files hold no line")
    return line_counts


def _sizes_of_stages(config: Config, recipe: Recipe, line_counts: LineCounts) -> dict[str, Any]:
    """Return enlarged sizes, as settings by dotted key, for the pairs and the translated lines of an epoch together.

    Only sizes that `nmt init` chose for the pairs alone are enlarged; a size that the user chose is not among them. A
    run with `training.init_from` has the sizes of that run, so this is not for it.
    """
    text = config.data.monolingual
    pairs = [Corpus(corpus.source, corpus.target) for corpus in config.data.train]
    alone = survey(pairs)
    num_lines = sum((*line_counts.target, *line_counts.source))
    num_pairs = alone.num_pairs + min(num_lines, round(recipe.ratio * alone.num_pairs))
    others = [Corpus(path, path) for path in (text.paths if text else ())]
    sizes = size_changes(config, sizes_for(alone), sizes_for(replace(survey([*pairs, *others]), num_pairs=num_pairs)))
    if sizes:
        changes = ", ".join(f"{key} {value}" for key, value in sizes.items())
        log(f"sizes enlarged for {num_pairs:,} lines in an epoch (--keep-sizes leaves them as configured): {changes}")
    return sizes


def _first_tokenizers(config: Config, recipe: Recipe) -> dict[str, Tokenizer]:
    """Return the tokenizers of the first training, by side.

    Unless they are those of `training.init_from`, they learn from the pairs alone, the least text of all trainings, so
    that they allow the smallest vocabulary.

    Raises:
        InputError: the pairs are too few for the vocabulary. The training would find this only after the cleaning.
    """
    log(f"checking that the pairs allow tokenizer.vocab_size {config.tokenizer.vocab_size}")
    return trained_tokenizers(config) if _trains_reverse_anew(config, recipe) else tokenizers_of(config)


def _measured_speed(config: Config, recipe: Recipe, tokenizers: Mapping[str, Tokenizer]) -> Speed:
    """Return the speed of this machine by a short trial; if it fails, warn and return the speed of a slow machine."""

    log("measuring this machine by a short training and a translation of a few lines")
    try:
        return measure_machine(config, tokenizers, beam_size=recipe.beam_size, int8=recipe.int8)
    except TrialError as error:
        warn(f"{error}. So the times are rough")
        return Speed()


def _print_plan(stages: Sequence[Stage], records: StageRecords, speed: Speed) -> None:
    """Print a line for each stage, with its time and its disk space."""
    measured = "for this machine as it is now" if speed.is_measured else "rough, because the trial failed"
    print(f"{len(stages)} stages in {records.directory}; times {measured}")
    for line in plan_lines(stages, speed):
        print(line)


def _execute_plan(
    make_stages: Callable[..., list[Stage]],
    records: StageRecords,
    config: Config,
    recipe: Recipe,
    tokenizers: Mapping[str, Tokenizer],
    workers: int | None,
) -> None:
    """Run the stages that are not finished, and make the directory of the new model.

    `make_stages` returns all stages; it takes the line counts of the texts made so far. If `tokenizers` (by side) is
    not empty, they are used to measure the speed of the machine first.
    """
    stages = make_stages()
    if not records.plan_path.is_file():
        records.write_plan(config, recipe, stages)
    speed = _measured_speed(config, recipe, tokenizers) if tokenizers else Speed()
    run_stages(make_stages, records, speed, workers=workers)
    models = final_models(stages)
    chosen = best_model(models)
    copy_model(chosen, records.directory)
    records.write_result(recipe, stages, chosen, models)
    publish(chosen, records.directory)
    log(f"finished: {records.directory} holds the model of {chosen.relative_to(records.directory)}")
    _log_dev_scores(config, chosen)
    if len(models) > 1:
        named = (word for model in models for word in ("--model", model))
        together = command_line("nmt", "translate", "FILE", *named, *_direction_options(config))
        log(f"all {len(models)} together translate better and more slowly: {together}")
    log(f"try: {command_line('nmt', 'translate', 'FILE', '--model', records.directory, *_direction_options(config))}")


def _direction_options(config: Config) -> tuple[str, ...]:
    """Return the command-line options that choose the first of several directions; empty if there is only one."""
    first, *others = config.data.directions
    return first.options if others else ()


def _log_dev_scores(config: Config, chosen: Path) -> None:
    """Log the dev score of the new model beside that of the model from the pairs alone; warn if it is not better."""
    now, before = best_checkpoint(chosen), baseline_checkpoint(config)
    if now is None:
        return
    message = f"{now.metric} of the result on the dev set: {now.value:.2f}"
    if before is None or before.metric != now.metric:
        log(message)
        return
    message += f"; of the model in {config.model_dir}: {before.value:.2f}"
    if metric_sign(now.metric) * (now.value - before.value) > 0:
        log(message)
    else:
        warn(f"the result is not better than the model before. {message}")
