"""`nmt align`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nmt_cli.commands.options import Checkpoint, Device, ModelDirs, OutputFile, SourceText, TargetText, Threads
from nmt_cli.console import counted, log, warn
from nmt_cli.errors import InputError

if TYPE_CHECKING:
    from nmt_cli.data.pairs import Pair
    from nmt_cli.translation.alignment import Link
    from nmt_cli.translation.forced import PairScore


def align(
    source: SourceText,
    target: TargetText,
    model: ModelDirs = None,
    output: OutputFile = None,
    format_: Annotated[
        str, typer.Option("--format", metavar="F", help="pharaoh (0-0 1-2) or jsonl (words, links and weights).")
    ] = "pharaoh",
    level: Annotated[
        str,
        typer.Option(
            "--level", metavar="L", help="What is aligned: word (between white space in the raw text) or piece."
        ),
    ] = "word",
    gold: Annotated[
        str | None,
        typer.Option(
            "--gold", help="True links, a line a pair: 0-0 is sure, 0?1 possible. The error rate goes to stderr.",
            metavar="FILE",
        ),
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
    checkpoint: Checkpoint = "best",
) -> None:  # fmt: skip
    """Align the words of given pairs by the model's attention.

    Example: nmt align source.txt target.txt --model runs/demo
    """
    for option, value, allowed in (("--format", format_, ("pharaoh", "jsonl")), ("--level", level, ("word", "piece"))):
        if value not in allowed:
            raise InputError(f"{option} {value}: must be one of {', '.join(allowed)}")
    if gold is not None and level == "piece":
        raise InputError("--gold: true links are between words; leave out --level piece")
    from nmt_cli.commands.loading import open_scorer
    from nmt_cli.commands.overwriting import refuse_overwriting
    from nmt_cli.commands.reading import refuse_standard_input_twice
    from nmt_cli.data.lines import input_name
    from nmt_cli.data.output import open_output
    from nmt_cli.experiment import source_of
    from nmt_cli.translation.alignment import alignment_error_rate, hard_links, pharaoh
    from nmt_cli.translation.windows import windows_of_pairs

    inputs = [source, target, *([] if gold is None else [gold])]
    refuse_standard_input_twice(inputs)
    experiments = source_of(list(model or []))
    refuse_overwriting(output, inputs, experiments)
    if gold is not None:
        sure, possible = _read_gold(gold)
    directories = [experiment.directory for experiment in experiments]
    scorer = open_scorer(directories, checkpoint=checkpoint, device=device, threads=threads)
    if not scorer.models.has_attention:
        without = scorer.models.without_attention
        raise InputError(f"{without} (model.attention.type: none), so it cannot align")
    found: list[list[Link]] = []
    with open_output(output) as out:
        for window in windows_of_pairs(source, target):
            scores = scorer.scores([(pair.source, pair.target) for pair in window])
            for pair, scored in zip(window, scores, strict=True):
                weights = scored.weights if level == "word" else scored.piece_weights
                links = hard_links(weights)
                if gold is not None:
                    if pair.number <= len(sure):
                        own = sure[pair.number - 1] | possible[pair.number - 1]
                        _check_links(f"{input_name(gold)}:{pair.number}", own, weights.shape)
                    found.append(links)
                if format_ == "pharaoh":
                    line = pharaoh(links)
                else:
                    line = json.dumps(_record(pair, scored, level, links), ensure_ascii=False)
                out.write(line.encode("utf-8", errors="replace") + b"\n")
            out.flush()
        if gold is not None and len(sure) != len(found):
            lines, pairs = counted(len(sure), "line"), counted(len(found), "aligned pair")
            raise InputError(f"{input_name(gold)} has {lines} for {pairs}; line i must have the links of pair i")
    if gold is not None:
        log(f"AER = {alignment_error_rate(found, sure, possible):.4f}")


def _check_links(place: str, links: set[Link], shape: tuple[int, ...]) -> None:
    """Refuse links to words that a pair of this shape (target words, source words) does not have."""
    for source, target in sorted(links):
        if source >= shape[1] or target >= shape[0]:
            raise InputError(
                f"{place}: {source}-{target} names a word that the pair does not have. It has "
                f"{counted(shape[1], 'source word')} and {counted(shape[0], 'target word')}, counted from 0"
            )


def _record(pair: Pair, scored: PairScore, level: str, links: Sequence[Link]) -> dict[str, Any]:
    from nmt_cli.translation.alignment import MAX_WEIGHTS

    words = level == "word"
    weights = scored.weights if words else scored.piece_weights
    is_small = weights.size <= MAX_WEIGHTS
    if not is_small:
        warn(f"pair {pair.number:,} has links but no weights: it would have {weights.size:,}")
    return {
        "id": pair.number - 1,
        "source": pair.source.split() if words else list(scored.source_pieces),
        "target": pair.target.split() if words else list(scored.target_pieces),
        "log_prob": scored.log_prob,
        "links": [list(link) for link in links],
        "weights": weights.astype(float).round(6).tolist() if is_small else None,
    }


MAX_DIGITS = 9
"""Most digits of a word's number."""


def _read_gold(path: str) -> tuple[list[set[Link]], list[set[Link]]]:
    """Return sure and possible links of each line; both are numbered from 0."""
    from nmt_cli.data.lines import input_name, read_text_lines

    sure: list[set[Link]] = []
    possible: list[set[Link]] = []
    for number, line in enumerate(read_text_lines(path).lines, start=1):
        sets: dict[str, set[Link]] = {"-": set(), "?": set()}
        for word in line.split():
            mark = "-" if "-" in word else "?"
            first, _, second = word.partition(mark)
            if not (first.isdecimal() and second.isdecimal() and max(len(first), len(second)) <= MAX_DIGITS):
                raise InputError(
                    f"{input_name(path)}:{number}: {word!r} is no link; write 0-0 for a sure "
                    "one, 0?1 for a possible one"
                )
            sets[mark].add((int(first), int(second)))
        sure.append(sets["-"])
        possible.append(sets["?"])
    return sure, possible
