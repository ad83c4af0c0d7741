"""The translation of many files by workers on this machine or on a Ray cluster."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from nmt_cli.assembly.named_models import PRECISIONS
from nmt_cli.assembly.requested_translation import need_attention
from nmt_cli.config.decoding import DecodingOptions
from nmt_cli.experiment import Experiment
from nmt_cli.system import signals
from nmt_cli.system.cluster import Resources, connect, require_ray
from nmt_cli.system.console import Progress, counted, log, warn
from nmt_cli.system.errors import InputError, Interrupted
from nmt_cli.system.files import sha256_of
from nmt_cli.translation.json_lines import JsonField, is_json_lines
from nmt_cli.translation.results import Counts

if TYPE_CHECKING:
    from nmt_cli.assembly.named_models import ModelOptions
    from nmt_cli.assembly.requested_translation import RequestedDecoding
    from nmt_cli.translation.shards import Answer, Corpus, Request

LOG_SECONDS = 10.0
"""Time between two lines on how far the translation is."""


def translate_in_bulk(
    inputs: Sequence[Path],
    directory: Path,
    models: ModelOptions,
    decoding: RequestedDecoding,
    *,
    shortlist: Path | None,
    field: str | None,
    output_field: str | None,
    part_lines: int,
    address: str | None,
    workers: int | None,
) -> None:
    """Write a translation of each file into a directory; what an earlier call has translated there is kept.

    Args:
        inputs: text files and files of JSON lines.
        directory: for the translations.
        models: `threads` are those of each worker, and `device` is its device.
        decoding: what is asked of the search.
        shortlist: as in `open_translator`.
        field: the field of JSON lines with the text.
        output_field: the field that is added to them.
        part_lines: lines that a worker translates at a time.
        address: of a Ray cluster; None starts Ray on this machine.
        workers: processes with the models; None means as many as there is room for.

    Raises:
        InputError: an option, a file or a model is wrong, Ray is missing, or the directory has translations of other
            text, by other models or with other options.
        Interrupted: a signal has come.
    """
    if models.device not in ("auto", "cpu", "cuda"):
        raise InputError(f"--device {models.device}: must be auto, cpu or cuda; Ray says which worker gets which GPU")
    if models.precision not in PRECISIONS:
        raise InputError(f"--precision {models.precision}: must be one of {', '.join(PRECISIONS)}")
    require_ray()
    from nmt_cli.translation.shards import Corpus

    experiments = models.experiments()
    options = DecodingOptions.of(experiments[0].config.decoding, **decoding.values())
    decoding.warn_of_idle()
    if output_field and not field:
        warn("--output-field does nothing without --field")
    fingerprints = [experiment.fingerprint(models.checkpoint) for experiment in experiments]
    conditions = _conditions(options, fingerprints, shortlist, models)
    settings = models.loading | {"shortlist": shortlist and shortlist.resolve(), **decoding.values()}
    start = partial(open_work, [experiment.directory.resolve() for experiment in experiments], fingerprints, settings)
    if field and not any(map(is_json_lines, inputs)):
        raise InputError(f"--field {field}: no input is called .jsonl or .jsonl.gz")
    json_field = JsonField(field, output_field or "translation") if field else None
    with _interruptible(), Corpus.held(directory):
        corpus = Corpus(directory, inputs, conditions, part_lines=part_lines, json_field=json_field)
        counts = _translate_parts(corpus, start, models, address=address, workers=workers)
        counts.report(options.max_source_pieces)
        corpus.close()


def _conditions(
    options: DecodingOptions, fingerprints: Sequence[str], shortlist: Path | None, models: ModelOptions
) -> dict[str, Any]:
    """Return what has a part in the translations, so must be the same when the command goes on."""
    return {
        "model": ", ".join(fingerprint[:16] for fingerprint in fingerprints),
        # The batch may have to be smaller where memory did not suffice, and does not matter in fp32.
        **options.model_dump(exclude={"batch_tokens"}),
        "shortlist": None if shortlist is None else sha256_of(shortlist)[:16],
        "precision": "fp32" if models.precision == "auto" else models.precision,
        "device": models.device,
        "threads": models.threads,
    }


def open_work(
    model_dirs: list[Path], fingerprints: list[str], settings: dict[str, Any], device: str
) -> Callable[[Request], Answer]:
    """Load the model in a worker, on the worker's own machine, once; return what does the work.

    Raises:
        InputError: there is no model in its place, or another one.
    """

    from nmt_cli.assembly.trained_translator import open_translator
    from nmt_cli.translation.shards import translate_request

    translator = open_translator(model_dirs, **settings | {"device": device})
    need_attention(translator)
    for directory, fingerprint in zip(model_dirs, fingerprints, strict=True):
        if Experiment(directory).fingerprint(settings["checkpoint"]) != fingerprint:
            raise InputError(
                f"{directory}: holds another model here than where the command was given; every machine of the "
                "cluster must see the same model under the same path"
            )
    return partial(translate_request, translator)


def _translate_parts(
    corpus: Corpus,
    start: Callable[..., Callable[[Request], Answer]],
    models: ModelOptions,
    *,
    address: str | None,
    workers: int | None,
) -> Counts:
    """Have the parts that are left translated by workers that `start` begins, and return what was counted."""
    threads = models.threads or 1
    log(
        f"{len(corpus.shards):,} shards, {corpus.num_skipped:,} of them finished before; "
        f"{corpus.num_parts_skipped:,} parts of the others done before, {corpus.num_parts:,} to do "
        f"({corpus.num_lines:,} lines)"
    )
    counts = Counts()
    if not corpus.num_parts:
        return counts
    with connect(address, num_cpus=workers and workers * threads) as cluster:
        found_device, needs, available = _share(cluster.resources(), models.device, threads)
        num_workers = min(workers or available, corpus.num_parts)
        pool = cluster.hire(partial(start, found_device), num_workers=num_workers, needs=needs)
        pool.wait_for_one()
        pace = _Pace(corpus.num_lines, counts)
        with Progress("translating", total=corpus.num_lines, unit="line") as progress:
            for done in pool.answers((part, corpus.request(part)) for part in corpus.parts()):
                if done is not None:
                    part, answer = done
                    corpus.put(part, answer.texts)
                    counts.add(answer.counts)
                    pace.note()
                    progress.advance(answer.counts.lines)
                if pace.is_due() and not progress.is_shown:
                    log(pace.so_far())
    assert not corpus.num_parts
    log(f"{pace.in_all()}, {num_workers} workers -> {corpus.directory}")
    return counts


def _share(there: Resources, device: str, threads: int) -> tuple[str, Resources, int]:
    """Return the device of each worker, what Ray keeps for it, and for how many there is room."""
    if device == "cuda" and not there.gpus:
        raise InputError("--device cuda: Ray has no GPU; take cpu or auto")
    if device != "cpu" and there.gpus:
        return "cuda", Resources(cpus=1, gpus=1), there.gpus
    # More threads than cores are the user's business; Ray would wait for the cores for ever.
    return "cpu", Resources(cpus=min(threads, max(1, there.cpus)), gpus=0), max(1, there.cpus // threads)


class _Pace:
    """The speed from when the first worker was ready to the last answer, and the time left."""

    def __init__(self, num_lines: int, counts: Counts) -> None:
        self._num_lines, self._counts = num_lines, counts
        self._began = self._noted = self._logged = monotonic()

    def note(self) -> None:
        """Note that an answer has come and is counted."""
        self._noted = monotonic()

    def is_due(self) -> bool:
        """Return True every ten seconds."""
        if monotonic() - self._logged < LOG_SECONDS:
            return False
        self._logged = monotonic()
        return True

    def so_far(self) -> str:
        """Return the lines that are done, the speed and the time left."""
        lines = self._counts.lines
        if not lines:
            return f"0 of {self._num_lines:,} lines"
        left = (self._num_lines - lines) * self._seconds() / lines
        return f"{lines:,} of {self._num_lines:,} lines  {self._speed()}  {timedelta(seconds=round(left))} left"

    def in_all(self) -> str:
        """Return the lines that were translated, the time and the speed."""
        return f"{counted(self._counts.lines, 'line')} in {self._seconds():.1f} s: {self._speed()}"

    def _seconds(self) -> float:
        return max(self._noted - self._began, 1e-9)

    def _speed(self) -> str:
        seconds = self._seconds()
        return f"{self._counts.lines / seconds:,.1f} lines/s, {self._counts.target_pieces / seconds:,.0f} pieces/s"


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let every signal come as a KeyboardInterrupt: Ray lets no other exception through its calls."""
    received: list[int] = [signal.SIGINT]

    def stop(number: int, _: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    try:
        with signals.answered_by(stop):
            yield
    except KeyboardInterrupt:
        raise Interrupted("stopped; what is done is kept, and the same command goes on", received[-1]) from None
