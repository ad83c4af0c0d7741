"""The pictures of `nmt plot`: attention, learning curves, scores by length."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING

from nmt_cli.assembly.file_checks import read_parallel, refuse_overwriting
from nmt_cli.assembly.model_options import named_models
from nmt_cli.data.lines import input_name, read_text_lines
from nmt_cli.experiment import Experiment
from nmt_cli.plots.attention_page import AttentionPicture, SearchStep
from nmt_cli.plots.attention_page import Candidate as Shown
from nmt_cli.plots.attention_plot import draw_attention
from nmt_cli.plots.canvas import check_picture
from nmt_cli.plots.curves import LengthBucket, draw_curves, draw_lengths
from nmt_cli.scoring import bootstrap_interval, check_tokenizer, length_groups
from nmt_cli.system.console import format_count, log, warn
from nmt_cli.system.errors import InputError

if TYPE_CHECKING:
    from nmt_cli.assembly.model_options import ModelOptions
    from nmt_cli.search.beam import Candidate
    from nmt_cli.translation.translator import Translator

MAX_SENTENCES = 200
"""The most sentences that are drawn on one page."""
POLL_SECONDS = 2.0
"""Seconds between two readings of the metrics of a training that `--live` follows."""
RELOAD_SECONDS = 5
"""Seconds after which the page of `--live` reloads itself."""


def plot_attention(file: str | None, target: str | None, output: Path, models: ModelOptions) -> None:
    """Draw the attention between each line and its translation, or between the lines of `file` and `target`.

    Raises:
        InputError: a file or a model cannot be read, no line has text, the model has no attention, or the output is an
            input or has an ending for which there is no picture.
    """
    is_page = check_picture(output, draws_pages=False) == ".html"
    inputs = [file] if target is None else [file, target]
    experiments = models.experiments()
    refuse_overwriting(output, inputs, experiments)
    lines, *given = read_parallel(inputs)
    targets = given[0] if given else None
    if not any(line.strip() for line in lines):
        raise InputError(f"{input_name(file)}: has no line with text in it")
    if targets is not None and not any(a.strip() and b.strip() for a, b in zip(lines, targets, strict=True)):
        raise InputError(f"{' and '.join(map(input_name, inputs))}: have no line with text on both sides")
    if is_page and len(lines) > MAX_SENTENCES:
        warn(f"only the first {MAX_SENTENCES} of {len(lines):,} lines are drawn")
        lines = lines[:MAX_SENTENCES]
    from nmt_cli.assembly.trained_translator import open_translator

    translator = open_translator(experiments, with_alignment=True, **models.loading_options)
    if not translator.models.has_attention:
        without = translator.models.no_attention_message
        raise InputError(f"{without} (model.attention.type: none), so there is nothing to draw")
    untranslated: list[int] = []
    pictures = pictures_of(translator, lines, targets, untranslated)  # made as they are drawn: a figure takes only some
    num_drawn = draw_attention(pictures, output)
    if untranslated:
        lines_left = format_count(len(untranslated), "line")
        warn(f"left out {lines_left} that the model translates as nothing; the first is line {untranslated[0]}")
    if translator.counts.cut:
        translator.report()
        if is_page:
            warn("the page leaves out the steps of the search for lines that were translated in parts")
    log(f"{format_count(num_drawn, 'sentence')} -> {output}")


def plot_curves(runs: Sequence[Path], output: Path, *, is_live: bool) -> None:
    """Draw the losses and scores of runs, given by their directories or metrics.jsonl files, over their updates.

    With `is_live`, draw a page that reloads itself, and draw it again when the metrics change, until all runs have
    finished.

    Raises:
        InputError: a run is named twice or has no metrics, or the output belongs to a run or cannot be drawn.
    """
    runs = runs or [experiment.directory for experiment in named_models([])]
    names = [_run_name(path) for path in runs]
    if len(set(names)) < len(names):  # the whole paths tell them apart
        names = [str(path) for path in runs]
    if twice := next((path for path in runs if list(runs).count(path) > 1), None):
        raise InputError(f"{twice}: is named twice. Name each run once")
    experiments = [Experiment(path if path.is_dir() else path.parent) for path in runs]
    refuse_overwriting(output, runs, [one for one in experiments if one.checkpoints.directory.is_dir()])
    if is_live and output.suffix.lower() != ".html":
        raise InputError(f"{output}: --live draws a page that reloads itself; give a name that ends in .html")
    drawn = None
    while True:
        is_going_on = is_live and not all(one.checkpoints.index().finish_reason for one in experiments)
        metrics = {name: list(_read_metrics(path)) for name, path in zip(names, runs, strict=True)}
        if (metrics, is_going_on) != drawn:
            draw_curves(metrics, output, reload_seconds=RELOAD_SECONDS if is_going_on else 0)
            if drawn is None:
                until = ", which follows the training until it has finished or you press Ctrl-C" if is_going_on else ""
                log(f"{format_count(len(runs), 'run')} -> {output}{until}")
            drawn = metrics, is_going_on
        if not is_going_on:
            return
        sleep(POLL_SECONDS)


def plot_lengths(
    source: str, reference: str, hypotheses: Sequence[str], output: Path, *, edges: str, tokenize: str | None
) -> None:
    """Draw the BLEU of systems by the length of the source, with bootstrap intervals.

    Args:
        source: a file of source lines.
        reference: a file of reference translations.
        hypotheses: a file of translations for each system, as FILE or `NAME=FILE`.
        output: the picture.
        edges: the longest length of each group in source words, with commas between.
        tokenize: the tokenizer of BLEU; None means sacreBLEU's default, 13a.

    Raises:
        InputError: a file cannot be read, two systems have one name, or an option is wrong.
    """
    check_picture(output)
    check_tokenizer(tokenize, "--tokenize")
    try:
        limits = [int(edge) for edge in edges.split(",")]
    except ValueError:
        limits = []
    if not limits or limits != sorted(set(limits)) or limits[0] < 1:
        raise InputError(f"--edges {edges}: must be rising numbers with commas between them, such as 10,20,30")
    systems = {}
    for given in hypotheses:
        name, equals, path = given.partition("=")
        if not equals or Path(given).exists():  # a file may have an equals sign in its path
            name, path = Path(given).stem, given
        if name in systems:
            raise InputError(f"--hypothesis {given}: a system is called {name!r} already; give NAME={path}")
        systems[name] = path
    inputs = [source, reference, *systems.values()]
    refuse_overwriting(output, inputs)
    sources, references, *translations = read_parallel(inputs)
    buckets = {
        name: _length_buckets(sources, translated, references, limits, tokenize)
        for name, translated in zip(systems, translations, strict=True)
    }
    draw_lengths(buckets, output)
    log(f"{format_count(len(systems), 'system')} -> {output}")


def pictures_of(
    translator: Translator, lines: Sequence[str], targets: Sequence[str] | None, untranslated: list[int]
) -> Iterator[AttentionPicture]:
    """Yield a picture for each line with text on both sides; add the numbers, from 1, of lines with an empty
    translation to `untranslated`.

    Raises:
        InputError: all translations are empty.
    """
    has_pictures = False
    for number, line in enumerate(lines, start=1):
        picture = picture_of(translator, line, None if targets is None else targets[number - 1])
        if picture is not None:
            has_pictures = True
            yield picture
        elif targets is None and line.strip():
            untranslated.append(number)
    if untranslated and not has_pictures:
        raise InputError("every translation of the model is empty, so there is nothing to draw; train it for longer")


def picture_of(translator: Translator, line: str, target: str | None = None) -> AttentionPicture | None:
    """Return the attention between a line and its translation, with the steps of the search, or between a line and a
    given `target`, without steps; None if a side is blank."""
    from nmt_cli.translation.forced_decoding import PairScorer

    if not line.strip() or (target is not None and not target.strip()):
        return None
    steps: list[SearchStep] = []

    def observe(_: int, candidates: list[Candidate]) -> None:
        beams = {prefix: beam for beam, prefix in enumerate(dict.fromkeys(c.prefix for c in candidates))}
        steps.append(SearchStep(tuple(_shown_candidate(translator, c, beams[c.prefix]) for c in candidates)))

    if target is None:
        cut_before = translator.counts.cut
        best = translator.translate_window([line.encode("utf-8", errors="replace")], observe)[0].translations[0]
        target, weights = best.text, best.weights_with_end
        if translator.counts.cut > cut_before:
            steps.clear()  # the steps of all parts, mixed
    else:
        scorer = PairScorer(translator.models, translator.tokenizers, translator.options.batch_tokens)
        weights = scorer.scores([(line, target)])[0].weights_with_end
    if weights is None or 0 in weights.shape:
        return None
    return AttentionPicture(
        source=tuple(line.split()),
        target=tuple(target.split()),
        weights=tuple(tuple(row) for row in weights.tolist()),
        translation=target,
        steps=tuple(steps),
    )


def _length_buckets(
    sources: list[str], hypotheses: list[str], references: list[str], edges: list[int], tokenize: str | None
) -> list[LengthBucket]:
    """Return the BLEU of the sentences of each group of source lengths, with its 95 % bootstrap interval."""
    longest = max(len(source.split()) for source in sources)
    buckets = []
    for low, high, rows in length_groups(sources, edges):
        score, estimate = bootstrap_interval(
            [hypotheses[row] for row in rows], [[references[row] for row in rows]], tokenize=tokenize
        )
        interval = (estimate.mean - estimate.half_width, estimate.mean + estimate.half_width)
        buckets.append(LengthBucket(low, longest if high is None else high, len(rows), score.score, *interval))
    return buckets


def _shown_candidate(translator: Translator, candidate: Candidate, beam: int) -> Shown:
    """Return a candidate of a search step as the page shows it; `beam` is the index of the prefix that it extends."""
    tokenizer = translator.tokenizers[1]
    return Shown(
        text=tokenizer.pieces([candidate.piece])[0],
        probability=math.exp(candidate.log_prob),
        score=candidate.total,
        prefix=tokenizer.decode(candidate.prefix),
        beam=beam,
        kept=candidate.kept,
        has_ended=candidate.has_ended,
    )


def _run_name(path: Path) -> str:
    """Return the name of a run's directory; `path` is the directory or a file in it."""
    return Experiment(path).name if path.is_dir() else path.parent.name or path.name


def _read_metrics(path: Path) -> Iterator[dict[str, object]]:
    """Yield the records in the metrics file of a run; `InputError` if there is no file or it is not JSON lines."""
    if not path.exists():
        raise InputError(f"{path}: there is no such file. Give a model directory or its metrics.jsonl")
    file = Experiment(path).metrics_path if path.is_dir() else path
    lines = read_text_lines(str(file)).lines
    has_records = False
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            if has_records and number == len(lines):  # what a full disk or a power cut leaves
                warn(f"{file}:{number}: the last line was cut off, and is left out")
                return
            raise InputError(f"{file}:{number}: is not JSON; give a model directory or its metrics.jsonl") from None
        if isinstance(record, dict):
            has_records = True
            yield record
