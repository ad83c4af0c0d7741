"""Word alignments of given pairs by the attention of models, and their comparison with alignments made by people."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt_cli.assembly.file_checks import refuse_overwriting, refuse_standard_input_twice
from nmt_cli.assembly.pair_scorer import open_scorer
from nmt_cli.data.lines import input_name, read_text_lines
from nmt_cli.data.output import open_output
from nmt_cli.system.console import format_count, log, warn
from nmt_cli.system.errors import InputError
from nmt_cli.text.alignment import MAX_WEIGHTS, alignment_error_rate, format_pharaoh, hard_alignment
from nmt_cli.translation.forced_decoding import PairScorer
from nmt_cli.translation.windows import windows_of_pairs

if TYPE_CHECKING:
    from nmt_cli.assembly.model_options import ModelOptions
    from nmt_cli.data.pairs import Pair
    from nmt_cli.text.alignment import Link
    from nmt_cli.translation.forced_decoding import PairScore
    from nmt_cli.translation.translator import Translator

MAX_DIGITS = 9
"""The most digits of a word's number in a file of gold links."""


def align_pairs(
    source: str, target: str, output: Path | None, models: ModelOptions, *, format_: str, level: str, gold: str | None
) -> None:
    """Write the links of each pair, and log the alignment error rate (AER) against the links in `gold`.

    Args:
        source: a file of source lines.
        target: a file of their translations.
        output: the file to write; None is standard output.
        models: the models, whose attention is averaged.
        format_: pharaoh (links) or jsonl (words, links and weights).
        level: word or piece, the units that are linked.
        gold: a file of sure and possible links between the words of each pair, or None.

    Raises:
        InputError: a file or a model cannot be read, the files differ in length, the models have no attention, or the
            output is one of the files.
    """
    inputs = [source, target, *([] if gold is None else [gold])]
    refuse_standard_input_twice(inputs)
    experiments = models.experiments()
    refuse_overwriting(output, inputs, experiments)
    sure, possible = ([], []) if gold is None else _read_gold(gold)
    scorer = _require_attention(open_scorer(experiments, **models.loading_options))
    found: list[list[Link]] = []
    with open_output(output) as out:
        for window in windows_of_pairs(source, target):
            scores = scorer.scores([(pair.source, pair.target) for pair in window])
            for pair, scored in zip(window, scores, strict=True):
                weights = scored.weights if level == "word" else scored.piece_weights
                links = hard_alignment(weights)
                if gold is not None:
                    if pair.number <= len(sure):
                        own = sure[pair.number - 1] | possible[pair.number - 1]
                        _check_links(f"{input_name(gold)}:{pair.number}", own, weights.shape)
                    found.append(links)
                if format_ == "pharaoh":
                    line = format_pharaoh(links)
                else:
                    line = json.dumps(_record(pair, scored, level, links), ensure_ascii=False)
                out.write(line.encode("utf-8", errors="replace") + b"\n")
            out.flush()
        if gold is not None and len(sure) != len(found):
            lines, pairs = format_count(len(sure), "line"), format_count(len(found), "aligned pair")
            raise InputError(f"{input_name(gold)} has {lines} for {pairs}; line i must have the links of pair i")
    if gold is not None:
        log(f"AER = {alignment_error_rate(found, sure, possible):.4f}")


def alignment_scorer(translator: Translator) -> PairScorer:
    """Return a scorer of given pairs with the models of a translator; the pairs are not normalized.

    Raises:
        InputError: the models have no attention.
    """
    return _require_attention(PairScorer(translator.models, translator.tokenizers, translator.options.batch_tokens))


def _require_attention(scorer: PairScorer) -> PairScorer:
    """Return the scorer; `InputError` if its models have no attention."""
    if not scorer.models.has_attention:
        without = scorer.models.no_attention_message
        raise InputError(f"{without} (model.attention.type: none), so it cannot align")
    return scorer


def _check_links(place: str, links: set[Link], shape: tuple[int, ...]) -> None:
    """Refuse links to words that a pair of this shape (target words, source words) does not have."""
    for source, target in sorted(links):
        if source >= shape[1] or target >= shape[0]:
            raise InputError(
                f"{place}: {source}-{target} names a word that the pair does not have. It has "
                f"{format_count(shape[1], 'source word')} and {format_count(shape[0], 'target word')}, counted from 0"
            )


def _record(pair: Pair, scored: PairScore, level: str, links: Sequence[Link]) -> dict[str, Any]:
    """Return the record of a pair for the format jsonl; `level` is word or piece."""
    words = level == "word"
    weights = scored.weights if words else scored.piece_weights
    is_small = weights.size <= MAX_WEIGHTS
    if not is_small:
        warn(f"pair {pair.number:,} is too long for weights ({weights.size:,} numbers); only its links are written")
    return {
        "id": pair.number - 1,
        "source": pair.source.split() if words else list(scored.source_pieces),
        "target": pair.target.split() if words else list(scored.target_pieces),
        "log_prob": scored.log_prob,
        "links": [list(link) for link in links],
        "weights": weights.astype(float).round(6).tolist() if is_small else None,
    }


def _read_gold(path: str) -> tuple[list[set[Link]], list[set[Link]]]:
    """Return the sure and the possible links of each line of a file; words are numbered from 0."""
    sure: list[set[Link]] = []
    possible: list[set[Link]] = []
    for number, line in enumerate(read_text_lines(path).lines, start=1):
        sets: dict[str, set[Link]] = {"-": set(), "?": set()}
        for word in line.split():
            mark = "-" if "-" in word else "?"
            first, _, second = word.partition(mark)
            if not (first.isdecimal() and second.isdecimal() and max(len(first), len(second)) <= MAX_DIGITS):
                raise InputError(
                    f"{input_name(path)}:{number}: {word!r} is not a link; write 0-0 for a sure "
                    "one, 0?1 for a possible one"
                )
            sets[mark].add((int(first), int(second)))
        sure.append(sets["-"])
        possible.append(sets["?"])
    return sure, possible
