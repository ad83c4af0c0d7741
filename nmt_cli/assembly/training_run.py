"""A training: all its parts, built from its configuration or its last checkpoint, and run to its end."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from nmt_cli.assembly.confidence import calibrate_after_training
from nmt_cli.assembly.initialization import first_model
from nmt_cli.assembly.language_profiles import write_language_profiles
from nmt_cli.assembly.measured_settings import choose_precision, choose_threads, contention_monitor, log_precision
from nmt_cli.assembly.normalization import open_normalizer, write_text_profile
from nmt_cli.assembly.optimization import build_accumulator, build_weights, has_guided_alignment, has_sampled_softmax
from nmt_cli.assembly.process_checks import check_same_directory, check_same_setup, check_same_step
from nmt_cli.assembly.resume_checks import (
    binding_values,
    check_resumable,
    check_same_text,
    check_tokenizers,
    content_digests,
    finished_reason,
    load_training_config,
    stopping_criteria_of,
)
from nmt_cli.assembly.run_lock import locked_run, restored_if_refused
from nmt_cli.assembly.tokenizers import renew_tokenizers, write_config
from nmt_cli.assembly.training_inputs import check_counts, check_inputs, check_test_files, tokenizer_origin
from nmt_cli.assembly.word_pair_corpus import epoch_weights, write_word_pairs
from nmt_cli.config.decoding import DecodingOptions
from nmt_cli.config.loader import dump_config
from nmt_cli.config.unused_keys import unused_keys
from nmt_cli.data.batch import BatchMaker
from nmt_cli.data.pairs import Corpus, LengthLimits
from nmt_cli.data.sampler import Sampler
from nmt_cli.data.store import open_store
from nmt_cli.experiment import Experiment
from nmt_cli.ops import native
from nmt_cli.system.console import command_line, format_count, log, log_file, log_once, warn
from nmt_cli.system.distributed import make_deterministic, open_world
from nmt_cli.system.errors import InputError
from nmt_cli.system.files import make_directory
from nmt_cli.system.memory import keep_few_kernels, keep_freed_memory
from nmt_cli.training.metrics_log import MetricsLog
from nmt_cli.training.optim import Schedule
from nmt_cli.training.recovery import Recovery
from nmt_cli.training.state import Intervals, TrainingState
from nmt_cli.training.trainer import Trainer
from nmt_cli.training.update import BatchLoader
from nmt_cli.training.validation import DevSet, DirectionsValidator, Validator

if TYPE_CHECKING:
    from torch import Tensor

    from nmt_cli.config.model import ModelConfig
    from nmt_cli.config.schema import Config
    from nmt_cli.data.store import PairStore
    from nmt_cli.model.seq2seq import Seq2Seq
    from nmt_cli.system.distributed import World


def train_model(path: Path, overrides: Sequence[str], *, dry_run: bool) -> Experiment:
    """Train the run that a configuration describes, or resume it, in one process or in those that torchrun starts, and
    return the run.

    With `dry_run` everything is only checked, and the configuration is printed with all defaults.

    Raises:
        ConfigError: the configuration is wrong.
        InputError: the text, the model directory or the device is unfit, or the directory holds another run.
    """
    began = time.monotonic()
    with open_world() as world:
        config = world.run_in_all(lambda: load_training_config(path, overrides))
        for line in unused_keys(config):
            warn(line)
        experiment = Experiment(Path(config.model_dir))
        if not dry_run:
            run_training(experiment, config, world, began + 60.0 * (config.training.max_minutes or math.inf))
            return experiment
        world.run_in_all(lambda: check_inputs(experiment, config))
        world.run_in_all(lambda: check_counts(config))
        world.run_in_all(lambda: check_resumable(experiment, config))
        if world.is_primary:
            print(dump_config(config), end="")
        return experiment


def run_training(experiment: Experiment, config: Config, world: World, deadline: float = math.inf) -> None:
    """Train, or resume a training, in the model directory until the configured end or until `deadline`.

    `deadline` is a time of `time.monotonic`, in seconds.

    Raises:
        InputError: the text, the model directory or the device is unfit, or the directory holds another run.
    """
    with ExitStack() as stack:
        world.run_in_all(lambda: check_same_setup(config, world))
        finished, *_ = world.all_gather(
            world.run_in_all(lambda: _end_reason(experiment.directory, config) if world.is_primary else None)
        )
        if finished is not None:
            limit = finished.partition(" ")[0]
            log(f"finished already ({finished}); raise training.{limit} to go on")
            world.run_in_all(lambda: _update_finished_config(experiment, config) if world.is_primary else None)
            return
        world.run_in_all(lambda: stack.enter_context(locked_run(experiment)) if world.is_primary else None)
        world.run_in_all(lambda: check_same_directory(experiment, world))
        with restored_if_refused(experiment) if world.is_primary else nullcontext():
            world.run_in_all(lambda: check_resumable(experiment, config))
            world.run_in_all(lambda: check_inputs(experiment, config))
            if world.is_primary:
                stack.enter_context(log_file(experiment.log_path))
            trainer = _prepare_trainer(experiment, config, world)
        _train(trainer, experiment, config, world, deadline)


def _end_reason(directory: Path, config: Config) -> str | None:
    """Return the reason for which the run in a directory has ended, or None.

    The lock is not taken, because the directory need not be writable for this. So nothing that is read here may be
    kept for a training.
    """
    experiment = Experiment(directory)
    check_resumable(experiment, config)
    return finished_reason(experiment, config)


def _prepare_trainer(experiment: Experiment, config: Config, world: World) -> Trainer:
    """Make everything that a training needs, and return the trainer at the step at which it begins or resumes."""
    training = config.training
    world.run_in_all(lambda: world.take_device(training.device))
    keep_freed_memory()
    keep_few_kernels()
    if training.threads:
        torch.set_num_threads(training.threads)
    if training.deterministic and world.device.type == "cuda":
        make_deterministic()
    world.run_in_all(lambda: _prepare_directory(experiment, config) if world.is_primary else None)
    store = world.primary_first(lambda: _open_store(experiment, config, world))
    target_counts = _target_counts(experiment, config, store, world)
    model, frozen = world.run_in_all(lambda: first_model(experiment, config, target_counts))
    digests = world.run_in_all(lambda: content_digests(experiment, config, store, frozen))
    bf16 = choose_precision(experiment, config, model, world, 1 + sum(store.target_pieces) / max(1, len(store)))
    model, text = model.to(world.device), " ".join(digests.values())
    trainer = world.run_in_all(
        lambda: _build_trainer(experiment, config, model, store, world, target_counts, bf16=bf16, text=text)
    )
    world.run_in_all(trainer.restore)
    world.run_in_all(lambda: check_same_text(experiment, trainer.state.text, digests))
    world.run_in_all(lambda: check_same_step(experiment, trainer.state.step, world))
    world.run_in_all(lambda: choose_threads(experiment, config, trainer, world))
    if trainer.state.step:
        log(f"resuming at update {trainer.state.step:,}, epoch {trainer.state.epochs_done:.2f}")
    log_precision(training.precision, trainer.state.precision, world)
    _log_kernels(trainer.state.path, world)
    _log_dot_projection(config.model)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    processes = f"{world.size} processes of " if world.size > 1 else ""
    log(
        f"{config.name}: {len(store):,} pairs, {parameters:,} parameters, {world.device} in {trainer.state.precision}, "
        f"{processes}{format_count(torch.get_num_threads(), 'thread')}"
    )
    return trainer


def _train(trainer: Trainer, experiment: Experiment, config: Config, world: World, deadline: float) -> None:
    """Train to the end, fit the confidence, and log the reason for the end and the best score."""
    reason = trainer.run(contention_monitor(world), deadline)
    best = experiment.checkpoints.index().best
    described = f"; best {best[0].metric} {best[0].value:.2f} at update {best[0].step:,}" if best else ""
    rewinds = f"; {trainer.state.rewinds} rewinds" if trainer.state.rewinds else ""
    world.run_in_all(
        lambda: calibrate_after_training(experiment, config, str(world.device)) if world.is_primary else None
    )
    trainer.finish(reason)  # killed before, the same command makes the confidence again
    log(f"finished: {reason}{described}{rewinds}")
    first, *others = config.data.directions
    choice = first.options if others else ()
    log(f"try: {command_line('nmt', 'translate', 'FILE', '--model', experiment.directory, *choice)}")


def _update_finished_config(experiment: Experiment, config: Config) -> None:
    """Write the configuration of a finished run again if its test sets or its licence are new, so that `nmt evaluate`
    and `nmt card` find them."""
    before, data = experiment.config.data if experiment.config_path.exists() else None, config.data
    has_new_tests = before is None or before.test != data.test
    has_new_licence = before is None or before.licence != data.licence
    if not has_new_tests and not has_new_licence:
        return
    check_test_files(config)
    write_config(experiment, config)
    if has_new_licence:
        log(f"licence of the data: {data.licence or 'unknown'}")
    if has_new_tests:
        log(f"test sets: {', '.join(test.name for test in data.test) or 'none'}")
    if has_new_tests and data.test:
        log(f"try: {command_line('nmt', 'evaluate', '--model', experiment.directory)}")


def _warn_of_newer_text(experiment: Experiment, config: Config) -> None:
    """Warn if the tokenizers of a run that has not begun are older than its training text, from which they are made."""
    if experiment.has_begun or tokenizer_origin(config) is not None:
        return
    made = min(path.stat().st_mtime for path in experiment.tokenizer_paths())
    texts = [path for corpus in config.data.train for path in (corpus.source, corpus.target)]
    for path in (path for path in texts if Path(path).stat().st_mtime > made):
        warn(
            f"{path}: has changed since the tokenizer was trained. If its text is different, train the tokenizer "
            f"again: {command_line('nmt', 'tokenizer', '--config', experiment.config_path)}"
        )


def _prepare_directory(experiment: Experiment, config: Config) -> None:
    """Write the configuration, and make the tokenizers, profiles, word pairs and directories that are missing."""
    check_tokenizers(experiment, config)
    if experiment.has_tokenizers(joint=config.tokenizer.joint):
        _warn_of_newer_text(experiment, config)
        write_config(experiment, config)
    else:
        renew_tokenizers(experiment, config)
    make_directory(experiment.checkpoints.directory)
    write_language_profiles(experiment, config)
    write_text_profile(experiment, config)
    write_word_pairs(experiment, config)


def _corpora(experiment: Experiment, config: Config) -> list[Corpus]:
    """Return the training corpora: those of the configuration, and the word pairs that were learned from them."""
    data = config.data
    corpora = [Corpus(c.source, c.target, c.weight, c.alignment, data.direction_of(c).tags) for c in data.train]
    if data.word_pairs:
        for one, direction in zip(experiment.of_each_direction(config), data.directions, strict=True):
            source, target = map(str, one.word_pairs_paths)
            corpora.append(Corpus(source, target, tags=direction.tags))
    return corpora


def _open_store(experiment: Experiment, config: Config, world: World) -> PairStore:
    """Return the store of the tokenised pairs of all corpora; corpora that are not yet in the cache are tokenised."""
    store = open_store(
        experiment.cache_path,
        _corpora(experiment, config),
        experiment.tokenizers,
        LengthLimits(config.data.max_length, config.data.max_length_ratio, config.data.invalid_utf8),
        with_links=has_guided_alignment(config),
        threads=torch.get_num_threads() * world.local_size,  # the other processes of this machine wait
    )
    for name, report in store.reports.items():
        log(f"{name}: {report}")
    return store


def _target_counts(experiment: Experiment, config: Config, store: PairStore, world: World) -> Tensor | None:
    """Return the counts of the target pieces (V) in the training text; None without a sampled softmax."""
    if not has_sampled_softmax(config, world):
        if config.training.sampled_softmax:
            log("training.sampled_softmax: works on the CPU only, so it is off here")
        return None
    return torch.from_numpy(store.target_counts(experiment.tokenizers[1].vocab_size))


def _build_validator(experiment: Experiment, config: Config, world: World) -> Validator | DirectionsValidator | None:
    """Return the validator that translates and scores the dev sets of all directions; None without a dev set."""
    if config.data.dev is None:
        return None
    parts = experiment.of_each_direction(config)
    if len(parts) == 1:
        return _validator(experiment, config, world)
    return DirectionsValidator(
        {
            str(one.direction): _validator(one, config.for_direction(one.direction), world)
            for one in parts
            if one.direction
        }
    )


def _validator(experiment: Experiment, config: Config, world: World) -> Validator:
    """Return the validator that translates and scores the dev set of one direction."""
    return Validator(
        DevSet.read(config.data.dev_sets),
        experiment.tokenizers,
        DecodingOptions.of(config.decoding),
        world=world,
        normalizer=open_normalizer(experiment, config.decoding),
        tokenize=config.scoring.tokenize,
        lowercase=config.scoring.lowercase,
        num_samples=config.training.num_samples,
    )


def _log_dot_projection(model: ModelConfig) -> None:
    """Log if the attention score `dot` needs a matrix, because decoder and encoder states differ in size."""
    score = model.attention.score if model.attention.type.startswith("local") else model.attention.type
    if score == "dot" and model.decoder.hidden_size != model.annotation_size:
        log(
            f"model.attention: decoder states have {model.decoder.hidden_size} units and encoder states "
            f"{model.annotation_size}, so dot projects the encoder states, as general does"
        )


def _log_kernels(path: str, world: World) -> None:
    """Log if a training on a CPU is slower than with compiled kernels; `path` says whether the run began with them."""
    if world.device.type != "cpu":
        return
    if path == native.NATIVE and not native.is_built():
        warn(
            "the run began with compiled kernels, which this installation lacks. Training continues without "
            "them: slower, and different in the last digits"
        )
    elif not native.is_built():
        log_once(native.why_missing())
    elif path == native.PLAIN:
        log("training without compiled kernels, because the run began without them")


def _build_loader(experiment: Experiment, config: Config, store: PairStore, world: World) -> BatchLoader:
    """Return the loader of the batches of this process; `InputError` if batches are too small for the processes."""
    training = config.training
    sampler = Sampler(
        store.source_lengths, store.target_lengths, bounds=store.bounds, target_pieces=store.target_pieces,
        weights=epoch_weights(config, np.diff(store.bounds).tolist()), batch_size=training.batch_size,
        batch_type=training.batch_type, seed=config.seed,
    )  # fmt: skip
    if world.size > 1 and sampler.sentences_per_batch < world.size:
        raise InputError(
            f"training.batch_size: a batch holds only about {sampler.sentences_per_batch:.1f} sentences, but "
            f"{world.size} processes share it. Raise training.batch_size, or start fewer processes"
        )
    make_batch = BatchMaker(
        store, experiment.tokenizers, seed=config.seed, sampling_alpha=config.tokenizer.sampling_alpha,
        with_links=has_guided_alignment(config),
    )  # fmt: skip
    return BatchLoader(sampler, make_batch, world)


def _early_stopping_metric(config: Config) -> str:
    """Return the name of the score for early stopping in the metrics of a validation, such as bleu or bleu_de-en."""
    metric, direction = config.training.early_stopping_metric, config.training.early_stopping_direction
    return metric if direction is None or len(config.data.directions) == 1 else f"{metric}_{direction}"


def _build_trainer(
    experiment: Experiment, config: Config, model: Seq2Seq, store: PairStore, world: World,
    target_counts: Tensor | None, *, bf16: bool, text: str,
) -> Trainer:  # fmt: skip
    """Return the trainer with all its parts, before its state is restored. `text` has the digests of the text files."""
    training, stopping, weights = config.training, stopping_criteria_of(config), build_weights(config, model)
    intervals = Intervals(
        validation_freq=training.validation_freq if config.data.dev else None,
        checkpoint_freq=training.checkpoint_freq,
        logging_freq=training.logging_freq,
        keep_best=training.keep_best,
        keep_last=training.keep_last,
        early_stopping_metric=_early_stopping_metric(config),
        plateau_factor=training.plateau_factor if training.schedule == "plateau" else 1.0,
        plateau_patience=training.plateau_patience,
    )
    metrics = MetricsLog(
        experiment.metrics_path if world.is_primary else None,
        tensorboard=experiment.tensorboard_path if training.tensorboard and world.is_primary else None,
    )
    state = TrainingState.first(
        weights.trained[0], bf16=bf16, text=text, accumulate=training.accumulate,
        configuration=json.dumps(binding_values(config)),
    )  # fmt: skip
    recovery = Recovery(
        experiment.checkpoints, experiment.fingerprints, weights, metrics, first=state, stopping=stopping,
        intervals=intervals, rewinds=training.on_divergence == "rewind",
        clips_gradients=training.clip_grad_norm is not None,
        world=world,
    )  # fmt: skip
    schedule = Schedule(training.schedule, training.learning_rate, training.warmup_steps, training.final_learning_rate)
    loader = _build_loader(experiment, config, store, world)
    accumulator = build_accumulator(config, model, world, target_counts)
    return Trainer(
        weights, loader, accumulator, recovery, schedule=schedule, clip_grad_norm=training.clip_grad_norm,
        stopping=stopping, intervals=intervals, validator=_build_validator(experiment, config, world), metrics=metrics,
        world=world,
    )  # fmt: skip
