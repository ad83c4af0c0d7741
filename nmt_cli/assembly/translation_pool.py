"""A pool of workers for the models and the options of a command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

from nmt_cli.assembly.translation_task import DecodingOverrides, TranslationTask
from nmt_cli.data.lines import input_name, is_special_file, is_standard_input, open_input
from nmt_cli.experiment import Experiment
from nmt_cli.system.workers import Builder, Launcher, import_and_call, launcher_of, num_workers
from nmt_cli.translation.line_tasks import LinePool, LineTask
from nmt_cli.translation.pool import Pool

if TYPE_CHECKING:
    from nmt_cli.assembly.model_options import ModelOptions


@contextmanager
def open_pool(
    outputs: Literal["lines", "sentences"],
    task: TranslationTask,
    experiments: Sequence[Experiment],
    models: ModelOptions,
    decoding: DecodingOverrides,
) -> Iterator[LinePool]:
    """Yield a pool of workers that translate, one of which has loaded the models; `outputs` is as in `line_work`.

    Raises:
        InputError: as for `line_work`.
    """
    # Anew, without what they have read: a worker reads for itself.
    runs = [Experiment(one.directory, one.direction) for one in experiments]
    workers = models.workers or num_workers(models.threads or 1)
    with _with_readable_glossary(task) as readable:
        build = worker_builder(outputs, readable, runs, models, decoding)
        with started_pool(launcher_of(build, threads=models.threads), workers) as pool:
            yield pool


def worker_builder(
    outputs: Literal["lines", "sentences"],
    task: TranslationTask,
    experiments: Sequence[Experiment],
    models: ModelOptions,
    decoding: DecodingOverrides,
    fingerprints: Sequence[str] = (),
) -> Builder:
    """Return a function that a worker process calls to load the models; the arguments are those of `line_work`.

    `models.threads` is ignored, because the launcher sets the number of threads of a worker.
    """
    own = replace(models, threads=None)
    return partial(
        import_and_call,
        "nmt_cli.assembly.line_work",
        "line_work",
        outputs,
        task,
        experiments,
        own,
        decoding,
        fingerprints,
    )


@contextmanager
def started_pool(launcher: Launcher, workers: int) -> Iterator[LinePool]:
    """Yield a pool of at most `workers` workers, one of which has loaded its model."""
    with Pool(launcher, workers=workers) as pool:
        pool.submit(LineTask((), ())).result()  # loads the model before anything is read
        yield LinePool(pool, workers)


@contextmanager
def _with_readable_glossary(task: TranslationTask) -> Iterator[TranslationTask]:
    """Yield the task with a glossary that workers can read: one from standard input or a pipe is copied to a file."""
    if task.glossary is None or not (is_standard_input(task.glossary) or is_special_file(task.glossary)):
        yield task
        return
    with TemporaryDirectory(prefix="nmt-") as directory, open_input(task.glossary) as stream:
        copy = Path(directory, input_name(task.glossary).replace("/", "-"))
        copy.write_bytes(stream.read())
        yield replace(task, glossary=str(copy))
