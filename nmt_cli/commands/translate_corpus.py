"""`nmt translate-corpus`."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from nmt_cli import signals
from nmt_cli.cluster import Resources
from nmt_cli.commands.options import (
    BatchTokens,
    BeamSize,
    Checkpoint,
    CopyUnknown,
    LengthPenalty,
    Markup,
    ModelDirs,
    NoRepeatNgram,
    Precision,
    Sample,
    Seed,
    Shortlist,
    Temperature,
)
from nmt_cli.console import Progress, counted, log, warn
from nmt_cli.errors import InputError, Interrupted

if TYPE_CHECKING:
    from nmt_cli.config.decoding import DecodingOptions
    from nmt_cli.translation.results import Counts
    from nmt_cli.translation.shards import Answer, Corpus, Request

LOG_SECONDS = 10.0


def translate_corpus(
    inputs: Annotated[
        list[Path],
        typer.Argument(help="Text files, a sentence on each line; also .gz, .jsonl and .jsonl.gz.", metavar="INPUT…"),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="Directory of the translations, which have the names of their inputs.", metavar="DIR"
        ),
    ],
    model: ModelDirs = None,
    address: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--address",
            envvar="RAY_ADDRESS",
            metavar="RAY",
            help="A Ray cluster to join, or auto. Without it, Ray is started on this machine.",
        ),
    ] = None,
    workers: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--workers",
            metavar="N",
            min=1,
            help="Number of processes with the model. The default is one for each GPU, or as many as the cores allow.",
        ),
    ] = None,
    threads: Annotated[int, typer.Option("--threads", min=1, metavar="N", help="CPU threads of each worker.")] = 1,
    part_lines: Annotated[
        int, typer.Option("--part-lines", min=1, metavar="N", help="Lines that a worker translates at a time.")
    ] = 4096,
    field: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--field", help="The field of JSON lines that holds the text.", metavar="NAME"),
    ] = None,
    output_field: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--output-field", help="The field of JSON lines that is added; default: translation.", metavar="NAME"
        ),
    ] = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    sample: Sample = False,
    temperature: Temperature = None,
    seed: Seed = None,
    copy_unknown: CopyUnknown = False,
    markup: Markup = False,
    no_repeat_ngram: NoRepeatNgram = None,
    batch_tokens: BatchTokens = None,
    shortlist: Shortlist = None,
    device: Annotated[
        str, typer.Option("--device", metavar="D", help="The device of each worker: auto, cpu or cuda.")
    ] = "auto",
    precision: Precision = "auto",
    checkpoint: Checkpoint = "best",
) -> None:
    """Translate many files on many devices. To go on after a stop, give the same command again.

    Example: nmt translate-corpus shards/*.gz --output translated --model runs/demo
    """  # fmt: skip
    if device not in ("auto", "cpu", "cuda"):
        raise InputError(f"--device {device}: must be auto, cpu or cuda; Ray says which worker gets which GPU")
    from nmt_cli.cluster import require_ray
    from nmt_cli.commands.loading import PRECISIONS, requested_options, warn_of_idle_options
    from nmt_cli.config.decoding import DecodingOptions
    from nmt_cli.experiment import source_of
    from nmt_cli.translation.json_lines import JsonField, is_json_lines
    from nmt_cli.translation.shards import Corpus

    if precision not in PRECISIONS:
        raise InputError(f"--precision {precision}: must be one of {', '.join(PRECISIONS)}")
    require_ray()
    options = requested_options(
        sample=sample,
        temperature=temperature,
        copy_unknown=copy_unknown,
        markup=markup,
        beam_size=beam_size,
        length_penalty=length_penalty,
        no_repeat_ngram=no_repeat_ngram,
        batch_tokens=batch_tokens,
        seed=seed if sample else None,  # else another one would be another beginning of the same translations
    )
    experiments = source_of(list(model or []))
    decoding = DecodingOptions.of(experiments[0].config.decoding, **options)
    of_search = {"--beam-size": beam_size, "--length-penalty": length_penalty}
    warn_of_idle_options(decoding, {"--temperature": temperature, "--seed": seed}, of_search)
    if output_field and not field:
        warn("--output-field does nothing without --field")
    fingerprints = [experiment.fingerprint(checkpoint) for experiment in experiments]
    conditions = _conditions(decoding, fingerprints, shortlist, precision, device, threads)
    settings = {
        "checkpoint": checkpoint,
        "precision": precision,
        "threads": threads,
        "shortlist": shortlist and shortlist.resolve(),
        **options,
    }
    start = partial(open_work, [experiment.directory.resolve() for experiment in experiments], fingerprints, settings)
    if field and not any(map(is_json_lines, inputs)):
        raise InputError(f"--field {field}: no input is called .jsonl or .jsonl.gz")
    with _interruptible(), Corpus.held(output):
        corpus = Corpus(
            output,
            inputs,
            conditions,
            part_lines=part_lines,
            json_field=JsonField(field, output_field or "translation") if field else None,
        )
        counts = _translate(corpus, start, address=address, workers=workers, threads=threads, device=device)
        counts.report(decoding.max_source_pieces)
        corpus.close()


def _conditions(
    decoding: DecodingOptions,
    fingerprints: list[str],
    shortlist: Path | None,
    precision: str,
    device: str,
    threads: int,
) -> dict[str, Any]:
    """Return what has a part in the translations, so must be the same when the command goes on."""
    from nmt_cli.files import sha256_of

    return {
        "model": ", ".join(fingerprint[:16] for fingerprint in fingerprints),
        # The batch may have to be smaller where memory did not suffice, and does not matter in fp32.
        **decoding.model_dump(exclude={"batch_tokens"}),
        "shortlist": None if shortlist is None else sha256_of(shortlist)[:16],
        "precision": "fp32" if precision == "auto" else precision,
        "device": device,
        "threads": threads,
    }


def open_work(
    model_dirs: list[Path], fingerprints: list[str], settings: dict[str, Any], device: str
) -> Callable[[Request], Answer]:
    """Load the model in a worker, on the worker's own machine, once; return what does the work.

    Raises:
        InputError: there is no model in its place, or another one.
    """
    from nmt_cli.commands.loading import need_attention, open_translator
    from nmt_cli.experiment import Experiment
    from nmt_cli.translation.shards import translate_request

    translator = open_translator(model_dirs, device=device, **settings)
    need_attention(translator)
    for directory, fingerprint in zip(model_dirs, fingerprints, strict=True):
        if Experiment(directory).fingerprint(settings["checkpoint"]) != fingerprint:
            raise InputError(
                f"{directory}: holds another model here than where the command was given; every machine of the "
                "cluster must see the same model under the same path"
            )
    return partial(translate_request, translator)


def _translate(
    corpus: Corpus,
    start: Callable[..., Callable[[Request], Answer]],
    *,
    address: str | None,
    workers: int | None,
    threads: int,
    device: str,
) -> Counts:
    """Do all parts that are to be done; return what was counted."""
    from nmt_cli.cluster import connect
    from nmt_cli.translation.results import Counts

    log(
        f"{len(corpus.shards):,} shards, {corpus.num_skipped:,} of them finished before; "
        f"{corpus.num_parts_skipped:,} parts of the others done before, {corpus.num_parts:,} to do "
        f"({corpus.num_lines:,} lines)"
    )
    counts = Counts()
    if not corpus.num_parts:
        return counts
    with connect(address, num_cpus=workers and workers * threads) as cluster:
        found_device, needs, available = _share(cluster.resources(), device, threads)
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
        lines = self._counts.lines
        if not lines:
            return f"0 of {self._num_lines:,} lines"
        left = (self._num_lines - lines) * self._seconds() / lines
        return f"{lines:,} of {self._num_lines:,} lines  {self._speed()}  {timedelta(seconds=round(left))} left"

    def in_all(self) -> str:
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
