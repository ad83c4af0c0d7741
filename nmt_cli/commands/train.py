"""`nmt train`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt_cli.commands.options import ConfigFile, Overrides
from nmt_cli.commands.refusals import (
    check_alike,
    check_counts,
    check_inputs,
    check_resumable,
    check_same_step,
    check_same_text,
    check_shared,
    check_test_files,
    check_tokenizers,
    content_digests,
    finished_reason,
    limits_of,
    vectors_needed,
)
from nmt_cli.console import log, log_file, warn
from nmt_cli.errors import InputError

if TYPE_CHECKING:
    from torch import nn

    from nmt_cli.config.schema import Config
    from nmt_cli.data.store import PairStore
    from nmt_cli.distributed import World
    from nmt_cli.experiment import Experiment
    from nmt_cli.model.seq2seq import Seq2Seq
    from nmt_cli.training.trainer import Trainer
    from nmt_cli.training.validation import Validator


def train(
    config: ConfigFile,
    set_: Overrides = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Check the configuration and its files, print it as it would be, train nothing."
        ),
    ] = False,
) -> None:
    """Train a model; the tokenizer first where there is none. The same command again resumes exactly.

    Example: nmt train --config configs/multi30k_en_de.yaml
    """
    from nmt_cli.config.loader import dump_config, load_config, with_absolute_paths
    from nmt_cli.distributed import open_world
    from nmt_cli.experiment import Experiment

    with open_world() as world:
        effective = world.agreed(lambda: with_absolute_paths(load_config(config, set_ or ())))
        experiment = Experiment(Path(effective.model_dir))
        if dry_run:
            world.agreed(lambda: check_inputs(experiment, effective))
            world.agreed(lambda: check_counts(effective))
            world.agreed(lambda: check_resumable(experiment, effective))
            if world.is_primary:
                print(dump_config(effective), end="")
            return
        run_training(experiment, effective, world)


def run_training(experiment: Experiment, config: Config, world: World) -> None:
    """Train, or go on training, in the model directory until the configured end."""
    with ExitStack() as stack:
        world.agreed(lambda: check_alike(config, world))
        finished, *_ = world.gathered(
            world.agreed(lambda: _finished(experiment.directory, config) if world.is_primary else None)
        )
        if finished is not None:
            limit = "patience" if finished.startswith("no better") else finished.partition(" ")[0]
            log(f"finished already ({finished}); raise training.{limit} to go on")
            world.agreed(lambda: _take_test_sets(experiment, config) if world.is_primary else None)
            return
        world.agreed(lambda: stack.enter_context(experiment.lock()) if world.is_primary else None)
        world.agreed(lambda: check_shared(experiment, world))
        world.agreed(lambda: check_resumable(experiment, config))
        world.agreed(lambda: check_inputs(experiment, config))
        if world.is_primary:
            stack.enter_context(log_file(experiment.log_path))
        _train(experiment, config, world)


def _finished(directory: Path, config: Config) -> str | None:
    """Return why the run there has ended, or None. It is told without the lock, for which a directory must be writable;
    so nothing that was read here is kept for a training."""
    from nmt_cli.experiment import Experiment

    experiment = Experiment(directory)
    check_resumable(experiment, config)
    return finished_reason(experiment, config)


def _train(experiment: Experiment, config: Config, world: World) -> None:
    import torch

    from nmt_cli.allocator import keep_freed_memory
    from nmt_cli.distributed import make_deterministic
    from nmt_cli.training.metrics_log import MetricsLog

    training = config.training
    world.agreed(lambda: world.take_device(training.device))
    keep_freed_memory()
    if training.threads:
        torch.set_num_threads(training.threads)
    if training.deterministic and world.device.type == "cuda":
        make_deterministic()
    world.agreed(lambda: _prepare(experiment, config) if world.is_primary else None)
    store = world.first(lambda: _open_store(experiment, config, world))
    model, frozen = world.agreed(lambda: _first_model(experiment, config))
    digests = world.agreed(lambda: content_digests(config, store, frozen))
    bf16, *_ = world.gathered(_is_bf16(config, world))
    trainer = world.agreed(
        lambda: _build_trainer(
            experiment, config, model.to(world.device), store, world, bf16=bf16, text=" ".join(digests.values())
        )
    )
    checkpoints = experiment.checkpoints
    world.agreed(
        lambda: trainer.restore(checkpoints, experiment.fingerprints) if checkpoints.index().last is not None else None
    )
    world.agreed(lambda: check_same_text(experiment, trainer.state.text, digests))
    world.agreed(lambda: check_same_step(experiment, trainer.state.step, world))
    if trainer.state.step:
        log(f"resuming at step {trainer.state.step:,}, epoch {trainer.state.epochs_done:.2f}")
    _tell_precision(training.precision, trainer.state.precision, world)
    _tell_path(trainer.state.path, world)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    processes = f"{world.size} processes of " if world.size > 1 else ""
    log(
        f"{config.name}: {len(store):,} pairs, {parameters:,} parameters, {world.device} in {trainer.state.precision}, "
        f"{processes}{torch.get_num_threads()} threads"
    )
    metrics = MetricsLog(
        experiment.metrics_path if world.is_primary else None,
        keep_to_step=trainer.state.step,
        tensorboard=experiment.tensorboard_path if training.tensorboard and world.is_primary else None,
    )
    reason = trainer.run(checkpoints, experiment.fingerprints, metrics)
    best = checkpoints.index().best
    described = f"; best {best[0].metric} {best[0].value:.2f} at step {best[0].step:,}" if best else ""
    rewinds = f"; {trainer.state.rewinds} rewinds" if trainer.state.rewinds else ""
    log(f"finished: {reason}{described}{rewinds}")
    log(f"try: nmt translate FILE --model {experiment.directory}")


def _take_test_sets(experiment: Experiment, config: Config) -> None:
    """Write the configuration of a finished run where its test sets are new, so that `nmt evaluate` finds them."""
    from nmt_cli.commands.tokenizer import write_config

    if experiment.config_path.exists() and experiment.config.data.test == config.data.test:
        return
    check_test_files(config)
    write_config(experiment, config)
    log(f"test sets: {', '.join(test.name for test in config.data.test) or 'none'}")
    if config.data.test:
        log(f"try: nmt evaluate --model {experiment.directory}")


def _warn_of_other_threads(experiment: Experiment, config: Config) -> None:
    if experiment.checkpoints.index().last is None or not experiment.config_path.exists():
        return
    before, now = experiment.config.training.threads, config.training.threads
    if before != now:
        warn(
            f"training.threads was {before or 'null'} and is {now or 'null'} now. Another number "
            "of threads rounds differently, so the parameters will differ slightly from an unchanged run's"
        )


def _prepare(experiment: Experiment, config: Config) -> None:
    """Write the configuration, and make the tokenizers and directories that are not there."""
    from nmt_cli.commands.tokenizer import renew_tokenizers, write_config
    from nmt_cli.files import make_directory

    check_tokenizers(experiment, config)
    if experiment.has_tokenizers(joint=config.tokenizer.joint):
        _warn_of_other_threads(experiment, config)
        write_config(experiment, config)
    else:
        renew_tokenizers(experiment, config)
    make_directory(experiment.checkpoints.directory)


def _open_store(experiment: Experiment, config: Config, world: World) -> PairStore:
    import torch

    from nmt_cli.data.corpus import Corpus
    from nmt_cli.data.store import Filters, open_store

    store = open_store(
        experiment.cache_path,
        [Corpus(c.source, c.target, c.weight, c.alignment) for c in config.data.train],
        experiment.tokenizers,
        Filters(config.data.max_length, config.data.max_length_ratio, config.data.invalid_utf8),
        with_text=_is_guided(config),
        threads=torch.get_num_threads() * world.local_size,  # the other processes of this machine wait
    )
    for name, report in store.reports.items():
        log(f"{name}: {report}")
    return store


def _is_guided(config: Config) -> bool:
    return bool(config.training.guided_alignment_weight) and any(corpus.alignment for corpus in config.data.train)


def _first_model(experiment: Experiment, config: Config) -> tuple[Seq2Seq, dict[str, list[list[int]]]]:
    """The model with its first parameters: drawn, pretrained vectors, or another run's. And the rows of its embeddings
    that stay as they are, by the file whose vectors they were, for each side that has them."""
    from nmt_cli.checkpoint import MODEL_FILE, load_parameters
    from nmt_cli.data.embeddings import freeze_rows, load_embeddings
    from nmt_cli.experiment import Experiment
    from nmt_cli.model.build import build_model, initialize

    source, target = experiment.tokenizers
    model = build_model(config.model, source_vocab_size=source.vocab_size, target_vocab_size=target.vocab_size)
    initialize(model, seed=config.seed, scheme=config.model.initialization)
    found = {}
    for side, path in zip(("source", "target"), vectors_needed(experiment, config), strict=True):
        if path:
            tokenizer, table = (source if side == "source" else target), _embedding(model, side)
            pieces = tokenizer.pieces(range(tokenizer.vocab_size))
            found[side] = path, load_embeddings(Path(path), pieces, table)
            log(f"{path}: embeddings for {len(found[side][1]):,} of {len(pieces):,} pieces")
    if config.training.init_from and experiment.checkpoints.index().last is None:
        origin = Experiment(Path(config.training.init_from))
        if origin.fingerprints != experiment.fingerprints:
            raise InputError(
                f"training.init_from: {origin.directory} has another tokenizer than {experiment.directory}, so its "
                f"weights are those of other pieces; remove {experiment.directory / 'tokenizer'}, and it is taken too"
            )
        load_parameters(model, origin.checkpoints.resolve("best") / MODEL_FILE)
    frozen: dict[str, list[list[int]]] = {}
    if config.model.pretrained.freeze:
        for side, (path, rows) in found.items():
            freeze_rows(_embedding(model, side), rows)
            frozen.setdefault(path, []).append(rows)
    return model, frozen


def _embedding(model: Seq2Seq, side: str) -> nn.Parameter:
    return model.source_embedding if side == "source" else model.target_embedding


def _build_validator(experiment: Experiment, config: Config, world: World) -> Validator | None:
    from nmt_cli.commands.loading import decoding_options
    from nmt_cli.training.validation import DevSet, Validator

    if config.data.dev is None:
        return None
    return Validator(
        DevSet.read(config.data.dev.source, config.data.dev.target),
        experiment.tokenizers,
        decoding_options(config.decoding),
        world=world,
        tokenize=config.scoring.tokenize,
        lowercase=config.scoring.lowercase,
        num_samples=config.training.num_samples,
    )


def _tell_path(path: str, world: World) -> None:
    """Say it once where a training on a CPU is slower than it could be; a run goes on as it began."""
    from nmt_cli.ops import native

    if world.device.type != "cpu":
        return
    if path == native.NATIVE and not native.is_built():
        warn("the run began with compiled kernels, which this installation lacks: slower, and other last digits")
    elif not native.is_built():
        log(native.why_missing())
    elif path == native.PLAIN:
        log("without compiled kernels, as the run began")


def _tell_precision(asked: str, taken: str, world: World) -> None:
    """Say it once where the hardware would have it otherwise; a run goes on in the precision in which it began."""
    from nmt_cli.distributed import multiplies_bf16

    if multiplies_bf16(world.device):
        return
    if taken == "bf16":
        why = "as training.precision says" if asked == "bf16" else "because the run began in it"
        warn(f"this hardware does not multiply bfloat16 natively: training in it {why}, more slowly than in float32")
    elif asked == "auto":
        log("this hardware does not multiply bfloat16 natively: training in float32")


def _is_bf16(config: Config, world: World) -> bool:
    """Whether a new training multiplies in bfloat16."""
    from nmt_cli.distributed import multiplies_bf16

    precision = config.training.precision
    return precision == "bf16" or (precision == "auto" and multiplies_bf16(world.device))


def _build_trainer(
    experiment: Experiment, config: Config, model: Seq2Seq, store: PairStore, world: World, *, bf16: bool, text: str
) -> Trainer:
    from nmt_cli.data.sampler import Sampler
    from nmt_cli.training.batches import BatchMaker
    from nmt_cli.training.captured import CapturedBackward, graphs_for
    from nmt_cli.training.loss import TranslationLoss
    from nmt_cli.training.optim import Schedule, build_optimizer
    from nmt_cli.training.trainer import Rhythm, Trainer, Update

    training = config.training
    optimizer = build_optimizer(
        training.optimizer,
        [parameter for parameter in model.parameters() if parameter.requires_grad],
        learning_rate=training.learning_rate,
        betas=(training.adam_beta1, training.adam_beta2),
        rho=training.adadelta_rho,
        epsilon=training.epsilon,
        momentum=training.momentum,
        weight_decay=training.weight_decay,
    )
    sampler = Sampler(
        store.source_lengths,
        store.target_lengths,
        bounds=store.bounds,
        target_pieces=store.target_pieces,
        weights=[corpus.weight for corpus in config.data.train],
        batch_size=training.batch_size,
        batch_type=training.batch_type,
        seed=config.seed,
    )
    if world.size > 1 and sampler.sentences_a_batch < world.size:
        raise InputError(
            f"training.batch_size: {training.batch_size} {training.batch_type} are about "
            f"{sampler.sentences_a_batch:.1f} sentences, for {world.size} processes; raise it, or start fewer"
        )
    guided = _is_guided(config)
    update = Update(
        loss=TranslationLoss(
            label_smoothing=training.label_smoothing,
            coverage_weight=config.model.attention.coverage_loss,
            alignment_weight=training.guided_alignment_weight if guided else 0.0,
        ),
        schedule=Schedule(
            training.schedule, training.learning_rate, training.warmup_steps, training.final_learning_rate
        ),
        accumulate=training.accumulate,
        clip_grad_norm=training.clip_grad_norm,
        bf16=bf16,
        seed=config.seed,
        rewinds=training.on_divergence == "rewind",
    )
    # The sum over processes hangs on autograd's nodes, and these on a stream that is not the captures'.
    graphs = graphs_for(world.device) if world.size == 1 else None
    if world.size > 1 and world.device.type == "cuda":
        log("several processes launch kernel by kernel; CUDA graphs are for one")
    return Trainer(
        model,
        optimizer,
        sampler,
        BatchMaker(
            store, experiment.tokenizers, seed=config.seed, sampling_alpha=config.tokenizer.sampling_alpha,
            with_links=guided,
        ),
        update=update,
        limits=limits_of(config),
        rhythm=Rhythm(
            validation_freq=training.validation_freq,
            checkpoint_freq=training.checkpoint_freq,
            logging_freq=training.logging_freq,
            keep_best=training.keep_best,
            keep_last=training.keep_last,
            early_stopping_metric=training.early_stopping_metric,
            plateau_factor=training.plateau_factor if training.schedule == "plateau" else 1.0,
            plateau_patience=training.plateau_patience,
        ),
        validator=_build_validator(experiment, config, world),
        ema_decay=training.ema_decay,
        world=world,
        captured=None if graphs is None else CapturedBackward(model, update.loss, graphs),
        text=text,
    )  # fmt: skip
