"""What figures are made of: attentions, learning curves, scores by length."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt_cli.data.lines import read_text_lines
from nmt_cli.experiment import Experiment
from nmt_cli.plots.attention_page import AttentionPicture, SearchStep
from nmt_cli.plots.attention_page import Candidate as Shown
from nmt_cli.scoring import bootstrap_interval, length_groups
from nmt_cli.system.console import warn
from nmt_cli.system.errors import InputError

if TYPE_CHECKING:
    from nmt_cli.plots.curves import LengthBucket
    from nmt_cli.search.beam import Candidate
    from nmt_cli.translation.translator import Translator

MAX_SENTENCES = 200
"""More sentences than this on one page help nobody."""


def pictures_of(
    translator: Translator, lines: Sequence[str], targets: Sequence[str] | None, untranslated: list[int]
) -> Iterator[AttentionPicture]:
    """Yield a picture for each line with text on both sides; `untranslated` gets the numbers of lines for which the
    model writes nothing.

    Raises:
        InputError: it writes nothing for any line.
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
    """Return the attention of a line and its translation with the steps of the search, or of a given pair; None if
    blank."""
    from nmt_cli.translation.forced_decoding import PairScorer

    if not line.strip() or (target is not None and not target.strip()):
        return None
    steps: list[SearchStep] = []

    def observe(_: int, candidates: list[Candidate]) -> None:
        beams = {prefix: beam for beam, prefix in enumerate(dict.fromkeys(c.prefix for c in candidates))}
        steps.append(SearchStep(tuple(_shown(translator, c, beams[c.prefix]) for c in candidates)))

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


def length_buckets(
    sources: list[str], hypotheses: list[str], references: list[str], edges: list[int], tokenize: str | None
) -> list[LengthBucket]:
    """Return BLEU of the sentences of each length, with the 95 % interval of a bootstrap over them."""
    from nmt_cli.plots.curves import LengthBucket

    longest = max(len(source.split()) for source in sources)
    buckets = []
    for low, high, rows in length_groups(sources, edges):
        score, estimate = bootstrap_interval(
            [hypotheses[row] for row in rows], [[references[row] for row in rows]], tokenize=tokenize
        )
        interval = (estimate.mean - estimate.half_width, estimate.mean + estimate.half_width)
        buckets.append(LengthBucket(low, longest if high is None else high, len(rows), score.score, *interval))
    return buckets


def _shown(translator: Translator, candidate: Candidate, beam: int) -> Any:

    tokenizer = translator.tokenizers[1]
    return Shown(
        text=tokenizer.pieces([candidate.piece])[0],
        probability=math.exp(candidate.log_prob),
        score=candidate.total,
        prefix=tokenizer.decode(candidate.prefix),
        beam=beam,
        kept=candidate.kept,
        ended=candidate.ended,
    )


def run_name(path: Path) -> str:

    return Experiment(path).name if path.is_dir() else path.parent.name or path.name


def read_metrics(path: Path) -> Iterator[dict[str, object]]:

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
