"""A pool of workers for the models and the options of a command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

from nmt_cli.assembly.requested_translation import RequestedDecoding, TranslationTask
from nmt_cli.data.lines import input_name, is_special_file, is_standard_input, open_input
from nmt_cli.experiment import Experiment
from nmt_cli.system.workers import Build, Launcher, called, launcher_of, num_workers
from nmt_cli.translation.line_tasks import LinePool, LineTask
from nmt_cli.translation.pool import Pool

if TYPE_CHECKING:
    from nmt_cli.assembly.named_models import ModelOptions


@contextmanager
def open_pool(
    outputs: Literal["lines", "sentences"],
    task: TranslationTask,
    experiments: Sequence[Experiment],
    models: ModelOptions,
    decoding: RequestedDecoding,
) -> Iterator[LinePool]:
    """Yield a pool whose model is loaded. What comes back for a line is as `line_work` says.

    Raises:
        InputError: as `line_work` does.
    """
    # Anew, without what they have read: a worker reads for itself.
    runs = [Experiment(one.directory, one.direction) for one in experiments]
    workers = models.workers or num_workers(models.threads or 1)
    with _readable_elsewhere(task) as readable:
        build = loading(outputs, readable, runs, models, decoding)
        with started(launcher_of(build, threads=models.threads), workers) as pool:
            yield pool


def loading(
    outputs: Literal["lines", "sentences"],
    task: TranslationTask,
    experiments: Sequence[Experiment],
    models: ModelOptions,
    decoding: RequestedDecoding,
    fingerprints: Sequence[str] = (),
) -> Build:
    """Return what loads the models where a worker is; the arguments are those of `line_work`.

    How many threads a worker has is the business of what starts it.
    """
    own = replace(models, threads=None)
    return partial(
        called, "nmt_cli.assembly.line_work", "line_work", outputs, task, experiments, own, decoding, fingerprints
    )


@contextmanager
def started(launcher: Launcher, workers: int) -> Iterator[LinePool]:
    """Yield a pool of so many workers at most, one of which has loaded its model."""
    with Pool(launcher, workers=workers) as pool:
        pool.submit(LineTask((), ())).result()  # loads the model before anything is read
        yield LinePool(pool, workers)


@contextmanager
def _readable_elsewhere(task: TranslationTask) -> Iterator[TranslationTask]:
    """Yield the task with a copy of a glossary that comes from a stream, which another process could not read."""
    if task.glossary is None or not (is_standard_input(task.glossary) or is_special_file(task.glossary)):
        yield task
        return
    with TemporaryDirectory(prefix="nmt-") as directory, open_input(task.glossary) as stream:
        copy = Path(directory, input_name(task.glossary).replace("/", "-"))
        copy.write_bytes(stream.read())
        yield replace(task, glossary=str(copy))
