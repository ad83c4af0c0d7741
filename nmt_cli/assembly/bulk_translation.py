"""The translation of many files by workers on this machine or on a Ray cluster."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from nmt_cli.assembly.model_options import PRECISIONS
from nmt_cli.assembly.translation_pool import started_pool, worker_builder
from nmt_cli.assembly.translation_task import TranslationTask
from nmt_cli.config.decoding import DecodingOptions
from nmt_cli.experiment import Experiment
from nmt_cli.system import signals
from nmt_cli.system.cluster import Resources, connect, require_ray
from nmt_cli.system.console import Progress, format_count, log, warn
from nmt_cli.system.errors import InputError, Interrupted
from nmt_cli.system.files import sha256_of
from nmt_cli.system.workers import Builder, launcher_of, num_workers
from nmt_cli.translation.json_lines import JsonField, is_json_lines
from nmt_cli.translation.line_tasks import LinePool, Window
from nmt_cli.translation.pool import WorkersDied
from nmt_cli.translation.shards import BulkTranslation, Part

if TYPE_CHECKING:
    from nmt_cli.assembly.model_options import ModelOptions
    from nmt_cli.assembly.translation_task import DecodingOverrides

LOG_SECONDS = 10.0
"""Seconds between two log lines about the progress."""


def translate_in_bulk(
    inputs: Sequence[Path],
    directory: Path,
    models: ModelOptions,
    decoding: DecodingOverrides,
    *,
    shortlist: Path | None,
    field: str | None,
    output_field: str | None,
    part_lines: int,
    address: str | None,
) -> None:
    """Write a translation of each file into a directory; what an earlier call has translated there is kept.

    Args:
        inputs: text files and files of JSON lines.
        directory: the directory of the translations.
        models: the models; `threads` and `device` are those of each worker.
        decoding: the options of the search.
        shortlist: a file of `nmt shortlist` that limits the target pieces of the search, or None.
        field: the field of JSON lines with the text.
        output_field: the field for the translation, which is added to each JSON line.
        part_lines: number of lines in a part. A part is written when all its lines are translated; if the command is
            stopped before, resuming translates the whole part again.
        address: the address of a Ray cluster; None makes the workers processes of this machine.

    Raises:
        InputError: an option, a file or a model is wrong, Ray is missing, or the directory has translations of other
            text, by other models or with other options.
        Interrupted: a signal has come.
    """
    if address is not None:
        if models.device not in ("auto", "cpu", "cuda"):
            raise InputError(
                f"--device {models.device}: must be auto, cpu or cuda; Ray says which worker gets which GPU"
            )
        require_ray()
    if models.precision not in PRECISIONS:
        raise InputError(f"--precision {models.precision}: must be one of {', '.join(PRECISIONS)}")
    models = replace(models, threads=models.threads or 1)
    experiments = models.experiments()
    options = DecodingOptions.of(experiments[0].config.decoding, **decoding.values())
    if output_field and not field:
        warn("--output-field does nothing without --field")
    fingerprints = [experiment.fingerprint(models.checkpoint) for experiment in experiments]
    task = TranslationTask(file=None, output=None, shortlist=shortlist and shortlist.resolve())
    conditions = _conditions(options, experiments, fingerprints, task, models)
    if field and not any(map(is_json_lines, inputs)):
        raise InputError(f"--field {field}: no input ends in .jsonl or .jsonl.gz")
    json_field = JsonField(field, output_field or "translation") if field else None
    with _signals_as_interrupted(), BulkTranslation.lock(directory):
        corpus = BulkTranslation(directory, inputs, conditions, part_lines=part_lines, json_field=json_field)
        log(
            f"{format_count(len(corpus.shards), 'file')}, {corpus.num_skipped:,} finished before; "
            f"{format_count(corpus.num_parts_skipped, 'part')} of the others done before, {corpus.num_parts:,} to do "
            f"({format_count(corpus.num_lines, 'line')})"
        )
        if corpus.num_parts:
            runs = [Experiment(one.directory.resolve(), one.direction) for one in experiments]

            def load(own: ModelOptions) -> Builder:
                return worker_builder("lines", task, runs, own, decoding, fingerprints)

            with _opened_pool(load, models, address) as pool:
                _translate_parts(corpus, pool)
        corpus.close()


def _conditions(
    options: DecodingOptions,
    experiments: Sequence[Experiment],
    fingerprints: Sequence[str],
    task: TranslationTask,
    models: ModelOptions,
) -> dict[str, Any]:
    """Return the settings that change the translations, and so must be the same when the command is resumed."""
    direction = experiments[0].direction
    return {
        "model": ", ".join(fingerprint[:16] for fingerprint in fingerprints),
        "direction": None if direction is None else str(direction),
        # The batch may have to be smaller where memory did not suffice, and does not matter in fp32.
        **options.model_dump(exclude={"batch_tokens"}),
        "shortlist": None if task.shortlist is None else sha256_of(task.shortlist)[:16],
        "precision": "fp32" if models.precision == "auto" else models.precision,
        "device": models.device,
        "threads": models.threads,
    }


@contextmanager
def _opened_pool(
    load: Callable[[ModelOptions], Builder], models: ModelOptions, address: str | None
) -> Iterator[LinePool]:
    """Yield a pool of workers on the Ray cluster at `address`, or on this machine if it is None.

    `load` takes the options of a worker's models, and returns the function that loads them.
    """
    threads = models.threads or 1
    if address is None:
        workers = models.workers or num_workers(threads)
        with started_pool(launcher_of(load(models), threads=threads), workers) as pool:
            yield pool
        return
    with connect(address, num_cpus=models.workers and models.workers * threads) as cluster:
        device, needs, room = _worker_resources(cluster.resources(), models.device, threads)
        launcher = cluster.launcher(load(replace(models, device=device)), needs=needs, threads=threads)
        with started_pool(launcher, models.workers or room) as pool:
            yield pool


def _worker_resources(available: Resources, device: str, threads: int) -> tuple[str, Resources, int]:
    """Return the device of each worker, the resources that Ray reserves for it, and the number of workers that fit."""
    if device == "cuda" and not available.gpus:
        raise InputError("--device cuda: Ray has no GPU; take cpu or auto")
    if device != "cpu" and available.gpus:
        return "cuda", Resources(cpus=1, gpus=1), available.gpus
    # More threads than cores are the user's business; Ray would wait for the cores for ever.
    return "cpu", Resources(cpus=min(threads, max(1, available.cpus)), gpus=0), max(1, available.cpus // threads)


def _translate_parts(corpus: BulkTranslation, pool: LinePool) -> None:
    """Translate the parts that no earlier run has written, write each of them, and log the speed."""
    num_lines, given = corpus.num_lines, deque[Part]()

    def windows() -> Iterator[Window]:
        for part in corpus.parts():
            given.append(part)
            yield Window(corpus.texts(part), part.first_line)

    began = logged = monotonic()
    with Progress("translating", total=num_lines, unit="line") as progress:
        try:
            for translations in pool.translate_windows(windows()):
                part = given.popleft()
                corpus.write_part(part, translations)
                progress.advance(len(translations))
                if monotonic() - logged >= LOG_SECONDS and not progress.is_shown:
                    logged = monotonic()
                    left = num_lines - pool.counts.lines
                    seconds = left * (logged - began) / pool.counts.lines
                    log(f"{pool.speed()}; {format_count(left, 'line')} left, about {timedelta(seconds=round(seconds))}")
        except WorkersDied as error:
            raise WorkersDied(f"{given[0].shard.source}: {error}") from error
    assert not corpus.num_parts
    pool.report()
    log(f"{pool.speed()} -> {corpus.directory}")


@contextmanager
def _signals_as_interrupted() -> Iterator[None]:
    """Raise `Interrupted` if a signal to end comes while the block runs.

    In the block the signal raises KeyboardInterrupt, the only exception that Ray lets through.
    """
    received: list[int] = [signal.SIGINT]

    def stop(number: int, _: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    try:
        with signals.handle_signals(stop):
            yield
    except KeyboardInterrupt:
        raise Interrupted(
            "stopped; finished parts are kept. Run the same command again to resume", received[-1]
        ) from None
